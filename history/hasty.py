"""A history that answers at once with what is known; what is missing is asked for in the background."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from history.protocol import By, Frame, Grid, History, Matchers, Reduce, Vector
from telemetry.scrape import Series

Result = TypeVar("Result")


class AtOnce(Protocol):
    """Runs something without waiting for what it asks."""

    def __call__(self, compute: Callable[[], Result]) -> Result:
        """The result with what can be had now."""
        ...


class Hasty:
    """A `History` over another one: nobody who asks it waits."""

    def __init__(self, history: History, at_once: AtOnce) -> None:
        self._history, self._at_once = history, at_once

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
        """Increase over [at - window, at] by group."""
        return self._at_once(
            lambda: self._history.increase(family, by, window_seconds, at, where=where, plain=plain)
        )

    def gauge(
        self, family: str, by: By, at: float, *, where: Matchers = (), reduce: Reduce = Reduce.SUM
    ) -> Vector:
        """Last value at `at`, reduced by group."""
        return self._at_once(lambda: self._history.gauge(family, by, at, where=where, reduce=reduce))

    def increase_range(
        self, family: str, by: By, window_seconds: float, grid: Grid, *, where: Matchers = ()
    ) -> Frame:
        """`increase` at every time of the grid."""
        return self._at_once(
            lambda: self._history.increase_range(family, by, window_seconds, grid, where=where)
        )

    def gauge_range(
        self, family: str, by: By, grid: Grid, *, where: Matchers = (), reduce: Reduce = Reduce.SUM
    ) -> Frame:
        """`gauge` at every time of the grid."""
        return self._at_once(lambda: self._history.gauge_range(family, by, grid, where=where, reduce=reduce))

    def labels(self, family: str) -> Sequence[tuple[str, Series]]:
        """(server, series) of every series of the family that the history holds."""
        return self._history.labels(family)
