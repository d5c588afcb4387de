"""Measured loads as tables: every figure of a few loads, or one line for each of many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from experiments.comparison import inferences_per_second
from experiments.figures import LoadFigures
from experiments.measure import Measurement
from experiments.report import RunKind
from experiments.sweep import capacity, knee
from telemetry.units import Unit, human
from ui.format import value
from ui.html import Child, Html, div, span, tag

NO_SUCCESS = "no request succeeded"
NOT_READ = "the server's statistics could not be read"
_NO_INSTANCES = "not known: an ensemble has no instances, or the statistics could not be read"
_NO_GPU = "the server reports no GPU"

_WRAPPED = "white-space:normal"
"""A phone shows two columns only if long titles may break."""
Cell = Callable[[Measurement], Html]


def details(titles: Sequence[str], measurements: Sequence[Measurement]) -> Html:
    """One column for each load, all figures below each other: the clients' first, then the server's."""
    rows = []
    for title, tip, cell in _ROWS:
        cells = [tag("td", cell(one), class_="ts-right", style=_WRAPPED) for one in measurements]
        rows.append(tag("tr", tag("td", span(title, data_tip=tip or None)), cells))
    if any(one.clients.open_loop for one in measurements):
        cells = [tag("td", _sent(one), class_="ts-right") for one in measurements]
        tip = "without the time a request that was due had to wait before it was sent"
        rows.insert(
            len(_CLIENT_ROWS), tag("tr", tag("td", span("p99 from the sending", data_tip=tip)), cells)
        )
    for name in _steps(measurements):
        cells = [tag("td", _rows_per_execution(one, name), class_="ts-right") for one in measurements]
        rows.append(tag("tr", tag("td", f"rows per execution of {name}"), cells))
    heads = [tag("th", title, class_="ts-right", style=_WRAPPED) for title in titles]
    return _table([tag("th", ""), *heads], rows)


def lines(
    kind: RunKind,
    measurements: Sequence[Measurement],
    settings: Mapping[str, str] = MappingProxyType({}),
    max_p99_us: float | None = None,
) -> Html:
    """One line for each load: a sweep, or the table form of a comparison of configurations."""
    if kind is RunKind.SWEEP:
        return _sweep(measurements, max_p99_us)
    return _comparison(measurements, settings)


def _sweep(measurements: Sequence[Measurement], max_p99_us: float | None) -> Html:
    heads = (
        ("at a time", ""), ("requests/s", "successes / time"),
        ("concurrency / response time", "QPS = concurrency / mean response time"), ("mean", ""), ("p50", ""),
        ("p99", ""), ("failed", ""), ("rows per execution", "by the server"),
        ("in queue", "mean, by the server"), ("busy", "share of the instances' time"), ("", ""),
    )  # fmt: skip
    marked = knee(measurements)
    carried = capacity(measurements, max_p99_us) if max_p99_us else None
    rows = []
    for one in measurements:
        badges = [span("knee", class_="ts-badge ticket")] if one is marked else []
        if one is carried:
            badges.append(span(f"most at p99 ≤ {human(max_p99_us, Unit.US)}", class_="ts-badge"))
        cells = (
            span(str(one.clients.concurrency)), _rate(one.clients.throughput_per_second),
            _rate(one.clients.expected_per_second), _wait(one.clients.mean_us), _wait(one.clients.p50_us),
            _wait(one.clients.p99_us), _failed(one.clients), _rows_per_execution(one), _queue(one),
            _busy(one), span(badges),
        )  # fmt: skip
        rows.append(tag("tr", [tag("td", cell, class_="ts-right") for cell in cells]))
    return _table([_head(*head) for head in heads], rows)


def _comparison(measurements: Sequence[Measurement], settings: Mapping[str, str]) -> Html:
    heads = (
        ("configuration", ""), ("throughput", "rows answered per second, infer/s"),
        ("mean latency", "clients"), ("p99", "clients"),
        ("GPU utilization", "mean of the busiest GPU"), ("instances busy", ""),
        ("rows per execution", "by the server"), ("requests", "answered"), ("failed", ""),
    )  # fmt: skip
    rows = []
    for one in measurements:
        setting = settings.get(one.label, "")
        words = div(setting, class_="ts-faint", style="font-size:.86rem") if setting else None
        cells = (
            value(inferences_per_second(one), Unit.PER_SECOND, why=NOT_READ), _wait(one.clients.mean_us),
            _wait(one.clients.p99_us), _gpu(one), _busy(one), _rows_per_execution(one),
            span(f"{one.clients.succeeded:,}"), _failed(one.clients),
        )  # fmt: skip
        name = tag("td", tag("b", one.label), words, style="min-width:13rem")
        rows.append(tag("tr", name, [tag("td", cell, class_="ts-right") for cell in cells]))
    first, *rest = heads
    return _table([tag("th", first[0]), *(_head(*head) for head in rest)], rows)


def _head(title: str, tip: str) -> Html:
    return tag("th", span(title, data_tip=tip or None), class_="ts-right")


def _table(heads: list[Child], rows: list[Child]) -> Html:
    body = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="ts-table")
    return div(body, class_="ts-scroll")


# ---- cells


def _rate(rate: float | None) -> Html:
    return value(rate, Unit.PER_SECOND, why=NO_SUCCESS)


def _wait(us: float | None) -> Html:
    return value(us, Unit.US, why=NO_SUCCESS)


def _expected(one: Measurement) -> Html:
    if one.clients.open_loop:
        return value(None, Unit.PER_SECOND, why="an open loop sends by the clock")
    return _rate(one.clients.expected_per_second)


def _sent(one: Measurement) -> Html:
    return _wait(one.clients.service_p99_us)


def _failed(clients: LoadFigures) -> Html:
    if not clients.failed:
        return span("0")
    kinds = "\n".join(f"{count}: {sentence}" for sentence, count in clients.errors.items())
    shown = f"{clients.failed:,} ({human(clients.failed_ratio, Unit.RATIO)})"
    return span(shown, class_="ts-bad", data_tip=kinds, tabindex="0")


def _of_split(name: str, unit: Unit) -> Cell:
    def cell(one: Measurement) -> Html:
        return value(None if one.split is None else getattr(one.split, name), unit, why=NOT_READ)

    return cell


def _rows_per_execution(one: Measurement, model: str = "") -> Html:
    split = one.server.of(model or one.model) if one.server is not None else None
    return value(None if split is None else split.batch_size_mean, Unit.NONE, why=NOT_READ)


def _queue(one: Measurement) -> Html:
    return _of_split("queue_us", Unit.US)(one)


def _busy(one: Measurement) -> Html:
    return value(one.busy_ratio, Unit.RATIO, why=_NO_INSTANCES)


def _gpu(one: Measurement) -> Html:
    return value(one.gpu_ratio, Unit.RATIO, why=_NO_GPU)


def _others(one: Measurement) -> Html:
    others = one.others
    return value(None if others is None else float(others), Unit.COUNT, why=NOT_READ)


_CLIENT_ROWS: tuple[tuple[str, str, Cell], ...] = (
    ("load", "", lambda one: span(one.plan.words)),
    ("requests answered", "", lambda one: span(f"{one.clients.succeeded:,}")),
    ("failed", "", lambda one: _failed(one.clients)),
    (
        "total time",
        "from the start to the last answer",
        lambda one: span(human(one.clients.seconds, Unit.SECONDS)),
    ),
    ("throughput", "successes / total time", lambda one: _rate(one.clients.throughput_per_second)),
    (
        "concurrency / response time",
        "QPS = concurrency / mean response time: a closed loop obeys it",
        _expected,
    ),
    ("mean latency", "what the clients waited", lambda one: _wait(one.clients.mean_us)),
    ("p50", "", lambda one: _wait(one.clients.p50_us)),
    ("p90", "", lambda one: _wait(one.clients.p90_us)),
    ("p95", "", lambda one: _wait(one.clients.p95_us)),
    ("p99", "", lambda one: _wait(one.clients.p99_us)),
    ("max", "", lambda one: _wait(one.clients.max_us)),
)
_SERVER_ROWS: tuple[tuple[str, str, Cell], ...] = (
    (
        "requests at the server",
        "counted over the same interval, everybody's",
        _of_split("requests", Unit.COUNT),
    ),
    ("of others", "requests of the model that are not ours", _others),
    ("in queue", "mean per request", _of_split("queue_us", Unit.US)),
    ("input", "mean per request", _of_split("compute_input_us", Unit.US)),
    ("infer", "mean per request", _of_split("compute_infer_us", Unit.US)),
    ("output", "mean per request", _of_split("compute_output_us", Unit.US)),
    ("executions", "", _of_split("executions", Unit.COUNT)),
    ("rows per execution", "inferences / executions", _rows_per_execution),
    ("instances busy", "compute time of all executions / (time x instances)", _busy),
    ("GPU utilization", "mean of the busiest GPU over the load", _gpu),
)
_ROWS = (*_CLIENT_ROWS, *_SERVER_ROWS)


def _steps(measurements: Sequence[Measurement]) -> list[str]:
    """The steps of an ensemble, which batch for it."""
    return list(
        dict.fromkeys(
            row.model
            for one in measurements
            for row in (one.server.rows if one.server is not None else ())
            if row.model != one.model
        )
    )
