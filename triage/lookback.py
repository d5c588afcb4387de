"""Since when a condition has held without a break, from the history."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from history.protocol import Grid
from telemetry.identity import ModelKey
from telemetry.scrape import FloatArray
from triage.conditions import Condition, Reference
from triage.context import Context, Subject
from triage.numbers import Numbers, server_of
from triage.vocabulary import Level

SPANS = ((120.0, 0.0), (900.0, 15.0), (3600.0, 60.0))
"""How far back is looked in turn, and at which steps at least, seconds."""


@dataclass(frozen=True, slots=True)
class Hold:
    """How long a condition has held: `since` unix seconds, None = before the history or without a time."""

    since: float | None
    seconds: float


ALWAYS = Hold(None, math.inf)


class Lookback:
    """Asks the history back in time, first finely, then further back in coarser steps."""

    def __init__(self, context: Context, numbers: Numbers) -> None:
        self._context = context
        self._numbers = numbers
        self._start = context.history_from if context.history_from is not None else context.report.at

    def hold(self, condition: Condition, subject: Subject, *, excluded: bool, narrow: bool) -> Hold:
        """Of a condition that holds now (`excluded`: that does not hold now)."""
        if not any(reference.is_signal for reference in condition.references()):
            return self._fact_hold(condition.left, subject)
        hold = self._signal_hold(condition, subject, excluded, narrow)
        if not self._quiet(condition, excluded):
            return hold
        # "Nothing happened in the window" speaks about the whole window, not only its end.
        window = self._numbers.window(condition.left) or 0.0
        since = hold.since - window if hold.since is not None else None
        reach = self._context.report.at - self._start
        return Hold(since, min(hold.seconds + window, reach))

    def _quiet(self, condition: Condition, excluded: bool) -> bool:
        if not excluded:
            return condition.quiet
        return condition.operator == ">" and condition.left.window_seconds is not None and condition.of_zero

    def _fact_hold(self, reference: Reference, subject: Subject) -> Hold:
        name, facts = reference.quantity.name, self._numbers.facts
        if reference.level is Level.MODEL:
            since = facts.model_since(name, subject) if isinstance(subject, ModelKey) else None
        else:
            since = facts.server_since(name, server_of(subject))
        return ALWAYS if since is None else Hold(since, self._context.now - since)

    def _signal_hold(self, condition: Condition, subject: Subject, excluded: bool, narrow: bool) -> Hold:
        at, interval = self._context.report.at, self._context.interval_seconds
        for span, least_step in SPANS:
            step = max(least_step, interval)
            grid = Grid(at - math.floor(span / step) * step, at, step)
            found = self._break(condition, subject, excluded, narrow, grid)
            if found is not None and step > interval:
                found = (
                    self._break(condition, subject, excluded, narrow, self._around(found, interval)) or found
                )
            if found is not None:
                return self._after(found)
            if grid.start <= self._start:
                break
        return Hold(None, at - self._start)

    def _break(
        self, condition: Condition, subject: Subject, excluded: bool, narrow: bool, grid: Grid
    ) -> _Break | None:
        held = self._numbers.holds_over(condition, subject, grid, narrow)
        index = _last_break(held != 1.0 if excluded else held == 1.0, np.isnan(held))
        if index is None:
            return None
        times = grid.times()
        good = float(times[index + 1]) if index + 1 < len(times) else grid.end
        return _Break(float(times[index]), good, bool(np.isnan(held[index])), grid.step_seconds)

    def _around(self, found: _Break, interval: float) -> Grid:
        """The coarse step in which it began, at the readings' own interval."""
        at = self._context.report.at
        earliest = at - math.ceil((at - found.bad) / interval) * interval
        return Grid(earliest, at - math.floor((at - found.good) / interval) * interval, interval)

    def _after(self, found: _Break) -> Hold:
        at = self._context.report.at
        if found.unknown and found.bad <= self._start + 2 * found.step_seconds:
            return Hold(None, at - self._start)
        # It may have begun right after the last reading that says otherwise.
        return Hold(found.good, at - found.bad)


@dataclass(frozen=True, slots=True)
class _Break:
    """The last time it did not hold (`unknown`: was not known) and the first from which it did."""

    bad: float
    good: float
    unknown: bool
    step_seconds: float


def _last_break(good: FloatArray, missing: FloatArray) -> int | None:
    """Index of the last time it did not hold; one missing reading between two that hold is no break."""
    for index in range(len(good) - 1, -1, -1):
        if good[index]:
            continue
        if missing[index] and 0 < index < len(good) - 1 and good[index - 1]:
            continue
        return index
    return None
