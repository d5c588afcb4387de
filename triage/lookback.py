"""Since when a condition has held without a break, from the history."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from history.protocol import Grid
from telemetry.identity import ModelKey
from triage.conditions import Condition, Reference
from triage.context import Context, Subject
from triage.numbers import Numbers, server_of
from triage.vocabulary import Level

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

SPANS = ((120.0, 0.0), (3600.0, 30.0))
"""How far back is looked in turn, and at which steps at least, seconds."""


@dataclass(frozen=True, slots=True)
class Hold:
    """How long a condition has held: `since` unix seconds, None = before the history or without a time."""

    since: float | None
    seconds: float


ASK_ONE_BY_ONE = 8
"""For up to this many subjects the history is asked one by one and precisely, else for all at once."""
ALWAYS = Hold(None, math.inf)


class Lookback:
    """Asks the history back in time, first finely, then further back in coarser steps."""

    def __init__(self, context: Context, numbers: Numbers) -> None:
        self._context = context
        self._numbers = numbers
        self._start = context.history_from if context.history_from is not None else context.report.at
        self._holds: dict[tuple[int, bool], dict[Subject, Hold]] = {}

    def hold(
        self, condition: Condition, subject: Subject, *, excluded: bool, among: tuple[Subject, ...]
    ) -> Hold:
        """Of a condition that holds now (`excluded`: that does not hold now).

        `among` are all subjects of which this will be asked: many are answered by one look at the history.
        """
        if not any(reference.is_signal for reference in condition.references()):
            return self._fact_hold(condition.left, subject)
        # A condition is one object of the rulebook: its identity is cheaper than hashing it.
        known = self._holds.setdefault((id(condition), excluded), {})
        if subject not in known:
            narrow = len(among) <= ASK_ONE_BY_ONE
            known |= self._signal_holds(condition, (subject,) if narrow else among, excluded, narrow)
        hold = known[subject]
        if not self._quiet(condition, excluded):
            return hold
        # "Nothing happened in the window" speaks about the whole window, not only its end; and no longer than
        # since the first window in which nothing did.
        window = self._numbers.window(condition.left) or 0.0
        at = self._context.report.at
        since = hold.since - window if hold.since is not None else None
        seconds = hold.seconds + window if since is None else at - since
        return Hold(since, min(seconds, at - self._start))

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

    def _signal_holds(
        self, condition: Condition, group: Sequence[Subject], excluded: bool, narrow: bool
    ) -> dict[Subject, Hold]:
        at, interval = self._context.report.at, self._context.interval_seconds
        holds: dict[Subject, Hold] = {}
        for span, least_step in SPANS:
            step = max(least_step, interval)
            grid = Grid(at - math.floor(span / step) * step, at, step)
            left = [subject for subject in group if subject not in holds]
            for subject, found in self._breaks(condition, left, excluded, narrow, grid).items():
                if narrow and step > interval:
                    fine = self._breaks(condition, [subject], excluded, narrow, self._around(found, interval))
                    found = fine.get(subject, found)
                holds[subject] = self._after(found)
            if grid.start <= self._start or len(holds) == len(group):
                break
        return {subject: holds.get(subject, Hold(None, at - self._start)) for subject in group}

    def _breaks(
        self, condition: Condition, subjects: Sequence[Subject], excluded: bool, narrow: bool, grid: Grid
    ) -> dict[Subject, _Break]:
        """The last break of each subject that has one in the grid."""
        held = self._numbers.holds_over(condition, subjects, grid, narrow)
        missing = np.isnan(held)
        indexes = _last_breaks(held != 1.0 if excluded else held == 1.0, missing)
        times = grid.times().tolist()
        found: dict[Subject, _Break] = {}
        for column, (subject, index) in enumerate(zip(subjects, indexes.tolist(), strict=True)):
            if index >= 0:
                good = times[index + 1] if index + 1 < len(times) else grid.end
                found[subject] = _Break(times[index], good, bool(missing[index, column]), grid.step_seconds)
        return found

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


def _last_breaks(good: BoolArray, missing: BoolArray) -> IntArray:
    """Index of the last time it did not hold, by column, -1 for never.

    One missing reading between two that hold is no break.
    """
    mended = good.copy()
    mended[1:-1] |= missing[1:-1] & good[:-2]
    bad = ~mended[::-1]
    return np.where(bad.any(axis=0), len(good) - 1 - bad.argmax(axis=0), -1)
