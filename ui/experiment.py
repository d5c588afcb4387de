"""Serial against concurrent on the page: the order, the course, and both halves side by side."""

from __future__ import annotations

import numpy as np
import streamlit as st

import runtime
from charts.palette import INFER, NEUTRAL
from charts.spec import Draw, Spec, Trace
from control.actions import ActionKind
from control.performer import Job
from experiments.load import MAX_CONCURRENCY, MAX_REQUESTS, LoadFigures
from experiments.serial_vs_concurrent import (
    DEFAULT_CONCURRENCY,
    DEFAULT_REQUESTS,
    Comparison,
    Phase,
    Progress,
    experiment_work,
)
from telemetry.errors import ControlError
from telemetry.identity import ModelKey
from telemetry.units import Unit, human, significant
from ui import plot
from ui.format import value
from ui.html import Html, div, span, tag
from ui.panel import panel
from ui.test_answer import card, outcome, running, while_running
from ui.test_request import Prepared, job_of, press, pressed, refused, start

SESSION = "experiment_job"
_NO_SUCCESS = "no request succeeded"
_NOT_READ = "the server's statistics could not be read"


def section(key: ModelKey, prepared: Prepared | None, refusal: str) -> None:
    """The experiment under the form: `refusal` says why it cannot be started."""
    panel(
        div(
            "Serial against concurrent",
            span(
                "the request above, N times one after another, then several at a time: do batches form?",
                class_="ts-faint",
            ),
            class_="ts-h", style="margin-top:1rem",
        ),
        key="experiment_head",
    )  # fmt: skip
    job = job_of(SESSION)
    busy = job is not None and job.record.running
    count, together, go, halt = st.columns([2, 2, 3, 2], vertical_alignment="bottom")
    requests = count.number_input(
        "Requests", 1, MAX_REQUESTS, DEFAULT_REQUESTS, step=50, key="experiment_requests"
    )
    concurrency = together.number_input(
        "At the same time", 1, MAX_CONCURRENCY, DEFAULT_CONCURRENCY, key="experiment_concurrency"
    )
    ready = prepared is not None and prepared.request is not None
    go.button(
        "Run serial against concurrent", width="stretch", key="experiment_go", on_click=press,
        args=("experiment",), disabled=bool(refusal) or not ready or busy, help=refusal or None,
    )  # fmt: skip
    if pressed("experiment"):
        begin(prepared, int(requests), int(concurrency))
        # Drawn anew, so that the buttons above know that it runs.
        st.rerun()
    halt.button(
        "Stop", width="stretch", key="experiment_stop", on_click=stop, disabled=not busy,
        help="Ends the load; what was measured until then is shown.",
    )  # fmt: skip
    _show(job if busy else job_of(SESSION, key), refused(SESSION))


def begin(prepared: Prepared | None, requests: int, concurrency: int) -> None:
    """Start the experiment, once."""
    control = runtime.current().control
    if control is None or prepared is None or prepared.request is None:
        return
    try:
        work = experiment_work(control.reader, prepared.config, prepared.request, requests, concurrency)
    except ControlError as error:
        st.session_state[f"{SESSION} refused"] = error.sentence
        return
    start(SESSION, ActionKind.EXPERIMENT, prepared, work)


def stop() -> None:
    """Ask the experiment of this session to end."""
    job = job_of(SESSION)
    if job is not None:
        job.stop()


def _show(job: Job | None, refusal: str) -> None:
    if refusal:
        panel(card("NOT SENT", refusal, "ticket"), key="experiment")
    elif job is not None and job.record.running:
        while_running(job, lambda: _course(job), "experiment")
    elif job is not None:
        _ended(job)


def _course(job: Job) -> None:
    progress = job.progress
    serial = progress.serial if isinstance(progress, Progress) else None
    half = div(table([serial]), style="margin-top:.7rem") if serial is not None else None
    panel(running(job.record), half, key="experiment")


def _ended(job: Job) -> None:
    found = job.result
    if not isinstance(found, Comparison):
        panel(outcome(job.record, "DONE"), key="experiment")
        return
    phases = [phase for phase in (found.serial, found.concurrent) if phase is not None]
    left, right = st.columns([3, 2])
    with left:
        notes = [div(note, class_="ts-more") for note in found.notes]
        panel(
            outcome(job.record, "DONE"), div(table(phases), style="margin-top:.7rem"), notes, key="experiment"
        )
    with right:
        plot.figure(sizes_chart(phases), key="experiment_sizes", group="experiment")


def table(phases: list[Phase]) -> Html:
    """Both halves side by side, the clients' figures above the server's."""
    rows = [tag("tr", tag("td", name), [tag("td", cell, class_="ts-right") for cell in cells])
            for name, cells in _rows(phases)]  # fmt: skip
    heads = [tag("th", _title(phase), class_="ts-right") for phase in phases]
    body = tag("table", tag("thead", tag("tr", tag("th", ""), heads)), tag("tbody", rows), class_="ts-table")
    return div(body, class_="ts-scroll")


def _title(phase: Phase) -> str:
    return (
        phase.name
        if phase.clients.concurrency == 1
        else f"{phase.name}, {phase.clients.concurrency} at a time"
    )


def _rows(phases: list[Phase]) -> list[tuple[Html, list[Html]]]:
    clients = [phase.clients for phase in phases]
    rows = [
        (_label("requests answered"), [_answered(one) for one in clients]),
        (_label("total time"), [span(human(one.seconds, Unit.SECONDS)) for one in clients]),
        (
            _label("throughput", "successes / total time"),
            [_rate(one.throughput_per_second) for one in clients],
        ),
        (
            _label(
                "concurrency / response time",
                "QPS = concurrency / mean response time: a closed loop obeys it",
            ),
            [_rate(one.expected_per_second) for one in clients],
        ),
        (_label("mean latency", "what the clients waited"), [_wait(one.mean_us) for one in clients]),
        (_label("p95 latency"), [_wait(one.p95_us) for one in clients]),
        (_label("executions", "counted by the server"), [_count(one, "executions") for one in phases]),
        (_label("rows per execution", "inferences / executions"), [_mean(one) for one in phases]),
    ]
    for name in _steps(phases):
        rows.append((_label(f"rows per execution of {name}"), [_mean(one, name) for one in phases]))
    return rows


def _label(name: str, tip: str | None = None) -> Html:
    return span(name, data_tip=tip)


def _answered(one: LoadFigures) -> Html:
    failed = "\n".join(f"{count}: {sentence}" for sentence, count in one.errors.items())
    bad = span(f", {one.failed} failed", class_="ts-bad", data_tip=failed) if one.failed else None
    return span(str(one.succeeded), bad)


def _rate(rate: float | None) -> Html:
    return value(rate, Unit.PER_SECOND, why=_NO_SUCCESS)


def _wait(us: float | None) -> Html:
    return value(us, Unit.US, why=_NO_SUCCESS)


def _count(phase: Phase, name: str) -> Html:
    split = phase.split
    return value(None if split is None else getattr(split, name), Unit.COUNT, why=_NOT_READ)


def _mean(phase: Phase, model: str = "") -> Html:
    split = next((row for row in phase.server or () if row.model == (model or phase.model)), None)
    return value(None if split is None else split.batch_size_mean, Unit.NONE, why=_NOT_READ)


def _steps(phases: list[Phase]) -> list[str]:
    return list(
        dict.fromkeys(row.model for one in phases for row in one.server or () if row.model != one.model)
    )


def sizes_chart(phases: list[Phase]) -> Spec:
    """Executions by batch size; of an ensemble those of the step that batched most."""
    chosen = _batching_model(phases)
    found = [
        next((row.executions_by_batch_size for row in phase.server or () if row.model == chosen), {})
        for phase in phases
    ]
    sizes = sorted({size for one in found for size in one})
    traces = tuple(
        Trace(
            _title(phase),
            np.array([one.get(size, 0) for size in sizes], dtype=np.float64),
            color,
            draw=Draw.BAR,
        )
        for phase, one, color in zip(phases, found, (NEUTRAL, INFER), strict=False)
    )
    mean = significant(
        max((row.batch_size_mean or 0 for one in phases for row in one.server or ()), default=0)
    )
    spec = Spec(
        f"Batch sizes that formed, {chosen}", Unit.EXECUTIONS, tuple(str(size) for size in sizes), traces,
        x_title="rows in one execution", height=300,
        help=f"Executions of each size, counted by the server; mean up to {mean}.",
    )  # fmt: skip
    return spec.or_empty("The server's statistics gave no executions for this time.")


def _batching_model(phases: list[Phase]) -> str:
    rows = [row for one in phases for row in one.server or () if row.executions_by_batch_size]
    fullest = max(rows, key=lambda row: row.batch_size_mean or 0.0, default=None)
    own = phases[0].model
    return own if fullest is None or (fullest.batch_size_mean or 0) <= 1 else fullest.model
