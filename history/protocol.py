"""The protocol every history speaks, and the shapes it answers in.

A signal is an expression over `increase` and `gauge`; whatever can answer these two can feed every page.
The label `server` (the configured id) is carried by every series in addition to its own labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from telemetry.scrape import FloatArray, Series

By = tuple[str, ...]
"""Label names to group by, in this order; a series without one of them has "" there."""
GroupKey = tuple[str, ...]
"""Label values in the order of `By`."""
Vector = dict[GroupKey, float]
"""One value per group. A group without a value is absent; NaN only where the server printed NaN."""
Matchers = tuple[tuple[str, str], ...]
"""(label, value) pairs that must all be equal."""


class Reduce(StrEnum):
    """How the series of one group become one value."""

    SUM = "sum"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Grid:
    """Evaluation times start, start + step, ... <= end, unix seconds."""

    start: float
    end: float
    step_seconds: float

    def times(self) -> FloatArray:
        """Shape (n,), unix seconds."""
        count = int(np.floor((self.end - self.start) / self.step_seconds + 1e-9)) + 1
        return self.start + self.step_seconds * np.arange(max(count, 0), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Frame:
    """Values over time: `times` (n,) unix seconds, `values` (n, len(keys)), NaN where there is none."""

    times: FloatArray
    keys: tuple[GroupKey, ...]
    values: FloatArray

    def column(self, key: GroupKey) -> FloatArray | None:
        """Shape (n,): one group's values, None if there is no such group."""
        return self.values[:, self.keys.index(key)] if key in self.keys else None


class History(Protocol):
    """Numbers over time. All windows and times in seconds; values in the family's base unit."""

    def increase(
        self,
        family: str,
        by: By,
        window_seconds: float,
        at: float,
        *,
        where: Matchers = (),
        plain: bool = False,
    ) -> Vector:
        """Increase of a counter over [at - window, at], summed by group, resets accounted for.

        Extrapolated to the window's edges as Prometheus does; `plain` = only between the samples.
        A series with fewer than two samples in the window contributes nothing.
        """

    def gauge(
        self, family: str, by: By, at: float, *, where: Matchers = (), reduce: Reduce = Reduce.SUM
    ) -> Vector:
        """Last value at `at`, reduced by group; a series missing from the last answer is absent."""

    def increase_range(
        self, family: str, by: By, window_seconds: float, grid: Grid, *, where: Matchers = ()
    ) -> Frame:
        """`increase` at every time of the grid."""

    def gauge_range(
        self, family: str, by: By, grid: Grid, *, where: Matchers = (), reduce: Reduce = Reduce.SUM
    ) -> Frame:
        """`gauge` at every time of the grid."""

    def labels(self, family: str) -> Sequence[tuple[str, Series]]:
        """(server, series) of every series of the family that the history holds."""
