"""What one signal is: name, level, unit, title, formula and expression."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from history.protocol import By, Reduce
from signals.evaluation import GPU, MODEL, SERVER, Dialect, Expression
from signals.expression import Gauge, Only, OverModels, Ratio, Share
from signals.parts import own_work, queued_by_triton
from telemetry.units import Unit


class Level(StrEnum):
    """What a signal is said of; each level has its own part of the report."""

    MODEL = "model"
    SERVER = "server"
    GPU = "gpu"
    HOST = "host"


LABELS: dict[Level, By] = {Level.MODEL: MODEL, Level.SERVER: SERVER, Level.GPU: GPU, Level.HOST: SERVER}
"""Labels that identify one row of a level."""

_ADDITIVE = {Unit.REQUESTS, Unit.INFERENCES, Unit.EXECUTIONS, Unit.PER_SECOND, Unit.COUNT, Unit.BYTES}


@dataclass(frozen=True, slots=True)
class Definition:
    """One signal. `keys` are the labels of a mapping signal beyond its level's (reason, batch size, device).

    `printed` = part of the report; the others are for charts. `self_queueing` = has no meaning for backends
    that queue inside themselves.
    """

    name: str
    level: Level
    unit: Unit
    title: str
    formula: str
    expression: Expression
    keys: By = ()
    printed: bool = True
    self_queueing: bool = False

    def promql(self, dialect: Dialect | None = None) -> str:
        """The signal as PromQL text."""
        return self.expression.promql(dialect or Dialect())

    def promql_of_group(self, by: Iterable[str], dialect: Dialect | None = None) -> str:
        """The signal of all rows that share these labels (names of PromQL), none = of all rows.

        A ratio is sums over sums, a quantile and a GPU's figure the largest (the figure is the device's,
        whoever reports it), a count the sum. ValueError for a mean that is no single ratio.
        """
        dialect, names = dialect or Dialect(), ", ".join(by)
        if self.level is Level.GPU or _is_largest(self.expression):
            return f"max by ({names}) ({self.expression.promql(dialect)})"
        if isinstance(self.expression, Share):
            parts = self.expression.part_and_rest(dialect)
            return Share.text(*(f"sum by ({names}) ({one})" for one in parts))
        if isinstance(self.expression, Ratio):
            above, below = (one.promql(dialect) for one in (self.expression.above, self.expression.below))
            return f"(sum by ({names}) ({above}) / (sum by ({names}) ({below}) > 0))"
        if self.unit not in _ADDITIVE:
            raise ValueError(f"{self.name} of a {self.level} cannot be summed up: take that of a server")
        return f"sum by ({names}) ({self.expression.promql(dialect)})"


def both(
    name: str,
    unit: Unit,
    title: str,
    formula: str,
    model: Expression,
    server: Expression,
    *,
    keys: By = (),
    printed: bool = True,
    self_queueing: bool = False,
) -> tuple[Definition, Definition]:
    """A signal of a model and of its server."""
    return (
        Definition(name, Level.MODEL, unit, title, formula, model, keys, printed, self_queueing),
        Definition(name, Level.SERVER, unit, title, formula, server, keys, printed, False),
    )


def ratio_of(
    name: str, unit: Unit, title: str, formula: str, above: Expression, below: Expression
) -> tuple[Definition, Definition]:
    """A ratio of a model; of a server the ratio of the sums over its models, ensembles left out."""
    model = Ratio(queued_by_triton(above), queued_by_triton(below))
    server = Ratio(OverModels(own_work(above)), OverModels(own_work(below)))
    return both(name, unit, title, formula, model, server, self_queueing=True)


def _is_largest(expression: Expression) -> bool:
    inner = expression.of if isinstance(expression, Only) else expression
    return isinstance(inner, Gauge | OverModels) and inner.reduce is Reduce.MAX
