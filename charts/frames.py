"""From frames to series: the one column of a filtered frame, or the eight that matter and the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from charts.palette import OTHERS
from charts.spec import MAX_SERIES, Draw, Trace
from history.protocol import Frame, GroupKey
from telemetry.scrape import FloatArray

OTHERS_NAME = "others"


def single(frame: Frame) -> FloatArray:
    """(n,) values of a frame that was asked for one thing; NaN throughout when it has no series.

    ValueError when it holds several: adding them up here could be wrong for a mean or a ratio.
    """
    if not frame.keys:
        return np.full(len(frame.times), np.nan)
    if len(frame.keys) > 1:
        raise ValueError(f"expected one series, got {len(frame.keys)}")
    return frame.values[:, 0]


def ranked(
    frame: Frame,
    name: Callable[[GroupKey], str],
    color: Callable[[GroupKey], str],
    *,
    dash: Callable[[GroupKey], str] = lambda key: "solid",
    harm: Callable[[GroupKey], float] | None = None,
    draw: Draw = Draw.LINE,
    additive: bool = True,
) -> tuple[Trace, ...]:
    """At most eight series of a frame: those with the most `harm` (default: the highest value), then others.

    `dash` tells series of one colour apart. `additive` values of the rest are summed; of means and ratios
    the rest shows its largest.
    """
    peaks = {key: _peak(frame.values[:, column]) for column, key in enumerate(frame.keys)}
    weight = harm or (lambda key: peaks[key])
    order = sorted(frame.keys, key=lambda key: (-weight(key), key))
    several = len(order) > MAX_SERIES
    kept, rest = (order[: MAX_SERIES - 1], order[MAX_SERIES - 1 :]) if several else (order, [])
    column = {key: at for at, key in enumerate(frame.keys)}
    traces: list[Trace] = []
    for key in kept:
        shade = color(key)
        style = dash(key) if any(shade == other.color for other in traces) else "solid"
        traces.append(Trace(name(key), frame.values[:, column[key]], shade, draw=draw, dash=style))
    if rest:
        values = _together(frame.values[:, [column[key] for key in rest]], additive)
        traces.append(Trace(f"{OTHERS_NAME} ({len(rest)})", values, OTHERS, draw=draw, dash="dot"))
    return tuple(traces)


def _together(values: FloatArray, additive: bool) -> FloatArray:
    """(n,) of (n, k): the sum or the maximum of what is there, NaN where nothing is."""
    nothing = ~np.isfinite(values).any(axis=1)
    filled = np.where(np.isfinite(values), values, 0.0 if additive else -np.inf)
    merged = filled.sum(axis=1) if additive else filled.max(axis=1)
    return np.where(nothing, np.nan, merged)


def _peak(values: FloatArray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size else -np.inf


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, with a number after those that come twice: a chart tells series apart by name."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return result
