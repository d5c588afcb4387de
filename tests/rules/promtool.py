"""The same scenarios as a real Prometheus sees them: the exporter's families are made by the exporter's code.

A scenario's readings become promtool's input series; what must be found becomes a query over ALERTS. Nothing
of a situation is written twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collectors.config import parse_config
from collectors.exporter_reading import Answers
from collectors.exporter_values import exported
from prometheus.parameters import Parameters
from telemetry.catalogue import CATALOGUE, Kind
from telemetry.facts import ModelConfig, ModelState
from telemetry.identity import Server
from telemetry.scrape import Series
from tests.rules.series import HTTP, UP, Scenario
from triage.rulebook import load_rulebook

Columns = dict[tuple[tuple[str, str], ...], list[float | None]]
"""Labels of one series, its name as `__name__` among them -> its values by tick."""
Relabel = Callable[[dict[str, str]], dict[str, str]]

TRITON_JOB, EXPORTER_JOB = "triton", "tritonscope-exporter"


def plain(labels: dict[str, str]) -> dict[str, str]:
    """The labels as prometheus.yml makes them."""
    return labels


def foreign(labels: dict[str, str]) -> dict[str, str]:
    """Labels of an Operator on top, none of which has a name of Triton's."""
    server = labels["instance"]
    return labels | {
        "cluster": "prod",
        "namespace": "serving",
        "pod": f"triton-{server}",
        "container": "triton",
        "endpoint": "metrics",
        "service": "triton",
        "prometheus_replica": "prometheus-0",
    }


def operated(labels: dict[str, str]) -> dict[str, str]:
    """As an Operator leaves them that maps a pod label `version`: Triton's own becomes exported_version.

    The exporter is a sidecar with an instance of its own, so only namespace and pod name the server.
    """
    server = labels["instance"]
    own = {"exported_version": labels["version"]} if "version" in labels else {}
    port = "9105" if labels["job"] == EXPORTER_JOB else "8002"
    return (
        foreign(labels) | own | {"version": "1.4", "instance": f"10.0.0.7:{port}", "pod": f"triton-{server}"}
    )


OPERATOR = Parameters(
    server="namespace, pod", version="exported_version", up_selector='job="triton", container="triton"'
)
"""Build parameters for the labels of `operated`."""


# ---- series


def columns(scenario: Scenario) -> Columns:
    """Every series of a scenario with its values: as written, and what the exporter and `up` add."""
    found: Columns = {}
    for server, rows in scenario.series.items():
        own = {"instance": server} | ({"workload": scenario.workload} if scenario.workload else {})
        for tick in range(scenario.ticks):
            if not scenario.listed(server, tick):
                continue
            up = _at(rows, UP, tick, 1.0)
            http = up and _at(rows, HTTP, tick, 1.0)
            for labels, value in _readings(scenario, server, tick, bool(up), bool(http)):
                column = found.setdefault(_key(labels | own), [None] * scenario.ticks)
                column[tick] = value
    return found


def _readings(
    scenario: Scenario, server: str, tick: int, up: bool, http: bool
) -> Iterator[tuple[dict[str, str], float]]:
    rows = scenario.series[server]
    yield {"__name__": "up", "job": TRITON_JOB}, float(up)
    for series, values in rows.items():
        ours = series.name.startswith("tritonscope_")
        value = values[tick] if tick < len(values) else None
        if series not in (UP, HTTP) and value is not None and (http if ours else up):
            job = EXPORTER_JOB if ours else TRITON_JOB
            yield dict(series.labels) | {"__name__": series.name, "job": job}, value
    if scenario.has_exporter:
        for labels, value in _exporter(scenario, server, tick, http):
            yield labels | {"job": EXPORTER_JOB}, value


def _exporter(
    scenario: Scenario, server: str, tick: int, http: bool
) -> Iterator[tuple[dict[str, str], float]]:
    for source in ("index", "statistics") if server in scenario.indexes else ("statistics",):
        yield {"__name__": "tritonscope_exporter_source_success", "source": source}, float(http)
    if not http:
        return
    answers = _answers(scenario, server, tick)
    for family in exported(False):
        for values, number in family.values(answers) if family.values else ():
            yield dict(zip(family.label_names, values, strict=True)) | {"__name__": family.family}, number


def _answers(scenario: Scenario, server: str, tick: int) -> Answers:
    index = scenario.index_at(server, tick)
    ready = [(entry.name, entry.version) for entry in index or () if entry.state is ModelState.READY]
    if index is None:
        ready = sorted(set(_seen(scenario.series[server], tick)))
    configs: dict[str, ModelConfig] = {}
    for name in scenario.configs:
        config = parse_config({"name": name, **scenario.config_at(server, name, tick)})
        if config is not None and name in {one for one, _ in ready}:
            configs[name] = config
    return Answers(Server("s", None, None), index=index, configs=configs, ready=tuple(ready))


def _seen(rows: Mapping[Series, Sequence[float | None]], tick: int) -> Iterator[tuple[str, str]]:
    for series, values in rows.items():
        if series.label("model") and tick < len(values) and values[tick] is not None:
            yield series.label("model"), series.label("version")


def _at(rows: Mapping[Series, Sequence[float | None]], series: Series, tick: int, default: float) -> float:
    if series not in rows:
        return default
    return float(rows[series][tick] or 0.0) if tick < len(rows[series]) else 0.0


def _key(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in labels.items() if value))


def slower(found: Columns, factor: float, parts: int) -> Columns:
    """The same rates `factor` times as slow, each interval in `parts`: counters grow by as much more."""
    return {
        labels: _counted(column, factor, parts)
        if _is_counter(dict(labels)["__name__"])
        else _held(column, parts)
        for labels, column in found.items()
    }


def _held(column: Sequence[float | None], parts: int) -> list[float | None]:
    return [value for value in column for _ in range(parts)]


def _counted(column: Sequence[float | None], factor: float, parts: int) -> list[float | None]:
    grown: list[float | None] = []
    for value, after in zip(column, [*column[1:], None], strict=True):
        # Not over a gap, nor back over a reset: the counter then stands until it is read again.
        step = 0.0 if value is None or after is None or after < value else (after - value) / parts
        grown += [None if value is None else factor * (value + part * step) for part in range(parts)]
    return grown


def _is_counter(name: str) -> bool:
    row = CATALOGUE.get(name)
    return name.endswith(("_summary_us_count", "_summary_us_sum")) or (
        row is not None and row.kind is Kind.COUNTER
    )


# ---- promtool's notation


def notation(values: Sequence[float | None]) -> str:
    """Values as promtool reads them; a series that is missing from a reading is stale, as in Prometheus."""
    words: list[str] = []
    start = 0
    while start < len(values):
        end = start + 1
        if values[start] is None:
            while end < len(values) and values[end] is None:
                end += 1
            if start:
                words.append("stale")
            if end - start > bool(start):
                words.append(f"_x{end - start - bool(start)}")
        else:
            step = _step(values, start)
            while end < len(values) and _follows(values, end, step):
                end += 1
            words.append(_run(values[start] or 0.0, step, end - start))
        start = end
    return " ".join(words)


def _step(values: Sequence[float | None], start: int) -> float:
    first, second = values[start], values[start + 1] if start + 1 < len(values) else None
    return 0.0 if first is None or second is None else second - first


def _follows(values: Sequence[float | None], end: int, step: float) -> bool:
    before, value = values[end - 1], values[end]
    return before is not None and value is not None and value - before == step


def _run(first: float, step: float, count: int) -> str:
    if count == 1:
        return f"{first:.17g}"
    return f"{first:.17g}{step:+.17g}x{count - 1}"


# ---- tests


@dataclass(frozen=True)
class Case:
    """One promtool test: a scenario as it is scraped, and queries with what they must answer."""

    name: str
    interval_seconds: float
    series: Columns
    checks: tuple[tuple[float, str, tuple[tuple[str, float], ...]], ...]
    relabel: Relabel = plain

    def row(self) -> dict[str, Any]:
        """As promtool reads it."""
        return {
            "name": self.name,
            "interval": f"{round(self.interval_seconds * 1e3)}ms",
            "input_series": [
                {"series": _selector(self.relabel(dict(labels))), "values": notation(values)}
                for labels, values in self.series.items()
            ],
            "promql_expr_test": [
                {
                    "expr": expression,
                    "eval_time": f"{round(seconds * 1e3)}ms",
                    "exp_samples": [{"labels": labels, "value": value} for labels, value in samples],
                }
                for seconds, expression, samples in self.checks
            ],
        }


def _selector(labels: dict[str, str]) -> str:
    name = labels.pop("__name__")
    quoted = (f'{key}="{_escaped(value)}"' for key, value in sorted(labels.items()))
    return f"{name}{{{', '.join(quoted)}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# ---- what is asked


def _firing(severities: str, more: str) -> str:
    return f'ALERTS{{alertstate="firing", severity=~"{severities}", {more}}}'


def worst(more: str) -> str:
    """Firing alerts, of each subject the most severe of a name: as findings are said."""
    on = "on (alertname, instance, model, version)"
    page, ticket, info = (_firing(one, more) for one in ("page", "ticket", "info"))
    return f"({page} or ({ticket} unless {on} {page}) or ({info} unless {on} {_firing('page|ticket', more)}))"


FOUND = (
    f"count by (alertname, severity, model, version) ({worst('model!=' + chr(34) * 2)})"
    f" or count by (alertname, severity, instance) ({worst('model=' + chr(34) * 2)})"
)
"""What fires, in the form of a scenario's findings."""


def samples(findings: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """What FOUND answers for findings written as `Rule severity subject`."""
    counts: dict[str, float] = {}
    for finding in findings:
        rule, severity, subject = finding.split(" ", 2)
        if load_rulebook().rule(rule).alert.app_only:
            continue
        labels = f'{{alertname="{rule}", {_subject(rule, subject)}severity="{severity}"}}'
        counts[labels] = counts.get(labels, 0.0) + 1.0
    return tuple(counts.items())


def _subject(rule: str, subject: str) -> str:
    if load_rulebook().rule(rule).level.value == "server":
        return f'instance="{subject}", '
    name, _, version = subject.rpartition(" v")
    return f'model="{name}", version="{version}", ' if name else f'model="{subject}", '


def agreement(scenario: Scenario) -> Case:
    """The scenario as it is, at its own interval: whatever the app finds fires, and nothing else."""
    checks: list[tuple[float, str, tuple[tuple[str, float], ...]]] = []
    interval = scenario.interval_seconds
    last = (scenario.ticks - 1) * interval
    for one in scenario.expect:
        wanted = one.alerts
        slow = any(load_rulebook().rule(row.split()[0]).alert.for_seconds for row in wanted)
        at = one.alerts_at_seconds
        at = at if at is not None else one.at_seconds + (2 if slow else 1) * interval
        checks.append((min(at, last), FOUND, samples(wanted)))
    if scenario.quiet:
        whole = f"{round(last + interval)}s"
        checks.append((last, f'max_over_time(ALERTS{{alertstate="firing"}}[{whole}])', ()))
    return Case(scenario.name, interval, columns(scenario), tuple(checks))


def slowed(scenario: Scenario, interval_seconds: float, rule: str, relabel: Relabel) -> Case:
    """The scenario with scrapes so far apart, the rates as they were: the rule fires at some time."""
    factor = interval_seconds / scenario.interval_seconds
    # Rules that look further back in Prometheus than in the app need a scenario that lasts as much longer.
    reach = max(
        (long / short for short, long in load_rulebook().rule(rule).alert.windows.items()), default=1.0
    )
    parts = max(1, math.ceil(reach / factor))
    series = slower(columns(scenario), factor * parts, parts)
    last = (scenario.ticks * parts - 1) * interval_seconds
    whole = f"{round(last + interval_seconds)}s"
    fired = f'max_over_time(ALERTS{{alertname="{rule}", alertstate="firing"}}[{whole}])'
    check = (last, f"count(count by (alertname) ({fired}))", (("{}", 1.0),))
    return Case(f"{rule}: {scenario.name}", interval_seconds, series, (check,), relabel)


def agreeing(scenario: Scenario) -> Parameters:
    """Rules with the app's windows, for scrapes as often as the scenario's readings."""
    return replace(
        Parameters(),
        scrape_interval_seconds=scenario.interval_seconds,
        window_seconds=scenario.window_seconds,
        stretch=False,
        longest_for_seconds=1.5 * scenario.interval_seconds,
        choices=scenario.choices,
        objectives=scenario.objectives,
    )


def quietly(scenario: Scenario) -> Case:
    """The scenario as it is: nothing fires at any time."""
    last = (scenario.ticks - 1) * scenario.interval_seconds
    whole = f"{round(last + scenario.interval_seconds)}s"
    check = (last, f'max_over_time(ALERTS{{alertstate="firing"}}[{whole}])', ())
    return Case(scenario.name, scenario.interval_seconds, columns(scenario), (check,))
