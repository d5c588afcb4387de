"""Two histories as one: the ring for as long as it looked, what lies before from Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from history.promapi_devices import is_of_devices
from history.promapi_series import catalogued
from history.protocol import By, Frame, Grid, GroupKey, History, Matchers, Reduce, Vector
from history.ring import Ring
from telemetry.scrape import FloatArray, Series, Source

_SLACK_OF_WINDOW = 0.05
"""A window of which the ring lacks only so much is the ring's."""
_SLACK_OF_GRID = 0.03
"""A time of which the ring lacks only so much at its beginning is not worth a query for every family."""


class CombinedHistory:
    """A `History`. Every family is split at the time from which the ring holds whole windows of it."""

    def __init__(self, ring: Ring, remote: History) -> None:
        self._ring = ring
        self._remote = remote

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
        """Increase over [at - window, at] by group, from the ring if it holds the whole window."""
        since = self._since(family, where)
        holds = at >= since + (1.0 - _SLACK_OF_WINDOW) * window_seconds
        history: History = self._ring if holds else self._remote
        return history.increase(family, by, window_seconds, at, where=where, plain=plain)

    def gauge(
        self, family: str, by: By, at: float, *, where: Matchers = (), reduce: Reduce = Reduce.SUM
    ) -> Vector:
        """Last value at `at`, reduced by group."""
        history: History = self._ring if at >= self._since(family, where) else self._remote
        return history.gauge(family, by, at, where=where, reduce=reduce)

    def increase_range(
        self, family: str, by: By, window_seconds: float, grid: Grid, *, where: Matchers = ()
    ) -> Frame:
        """`increase` at every time of the grid."""

        def of(history: History, part: Grid) -> Frame:
            return history.increase_range(family, by, window_seconds, part, where=where)

        return self._split(grid, self._since(family, where), window_seconds, of)

    def gauge_range(
        self, family: str, by: By, grid: Grid, *, where: Matchers = (), reduce: Reduce = Reduce.SUM
    ) -> Frame:
        """`gauge` at every time of the grid."""

        def of(history: History, part: Grid) -> Frame:
            return history.gauge_range(family, by, part, where=where, reduce=reduce)

        return self._split(grid, self._since(family, where), 0.0, of)

    def labels(self, family: str) -> Sequence[tuple[str, Series]]:
        """(server, series) of the series that the ring holds."""
        return self._ring.labels(family)

    def _since(self, family: str, where: Matchers) -> float:
        """From when on the ring holds readings that would have the family, unix seconds; inf for none."""
        row = catalogued(family)
        source = Source.METRICS if row is None else row.source
        if is_of_devices(family):
            source = Source.DEVICES
        wanted = next((value for name, value in where if name == "server"), None)
        servers = self._ring.servers() if wanted is None else (wanted,)
        firsts = [
            float(times[0])
            for server in servers
            if len(times := self._ring.sample_times(server, source, 0.0, np.inf))
        ]
        return max(firsts) if firsts else np.inf

    def _split(
        self, grid: Grid, since: float, window_seconds: float, of: Callable[[History, Grid], Frame]
    ) -> Frame:
        times = grid.times()
        if not len(times):
            return of(self._ring, grid)
        slack = _SLACK_OF_GRID * (times[-1] - times[0]) + _SLACK_OF_WINDOW * window_seconds
        if times[0] >= since + window_seconds - slack:
            return of(self._ring, grid)
        step = grid.step_seconds
        before = int(np.searchsorted(times, since + window_seconds, side="left"))
        remote = of(self._remote, Grid(grid.start, grid.start + (before - 1) * step, step))
        # Where Prometheus has nothing: the ring's windows that hold at least half of what they should.
        first = int(np.searchsorted(times, since + window_seconds / 2, side="left"))
        if first == len(times) or len(times) == 1:
            # One moment is one window: of a part of it no figure for the whole can be told.
            return remote
        live = of(self._ring, Grid(grid.start + first * step, grid.end, step))
        return _joined(remote, live, times)


def _joined(early: Frame, late: Frame, times: FloatArray) -> Frame:
    """`early` holds the first of the times, `late` the last; where both do, `early` counts if it can."""
    keys: tuple[GroupKey, ...] = tuple(dict.fromkeys((*early.keys, *late.keys)))
    place = {key: column for column, key in enumerate(keys)}
    values = np.full((len(times), len(keys)), np.nan)
    if late.keys:
        values[len(times) - len(late.times) :, [place[key] for key in late.keys]] = late.values
    if early.keys:
        rows, columns = slice(0, len(early.times)), [place[key] for key in early.keys]
        values[rows, columns] = np.where(np.isnan(early.values), values[rows, columns], early.values)
    return Frame(times, keys, values)
