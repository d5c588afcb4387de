"""Whether anything happened, without a rate: a counter as it stands now against what it stood at before.

A rate needs a window of several scrapes; "nothing finished for a minute" must be known after a minute with
any scrape interval. The expression of a signal is turned into one that stands still as long as the signal
is 0.
"""

from __future__ import annotations

from dataclasses import is_dataclass, replace

from signals.evaluation import Expression
from signals.expression import Gauge, Increase, OrElse, Rate, Ratio, Scale, Sum, WhereZero


def standing(expression: Expression) -> Expression:
    """An expression of gauges that changes whenever the signal is not 0. ValueError if there is none."""
    match expression:
        case Increase() | Rate():
            return Gauge(expression.family, expression.by, expression.where)
        case Scale() | WhereZero():
            return standing(expression.of)
        case OrElse():
            if _is_part_of(expression.one, expression.other):
                return standing(expression.other)
            return _both(standing(expression.one), standing(expression.other))
        case Ratio():
            return standing(expression.above)
        case Sum():
            return Sum(standing(expression.one), standing(expression.other))
    inner = getattr(expression, "of", None)
    if isinstance(inner, Expression) and is_dataclass(expression):
        # Filters, groupings, label changes: the same around what stands.
        wrapped: Expression = replace(expression, of=standing(inner))
        return wrapped
    raise ValueError(f"{type(expression).__name__} has no standing value")


def _is_part_of(one: Expression, other: Expression) -> bool:
    """True if the first is the second for some of the models, with a factor."""
    while (inner := getattr(one, "of", None)) is not None:
        if inner == other:
            return True
        one = inner
    return False


def _both(one: Expression, other: Expression) -> Expression:
    """Two counters of the same thing: whichever is there, both where both are: one may be off."""
    return OrElse(OrElse(Sum(one, other), one), other)
