"""The increase of counters over windows, computed as Prometheus computes it, without a loop over series.

Source: `extrapolatedRate` in Prometheus' promql/functions.go (2.x): closed windows [T - W, T]; a fall of a
counter is a reset; the increase between the first and the last sample is extended to each edge of the
window when the gap there is under 1.1 mean intervals, else by half an interval, and at the left edge
never back past the moment when the counter was zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from telemetry.scrape import FloatArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

EDGE_INTERVALS = 1.1
"""Prometheus' extrapolation threshold in mean intervals between samples."""
_ROWS_AT_ONCE = 2048
"""Series worked on together: keeps the temporary arrays of an hour of 12,000 series under 100 MB."""


def increases(
    values: FloatArray,
    present: BoolArray,
    times_ms: IntArray,
    starts_ms: IntArray,
    ends_ms: IntArray,
    *,
    plain: bool = False,
) -> FloatArray:
    """Shape (rows, windows): increase of each counter over each window, in the counter's unit.

    `values` and `present` have shape (rows, columns), `times_ms` (columns,) strictly increasing unix
    milliseconds, `starts_ms` and `ends_ms` (windows,). NaN where a window holds fewer than two samples.
    `plain` leaves out the extension to the window's edges.
    """
    result = np.full((len(values), len(ends_ms)), np.nan)
    low = np.searchsorted(times_ms, starts_ms, side="left")
    high = np.searchsorted(times_ms, ends_ms, side="right")
    if not len(times_ms) or not len(ends_ms):
        return result
    for begin in range(0, len(values), _ROWS_AT_ONCE):
        rows = slice(begin, begin + _ROWS_AT_ONCE)
        samples = _Samples(values[rows], present[rows], times_ms)
        result[rows] = samples.increase(low, high, starts_ms, ends_ms, plain)
    return result


class _Samples:
    """Cumulative, reset-free form of some counters; answers any number of windows by indexing."""

    def __init__(self, values: FloatArray, present: BoolArray, times_ms: IntArray) -> None:
        columns = len(times_ms)
        self._values, self._times = values, times_ms
        present = present & ~np.isnan(values)
        index = np.arange(columns)
        self._last = np.maximum.accumulate(np.where(present, index, -1), axis=1)
        following = np.where(present, index, columns)[:, ::-1]
        self._next = np.minimum.accumulate(following, axis=1)[:, ::-1]
        self._count = np.zeros((len(values), columns + 1), dtype=np.int64)
        np.cumsum(present, axis=1, out=self._count[:, 1:])
        self._corrected = np.cumsum(self._steps(present), axis=1)

    def _steps(self, present: BoolArray) -> FloatArray:
        """What each sample adds: its difference to the one before, or all of it after a reset."""
        steps = np.zeros_like(self._values)
        earlier = self._last[:, :-1]
        before = np.take_along_axis(self._values, np.maximum(earlier, 0), axis=1)
        later = self._values[:, 1:]
        added = np.where(later < before, later, later - before)
        np.copyto(steps[:, 1:], added, where=present[:, 1:] & (earlier >= 0))
        return steps

    def increase(
        self, low: IntArray, high: IntArray, starts_ms: IntArray, ends_ms: IntArray, plain: bool
    ) -> FloatArray:
        columns = len(self._times)
        count = self._count[:, high] - self._count[:, low]
        enough = count >= 2
        first = np.where(enough, self._next[:, np.minimum(low, columns - 1)], 0)
        last = np.where(enough, self._last[:, np.maximum(high - 1, 0)], 0)
        grown = _take(self._corrected, last) - _take(self._corrected, first)
        if plain:
            return np.where(enough, grown, np.nan)
        sampled = (self._times[last] - self._times[first]) / 1e3
        with np.errstate(divide="ignore", invalid="ignore"):
            mean_interval = sampled / (count - 1)
            to_start = (self._times[first] - starts_ms) / 1e3
            to_end = (ends_ms - self._times[last]) / 1e3
            at_first = _take(self._values, first)
            to_zero = np.where((grown > 0) & (at_first >= 0), sampled * at_first / grown, np.inf)
            to_start = np.minimum(to_start, to_zero)
            covered = sampled + _extension(to_start, mean_interval) + _extension(to_end, mean_interval)
            return np.where(enough, grown * covered / sampled, np.nan)


def _take(values: FloatArray, columns: IntArray) -> FloatArray:
    taken: FloatArray = np.take_along_axis(values, columns, axis=1)
    return taken


def _extension(gap_seconds: FloatArray, mean_interval: FloatArray) -> FloatArray:
    return np.where(gap_seconds < EDGE_INTERVALS * mean_interval, gap_seconds, mean_interval / 2)
