"""The exporter's page about one server: constant metrics made anew from each reading, within a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from collectors.exporter_reading import Answers
from collectors.exporter_values import (
    Exported,
    Values,
    batch_sizes,
    bounds,
    exported,
    families_by_importance,
)
from telemetry.catalogue import Kind
from telemetry.catalogue import Metric as Definition
from telemetry.identity import Server
from telemetry.transport import host_of
from telemetry.units import Unit


def _health(name: str, unit: Unit, labels: tuple[str, ...], text: str) -> Definition:
    return Definition(f"tritonscope_exporter_{name}", Kind.GAUGE, unit, labels, text)


_SOURCE = ("source",)
HEALTH: tuple[Definition, ...] = (
    _health("source_success", Unit.NONE, _SOURCE, "1 if the source answered when last asked, else 0"),
    _health("source_duration_seconds", Unit.SECONDS, _SOURCE, "Time the last reading of the source took"),
    _health(
        "source_age_seconds",
        Unit.SECONDS,
        _SOURCE,
        "Age of what is published of the source; absent if nothing is",
    ),
    _health("source_notices", Unit.COUNT, _SOURCE, "Entries of the answer that could not be used"),
    _health(
        "model_configs",
        Unit.COUNT,
        ("state",),
        "Ready models whose configuration is known, pending (read over the next scrapes) or unreadable "
        "(the HTTP API cannot take the name)",
    ),
    _health("series", Unit.COUNT, (), "Series of this server, without those about the exporter"),
    _health("series_budget", Unit.COUNT, (), "Most series that are published of one server"),
    _health(
        "series_dropped",
        Unit.COUNT,
        ("family",),
        "Series left out because they are more than the budget, by family; absent while nothing is left out",
    ),
)
"""Families about the reading itself: always published, outside the budget, the most important first."""

_OWN_LABELS = {label for row, _ in families_by_importance() for label in row.labels} | {"le"}
DEFAULT_MAX_SERIES = 50_000


@dataclass(frozen=True, slots=True)
class Options:
    """What the command may change: raw batch sizes as labels, and the most series of one server."""

    raw_batch_sizes: bool = False
    max_series: int = DEFAULT_MAX_SERIES


def instance_of(server: Server) -> str:
    """The label `instance` of the server's own series: from `match`, else host:port of its metrics page."""
    known = dict(server.match).get("instance")
    return known or host_of(server.metrics_url or server.http_url or "")


def server_labels(server: Server) -> dict[str, str]:
    """Labels of every series: `instance`, and the rest of `match` but for names our families use."""
    matched = {name: value for name, value in server.match if name not in _OWN_LABELS}
    return {**matched, "instance": instance_of(server)}


def families(answers: Answers, options: Options) -> list[Metric]:
    """All families about one server, those about its reading first; at most the budget of series.

    A family goes wholly or not at all: a part of the models would look like all of them.
    """
    base = server_labels(answers.server)
    found = [_family(one, answers, base) for one in exported(options.raw_batch_sizes)]
    kept, dropped = _within([family for family in found if family.samples], options.max_series)
    return [*_about_reading(answers, base, kept, dropped, options.max_series), *kept]


def _within(found: list[Metric], budget: int) -> tuple[list[Metric], list[Metric]]:
    """The families that fit and those that do not: the least important go until the rest fits."""
    kept, dropped = list(found), []
    total = sum(len(family.samples) for family in found)
    while kept and total > budget:
        dropped.append(kept.pop())
        total -= len(dropped[-1].samples)
    return kept, dropped


def _family(one: Exported, answers: Answers, base: Mapping[str, str]) -> Metric:
    if one.values is None:
        return _batch_sizes(one.definition, answers, base)
    return _filled(one.definition, one.label_names, base, one.values(answers))


def _filled(row: Definition, labels: Sequence[str], base: Mapping[str, str], values: Values) -> Metric:
    """Of equal series the first counts, as Prometheus takes it."""
    kind = CounterMetricFamily if row.kind is Kind.COUNTER else GaugeMetricFamily
    family = kind(row.family, row.help, labels=[*base, *labels])
    first: dict[tuple[str, ...], float] = {}
    for own, number in values:
        first.setdefault(own, number)
    for own, number in first.items():
        family.add_metric([*base.values(), *own], number)
    return family


def _batch_sizes(row: Definition, answers: Answers, base: Mapping[str, str]) -> Metric:
    family = HistogramMetricFamily(row.family, row.help, labels=[*base, *row.labels])
    for model, sizes, largest in batch_sizes(answers):
        # Prometheus 3 would write le="8" as "8.0", version 2 keeps what it reads: "8.0" is "8.0" in both.
        buckets = [
            (_text(bound), float(sum(count for size, count in sizes if size <= bound)))
            for bound in (*bounds(largest, [size for size, _ in sizes]), float("inf"))
        ]
        family.add_metric(
            [*base.values(), *model], buckets, float(sum(size * count for size, count in sizes))
        )
    return family


def _text(bound: float) -> str:
    return str(floatToGoString(bound))  # type: ignore[no-untyped-call]


def _about_reading(
    answers: Answers, base: Mapping[str, str], kept: list[Metric], dropped: list[Metric], budget: int
) -> list[Metric]:
    values: dict[str, Values] = {
        "source_success": (
            ((state.source,), float(state.success)) for state in answers.sources if state.success is not None
        ),
        "source_duration_seconds": (
            ((state.source,), state.duration_seconds)
            for state in answers.sources
            if state.duration_seconds is not None
        ),
        "source_age_seconds": (
            ((state.source,), state.age_seconds) for state in answers.sources if state.age_seconds is not None
        ),
        "source_notices": (
            ((state.source,), float(state.notices)) for state in answers.sources if state.success is not None
        ),
        "model_configs": iter(
            (
                (("known",), float(len(answers.configs))),
                (("pending",), float(answers.configs_pending)),
                (("unreadable",), float(answers.configs_unreadable)),
            )
        ),
        "series": iter([((), float(sum(len(family.samples) for family in kept)))]),
        "series_budget": iter([((), float(budget))]),
        "series_dropped": (((_name(family),), float(len(family.samples))) for family in dropped),
    }
    found = [
        _filled(row, row.labels, base, values[row.family.removeprefix("tritonscope_exporter_")])
        for row in HEALTH
    ]
    return [family for family in found if family.samples]


def _name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name
