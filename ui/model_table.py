"""The table of models: state and harm visible in the row, cards instead of the table on a phone."""

from __future__ import annotations

from collections.abc import Sequence

from signals.definition import Level
from telemetry.units import NOT_REPORTED, Unit, human
from ui.drift import drift_badge
from ui.filters import Filters
from ui.format import NO_BATCH, formula, raw_tip
from ui.html import Child, Html, div, join, link, span, tag
from ui.model_rows import PARTS, ModelRow
from ui.slo import budget
from ui.swatch import swatch
from ui.tiles import spark

PAGE_ROWS = 50
"""Rows shown at once; the search finds the others."""
_COLUMNS = 10


def model_table(rows: Sequence[ModelRow], filters: Filters, *, several_servers: bool) -> Html:
    """The rows given, in their order, as a table on wide screens and as cards on narrow ones."""
    with_budget = any(row.budget is not None for row in rows)
    return join(
        div(
            tag(
                "table",
                _head(with_budget),
                tag("tbody", [_row(row, filters, several_servers, with_budget) for row in rows]),
                class_="ts-table",
            ),
            class_="ts-scroll ts-wide",
        ),
        div([_card(row, filters, several_servers) for row in rows], class_="ts-cards"),
        _split_legend(),
    )


def _head(with_budget: bool) -> Html:
    right = ("req/s", "failed", "queue per request", "latency")
    return tag(
        "thead",
        tag(
            "tr",
            tag("th", "model"),
            tag("th", "state"),
            [tag("th", name, class_="ts-right") for name in right],
            tag("th", "latency split"),
            [tag("th", name, class_="ts-right") for name in ("batch / max", "pending", "VRAM")],
            tag("th", "budget", class_="ts-right") if with_budget else None,
        ),
    )


def _split_legend() -> Html:
    return div(
        [span(tag("i", class_=f"ts-key {part}"), part) for part in PARTS],
        span("failed: counted by the server only; refusals for a full queue are in no counter"),
        class_="ts-legend-line",
    )


def _row(row: ModelRow, filters: Filters, several_servers: bool, with_budget: bool) -> Html:
    head = (tag("td", _name(row, filters, several_servers)), tag("td", _state(row)))
    if row.figures is None or row.reason:
        cells: list[Html] = [
            tag("td", span(row.reason), colspan=str(_COLUMNS - 2 + with_budget), class_="ts-why")
        ]
    else:
        cells = [
            tag(
                "td",
                _number(row, "requests_per_second", Unit.NONE),
                class_="ts-right",
            ),
            tag("td", _failed(row), class_="ts-right"),
            tag("td", _queue(row), class_="ts-right"),
            tag(
                "td",
                _number(row, "request_us_mean", Unit.US),
                class_="ts-right",
            ),
            tag("td", _split(row)),
            tag("td", _batch(row), class_="ts-right"),
            tag("td", _number(row, "pending", Unit.NONE), class_="ts-right"),
            tag("td", _memory(row), class_="ts-right"),
            *([tag("td", budget(row.budget), class_="ts-right")] if with_budget else []),
        ]
    severity = row.severity.value if row.severity is not None else ""
    classes = f"{severity} {'ts-stale' if row.stale else ''}".strip() or None
    return tag("tr", *head, cells, class_=classes, data_row=True, data_key=_key(row))


def _card(row: ModelRow, filters: Filters, several_servers: bool) -> Html:
    severity = row.severity.value if row.severity is not None else ""
    facts: list[tuple[str, Child]] = [
        ("req/s", _number(row, "requests_per_second", Unit.NONE)),
        ("failed", _failed(row)),
        ("latency", _number(row, "request_us_mean", Unit.US)),
        ("queue", _number(row, "queue_us_mean", Unit.US)),
        ("batch / max", _batch(row)),
        ("pending", _number(row, "pending", Unit.NONE)),
    ]
    if row.budget is not None:
        facts.append(("budget", budget(row.budget)))
    hidden = row.figures is None or bool(row.reason) or row.idle
    words = row.reason or (row.why("request_us_mean") if hidden else "")
    return div(
        tag("header", _name(row, filters, several_servers), _state(row)),
        div(words, class_="ts-why") if words else None,
        None if hidden else tag("dl", [div(tag("dt", name), tag("dd", value)) for name, value in facts]),
        None if hidden else _split(row),
        class_=f"ts-card {severity}".rstrip(),
        data_row=True,
        data_key=_key(row),
    )


def _key(row: ModelRow) -> str:
    return "\n".join((row.key.server, row.key.name, row.key.version))


def _name(row: ModelRow, filters: Filters, several_servers: bool) -> Html:
    key = row.key
    params = filters.params(
        server=key.server if several_servers else filters.server, model=key.name, version=key.version
    )
    server = f" on {key.server}" if several_servers else ""
    return span(
        swatch(key.name),
        link(key.name, "model", params, class_="ts-name", data_tip=key.name if len(key.name) > 30 else None),
        span(f"v{key.version}{server}" if key.version else server, class_="ts-faint"),
        drift_badge(row.facts),
        class_="ts-model",
    )


def _state(row: ModelRow) -> Html:
    return span(
        join(row.state, f" · {row.stale}" if row.stale else None), class_=f"ts-state {row.state_class}"
    )


def _number(row: ModelRow, signal: str, unit: Unit) -> Html:
    value = row.number(signal)
    if value is None:
        return _missing(row.why(signal))
    return span(human(value, unit), data_tip=raw_tip(value, unit, formula(signal, Level.MODEL)))


def _missing(why: str) -> Html:
    return span(NOT_REPORTED, class_="ts-none", data_tip=why)


def _failed(row: ModelRow) -> Html:
    ratio = row.number("failed_ratio")
    if ratio is None:
        return _missing(row.why("failed_ratio"))
    if ratio == 0:
        return span(
            "0",
            data_tip=f"{formula('failed_ratio', Level.MODEL)}\nno failure counted in the window",
            class_="ts-faint",
        )
    reasons = (row.figures.signals.mapping("failures_by_reason") if row.figures else None) or {}
    named = "\n".join(
        f"{reason or 'no reason given'}: {count:g}" for reason, count in reasons.items() if count
    )
    return span(
        human(ratio, Unit.RATIO),
        class_="ts-bad",
        data_tip=raw_tip(ratio, Unit.RATIO, f"{formula('failed_ratio', Level.MODEL)}\n{named}"),
    )


def _queue(row: ModelRow) -> Html:
    number = _number(row, "queue_us_mean", Unit.US)
    return span(number, spark(row.queue_course), class_="ts-withspark")


def _split(row: ModelRow) -> Html:
    split = row.split
    if split is None:
        return _missing(row.why("compute_infer_us_mean"))
    tip = "\n".join(f"{part}: {human(share, Unit.RATIO)}" for part, share in zip(PARTS, split, strict=True))
    bars = [
        tag("i", class_=part, style=f"width:{share * 100:.1f}%")
        for part, share in zip(PARTS, split, strict=True)
        if share > 0
    ]
    return span(bars, class_="ts-split", data_tip=tip, role="img", aria_label=tip.replace("\n", ", "))


def _batch(row: ModelRow) -> Html:
    mean, largest = row.number("batch_size_mean"), row.max_batch_size
    if mean is None:
        return _missing(row.why("batch_size_mean"))
    if mean < 1:
        tip = f"{NO_BATCH}\n{raw_tip(mean, Unit.BATCH, formula('batch_size_mean', Level.MODEL))}"
        return span(NOT_REPORTED, class_="ts-none", data_tip=tip)
    limit = span(f" / {largest}", class_="ts-faint") if largest else None
    return span(
        human(mean, Unit.NONE),
        limit,
        data_tip=raw_tip(mean, Unit.BATCH, formula("batch_size_mean", Level.MODEL)),
    )


def _memory(row: ModelRow) -> Html:
    size = row.gpu_memory_bytes
    if size is None:
        return _missing(row.why("gpu_memory"))
    bound = "≥ " if any(one.shown.lower_bound for one in row.held) else ""
    words = "\n".join(f"{one.shown.source.value}: {one.shown.words}" for one in row.held)
    return span(f"{bound}{human(size, Unit.BYTES)}", data_tip=raw_tip(size, Unit.BYTES, words))
