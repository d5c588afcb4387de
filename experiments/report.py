"""What a run yields: one or more measured loads, what they say in a sentence, and what a reader must know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from experiments.load_process import LoadProgress
from experiments.measure import Measurement
from experiments.plan import LoadPlan

FORMAT = 1
"""Grows when saved runs of before can no longer be read."""


class RunKind(StrEnum):
    """What was wanted; the value is the word for it."""

    LOAD = "load run"
    SERIAL = "serial against concurrent"
    SWEEP = "concurrency sweep"
    COMPARISON = "comparison of configurations"


@dataclass(frozen=True, slots=True)
class RunReport:
    """One ended run. `at` is unix seconds at its begin; `id` names it in the state folder.

    `settings` says by label what was special about a measurement: the configuration of an arm, in words.
    `max_p99_us` is the objective a sweep was judged by. `complete` is False if it was stopped before its end.
    """

    id: str
    kind: RunKind
    at: float
    server: str
    model: str
    version: str
    who: str
    sentence: str
    measurements: tuple[Measurement, ...]
    notes: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    max_p99_us: float | None = None
    complete: bool = True

    def of(self, label: str) -> Measurement | None:
        """The measurement of that label."""
        return next((one for one in self.measurements if one.label == label), None)

    def to_json(self) -> dict[str, Any]:
        """For the state folder."""
        return {
            "format": FORMAT,
            "id": self.id,
            "kind": self.kind.value,
            "at": self.at,
            "server": self.server,
            "model": self.model,
            "version": self.version,
            "who": self.who,
            "sentence": self.sentence,
            "measurements": [one.to_json() for one in self.measurements],
            "notes": list(self.notes),
            "settings": dict(self.settings),
            "max_p99_us": self.max_p99_us,
            "complete": self.complete,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> RunReport:
        """What `to_json` wrote; raises TypeError, KeyError and ValueError for anything else."""
        if row["format"] != FORMAT:
            raise ValueError(f"format {row['format']} is not {FORMAT}")
        fields = {name: value for name, value in row.items() if name != "format"}
        fields |= {
            "kind": RunKind(row["kind"]),
            "measurements": tuple(Measurement.from_json(one) for one in row["measurements"]),
            "notes": tuple(row["notes"]),
        }
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class RunProgress:
    """What the page shows meanwhile: the load under way, its course so far, and the loads that are complete.

    `number` of `total` loads is under way, called `label`; `doing` says what happens where none is.
    """

    kind: RunKind
    number: int
    total: int
    label: str
    plan: LoadPlan
    doing: str = ""
    course: tuple[LoadProgress, ...] = ()
    done: tuple[Measurement, ...] = ()

    @property
    def latest(self) -> LoadProgress | None:
        """How far the load under way is."""
        return self.course[-1] if self.course else None
