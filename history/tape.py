"""What another history answered, kept to be answered again where that history is out of reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from history.protocol import By, Frame, Grid, History, Matchers, Reduce, Vector
from telemetry.scrape import Series


@dataclass(frozen=True, slots=True)
class Taped:
    """One answer at times (n,), unix seconds: `values` (n, len(keys)); a vector is one row without times."""

    question: str
    keys: tuple[tuple[str, ...], ...]
    values: tuple[tuple[float, ...], ...]
    times: tuple[float, ...] = ()


class Tape:
    """A `History`: with `of` it asks that one and keeps the answers, without it gives those it was given.

    What was never asked has no answer. For one thread at a time.
    """

    def __init__(self, of: History | None = None, taped: Sequence[Taped] = ()) -> None:
        self._of = of
        self._answers = {one.question: one for one in taped}

    def answers(self) -> tuple[Taped, ...]:
        """All that was answered so far."""
        return tuple(self._answers.values())

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
        question = repr(("increase", family, by, window_seconds, at, where, plain))
        return self._vector(
            question, lambda of: of.increase(family, by, window_seconds, at, where=where, plain=plain)
        )

    def gauge(
        self, family: str, by: By, at: float, *, where: Matchers = (), reduce: Reduce = Reduce.SUM
    ) -> Vector:
        """Last value at `at`, reduced by group."""
        question = repr(("gauge", family, by, at, where, reduce.value))
        return self._vector(question, lambda of: of.gauge(family, by, at, where=where, reduce=reduce))

    def increase_range(
        self, family: str, by: By, window_seconds: float, grid: Grid, *, where: Matchers = ()
    ) -> Frame:
        """`increase` at every time of the grid."""
        question = repr(("increase_range", family, by, window_seconds, _of_grid(grid), where))
        return self._frame(
            question, grid, lambda of: of.increase_range(family, by, window_seconds, grid, where=where)
        )

    def gauge_range(
        self, family: str, by: By, grid: Grid, *, where: Matchers = (), reduce: Reduce = Reduce.SUM
    ) -> Frame:
        """`gauge` at every time of the grid."""
        question = repr(("gauge_range", family, by, _of_grid(grid), where, reduce.value))
        return self._frame(
            question, grid, lambda of: of.gauge_range(family, by, grid, where=where, reduce=reduce)
        )

    def labels(self, family: str) -> Sequence[tuple[str, Series]]:
        """(server, series) of every series of the family; not kept."""
        return self._of.labels(family) if self._of is not None else ()

    def _vector(self, question: str, ask: Callable[[History], Vector]) -> Vector:
        if self._of is not None:
            vector = ask(self._of)
            self._answers[question] = Taped(question, tuple(vector), (tuple(vector.values()),))
        known = self._answers.get(question)
        return {} if known is None else dict(zip(known.keys, known.values[0], strict=True))

    def _frame(self, question: str, grid: Grid, ask: Callable[[History], Frame]) -> Frame:
        if self._of is not None:
            frame = ask(self._of)
            rows = tuple(tuple(row) for row in frame.values.tolist())
            self._answers[question] = Taped(question, frame.keys, rows, tuple(frame.times.tolist()))
        known = self._answers.get(question)
        if known is None:
            return Frame(grid.times(), (), np.empty((len(grid.times()), 0)))
        values: Any = np.array(known.values, dtype=np.float64).reshape(len(known.times), len(known.keys))
        return Frame(np.array(known.times), known.keys, values)


def _of_grid(grid: Grid) -> tuple[float, float, float]:
    return float(grid.start), float(grid.end), float(grid.step_seconds)
