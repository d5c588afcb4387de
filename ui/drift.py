"""The mark of a model that runs with another configuration than its files give it."""

from __future__ import annotations

import runtime
from history.drift import Drift
from history.inventory import ModelFacts
from ui.format import clock
from ui.html import Html, span


def drift_of(facts: ModelFacts | None) -> Drift | None:
    """How the model's running configuration differs from its files', None if not or not to be seen."""
    if facts is None:
        return None
    return runtime.current().drifts.of(facts.key.server, facts.key.name, facts.config)


def drift_badge(facts: ModelFacts | None) -> Html | None:
    """The mark beside a model's name, with the difference as its tooltip; None without one."""
    drift = drift_of(facts)
    if drift is None:
        return None
    return span("drift", class_="ts-badge ticket", data_tip=f"{drift.words(clock)}.", tabindex="0")
