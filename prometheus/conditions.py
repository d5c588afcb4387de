"""One condition of a rule as a part of a PromQL expression: `and on (...)` or `unless on (...)` a vector."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus import facts
from prometheus.facts import Vector
from prometheus.parameters import Parameters
from prometheus.recordings import Recordings
from signals.evaluation import Dialect
from triage.conditions import Condition, Reference, Term
from triage.durations import duration_text
from triage.vocabulary import Level

_NOT = {">": "<=", ">=": "<", "<": ">=", "<=": ">", "==": "!=", "!=": "=="}
_UPWARD = (">", ">=")


@dataclass(frozen=True, slots=True)
class Part:
    """A condition: rows of `text` must be there (`there`), or must not, matched by the labels `on`."""

    text: str
    on: str
    there: bool = True

    def joined(self, *, negated: bool = False) -> str:
        """As a line of an expression, negated for `unless`."""
        return f"{'and' if self.there is not negated else 'unless'} on ({self.on}) ({self.text})"


@dataclass
class Compiler:
    """Compiles conditions of one rule. `held_seconds` above 0: they must have held so long, by expression.

    `windows` replaces windows and `ago` of the rule, seconds by seconds.
    """

    parameters: Parameters
    recordings: Recordings
    level: Level
    windows: dict[float, float] = field(default_factory=dict)
    held_seconds: float = 0.0

    @property
    def key(self) -> str:
        """Labels of the rule's own rows."""
        return self.parameters.on(self.level)

    def part(self, condition: Condition, *, matchers: str = "") -> Part:
        """The condition. ValueError if it cannot be written in PromQL."""
        left = condition.left
        if condition.word is not None:
            return self._word(condition)
        if left.is_signal:
            return self._signal(condition, matchers)
        vector = self._fact(left)
        if condition.of_zero and condition.operator == "==" and vector.zero:
            return Part(vector.zero, vector.on)
        if vector.counting:
            return Part(vector.text, vector.on, there=self._counts(condition))
        return Part(self._compared(vector.text, vector.on, condition), vector.on)

    def lasting(self, condition: Condition) -> list[str]:
        """Further lines that say that a gauge's condition has held all the time; none for others."""
        left = condition.left
        if not self.held_seconds or not left.is_signal or left.window_seconds is not None:
            return []
        if condition.operator not in _UPWARD or condition.terms[0].reference is not None:
            raise ValueError(f"{condition.text}: only a gauge above a number can be held by expression")
        comparison = f"{condition.operator} {number(condition.terms[0].factor)}"
        series, held = self.recordings.standing(left), duration_text(self.held_seconds)
        # The least since then, and the value just before: scrapes may be as far apart as it must have held.
        return [
            Part(f"min_over_time({series}[{held}]) {comparison}", self.key).joined(),
            Part(f"{series} offset {held} {comparison}", self.key).joined(),
        ]

    def _signal(self, condition: Condition, matchers: str) -> Part:
        left, on = condition.left, self.parameters.on(condition.left.level)
        if self.held_seconds and condition.of_zero and left.window_seconds is not None:
            series, held = self.recordings.standing(left), duration_text(self.held_seconds)
            operator = {"==": "==", ">": "!="}[condition.operator]
            then = f"max by ({on}) ({series} offset {held})"
            return Part(f"{series} {operator} on ({on}) group_left () {then}", on)
        if self.held_seconds and left.window_seconds is None:
            selector = Dialect(matchers=matchers).selector(self.recordings.standing(left))
            return Part(self._compared(selector, on, condition), on)
        return Part(self._compared(self._reference(left, matchers), on, condition), on)

    def _counts(self, condition: Condition) -> bool:
        """True if a row must exist: `>= 1`, `== 1`, `> 0`; False for `== 0`."""
        term, operator = condition.terms[0].factor, condition.operator
        if (operator, term) in ((">=", 1.0), ("==", 1.0), (">", 0.0)):
            return True
        if (operator, term) in (("==", 0.0), ("<", 1.0), ("<=", 0.0)):
            return False
        raise ValueError(f"{condition.text}: it can only be asked whether there is one")

    def _word(self, condition: Condition) -> Part:
        unequal, word = condition.operator == "!=", condition.word or ""
        if condition.left.quantity.name == "state":
            vector = facts.state(word, self.parameters, held_seconds=self.held_seconds, unequal=unequal)
        elif condition.left.quantity.name == "reason_class":
            vector = facts.reason_class(word, self.parameters, unequal=unequal)
        else:
            raise ValueError(f"{condition.left.quantity.name} is for sentences only")
        return Part(vector.text, vector.on)

    def _fact(self, reference: Reference) -> Vector:
        name = reference.quantity.name
        if name not in facts.FACTS_IN_PROMQL:
            raise ValueError(f"{name} has no PromQL: {facts.NOT_IN_PROMQL[name]}")
        return facts.fact(name, self.parameters)

    def _reference(self, reference: Reference, matchers: str = "") -> str:
        window, ago = reference.window_seconds, reference.ago_seconds
        return self.recordings.text(
            reference,
            window_seconds=None if window is None else self.windows.get(window, window),
            ago_seconds=self.windows.get(ago, ago),
            matchers=matchers,
        )

    def _compared(self, left: str, on: str, condition: Condition) -> str:
        """Rows of `left` for which the comparison holds; terms that are not there are left out."""
        operator = condition.operator
        texts = [self._term(left, operator, term, on) for term in condition.terms]
        if len(texts) == 1:
            return texts[0]
        if (condition.choice == "max") is not (operator in _UPWARD):
            return " or ".join(f"({text})" for text in texts)
        plain = [term.factor for term in condition.terms if term.reference is None]
        if not plain:
            raise ValueError(f"{condition.text}: one of the terms must be a number")
        limit = max(plain) if condition.choice == "max" else min(plain)
        lines = [f"{left} {operator} {number(limit)}"]
        for term in condition.terms:
            if term.reference is not None:
                lines.append(f"unless on ({on}) ({self._term(left, _NOT[operator], term, on)})")
        return " ".join(lines)

    def _term(self, left: str, operator: str, term: Term, on: str) -> str:
        if term.reference is None:
            return f"{left} {operator} {number(term.factor)}"
        if term.reference.is_signal:
            text, join = self._reference(term.reference), self.parameters.on(term.reference.level)
        else:
            vector = self._fact(term.reference)
            text, join = vector.text, vector.on
        right = f"max by ({join}) ({text})"
        right = right if term.factor == 1.0 else f"{number(term.factor)} * {right}"
        return f"{left} {operator} on ({join}) group_left () ({right})"


def number(value: float) -> str:
    """A number as PromQL reads it."""
    return f"{value:.12g}"
