"""The answer of a test request: outputs as exact text, the client's wait, and the server's split of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import streamlit as st

from control.inference import Reply
from control.performer import Job
from control.server_split import ModelSplit, ServerSplit
from control.tensors import element_texts
from control.test_requests import TestAnswer
from telemetry.actions import Outcome, Record
from telemetry.units import Unit, human
from ui.answer_outputs import outputs
from ui.empty import empty_state
from ui.format import clock, raw_tip, utc, value
from ui.html import Html, div, join, span, tag
from ui.panel import panel

SHOWN_REPLIES = 200
_SHOWN_LETTERS = 60
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


def answer(job: Job | None, refused: str, judge: Callable[[Job], None]) -> None:
    """The right half of the page; `judge` says whether the answer is what was expected of it."""
    if refused:
        panel(card("NOT SENT", refused, "ticket"), key="answer")
        return
    if job is None:
        panel(empty_state("Nothing has been sent yet.", "The answer appears here."), key="answer")
        return
    if job.record.running:
        while_running(job, lambda: panel(running(job.record), key="answer"), "answer")
        return
    panel(outcome(job.record), key="answer")
    judge(job)
    if isinstance(job.result, TestAnswer):
        _replies(job.result.replies, job.id)
        panel(
            div("Where the time went", span(job.result.split.sentence, class_="ts-faint"), class_="ts-h"),
            split_table(
                job.result.split,
                sum(reply.latency_us for reply in _waits(job.result)),
                "until the last response" if job.result.streamed else "this client waited",
            ),
            key="answer_split",
        )


def _waits(found: TestAnswer) -> tuple[Reply, ...]:
    """The replies whose waits add up to the client's: the steps of a sequence; of a stream the last one.

    Each latency of a stream counts from the sending.
    """
    return found.replies[-1:] if found.streamed else found.replies


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


def _replies(replies: tuple[Reply, ...], job_id: int) -> None:
    """The outputs; of several replies a list, and the outputs of a chosen one."""
    if len(replies) == 1:
        outputs(replies[0].outputs, f"{job_id} 0")
        return
    if not replies:
        return
    panel(reply_list(replies), key=f"replies {job_id}")
    place = st.selectbox(
        "Outputs of reply", range(1, len(replies) + 1), index=len(replies) - 1, key=f"reply {job_id}"
    )
    chosen = replies[place - 1]
    if chosen.error:
        panel(div(chosen.error, class_="ts-bad"), key=f"reply error {job_id}")
    outputs(chosen.outputs, f"{job_id} {place - 1}")


def reply_list(replies: tuple[Reply, ...]) -> Html:
    """One line for each reply: when it came, and its first values."""
    rows = [
        tag(
            "tr", tag("td", str(place + 1), class_="ts-faint"),
            tag("td", human(reply.latency_us, Unit.US), class_="ts-right"),
            tag("td", _gist(reply), class_="ts-bad" if reply.error else None, style="overflow-wrap:anywhere"),
        )
        for place, reply in enumerate(replies[:SHOWN_REPLIES])
    ]  # fmt: skip
    heads = [tag("th", "reply"), tag("th", "after", class_="ts-right"), tag("th", "first values")]
    more = len(replies) - len(rows)
    return div(
        div(tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="ts-table"),
            class_="ts-scroll ts-tall", style="max-height:18rem"),
        div(f"and {more:,} more: choose one below", class_="ts-more") if more > 0 else None,
        style="margin-top:.7rem",
    )  # fmt: skip


def _gist(reply: Reply) -> str:
    if reply.error:
        return reply.error[:200]
    parts = []
    for tensor in reply.outputs:
        texts = " ".join(element_texts(tensor.array, 4))
        cut = len(texts) > _SHOWN_LETTERS or tensor.array.size > 4
        parts.append(f"{tensor.name} = {texts[:_SHOWN_LETTERS]}{' …' if cut else ''}")
    return ", ".join(parts)


def split_table(split: ServerSplit, latency_us: float, waited_for: str = "this client waited") -> Html:
    """The client's wait (named `waited_for`), then the server's split for the model and its steps."""
    heads = [tag("th", "")] + [
        tag("th", name, class_="ts-right") for name in ("in all", "queue", "input", "infer", "output")
    ]
    waited = span(
        human(latency_us, Unit.US),
        data_tip=raw_tip(latency_us, Unit.US, "sending, the server, receiving, over an open connection"),
    )
    client = tag(
        "tr", tag("td", waited_for, span(", network included", class_="ts-faint")),
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
