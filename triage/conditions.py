"""The condition language of rules: `queue_us_mean > max(10 ms, 3 * max_queue_delay_us)`, parsed and typed.

    condition := reference operator threshold
    reference := ["server." | "workload."] name ["[" duration "]"] ["ago" duration]
    operator  := ">" | ">=" | "<" | "<=" | "==" | "!="
    threshold := term | "max(" term {"," term} ")" | "min(" term {"," term} ")" | word
    term      := number [unit] | [number "*"] reference

Every construct has a PromQL counterpart: a reference is a recorded signal or an exported fact, a join
level is `on (...) group_left`, max and min are nested comparisons. Sources: this project's DESIGN.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemetry.scrape import FloatArray
from telemetry.units import Unit, base_value
from triage.durations import parse_duration
from triage.vocabulary import QUANTITIES, Level, Origin, Quantity

_CONDITION = re.compile(r"^(?P<left>[^<>=!]+?)\s*(?P<op>>=|<=|==|!=|>|<)\s*(?P<right>.+)$")
_REFERENCE = re.compile(
    r"^(?:(?P<level>[a-z]+)\.)?(?P<name>[a-z][a-z0-9_]*)(?:\[(?P<window>[^\]]+)\])?(?:\s+ago\s+(?P<ago>\S+))?$"
)
_NUMBER = re.compile(r"^(?P<number>-?\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-zµ%/]*)$")
_SCALED = re.compile(r"^(?P<factor>\d+(?:\.\d+)?)\s*\*\s*(?P<reference>.+)$")
_CHOICE = re.compile(r"^(?P<choice>max|min)\((?P<terms>.+)\)$")

COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
VECTOR_COMPARE: dict[str, Callable[[FloatArray, FloatArray], NDArray[np.bool_]]] = {
    ">": np.greater,
    ">=": np.greater_equal,
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


@dataclass(frozen=True, slots=True)
class Reference:
    """A quantity at its level. `window_seconds` None: the window of the report that is judged.

    `ago_seconds`: as it was that long ago; not reported where the history does not reach so far back.
    """

    quantity: Quantity
    window_seconds: float | None = None
    ago_seconds: float = 0.0

    @property
    def level(self) -> Level:
        """The level the number is given at."""
        return self.quantity.level

    @property
    def is_signal(self) -> bool:
        """True for a number over time, False for a fact of now."""
        return self.quantity.origin is Origin.SIGNAL

    def told(self, value: float) -> float:
        """`value` as it is told: an increase over a window is extrapolated, but people count whole things."""
        counts = self.quantity.name.endswith(("_total", "_before"))
        return float(round(value)) if counts and value >= 1 else value


@dataclass(frozen=True, slots=True)
class Term:
    """`factor` alone (in the unit of the condition's left side) or `factor * reference`."""

    factor: float
    reference: Reference | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison. `word` instead of `terms` for facts that are words.

    `choice` is "max" or "min" over the terms that are reported; with one term it does not matter.
    """

    text: str
    left: Reference
    operator: str
    terms: tuple[Term, ...] = ()
    choice: str = "max"
    word: str | None = None

    @property
    def quiet(self) -> bool:
        """True for `increase == 0`: it says that nothing happened over the whole window."""
        over_window = self.left.is_signal and self.left.window_seconds is not None
        return over_window and self.operator == "==" and self.of_zero

    @property
    def of_zero(self) -> bool:
        """True if the threshold is 0."""
        return self.terms == (Term(0.0),)

    def references(self) -> Iterator[Reference]:
        """Every reference on either side."""
        yield self.left
        for term in self.terms:
            if term.reference is not None:
                yield term.reference


def parse_reference(text: str, level: Level) -> Reference:
    """A reference as seen from a rule of `level`; ValueError naming what is unknown."""
    match = _REFERENCE.match(text.strip())
    if match is None:
        raise ValueError(f"{text.strip()!r} is not a name: write name, name[5m] or server.name")
    try:
        at = Level(match["level"]) if match["level"] else level
    except ValueError:
        raise ValueError(f"unknown level {match['level']!r}: use model, server or workload") from None
    quantity = QUANTITIES.get((at, match["name"]))
    if quantity is None:
        known = sorted(name for row_level, name in QUANTITIES if row_level is at)
        raise ValueError(
            f"unknown signal {match['name']!r} at level {at.value}: known are {', '.join(known)}"
        )
    window = parse_duration(match["window"]) if match["window"] else None
    ago = parse_duration(match["ago"]) if match["ago"] else 0.0
    if (window is not None or ago) and quantity.origin is not Origin.SIGNAL:
        raise ValueError(f"{quantity.name} is a fact of now and takes no window and no `ago`")
    return Reference(quantity, window, ago)


def parse_condition(text: str, level: Level) -> Condition:
    """One condition of a rule of `level`; ValueError with a sentence for anything that is not one."""
    match = _CONDITION.match(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a condition: write <signal> <operator> <threshold>")
    left = parse_reference(match["left"], level)
    if left.quantity.words:
        return _word_condition(text, left, match["op"], match["right"].strip())
    choice, terms = parse_threshold(match["right"], left.quantity.unit, level)
    return Condition(text, left, match["op"], terms, choice)


def parse_threshold(text: str, unit: Unit, level: Level) -> tuple[str, tuple[Term, ...]]:
    """("max" or "min", terms) of what stands on the right, in `unit`; ValueError for what does not fit."""
    choice, texts = _choice(text.strip())
    return choice, tuple(_term(term, unit, level) for term in texts)


def _word_condition(text: str, left: Reference, op: str, word: str) -> Condition:
    if op not in ("==", "!="):
        raise ValueError(f"{left.quantity.name} is a word: compare it with == or !=")
    if word not in left.quantity.words:
        raise ValueError(
            f"{left.quantity.name} is never {word!r}: it is one of {', '.join(left.quantity.words)}"
        )
    return Condition(text, left, op, word=word)


def _choice(text: str) -> tuple[str, list[str]]:
    match = _CHOICE.match(text)
    return (match["choice"], match["terms"].split(",")) if match else ("max", [text])


def _term(text: str, unit: Unit, level: Level) -> Term:
    stripped = text.strip()
    if number := _NUMBER.match(stripped):
        return Term(base_value(float(number["number"]), number["unit"], unit))
    scaled = _SCALED.match(stripped)
    factor = float(scaled["factor"]) if scaled else 1.0
    reference = parse_reference(scaled["reference"] if scaled else stripped, level)
    if reference.quantity.words:
        raise ValueError(f"{reference.quantity.name} is a word and not a threshold")
    if not _comparable(reference.quantity.unit, unit):
        raise ValueError(
            f"{reference.quantity.name} is in {reference.quantity.unit.value or 'plain numbers'}, "
            f"the left side in {unit.value or 'plain numbers'}"
        )
    return Term(factor, reference)


_COUNTS = {Unit.COUNT, Unit.REQUESTS, Unit.INFERENCES, Unit.EXECUTIONS, Unit.BATCH, Unit.NONE}


def _comparable(one: Unit, other: Unit) -> bool:
    return one is other or {one, other} <= _COUNTS
