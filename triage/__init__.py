"""Judgements: rules written once, and the engine that turns them and a history into findings."""
