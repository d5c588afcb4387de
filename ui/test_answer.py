"""The answer of a test request: outputs as exact text, the client's wait, and the server's split of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import streamlit as st

from control.actions import Outcome, Record
from control.inference import Tensor
from control.performer import Job
from control.server_split import ModelSplit, ServerSplit
from control.tensors import FLOAT_TYPES, INTEGER_TYPES, element_texts, show_shape
from control.test_requests import TestAnswer
from telemetry.units import Unit, human, significant
from ui.empty import empty_state
from ui.format import clock, raw_tip, utc, value
from ui.html import Html, copy_button, div, join, span, tag
from ui.panel import panel

SHOWN_ELEMENTS = 200
_PARTS = (
    ("queue", "queue_us"), ("input", "compute_input_us"),
    ("infer", "compute_infer_us"), ("output", "compute_output_us"),
)  # fmt: skip
_POLL_SECONDS = 0.4


def while_running(job: Job, draw: Callable[[], None], name: str) -> None:
    """Draw again and again until the job has ended, then run the whole page once more."""

    def body() -> None:
        draw()
        if not job.record.running:
            st.rerun()

    body.__qualname__ = f"while_running.{name}"
    st.fragment(body, run_every=_POLL_SECONDS)()


def answer(job: Job | None, refused: str) -> None:
    """The right half of the page."""
    if refused:
        panel(card("NOT SENT", refused, "ticket"), key="answer")
        return
    if job is None:
        panel(empty_state("Nothing has been sent yet.", "The answer appears here."), key="answer")
        return
    if job.record.running:
        while_running(job, lambda: panel(running(job.record), key="answer"), "answer")
        return
    panel(
        outcome(job.record), _body(job.result) if isinstance(job.result, TestAnswer) else None, key="answer"
    )


def running(record: Record) -> Html:
    """What goes on now, and for how long."""
    words = record.summary(time.time())
    return card("RUNNING", words[:1].upper() + words[1:], "info")


def outcome(record: Record, done: str = "ANSWERED") -> Html:
    """How it ended, with the server's own text behind a fold; `done` is the word for a good end."""
    words = {
        Outcome.DONE: (done, "info"),
        Outcome.REFUSED: ("NOT SENT", "ticket"),
        Outcome.STOPPED: ("STOPPED", "info"),
        Outcome.UNKNOWN: ("UNKNOWN", "ticket"),
    }
    word, severity = words.get(record.outcome, ("FAILED", "page"))
    return card(word, record.sentence, severity, record)


def card(word: str, sentence: str, severity: str, record: Record | None = None) -> Html:
    """One sentence with a word for its kind; the raw text behind a fold."""
    detail = record.detail if record is not None else None
    fold = tag("summary", "the server's text"), tag("pre", detail, class_="ts-pre")
    at = span(clock(record.started_at, seconds=True), data_tip=utc(record.started_at)) if record else None
    return div(
        span(word, class_="ts-tag"), div(sentence, class_="ts-sentence"), div(at, class_="ts-since"),
        tag("details", *fold) if detail else None,
        class_=f"ts-finding {severity}", role="status",
    )  # fmt: skip


def _body(found: TestAnswer) -> Html:
    return div(
        [output(tensor) for tensor in found.reply.outputs],
        div("Where the time went", span(found.split.sentence, class_="ts-faint"), class_="ts-h"),
        split_table(found.split, found.reply.latency_us),
        style="margin-top:.7rem",
    )


def output(tensor: Tensor) -> Html:
    """One output: its first elements as exact text, and how many there are."""
    texts = element_texts(tensor.array, SHOWN_ELEMENTS)
    more = tensor.array.size - len(texts)
    shown = "\n".join(texts) if tensor.datatype == "BYTES" else "  ".join(texts)
    return div(
        div(
            tag("b", tensor.name),
            span(f"{tensor.datatype} {show_shape(tensor.shape)}", class_="ts-faint"),
            span(_summary(tensor), class_="ts-faint"),
            copy_button(shown),
            class_="ts-h",
        ),
        tag("pre", shown, class_="ts-pre", style="white-space:pre-wrap;margin-top:0"),
        div(f"and {more:,} more", class_="ts-more") if more else None,
    )


def _summary(tensor: Tensor) -> str:
    """Range and mean of many numbers; what is not finite is counted, not averaged in."""
    if tensor.datatype not in (*FLOAT_TYPES, *INTEGER_TYPES) or tensor.array.size < 2:
        return ""
    numbers = tensor.array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    odd = f", {numbers.size - finite.size} not finite" if finite.size < numbers.size else ""
    if not finite.size:
        return f"no finite value of {numbers.size}"
    low, mean, high = (significant(float(one)) for one in (finite.min(), finite.mean(), finite.max()))
    return f"min {low}, mean {mean}, max {high}{odd}"


def split_table(split: ServerSplit, latency_us: float) -> Html:
    """The client's wait in one row, then the server's split for the model and its steps."""
    heads = [tag("th", "")] + [
        tag("th", name, class_="ts-right") for name in ("in all", "queue", "input", "infer", "output")
    ]
    waited = span(
        human(latency_us, Unit.US),
        data_tip=raw_tip(latency_us, Unit.US, "sending, the server, receiving, over an open connection"),
    )
    client = tag(
        "tr", tag("td", "this client waited", span(", network included", class_="ts-faint")),
        tag("td", waited, class_="ts-right"), tag("td", "", colspan="4"),
    )  # fmt: skip
    # An ensemble executes nothing itself: its first row has only its time in all, the parts are its steps'.
    ensemble = len({row.model for row in split.rows}) > 1
    whole = split.rows[0].model if ensemble else None
    body = tag("tbody", client, [_split_row(row, row.model == whole) for row in split.rows])
    table = tag("table", tag("thead", tag("tr", heads)), body, class_="ts-table")
    bars = [_bar(row) for row in split.rows if row.model != whole]
    legend = [span(tag("i", class_=f"ts-key {part}"), part) for part, _ in _PARTS]
    return join(
        div(table, class_="ts-scroll"), div(legend, class_="ts-legend-line") if any(bars) else None, *bars
    )


def _split_row(row: ModelSplit, whole: bool) -> Html:
    why = "the statistics do not report it"
    cells = [value(row.request_us, Unit.US, why=why, formula="success.ns / success.count")]
    for part, name in _PARTS:
        us, reason = (None, "an ensemble's time is that of its steps") if whole else (getattr(row, name), why)
        cells.append(value(us, Unit.US, why=reason, formula=f"{part}.ns / requests"))
    sizes = ", ".join(f"{count} of size {size}" for size, count in row.executions_by_batch_size.items())
    who = span(f"{row.model} v{row.version}", data_tip=f"executions: {sizes}" if sizes else None)
    return tag("tr", tag("td", who), [tag("td", cell, class_="ts-right") for cell in cells])


def _bar(row: ModelSplit) -> Html | None:
    parts = [(part, getattr(row, name)) for part, name in _PARTS]
    total = sum(us for _, us in parts if us)
    if not total or any(us is None for _, us in parts):
        return None
    shares = [(part, us / total) for part, us in parts]
    tip = "\n".join(f"{part}: {human(share, Unit.RATIO)}" for part, share in shares)
    bars = [tag("i", class_=part, style=f"width:{share * 100:.1f}%") for part, share in shares if share > 0]
    return div(
        div(row.model, class_="ts-faint", style="font-size:.84rem"),
        span(
            bars, class_="ts-split", style="width:100%", data_tip=tip, role="img",
            aria_label=tip.replace("\n", ", "),
        ),
    )  # fmt: skip
