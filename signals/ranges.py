"""One signal over time, for charts."""

from __future__ import annotations

from history.inventory import Inventory
from history.protocol import Frame, Grid, History, Matchers
from signals import frames
from signals.checks import without_impossible
from signals.definition import LABELS, Level
from signals.definitions import definition
from signals.evaluation import Evaluation
from signals.facts import SignalFacts


def signal_range(
    history: History,
    inventory: Inventory,
    name: str,
    grid: Grid,
    window_seconds: float,
    *,
    level: Level | None = None,
    server: str | None = None,
    model: str | None = None,
    version: str | None = None,
) -> Frame:
    """A signal at every time of the grid, in its unit; NaN where it has no value.

    Keys are the level's labels (server, model, version; server; server, gpu_uuid), then those of a mapping
    signal (reason; batch size; kind, device). Without `level` the name is looked for among the signals of
    models, servers, GPUs and the host, in this order. KeyError for an unknown name.
    """
    row = definition(name, level)
    facts = SignalFacts.of(inventory)
    where: Matchers = () if server is None else (("server", server),)
    if row.level is Level.MODEL and model is not None and not _ensemble(facts, server, model):
        where = (*where, ("model", model))
        if version is not None:
            where = (*where, ("version", version))
    frame = Evaluation(history, facts, window_seconds, grid, where=where).of(row.expression)
    frame = without_impossible(name, frame)
    wanted = {"server": server, "model": model, "version": version}
    labels = LABELS[row.level]
    return frames.filtered(
        frame,
        lambda key: all(
            wanted.get(label) in (None, value) for label, value in zip(labels, key, strict=False)
        ),
    )


def _ensemble(facts: SignalFacts, server: str | None, model: str) -> bool:
    """An ensemble's figures need those of its steps, so that its name must not narrow what is read."""
    return any(name == model and server in (None, owner) for owner, name in facts.steps)
