"""Values of references: of the report's window now, of another window now, and back in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from history.protocol import Grid, GroupKey, Matchers
from signals.evaluation import Evaluation
from signals.report import Signals
from telemetry.identity import ModelKey
from telemetry.scrape import FloatArray
from triage.conditions import COMPARE, VECTOR_COMPARE, Condition, Reference, Term
from triage.context import INTERVALS_PER_WINDOW, Context, Fact, Subject
from triage.facts import Facts
from triage.nodes import Growth
from triage.vocabulary import EXPRESSIONS, Level

_Read = tuple[Level, str, float, Grid, Matchers]


class Numbers:
    """Reads references in one context. Each window is evaluated once, and each family in it read once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.facts = Facts(context)
        self._evaluations: dict[tuple[float, Grid, Matchers], Evaluation] = {}
        self._columns: dict[_Read, Mapping[GroupKey, FloatArray]] = {}

    def window(self, reference: Reference) -> float | None:
        """Seconds the reference spans here; None when the report is of one scrape only.

        Never longer than the history: what was counted before it is not known, and a rate is over what is.
        """
        report_window = self._context.report.window_seconds
        if report_window is None:
            return None
        start = self._context.history_from
        reach = self._context.report.at - start if start is not None else 0.0
        whole = reach <= 0 or isinstance(EXPRESSIONS[reference.level, reference.quantity.name], Growth)
        if reference.window_seconds is None:
            return report_window if whole else min(report_window, reach)
        intervals = 1 if self._context.evenly_read else INTERVALS_PER_WINDOW
        wanted = reference.window_seconds if whole else min(reference.window_seconds, reach)
        return max(wanted, min(intervals * self._context.interval_seconds, reach))

    def value(self, reference: Reference, subject: Subject) -> Fact:
        """The number (or word) now, None when it is not reported."""
        if not reference.is_signal:
            return self._fact(reference.quantity.name, reference.level, subject)
        last_answer = self._last_answer(server_of(subject))
        if self._is_reported(reference) and last_answer is None:
            values = self._reported(reference.level, subject)
            if values is None:
                return None
            if reference.quantity.name in values.values:
                return values.number(reference.quantity.name)
        return self._at(reference, subject, self._context.report.at if last_answer is None else last_answer)

    def _is_reported(self, reference: Reference) -> bool:
        """True for a number over the report's own window, as far as that was recorded."""
        of_report = reference.window_seconds is None and not reference.ago_seconds
        return of_report and self.window(reference) == self._context.report.window_seconds

    def _last_answer(self, server: str) -> float | None:
        """For a server that does not answer, the time of its last figures: those before the silence count."""
        one = self._context.coverage_of.get(server)
        if one is None or one.answering or one.age_seconds is None:
            return None
        return self._context.now - one.age_seconds

    def _fact(self, name: str, level: Level, subject: Subject) -> Fact:
        if level is Level.MODEL:
            return self.facts.of_model(name, subject) if isinstance(subject, ModelKey) else None
        reader = self.facts.of_server if level is Level.SERVER else self.facts.of_workload
        return reader(name, server_of(subject))

    def _reported(self, level: Level, subject: Subject) -> Signals | None:
        if level is Level.MODEL:
            row = self._context.model_signals.get(subject) if isinstance(subject, ModelKey) else None
            return row.signals if row else None
        server = self._context.server_signals.get(server_of(subject))
        return server.signals if server else None

    def _at(self, reference: Reference, subject: Subject, at: float) -> float | None:
        column = self._column(reference, subject, Grid(at, at, 1.0), ())
        value = float(column[0]) if column is not None else np.nan
        return value if value == value else None

    def _column(
        self, reference: Reference, subject: Subject, grid: Grid, where: Matchers
    ) -> FloatArray | None:
        window_seconds = self.window(reference)
        if window_seconds is None:
            return None
        if reference.ago_seconds:
            ago = reference.ago_seconds
            grid = Grid(grid.start - ago, grid.end - ago, grid.step_seconds)
            # What is older than the history is not asked for: that costs most and answers nothing.
            if self._context.history_from is None or grid.end < self._context.history_from:
                return None
        key = (reference.level, reference.quantity.name, window_seconds, grid, where)
        if key not in self._columns:
            self._columns[key] = self._evaluate(reference, window_seconds, grid, where)
        return self._columns[key].get(_key(reference.level, subject))

    def _evaluate(
        self, reference: Reference, window_seconds: float, grid: Grid, where: Matchers
    ) -> Mapping[GroupKey, FloatArray]:
        evaluation = self._evaluations.get((window_seconds, grid, where))
        if evaluation is None:
            evaluation = Evaluation(
                self._context.history, self._context.signal_facts, window_seconds, grid, where=where
            )
            self._evaluations[window_seconds, grid, where] = evaluation
        frame = evaluation.of(EXPRESSIONS[reference.level, reference.quantity.name])
        return {group: frame.values[:, index] for index, group in enumerate(frame.keys)}

    def over(self, reference: Reference, subjects: Sequence[Subject], grid: Grid, narrow: bool) -> FloatArray:
        """The number at every time of the grid, shape (n, len(subjects)), NaN where not reported.

        A fact is taken as it is now: settings do not change unnoticed, and states carry their own time.
        `narrow`: ask the history for these subjects one by one, not for all there are.
        """
        block = np.full((len(grid.times()), len(subjects)), np.nan)
        for index, subject in enumerate(subjects):
            if reference.is_signal:
                column = self._column(reference, subject, grid, self._where(subject) if narrow else ())
                if column is not None:
                    block[:, index] = column
            elif isinstance(value := self.value(reference, subject), float):
                block[:, index] = value
        return block

    def _where(self, subject: Subject) -> Matchers:
        """By server and name; an ensemble's series need those of its steps beside them."""
        server = server_of(subject)
        ensembles = self._context.signal_facts.steps
        if not isinstance(subject, ModelKey) or (server, subject.name) in ensembles:
            return (("server", server),)
        return (("server", server), ("model", subject.name))

    # ---- conditions

    def holds(self, condition: Condition, subject: Subject) -> bool | None:
        """Whether the condition holds now; None when one side is not reported."""
        left = self.value(condition.left, subject)
        if left is None:
            return None
        if condition.word is not None:
            return (left == condition.word) is (condition.operator == "==")
        right = self.chosen(condition.terms, condition.choice, subject)
        if right is None or isinstance(left, str):
            return None
        return COMPARE[condition.operator](left, right)

    def chosen(self, terms: Sequence[Term], choice: str, subject: Subject) -> float | None:
        """The largest or smallest ("max", "min") of the terms that are reported, None if none is."""
        values = [value for term in terms if (value := self._term(term, subject)) is not None]
        if not values:
            return None
        return max(values) if choice == "max" else min(values)

    def _term(self, term: Term, subject: Subject) -> float | None:
        if term.reference is None:
            return term.factor
        value = self.value(term.reference, subject)
        return term.factor * value if isinstance(value, float | int) else None

    def holds_over(
        self, condition: Condition, subjects: Sequence[Subject], grid: Grid, narrow: bool
    ) -> FloatArray:
        """Shape (n, len(subjects)): 1 where it holds, 0 where not, NaN where one side is not reported."""
        left = self.over(condition.left, subjects, grid, narrow)
        right = np.full(left.shape, np.nan)
        join = np.fmax if condition.choice == "max" else np.fmin
        for term in condition.terms:
            if term.reference is None:
                right = join(right, term.factor)
            else:
                right = join(right, term.factor * self.over(term.reference, subjects, grid, narrow))
        with np.errstate(invalid="ignore"):
            held = VECTOR_COMPARE[condition.operator](left, right)
        return np.where(np.isnan(left) | np.isnan(right), np.nan, held)


def server_of(subject: Subject) -> str:
    """The server a subject belongs to."""
    return subject.server if isinstance(subject, ModelKey) else subject


def _key(level: Level, subject: Subject) -> GroupKey:
    if level is Level.MODEL and isinstance(subject, ModelKey):
        return (subject.server, subject.name, subject.version)
    return (server_of(subject),)
