"""The report as text for people: one line per server, model and GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from signals.definition import Level
from signals.definitions import definition
from signals.report import Report, Signals
from telemetry.units import human

_MODEL_COLUMNS = (
    ("requests", "requests_total"),
    ("req/s", "requests_per_second"),
    ("failed", "failed_ratio"),
    ("request", "request_us_mean"),
    ("queue", "queue_us_mean"),
    ("batch", "batch_size_mean"),
    ("busy", "instance_busy_ratio"),
    ("pending", "pending"),
)
_GPU_COLUMNS = (
    ("utilization", "utilization_ratio"),
    ("memory used", "memory_used_bytes"),
    ("of", "memory_total_bytes"),
    ("power", "power_watts"),
)
_HOST_COLUMNS = (
    ("CPU", "cpu_ratio"),
    ("memory used", "memory_used_bytes"),
    ("of", "memory_total_bytes"),
    ("pinned used", "pinned_memory_used_bytes"),
)
_OTHER_ROWS = 40


def to_text(report: Report) -> str:
    """Several small tables; an en dash is what was not reported."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    if report.window_seconds is None:
        yield "One reading: totals and means since the server's start"
    else:
        yield f"Over the last {report.window_seconds:g} s"
    yield from _section(
        "SERVER",
        _MODEL_COLUMNS,
        Level.SERVER,
        [(row.server, row.signals) for row in report.servers],
    )
    yield from _section(
        "MODEL",
        _MODEL_COLUMNS,
        Level.MODEL,
        [
            (f"{row.key.label()} {row.state.value if row.state is not None else ''}".rstrip(), row.signals)
            for row in report.models
        ],
    )
    if not report.models:
        yield "No model is loaded, or none has reported yet."
    yield from _section("GPU", _GPU_COLUMNS, Level.GPU, [(row.key.uuid, row.signals) for row in report.gpus])
    if not report.gpus:
        yield "No GPU metrics are reported."
    yield from _section("HOST", _HOST_COLUMNS, Level.HOST, [(row.server, row.signals) for row in report.host])
    yield from _other(report)
    yield from _warnings(report)


def _section(
    title: str,
    columns: Sequence[tuple[str, str]],
    level: Level,
    rows: Sequence[tuple[str, Signals]],
) -> Iterator[str]:
    if not rows:
        return
    show: list[Callable[[Signals], str]] = [_cell(name, level) for _, name in columns]
    table = [[title, *(head for head, _ in columns)]]
    table += [[name, *(cell(signals) for cell in show)] for name, signals in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    yield ""
    for line in table:
        first, *rest = line
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        yield "  ".join(cells).rstrip()


def _cell(name: str, level: Level) -> Callable[[Signals], str]:
    unit = definition(name, level).unit
    return lambda signals: human(signals.number(name), unit)


def _other(report: Report) -> Iterator[str]:
    if not report.other:
        return
    yield ""
    yield "OTHER METRICS"
    for row in report.other[:_OTHER_ROWS]:
        labels = ", ".join(f'{name}="{value}"' for name, value in row.labels.items())
        mean = "" if row.mean is None else f" (mean {row.mean:g})"
        yield f"{row.family}{{{labels}}} {row.text}{mean}"
    if len(report.other) > _OTHER_ROWS:
        yield f"... and {len(report.other) - _OTHER_ROWS} more"


def _warnings(report: Report) -> Iterator[str]:
    if report.notices:
        yield ""
    for notice in report.notices:
        line = "" if notice.line is None else f", line {notice.line}"
        yield f"Warning: {notice.source}{line}: {notice.text}"
