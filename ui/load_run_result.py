"""A run on the page: what goes on, or what it found, as sentence, table and charts."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import streamlit as st

from charts import load_runs as charts
from charts.spec import Spec
from control.performer import Job
from experiments.load_process import LoadProgress
from experiments.measure import WARM_UP, Measurement
from experiments.report import RunKind, RunProgress, RunReport
from experiments.sweep import knee
from telemetry.scrape import FloatArray
from telemetry.units import Unit, human
from ui import load_run_tables as tables
from ui import plot
from ui.format import clock, utc, value
from ui.html import Child, Html, div, span
from ui.load_run_timeline import timeline
from ui.panel import panel
from ui.test_answer import card, outcome, running

GROUP = "load_run"
_TOO_SHORT_SECONDS = 0.05
"""The very first progress comes before anything can have ended."""


# ---- while it runs


def course(job: Job) -> None:
    """What goes on now: the load under way as it happens, above the loads that are complete."""
    progress = job.progress
    if not isinstance(progress, RunProgress):
        panel(running(job.record), key="load_run")
        return
    latest = progress.latest
    panel(
        running(job.record),
        _bar(progress),
        _now(latest, progress) if latest is not None and latest.phase != WARM_UP else None,
        key="load_run",
    )
    if latest is not None and latest.phase != WARM_UP:
        points = live_course(progress.course, time.time())
        left, right = st.columns(2)
        with left:
            plot.figure(
                charts.throughput_course(job.record.action.model, points), key="load_run_rate", group=GROUP
            )
        with right:
            plot.figure(
                charts.latency_course(points, max_p99_us=progress.plan.max_p99_us),
                key="load_run_wait",
                group=GROUP,
            )
    if progress.done:
        panel(_so_far(progress), key="load_run_done")


def _so_far(progress: RunProgress) -> Html:
    if progress.kind in (RunKind.SWEEP, RunKind.COMPARISON):
        return tables.lines(progress.kind, progress.done)
    return tables.details([_title(one) for one in progress.done], progress.done)


def live_course(points: Sequence[LoadProgress], now: float) -> charts.Course:
    """The progress so far as a course that ends at unix time `now`."""
    known = [point for point in points if point.seconds > _TOO_SHORT_SECONDS]
    seconds = np.array([point.seconds for point in known])
    widths = np.maximum(np.diff(seconds, prepend=0.0), 1e-3)
    end = seconds[-1] if len(seconds) else 0.0
    return charts.Course(
        times=now - end + seconds,
        per_second=np.array([point.recent_done for point in known]) / widths,
        failed_per_second=np.array([point.recent_failed for point in known]) / widths,
        p50_us=_known(point.p50_us for point in known),
        p99_us=_known(point.p99_us for point in known),
    )


def _bar(progress: RunProgress) -> Html:
    """How much of the whole run is done."""
    plan, latest = progress.plan, progress.latest
    part = 0.0
    if latest is not None and latest.phase != WARM_UP:
        if plan.seconds:
            part = latest.seconds / plan.seconds
        elif plan.requests:
            part = (latest.done + latest.failed) / plan.requests
    share = (len(progress.done) + min(1.0, part)) / progress.total
    words = f"load {progress.number} of {progress.total}" if progress.total > 1 else ""
    if progress.label:
        words += f": {progress.label}"
    filled = f"width:{min(1.0, share) * 100:.0f}%;height:100%;background:var(--infer);border-radius:3px"
    return div(
        div(
            div(style=filled),
            style="height:6px;border-radius:3px;margin:.6rem 0 .3rem;"
            "background:color-mix(in srgb, var(--st-text-color) 12%, transparent)",
            role="progressbar", aria_valuenow=f"{share * 100:.0f}",
        ),
        div(words, class_="ts-faint", style="font-size:.88rem") if words else None,
    )  # fmt: skip


def _now(latest: LoadProgress, progress: RunProgress) -> Html:
    before = progress.course[-2].seconds if len(progress.course) > 1 else 0.0
    width = max(latest.seconds - before, 1e-3)
    cells = [
        ("answered", span(f"{latest.done:,}")),
        ("failed", span(f"{latest.failed:,}", class_="ts-bad" if latest.failed else None)),
        ("requests/s", value(latest.recent_done / width, Unit.PER_SECOND, why="")),
        ("p50", value(latest.p50_us, Unit.US, why=tables.NO_SUCCESS)),
        ("p99", value(latest.p99_us, Unit.US, why=tables.NO_SUCCESS)),
        ("under way", span(str(latest.under_way))),
    ]
    return figures(cells)


def figures(cells: Sequence[tuple[str, Child]]) -> Html:
    """Small figures with their names, side by side."""
    boxes = [
        div(
            div(name, class_="ts-faint", style="font-size:.84rem"), div(shown, style="font-size:1.16rem"),
            style="min-width:5.2rem",
        )
        for name, shown in cells
    ]  # fmt: skip
    return div(boxes, style="display:flex;flex-wrap:wrap;gap:.4rem 1.4rem;margin-top:.6rem")


# ---- what it found


def ended(job: Job) -> None:
    """The end of a run of this session: its report, or why there is none."""
    if isinstance(job.result, RunReport):
        show(job.result, outcome(job.record, "DONE"))
    else:
        panel(outcome(job.record, "DONE"), key="load_run")


def show(report: RunReport, head: Html | None = None) -> None:
    """One report, new or saved."""
    notes = [div(note, class_="ts-more") for note in report.notes]
    panel(head or _saved_head(report), notes, key="load_run")
    if not report.measurements:
        return
    {
        RunKind.LOAD: _load,
        RunKind.SERIAL: _serial,
        RunKind.SWEEP: _sweep,
        RunKind.COMPARISON: _comparison,
    }[report.kind](report)


def _saved_head(report: RunReport) -> Html:
    word = "DONE" if report.complete else "STOPPED"
    return div(
        span(word, class_="ts-tag"), div(report.sentence, class_="ts-sentence"),
        div(span(clock(report.at, seconds=True), data_tip=utc(report.at)), class_="ts-since"),
        class_="ts-finding info",
    )  # fmt: skip


def _load(report: RunReport) -> None:
    one = report.measurements[0]
    clients = one.clients
    panel(
        figures(
            [
                ("throughput", value(clients.throughput_per_second, Unit.PER_SECOND, why=tables.NO_SUCCESS)),
                ("p50", value(clients.p50_us, Unit.US, why=tables.NO_SUCCESS)),
                ("p99", value(clients.p99_us, Unit.US, why=tables.NO_SUCCESS)),
                ("failed", span(human(clients.failed_ratio, Unit.RATIO))),
                ("rows per execution", value(
                    one.split.batch_size_mean if one.split else None, Unit.NONE, why=tables.NOT_READ)),
                ("instances busy", value(one.busy_ratio, Unit.RATIO, why="not known")),
            ]
        ),
        key="load_run_figures",
    )  # fmt: skip
    points = measured_course(one)
    left, right = st.columns(2)
    with left:
        plot.figure(charts.throughput_course(report.model, points), key="load_run_rate", group=GROUP)
        _table(report, ["load"])
    with right:
        plot.figure(
            charts.latency_course(points, max_p99_us=one.plan.max_p99_us), key="load_run_wait", group=GROUP
        )
        plot.figure(_sizes(report), key="load_run_sizes", group="load_run_sizes")


def _serial(report: RunReport) -> None:
    pair = report.measurements
    if len(pair) == 2:
        panel(timeline(pair[0], pair[1]), key="load_run_timeline")
    left, right = st.columns([3, 2])
    with left:
        _table(report, [_title(one) for one in pair])
    with right:
        plot.figure(_sizes(report), key="load_run_sizes", group="load_run_sizes")
        plot.figure(_split(report), key="load_run_split", group="load_run_split")


def _sweep(report: RunReport) -> None:
    steps = report.measurements
    concurrencies = [one.clients.concurrency for one in steps]
    marked = knee(steps)
    place = steps.index(marked) if marked is not None else None
    left, right = st.columns(2)
    rates = _known(one.clients.throughput_per_second for one in steps)
    with left:
        plot.figure(
            charts.sweep_throughput(report.model, concurrencies, rates, place),
            key="load_run_rate", group="sweep_rate",
        )  # fmt: skip
    with right:
        p50, p99 = (_known(getattr(one.clients, name) for one in steps) for name in ("p50_us", "p99_us"))
        plot.figure(
            charts.sweep_latency(concurrencies, p50, p99, report.max_p99_us),
            key="load_run_wait", group="sweep_wait",
        )  # fmt: skip
    panel(_lines(report), key="load_run_table")
    plot.figure(_split(report), key="load_run_split", group="load_run_split")


def _comparison(report: RunReport) -> None:
    panel(_lines(report), key="load_run_table")
    rows = report.measurements
    labels = [one.label for one in rows]
    rates = _known(one.clients.throughput_per_second for one in rows)
    mean, p99 = (_known(getattr(one.clients, name) for one in rows) for name in ("mean_us", "p99_us"))
    left, right = st.columns(2)
    with left:
        plot.figure(charts.arms_throughput(labels, rates), key="load_run_rate", group="arms_rate")
        plot.figure(_sizes(report), key="load_run_sizes", group="load_run_sizes")
    with right:
        plot.figure(charts.arms_latency(labels, mean, p99), key="load_run_wait", group="arms_wait")
        plot.figure(_split(report), key="load_run_split", group="load_run_split")


def _lines(report: RunReport) -> Html:
    return tables.lines(report.kind, report.measurements, report.settings, report.max_p99_us)


def _table(report: RunReport, titles: Sequence[str]) -> None:
    panel(tables.details(titles, report.measurements), key="load_run_table")


def _title(one: Measurement) -> str:
    if one.clients.concurrency == 1:
        return one.label
    return f"{one.label}, {one.clients.concurrency} at a time"


def measured_course(one: Measurement) -> charts.Course:
    """The course of an ended load, at the times it had."""
    points = one.clients.course
    return charts.Course(
        times=one.began_at + np.array([point.seconds for point in points]),
        per_second=np.array([point.per_second for point in points]),
        failed_per_second=np.array([point.failed_per_second for point in points]),
        p50_us=_known(point.p50_us for point in points),
        p99_us=_known(point.p99_us for point in points),
    )


def _sizes(report: RunReport) -> Spec:
    """Batch sizes of the model, or of the step of an ensemble that batched most."""
    rows = [row for one in report.measurements for row in (one.server.rows if one.server else ())]
    executed = [row for row in rows if row.executions]
    fullest = max(executed, key=lambda row: row.batch_size_mean or 0.0, default=None)
    own = fullest is None or (fullest.batch_size_mean or 0.0) <= 1.0
    chosen = report.model if own else fullest.model
    found = {}
    for one in report.measurements:
        split = one.server.of(chosen) if one.server is not None else None
        found[one.label] = split.executions_by_batch_size if split is not None else {}
    return charts.batch_sizes(chosen, found)


def _split(report: RunReport) -> Spec:
    names = {
        "queue": "queue_us",
        "input": "compute_input_us",
        "infer": "compute_infer_us",
        "output": "compute_output_us",
    }
    parts = {
        part: _known(
            getattr(one.split, field) if one.split is not None else None for one in report.measurements
        )
        for part, field in names.items()
    }
    return charts.split([one.label or "load" for one in report.measurements], parts)


def _known(values) -> FloatArray:
    return np.array([np.nan if one is None else one for one in values], dtype=np.float64)


def refusal(sentence: str) -> None:
    """Why nothing was sent."""
    panel(card("NOT SENT", sentence, "ticket"), key="load_run")
