"""Rules of `triage/rules/` as alerts: one alert for each severity a rule can have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prometheus.annotations import labels, texts
from prometheus.conditions import Compiler
from prometheus.parameters import Parameters
from prometheus.recordings import Recordings
from telemetry.rule_choice import pattern_expression
from triage.conditions import Condition
from triage.durations import duration_text
from triage.finding import Severity
from triage.rulebook import SEVERITY_ORDER, Rule, Rulebook, Stage
from triage.vocabulary import Level

BY_OBJECTIVE = ("SloErrorsBurn", "SloLatencyBurn")
"""Rules whose alerts are made for each objective of the settings, see `prometheus.slo`."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alerting rule; `for_seconds` 0: at once."""

    name: str
    expression: str
    for_seconds: float
    labels: dict[str, str]
    annotations: dict[str, str]


def alerts(rulebook: Rulebook, parameters: Parameters, recordings: Recordings) -> list[Alert]:
    """The alerts of all rules that are switched on, the most severe first.

    ValueError for what PromQL lacks.
    """
    found = [
        alert
        for rule in rulebook.rules
        if rule.name not in BY_OBJECTIVE and not rule.alert.app_only and _enabled(rule, parameters)
        for alert in of_rule(rule, parameters, recordings)
    ]
    order = [severity.value for severity in SEVERITY_ORDER]
    return sorted(found, key=lambda alert: order.index(alert.labels["severity"]))


def of_rule(rule: Rule, parameters: Parameters, recordings: Recordings) -> Iterator[Alert]:
    """The alerts of one rule, one for each severity."""
    for severity in SEVERITY_ORDER:
        stages = [stage for stage in rule.stages if stage.severity is severity]
        if stages:
            yield _RuleCompiler(rule, parameters, recordings).alert(severity, stages)


def _enabled(rule: Rule, parameters: Parameters) -> bool:
    choice = parameters.choices.get(rule.name)
    return rule.enabled if choice is None or choice.enabled is None else choice.enabled


class _RuleCompiler:
    def __init__(self, rule: Rule, parameters: Parameters, recordings: Recordings) -> None:
        self._rule = rule
        self._parameters = parameters
        self._recordings = recordings
        self._left_out = left_out = rule.alert.without
        self._when = [one for one in rule.when if one.text not in left_out] + list(rule.alert.when)
        self._unless = [one for one in rule.unless if one.text not in left_out] + list(rule.alert.unless)
        stages = [one for stage in rule.stages for one in (*stage.when, *stage.unless)]
        unknown = set(left_out) - {one.text for one in (*rule.when, *rule.unless, *stages)}
        if unknown:
            raise ValueError(f"{rule.path}: `without` names no condition of the rule: {', '.join(unknown)}")

    def alert(self, severity: Severity, stages: Sequence[Stage]) -> Alert:
        rule = self._rule
        held = self._held_by_expression()
        waits = {
            0.0 if held else self._parameters.waiting(stage.for_seconds, rule.alert.for_seconds)
            for stage in stages
        }
        if len(waits) > 1:
            raise ValueError(f"{rule.path}: stages of one severity must have the same `for`")
        parts = list(dict.fromkeys(self._stage(stage) for stage in stages))
        expression = (
            parts[0] if len(parts) == 1 else "\nor\n".join(f"(\n{_indented(one)}\n)" for one in parts)
        )
        return Alert(
            rule.name,
            expression,
            waits.pop(),
            labels(rule, severity, self._parameters),
            texts(rule, self._first(self._compiler(0.0)), self._parameters),
        )

    def _held_by_expression(self) -> bool:
        """A rule that says that nothing happened: `for` would only begin to count after its window."""
        return any(condition.quiet for condition in self._when)

    def _stage(self, stage: Stage) -> str:
        held = 0.0
        if self._held_by_expression():
            held = max(stage.for_seconds, self._parameters.scrape_interval_seconds)
        compiler = self._compiler(held)
        first = self._first(compiler)
        others = [condition for condition in self._when if condition is not first]
        lines = [compiler.part(first, matchers=self._matchers()).text, *compiler.lasting(first)]
        own = [condition for condition in stage.when if condition.text not in self._left_out]
        for condition in (*others, *own):
            lines += [compiler.part(condition).joined(), *compiler.lasting(condition)]
        lines += [
            compiler.part(condition).joined(negated=True) for condition in (*self._unless, *stage.unless)
        ]
        text = "\n".join(dict.fromkeys(lines))
        if f"on ({self._parameters.on(Level.WORKLOAD)}" in text:
            text = text.replace(lines[0], self._parameters.with_workload(f"({lines[0]})"), 1)
        return text

    def _compiler(self, held_seconds: float) -> Compiler:
        windows = dict(self._rule.alert.windows) if self._parameters.stretch else {}
        return Compiler(self._parameters, self._recordings, self._rule.level, windows, held_seconds)

    def _first(self, compiler: Compiler) -> Condition:
        """The condition whose rows become the alerts: their labels and their value."""
        for condition in self._when:
            part = compiler.part(condition)
            if part.there and part.on == compiler.key:
                return condition
        raise ValueError(f"{self._rule.path}: no condition of `when` is one of the rule's own rows")

    def _matchers(self) -> str:
        """Models that the settings leave out of this rule."""
        choice = self._parameters.choices.get(self._rule.name)
        if choice is None or not choice.except_models or self._rule.level is not Level.MODEL:
            return ""
        expressions = "|".join(map(pattern_expression, choice.except_models)).replace("\\", "\\\\")
        return f'{self._parameters.model}!~"{expressions}"'


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def alert_row(alert: Alert) -> dict[str, object]:
    """As Prometheus reads it."""
    row: dict[str, object] = {"alert": alert.name, "expr": alert.expression}
    if alert.for_seconds:
        row["for"] = duration_text(alert.for_seconds)
    return row | {"labels": alert.labels, "annotations": alert.annotations}
