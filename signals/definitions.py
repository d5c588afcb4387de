"""Every signal, defined once: pages, charts, rules, boards and the documentation read them from here."""

from __future__ import annotations

from signals.batching import BATCHING
from signals.definition import Definition, Level
from signals.devices import DEVICES
from signals.latency import LATENCY
from signals.traffic import TRAFFIC

DEFINITIONS: tuple[Definition, ...] = (*TRAFFIC, *LATENCY, *BATCHING, *DEVICES)
"""All signals, in the order in which they are printed."""


def of_level(level: Level) -> tuple[Definition, ...]:
    """The signals of one level."""
    return tuple(definition for definition in DEFINITIONS if definition.level is level)


def definition(name: str, level: Level | None = None) -> Definition:
    """One signal by name, the first of model, server, gpu, host that has it; KeyError for an unknown name."""
    levels = tuple(Level) if level is None else (level,)
    for one in levels:
        for row in DEFINITIONS:
            if row.name == name and row.level is one:
                return row
    raise KeyError(f"no signal {name!r}" + ("" if level is None else f" of a {level}"))
