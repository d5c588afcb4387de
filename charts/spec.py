"""What a chart shows, before it is a figure: values in base units, thresholds, marks, why it is empty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from telemetry.scrape import FloatArray
from telemetry.units import Unit

MAX_SERIES = 8
"""At most so many series a chart; the rest is one series "others"."""


class Draw(StrEnum):
    """How one series is drawn."""

    LINE = "line"
    AREA = "area"
    BAR = "bar"


@dataclass(frozen=True, slots=True)
class Trace:
    """One series: `values` (n,) in the unit of its axis, NaN where there is none.

    `right` puts it on the second axis, whose unit is the spec's `right_unit`.
    """

    name: str
    values: FloatArray
    color: str
    draw: Draw = Draw.LINE
    dash: str = "solid"
    right: bool = False
    detail: tuple[str, ...] = ()
    """Text for the tooltip of each value, instead of the value with its unit."""
    now: float | None = None
    """The value of this moment, where it is known: the last time drawn is up to a step older."""

    @property
    def last(self) -> float | None:
        """The value now, else the last one in time; None if it has none at the last time."""
        if self.now is not None:
            return self.now
        value = float(self.values[-1]) if len(self.values) else float("nan")
        return value if np.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Threshold:
    """A labelled horizontal line at `value`, in the unit of the left axis."""

    value: float
    label: str
    color: str = "@amber"
    dash: str = "dash"
    keep: bool = False
    """Stretch the axis up to it, however far above the values it is."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line at `at` (unix seconds): something that happened."""

    at: float
    label: str
    text: str
    color: str = "@grey"


@dataclass(frozen=True, slots=True)
class Spec:
    """One chart. `x` (n,) are unix seconds, or the categories of a histogram.

    `unit` is the base unit of the left axis, in which all values are given; the figure scales it for the
    reader. `top` is the end of the left axis where it is known (1 for a share). `empty` is why there is
    nothing to see.
    """

    title: str
    unit: Unit
    x: FloatArray | tuple[str, ...]
    traces: tuple[Trace, ...]
    stacked: bool = False
    range: tuple[float, float] | None = None
    top: float | None = None
    right_unit: Unit | None = None
    unit_text: str = "{}"
    """What the left axis counts, with its scaled unit in place of {}: "{} per request"."""
    x_title: str = ""
    thresholds: tuple[Threshold, ...] = ()
    marks: tuple[Mark, ...] = field(default=())
    label_marks: bool = False
    note: str = ""
    help: str = ""
    badge: str = ""
    empty: str = ""
    height: int = 200

    @property
    def time(self) -> bool:
        """True if the x axis is time."""
        return not isinstance(self.x, tuple)

    def at_now(self, values: Mapping[str, float | None]) -> Spec:
        """This chart with what its legend says taken from `values`, by name: what a page's headline says."""
        known = tuple(replace(trace, now=values.get(trace.name)) for trace in self.traces)
        return replace(self, traces=known)

    def or_empty(self, why: str) -> Spec:
        """This chart, or `why` in its place when no series has a single value."""
        if any(np.isfinite(trace.values).any() for trace in self.traces):
            return self
        return replace(self, empty=why)
