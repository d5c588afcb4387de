"""Alerts for objectives (`slo:` of the settings): burn rates over pairs of windows, for a workload's model.

Requests per second, and those of them that failed or were slow, are recorded for each model; everything
over a longer window is an average of these, so that a month costs one series. The share of slow requests is
taken from the best source that is there, as in `triage.burn`; the label `source` says which.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus.alerts import Alert
from prometheus.annotations import plain_text, runbook
from prometheus.conditions import number
from prometheus.parameters import Parameters
from prometheus.recordings import Recording
from signals.definition import Level as SignalLevel
from signals.definitions import definition
from signals.evaluation import Dialect
from signals.latency import QUANTILES
from telemetry.objective import Objective
from telemetry.rule_choice import pattern_expression
from telemetry.units import Unit, human
from triage.burn import DAY, HISTOGRAM, HOUR, PAIRS, SUMMARY, Kind, Pair
from triage.durations import duration_text
from triage.finding import Severity
from triage.measures import MEASURES
from triage.rulebook import Rulebook
from triage.vocabulary import Level

BAD, ALL = "model:tritonscope_slo_bad_per_second", "model:tritonscope_slo_requests_per_second"
RATIO = "workload:tritonscope_slo_bad_ratio"
LEFT = "workload:tritonscope_slo_budget_left_ratio"
RULES = {Kind.ERRORS: "SloErrorsBurn", Kind.LATENCY: "SloLatencyBurn"}
FLOOR_REQUESTS = 20.0
"""Fewer bad requests in an hour are no reason for an alert."""


def recordings(parameters: Parameters) -> list[Recording]:
    """The recorded series of all objectives; none without objectives."""
    found: list[Recording] = []
    for number_, objective in enumerate(parameters.objectives):
        for kind in _kinds(objective):
            found += _of_models(objective, number_, kind, parameters)
    if found:
        windows = sorted({seconds for pair in PAIRS for seconds in (pair.long_seconds, pair.short_seconds)})
        found += [_ratio(seconds, parameters) for seconds in windows]
        found += _left(parameters)
    return found


def alerts(rulebook: Rulebook, parameters: Parameters) -> Iterator[Alert]:
    """The alerts of all objectives, one for each kind and severity, over all objectives."""
    for kind, name in RULES.items():
        objectives = [(place, one) for place, one in enumerate(parameters.objectives) if kind in _kinds(one)]
        choice = parameters.choices.get(name)
        if not objectives or (choice is not None and choice.enabled is False):
            continue
        for severity in (Severity.PAGE, Severity.TICKET):
            expression = "\nor\n".join(
                f"(\n  {_burning(one, place, kind, pair, parameters)}\n)"
                for place, one in objectives
                for pair in PAIRS
                if pair.severity is severity
            )
            yield Alert(
                name, expression, 0.0, _labels(severity, parameters), _texts(rulebook, kind, parameters)
            )


def slo_name(objective: Objective, place: int) -> str:
    """The label `slo`: the models it is for, and its place where several are for the same."""
    return f"{objective.model}#{place + 1}"


def _kinds(objective: Objective) -> list[Kind]:
    found = [Kind.ERRORS] if objective.errors_budget_ratio is not None else []
    return [*found, Kind.LATENCY] if objective.latency_us is not None else found


def _budget(objective: Objective, kind: Kind) -> float:
    budget = objective.errors_budget_ratio if kind is Kind.ERRORS else objective.slow_budget_ratio
    return budget if budget is not None else 1.0


# ---- recorded for each model


def _of_models(objective: Objective, place: int, kind: Kind, parameters: Parameters) -> Iterator[Recording]:
    dialect = _dialect(objective, parameters)
    rate = definition("requests_per_second", SignalLevel.MODEL).promql(dialect)
    errors = next(row for row in MEASURES if row.name == "errors_per_second").promql(dialect)
    label = {"slo": slo_name(objective, place), "objective": kind.value}
    if kind is Kind.ERRORS:
        yield _recorded(BAD, errors, label | {"source": "counters"}, parameters)
        yield _recorded(ALL, f"({rate} + {errors}) or {rate}", label, parameters)
        return
    yield _recorded(ALL, rate, label, parameters)
    for source, text in _slow(objective, dialect, rate, parameters):
        yield _recorded(BAD, text, label | {"source": source}, parameters)


def _recorded(record: str, text: str, labels: dict[str, str], parameters: Parameters) -> Recording:
    return Recording(record, parameters.with_workload(f"({text})"), labels)


def _dialect(objective: Objective, parameters: Parameters) -> Dialect:
    matchers = [f'{parameters.model}=~"{_escaped(objective.model)}"']
    if objective.workload:
        matchers.append(f'{parameters.workload}=~"{_escaped(objective.workload)}"')
    return parameters.dialect(matchers=", ".join(matchers))


def _escaped(pattern: str) -> str:
    return pattern_expression(pattern).replace("\\", "\\\\")


def _slow(
    objective: Objective, dialect: Dialect, rate: str, parameters: Parameters
) -> Iterator[tuple[str, str]]:
    """Slow requests per second by source; a worse source only where no better one is there."""
    limit_us = objective.latency_us or 0.0
    on = parameters.on(Level.MODEL)
    bucket = f'{HISTOGRAM}_bucket{{le=~"{_bounds(limit_us / 1e3)}", {dialect.matchers}}}'
    count = f"{HISTOGRAM}_count{{{dialect.matchers}}}"
    histogram = (
        f"sum without (gpu_uuid) (rate({count}[{dialect.window}]))"
        f" - sum without (le, gpu_uuid) (rate({bucket}[{dialect.window}]))"
    )
    yield "histogram", histogram
    # NaN (nothing asked in the last minute) is not at or above zero: no value then.
    shares = " or ".join(
        f"{number(1.0 - float(quantile))} * ({_quantile(quantile, dialect)} >= 0 > bool {number(limit_us)})"
        for quantile in QUANTILES.values()
    )
    summary = f"max without (quantile, gpu_uuid) ({shares}) * on ({on}) group_left () max by ({on}) ({rate})"
    has_bucket = f"unless on ({on}) {bucket}"
    yield "summary", f"{summary} {has_bucket}"
    mean = definition("request_us_mean", SignalLevel.MODEL).promql(dialect)
    of_mean = f"({mean} > bool {number(limit_us)}) * on ({on}) group_left () max by ({on}) ({rate})"
    yield "mean", f"{of_mean} {has_bucket} unless on ({on}) {SUMMARY}{{{dialect.matchers}}}"


def _quantile(quantile: str, dialect: Dialect) -> str:
    return f'{SUMMARY}{{quantile="{quantile}", {dialect.matchers}}}'


def _bounds(limit_ms: float) -> str:
    """How a bucket's bound may be written: Prometheus 3 adds the `.0`."""
    plain = number(limit_ms).replace(".", "\\\\.")
    return f"{plain}|{plain}\\\\.0"


# ---- recorded for each workload


def _over_replicas(series: str, window: str, parameters: Parameters, function: str = "sum") -> str:
    """Sums: a replica that was there for a part of the window counts for that part."""
    dropped = ", ".join(
        dict.fromkeys((*parameters.replica_labels, *parameters.server_labels, parameters.version, "source"))
    )
    kept = [name for name in dropped.split(", ") if name not in parameters.workload_scope]
    return f"sum without ({', '.join(kept)}) ({function}_over_time({series}[{window}]))"


def _ratio(seconds: float, parameters: Parameters) -> Recording:
    window = duration_text(seconds)
    bad, total = (_over_replicas(series, window, parameters) for series in (BAD, ALL))
    return Recording(f"{RATIO}:{window}", f"{bad} / ({total} > 0)", {})


def _left(parameters: Parameters) -> Iterator[Recording]:
    """Of each budget what is left of its period; below zero when it is used up."""
    for place, objective in enumerate(parameters.objectives):
        window = duration_text(objective.days * DAY)
        for kind in _kinds(objective):
            own = f'{{slo="{slo_name(objective, place)}", objective="{kind.value}"}}'
            bad, total = (_over_replicas(series + own, window, parameters) for series in (BAD, ALL))
            text = f"1 - {bad} / ({total} > 0) / {number(_budget(objective, kind))}"
            yield Recording(f"{LEFT}:{window}", text, {})


# ---- alerts


def _burning(objective: Objective, place: int, kind: Kind, pair: Pair, parameters: Parameters) -> str:
    own = f'{{slo="{slo_name(objective, place)}", objective="{kind.value}"}}'
    limit = number(round(pair.rate(objective.days) * _budget(objective, kind), 9))
    long, short = duration_text(pair.long_seconds), duration_text(pair.short_seconds)
    hour = duration_text(HOUR)
    least = number(FLOOR_REQUESTS / HOUR)
    return "\n  ".join(
        (
            f"{RATIO}:{long}{own} > {limit}",
            f"and {RATIO}:{short}{own} > {limit}",
            f"and {_over_replicas(BAD + own, hour, parameters, 'avg')} >= {least}",
        )
    )


def _labels(severity: Severity, parameters: Parameters) -> dict[str, str]:
    found = {"severity": severity.value}
    if parameters.model != "model":
        found["model"] = f"{{{{ $labels.{parameters.model} }}}}"
    if parameters.team:
        found["team"] = f'{{{{ or $labels.team "{parameters.team}" }}}}'
    return found


def _texts(rulebook: Rulebook, kind: Kind, parameters: Parameters) -> dict[str, str]:
    rule = rulebook.rule(RULES[kind])
    model = f"$labels.{parameters.model}"
    return {
        "summary": f"{{{{ {model} }}}} of {{{{ $labels.{parameters.workload} }}}}: "
        f"{rule.title[0].lower()}{rule.title[1:]}",
        "description": " ".join(rule.sections["Meaning"].split("\n\n")[0].split()),
        "value": f"{'Failed' if kind is Kind.ERRORS else 'Slow'}: {{{{ $value | humanizePercentage }}}}",
        "impact": rule.impact,
        "action": plain_text(rule.sayings[-1].remedy, parameters),
        **runbook(rule.name, parameters),
        "dashboard_url": f"{{{{ with $externalLabels.tritonscope_url }}}}{{{{ . }}}}"
        f"/model?model={{{{ {model} | urlquery }}}}{{{{ end }}}}",
    }


def summary(objective: Objective) -> str:
    """An objective in words: `99.9 % without error, 95 % under 200 ms, over 30 days`."""
    parts = []
    if objective.errors_budget_ratio is not None:
        parts.append(f"{human(1.0 - objective.errors_budget_ratio, Unit.RATIO)} without error")
    if objective.latency_us is not None and objective.slow_budget_ratio is not None:
        share = human(1.0 - objective.slow_budget_ratio, Unit.RATIO)
        parts.append(f"{share} under {human(objective.latency_us, Unit.US)}")
    return f"{', '.join(parts)}, over {objective.days:g} days"
