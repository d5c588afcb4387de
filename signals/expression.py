"""The algebra of signals: one expression, evaluated over a history and compiled to PromQL text.

Every node does both, so that a page and a Prometheus rule cannot disagree. Groups are matched by labels;
a ratio is never 0/0; what one side lacks is absent from the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from history.protocol import By, Frame, Matchers, Reduce
from signals import frames
from signals.evaluation import MODEL, NAME, Dialect, Evaluation, Expression
from signals.facts import FactFamily
from telemetry.catalogue import CATALOGUE
from telemetry.scrape import FloatArray


def _dropped(family: str, by: By) -> tuple[str, ...]:
    """Labels of the family that the result does not have; the others (cluster, team, ...) stay."""
    row = CATALOGUE.get(family.removesuffix("_count").removesuffix("_sum"), CATALOGUE.get(family))
    own = row.labels if row is not None else ()
    if "model" in own and row is not None and not row.family.startswith("tritonscope_"):
        own = (*own, "gpu_uuid")
    return tuple(name for name in own if name not in (*by, "quantile", "UUID"))


def _grouped(text: str, family: str, by: By, dialect: Dialect, function: str = "sum") -> str:
    dropped = _dropped(family, by)
    return f"{function} without ({dialect.labels(dropped)}) ({text})" if dropped else text


@dataclass(frozen=True, slots=True)
class Increase(Expression):
    """Increase of a counter over the window, in its unit; `plain` = from the first to the last sample.

    PromQL has no plain increase; its text is increase(), which is the plain one extended to the window.
    """

    family: str
    by: By = MODEL
    where: Matchers = ()
    plain: bool = False

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """See `History.increase`."""
        return evaluation.increase(self.family, self.by, self.where, self.plain)

    def promql(self, dialect: Dialect) -> str:
        """`sum without (...) (increase(family[window]))`."""
        text = f"increase({dialect.over_window(self.family, self.where)})"
        if dialect.only_grown:
            text = f"({text} > 0)"
        return _grouped(text, self.family, self.by, dialect)


@dataclass(frozen=True, slots=True)
class Rate(Expression):
    """Increase of a counter per second of the window."""

    family: str
    by: By = MODEL
    where: Matchers = ()

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """Increase / window; no value since the server's start, whose length is not known."""
        if evaluation.window_seconds is None:
            return frames.empty(evaluation.times)
        frame = evaluation.increase(self.family, self.by, self.where, False)
        return Frame(frame.times, frame.keys, frame.values / evaluation.window_seconds)

    def promql(self, dialect: Dialect) -> str:
        """`sum without (...) (rate(family[window]))`."""
        text = f"rate({dialect.over_window(self.family, self.where)})"
        return _grouped(text, self.family, self.by, dialect)


@dataclass(frozen=True, slots=True)
class Gauge(Expression):
    """Last value of a gauge."""

    family: str
    by: By = MODEL
    where: Matchers = ()
    reduce: Reduce = Reduce.SUM

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """See `History.gauge`."""
        return evaluation.gauge(self.family, self.by, self.where, self.reduce)

    def promql(self, dialect: Dialect) -> str:
        """`sum without (...) (family)`."""
        text = dialect.gauge(self.family, self.where)
        return _grouped(text, self.family, self.by, dialect, str(self.reduce))


@dataclass(frozen=True, slots=True)
class Fact(Expression):
    """A fact about models as a number."""

    family: FactFamily

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """From the inventory."""
        return evaluation.fact(self.family)

    def promql(self, dialect: Dialect) -> str:
        """The exported family."""
        return dialect.gauge(str(self.family))


@dataclass(frozen=True, slots=True)
class Scale(Expression):
    """A number times an expression; changes the unit."""

    of: Expression
    factor: float

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """factor * of."""
        frame = evaluation.of(self.of)
        return Frame(frame.times, frame.keys, _scaled(frame.values, self.factor))

    def promql(self, dialect: Dialect) -> str:
        """`factor * (...)`."""
        return f"{self.factor!r} * ({self.of.promql(dialect)})"


def _scaled(values: FloatArray, factor: float) -> FloatArray:
    """Divided where the factor is one over a whole number: 57 percent are 0.57, not 0.5700000000000001."""
    whole = round(1 / factor)
    return values / whole if whole and 1 / whole == factor else values * factor


@dataclass(frozen=True, slots=True)
class WhereZero(Expression):
    """An expression where it is exactly zero, no value elsewhere."""

    of: Expression

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """Zero or nothing."""
        frame = evaluation.of(self.of)
        return Frame(frame.times, frame.keys, np.where(frame.values == 0, 0.0, np.nan))

    def promql(self, dialect: Dialect) -> str:
        """`(... == 0)`."""
        return f"({self.of.promql(dialect)} == 0)"


@dataclass(frozen=True, slots=True)
class Sum(Expression):
    """The sum of two expressions, where both have a value."""

    one: Expression
    other: Expression

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """one + other."""
        return frames.combined(evaluation.of(self.one), evaluation.of(self.other), np.add)

    def promql(self, dialect: Dialect) -> str:
        """`(one + other)`."""
        return f"({self.one.promql(dialect)} + {self.other.promql(dialect)})"


@dataclass(frozen=True, slots=True)
class Difference(Expression):
    """The difference of two expressions, where both have a value. `on`: labels that PromQL matches."""

    one: Expression
    other: Expression
    on: By = ()

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """one - other."""
        return frames.combined(evaluation.of(self.one), evaluation.of(self.other), np.subtract)

    def promql(self, dialect: Dialect) -> str:
        """`(one - other)`; the labels of the first stay."""
        match = f" on ({dialect.labels(self.on)}) group_left ()" if self.on else ""
        return f"({self.one.promql(dialect)} -{match} {self.other.promql(dialect)})"


@dataclass(frozen=True, slots=True)
class Ratio(Expression):
    """A quotient, absent where the denominator is not above zero: never NaN. `on`: labels PromQL matches."""

    above: Expression
    below: Expression
    on: By = ()

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """above / below."""
        return frames.ratio(evaluation.of(self.above), evaluation.of(self.below))

    def promql(self, dialect: Dialect) -> str:
        """`(above / (below > 0))`."""
        match = f" on ({dialect.labels(self.on)})" if self.on else ""
        return f"({self.above.promql(dialect)} /{match} ({self.below.promql(dialect)} > 0))"


@dataclass(frozen=True, slots=True)
class Share(Ratio):
    """What part makes of part and rest together: `Share.of(part, rest)`.

    `sparse`: most series of the part never grow, and sums of those that do are all there is in it.
    """

    sparse: bool = False

    @classmethod
    def of(cls, part: Expression, rest: Expression, *, sparse: bool = False) -> Share:
        """part / (rest + part)."""
        return cls(part, Sum(rest, part), sparse=sparse)

    def promql(self, dialect: Dialect) -> str:
        """See `text`."""
        return self.text(*self.part_and_rest(dialect))

    def part_and_rest(self, dialect: Dialect) -> tuple[str, str]:
        """Both as PromQL."""
        rest = self.below.one if isinstance(self.below, Sum) else self.below
        sparsely = replace(dialect, only_grown=True) if self.sparse else dialect
        return self.above.promql(sparsely), rest.promql(dialect)

    @staticmethod
    def text(part: str, rest: str) -> str:
        """`(1 / (1 + rest / (part > 0)) or 0 * (rest > 0))`: the part, often long, stands here once."""
        return f"(1 / (1 + {rest} / ({part} > 0)) or 0 * ({rest} > 0))"


@dataclass(frozen=True, slots=True)
class OrElse(Expression):
    """The first expression, and the second where the first has no value, matched on `on` (default: all)."""

    one: Expression
    other: Expression
    on: By = field(default=())

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """One, else other."""
        return frames.or_else(evaluation.of(self.one), evaluation.of(self.other))

    def promql(self, dialect: Dialect) -> str:
        """`(one or other)`."""
        match = f" on ({dialect.labels(self.on)})" if self.on else ""
        return f"({self.one.promql(dialect)} or{match} {self.other.promql(dialect)})"


@dataclass(frozen=True, slots=True)
class Only(Expression):
    """An expression for the models that have a fact, or with `without` for those that do not."""

    of: Expression
    family: FactFamily
    without: bool = False

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """Of, filtered."""
        frame, having = evaluation.of(self.of), evaluation.having(self.family)
        if not having:
            return frame if self.without else frames.empty(frame.times)
        return frames.filtered(frame, lambda key: ((key[0], key[1]) in having) is not self.without)

    def promql(self, dialect: Dialect) -> str:
        """`(... and on (server, model) fact)` or `(... unless on (server, model) fact)`."""
        operator = "unless" if self.without else "and"
        fact = dialect.gauge(str(self.family))
        return f"({self.of.promql(dialect)} {operator} on ({dialect.labels(NAME)}) {fact})"


@dataclass(frozen=True, slots=True)
class OverModels(Expression):
    """An expression by model made one by server: the sum, or the largest."""

    of: Expression
    reduce: Reduce = Reduce.SUM

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """Over the models of each server; further labels (reason, batch size) stay."""
        frame = evaluation.of(self.of)
        largest = self.reduce is Reduce.MAX
        return frames.regrouped(frame, lambda key: (key[0], *key[3:]), largest=largest)

    def promql(self, dialect: Dialect) -> str:
        """`sum without (model, version) (...)`."""
        return f"{self.reduce} without ({dialect.labels(('model', 'version'))}) ({self.of.promql(dialect)})"


@dataclass(frozen=True, slots=True)
class Smaller(Expression):
    """The smaller of two expressions by (server, model), where both have a value."""

    one: Expression
    other: Expression

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """min(one, other)."""
        return frames.combined(evaluation.of(self.one), evaluation.of(self.other), np.minimum)

    def promql(self, dialect: Dialect) -> str:
        """`(one - on (...) group_left () clamp_min(one - on (...) other, 0))`: the labels of one stay."""
        one, other, names = self.one.promql(dialect), self.other.promql(dialect), dialect.labels(NAME)
        return f"({one} - on ({names}) group_left () clamp_min({one} - on ({names}) {other}, 0))"


@dataclass(frozen=True, slots=True)
class Matching(Expression):
    """An expression where another one has a value too."""

    of: Expression
    other: Expression

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """Of, where other is not absent."""

        def kept(mine: FloatArray, theirs: FloatArray) -> FloatArray:
            return np.where(np.isnan(theirs), np.nan, mine)

        return frames.combined(evaluation.of(self.of), evaluation.of(self.other), kept)

    def promql(self, dialect: Dialect) -> str:
        """`(of and on (server, model, version) other)`."""
        match = dialect.labels(MODEL)
        return f"({self.of.promql(dialect)} and on ({match}) {self.other.promql(dialect)})"


@dataclass(frozen=True, slots=True)
class Renamed(Expression):
    """An expression whose label `old` is called `new` in the result (DCGM's UUID is Triton's gpu_uuid)."""

    of: Expression
    old: str
    new: str

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """The same values: groups are told apart by position."""
        return evaluation.of(self.of)

    def promql(self, dialect: Dialect) -> str:
        """`label_replace(...)`."""
        return f'label_replace({self.of.promql(dialect)}, "{self.new}", "$1", "{self.old}", "(.*)")'
