"""The answer on the page Test request as golden request; drawn only for who may send requests."""

from __future__ import annotations

import streamlit as st

import runtime
from control.expected_answers import Mode, expected_of
from control.golden import GoldenRequests
from control.performer import Job
from control.saved_requests import SavedRequest, saved_from
from control.test_requests import TestAnswer
from telemetry.actions import Outcome
from telemetry.errors import ControlError
from telemetry.identity import ModelKey
from telemetry.units import Unit, human
from ui.format import utc
from ui.html import Html, div, tag
from ui.panel import panel
from ui.person import me
from ui.saved_requests import mode_words
from ui.test_request import press, pressed, sent_steps

HOW = (
    "None is kept for this server. To keep golden requests, name a folder in tritonscope.yml: golden: path. "
    "They are sent every few minutes, and checked again after a reload."
)
_LEAST_BOUND_MS = 100.0
_BOUND_TIMES = 10.0
"""The bound that is proposed: so many times what this answer took."""


def section(key: ModelKey, job: Job | None) -> None:
    """A fold with the golden request of this model, and the way to take this answer for it."""
    control = runtime.current().control
    with st.expander("Golden request"):
        if control is None or not control.golden.kept_for(key.server):
            panel(div(HOW, class_="ts-faint"), key="golden_none")
            return
        try:
            _draw(control.golden, key, job)
        except ControlError as error:
            panel(div(error.sentence, class_="ts-bad", role="alert"), key="golden_error")


def _draw(golden: GoldenRequests, key: ModelKey, job: Job | None) -> None:
    if pressed("golden remove"):
        golden.remove(key.server, key.name)
    answered = _answered(job)
    if answered is None:
        words = "Send a request first: its answer can become what is expected every few minutes."
        panel(div(words, class_="ts-more"), key="golden_wait")
    else:
        _form(golden, key, answered, job)
    kept = golden.of(key.server).get(key.name)
    if kept is None:
        return
    panel(_facts(kept, key), key="golden_facts")
    st.button("Remove it", key="golden_remove", on_click=press, args=("golden remove",), type="tertiary")


def _answered(job: Job | None) -> TestAnswer | None:
    if job is None or job.record.outcome is not Outcome.DONE or not isinstance(job.result, TestAnswer):
        return None
    return job.result if job.result.replies and sent_steps(job) else None


def _form(golden: GoldenRequests, key: ModelKey, answer: TestAnswer, job: Job) -> None:
    slowest_ms = max(reply.latency_us for reply in answer.replies) / 1e3
    how, near, bound = st.columns([3, 2, 2], vertical_alignment="bottom")
    mode = how.selectbox("Compare", list(Mode), index=1, key="golden mode", format_func=str)
    near_by = near.number_input(
        "Tolerance", 0.0, value=1e-5, format="%g", key="golden tolerance",
        disabled=mode is not Mode.TOLERANCE,
        help="Of each value; a tenth of it counts near 0.",
    )  # fmt: skip
    limit = bound.number_input(
        "At most, ms", 0.0, value=max(_LEAST_BOUND_MS, round(_BOUND_TIMES * slowest_ms, -1)), format="%g",
        key="golden bound",
        help=f"This answer took {human(slowest_ms * 1e3, Unit.US)}. 0: however long it takes.",
    )  # fmt: skip
    st.button(
        "Save as golden request", key="golden_save", on_click=press, args=("golden save",), width="stretch"
    )
    if not pressed("golden save"):
        return
    good = expected_of(
        answer.replies, Mode(mode), relative=near_by, absolute=near_by / 10.0,
        latency_bound_us=limit * 1e3 if limit else None,
    )  # fmt: skip
    golden.keep(saved_from(f"golden request of {key.name}"[:80], me().name, sent_steps(job), good))
    prober = runtime.current().golden
    if prober is not None:
        prober.poke(key.server)


def _facts(kept: SavedRequest, key: ModelKey) -> Html:
    expected = mode_words(kept.expected) if kept.expected else "nothing"
    rows = [
        ("kept", f"{kept.name}, since {utc(kept.saved_at)}, by {kept.by}; no retention removes it"),
        ("expected", expected),
        ("asked", _asked(key)),
    ]
    return tag("dl", [[tag("dt", name), tag("dd", words)] for name, words in rows], class_="ts-lines")


def _asked(key: ModelKey) -> str:
    process = runtime.current()
    if process.golden is None:
        return "not by itself"
    facts = next((one for one in process.inventory().models if one.key == key), None)
    why = process.golden.why_not(key.server, key.name, facts.config if facts is not None else None)
    if why:
        return f"not by itself: {why}"
    minutes = process.golden.every_minutes(key.server)
    return "every minute" if minutes == 1.0 else f"every {minutes:g} minutes"
