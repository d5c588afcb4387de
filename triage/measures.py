"""Numbers that only rules need, in the algebra of signals: evaluated, and written as PromQL, like those."""

from __future__ import annotations

from signals.definition import Definition, Level
from signals.evaluation import Expression
from signals.expression import Difference, Increase, OrElse, Rate, Ratio, Sum
from signals.parts import FAILURE, halved, successes
from telemetry.units import Unit

_CANCELED = (("reason", "CANCELED"),)


def _errors(read: type[Increase] | type[Rate]) -> Expression:
    """Failures without those the client cancelled; before Triton 2.48 there is no reason: then all count."""
    failures = read(FAILURE)
    return halved(OrElse(Difference(failures, read(FAILURE, where=_CANCELED)), failures))


_ERRORS = _errors(Increase)

MEASURES: tuple[Definition, ...] = (
    Definition(
        "errors_total",
        Level.MODEL,
        Unit.REQUESTS,
        "Failed requests, cancelled ones left out",
        "failures - CANCELED",
        _ERRORS,
    ),
    Definition(
        "errors_ratio",
        Level.MODEL,
        Unit.RATIO,
        "Share of requests that failed, cancelled ones left out",
        "errors / (successes + errors)",
        Ratio(_ERRORS, Sum(successes(), _ERRORS)),
    ),
    Definition(
        "errors_per_second",
        Level.MODEL,
        Unit.PER_SECOND,
        "Failed requests per second, cancelled ones left out",
        "errors / window",
        _errors(Rate),
    ),
)
"""Measures of models; a rule names them like signals."""
