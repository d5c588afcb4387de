"""Recording rules: the signals that alerts compare, each written once, so that an alert stays readable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus.parameters import Parameters
from prometheus.standing import standing
from signals.evaluation import Dialect
from triage.conditions import Reference
from triage.durations import duration_text
from triage.nodes import Past
from triage.vocabulary import EXPRESSIONS


@dataclass(frozen=True, slots=True)
class Recording:
    """One recording rule: the name of the series, the expression, and labels that are added."""

    record: str
    expression: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def row(self) -> dict[str, object]:
        """As Prometheus reads it."""
        plain: dict[str, object] = {"record": self.record, "expr": self.expression}
        return plain | ({"labels": dict(self.labels)} if self.labels else {})


@dataclass
class Recordings:
    """Collects what alerts refer to, in the order in which it is first used."""

    parameters: Parameters
    _rows: dict[str, Recording] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Recording]:
        return iter(self._rows.values())

    def text(
        self,
        reference: Reference,
        *,
        window_seconds: float | None,
        ago_seconds: float = 0.0,
        matchers: str = "",
    ) -> str:
        """A signal as PromQL: the recorded series, or the expression itself where it has no window."""
        expression = EXPRESSIONS[reference.level, reference.quantity.name]
        dialect = self.parameters.dialect(window_seconds)
        plain = expression.promql(dialect)
        if "[" not in plain:
            dialect = self.parameters.dialect(window_seconds, matchers)
            return expression.promql(Past.of(dialect, ago_seconds) if ago_seconds else dialect)
        name = self._named(reference, duration_text(self.parameters.window(window_seconds)), plain)
        selector = Dialect(matchers=matchers).selector(name)
        return f"{selector} offset {duration_text(ago_seconds)}" if ago_seconds else selector

    def standing(self, reference: Reference) -> str:
        """The recorded series that stands still while the signal is 0; a gauge is taken as it is."""
        expression = EXPRESSIONS[reference.level, reference.quantity.name]
        plain = expression.promql(self.parameters.dialect())
        if "[" in plain:
            plain = standing(expression).promql(self.parameters.dialect())
        return self._named(reference, "now", plain)

    def _named(self, reference: Reference, suffix: str, expression: str) -> str:
        name = f"{reference.level.value}:tritonscope_{reference.quantity.name}:{suffix}"
        self._rows.setdefault(name, Recording(name, expression))
        return name
