"""Saved requests on the page: keep the form's request, send a kept one again, say what its answer should be.

Drawn only for somebody who may send test requests: the page sees to that.
"""

from __future__ import annotations

import streamlit as st

import runtime
from control.expected_answers import Expected, Mode, compare, expected_of
from control.inference import sent_as
from control.performer import Job
from control.saved_requests import SavedRequest, SavedRequests, request_of, saved_from
from control.test_requests import TestAnswer
from telemetry.errors import ControlError
from telemetry.facts import ModelConfig
from telemetry.identity import ModelKey
from telemetry.units import Unit, human
from ui.format import utc
from ui.html import Html, div, span, tag
from ui.panel import panel
from ui.person import me
from ui.test_request import Prepared, prepared_of, press, pressed, send

HOW = (
    "Nothing is saved here. To keep requests, name a folder in tritonscope.yml: saved_requests: path. "
    "They hold what was sent and answered, and are removed after retention_days."
)
_SENT = "saved request sent"
"""Session key: which saved request the last test request was, and that job's id."""


def section(key: ModelKey, config: ModelConfig, prepared: Prepared, job: Job | None) -> None:
    """A fold with what is kept for this model."""
    control = runtime.current().control
    store = control.saved if control is not None else None
    with st.expander("Saved requests"):
        if store is None:
            panel(div(HOW, class_="ts-faint"), key="saved_none")
            return
        try:
            _draw(store, key, config, prepared, job)
        except ControlError as error:
            panel(div(error.sentence, class_="ts-bad", role="alert"), key="saved_error")


def verdict(job: Job | None) -> None:
    """Whether the answer is what was expected of the saved request it came from."""
    saved = _sent_one(job)
    if saved is None or saved.expected is None or job is None or not isinstance(job.result, TestAnswer):
        return
    found = compare(job.result.replies, saved.expected)
    words = [*found.differences, *([found.too_slow] if found.too_slow else [])]
    shown = div(
        span("AS EXPECTED" if found.as_expected else "DIFFERENT", class_="ts-tag"),
        div(
            f"{saved.name}: {mode_words(saved.expected)}." if found.as_expected else f"{saved.name}: ",
            [div(sentence) for sentence in words], class_="ts-sentence",
        ),
        class_=f"ts-finding {'info' if found.as_expected else 'page'}", role="status",
        style="margin-top:.45rem",
    )  # fmt: skip
    panel(shown, key="verdict")


def _draw(
    store: SavedRequests, key: ModelKey, config: ModelConfig, prepared: Prepared, job: Job | None
) -> None:
    if pressed("save request") and prepared.request is not None:
        _save(store, prepared)
    name, go = st.columns([3, 2], vertical_alignment="bottom")
    name.text_input("Name", key="saved name", placeholder="a name for the request of the form")
    go.button(
        "Save this request", key="save_request", on_click=press, args=("save request",), width="stretch",
        disabled=prepared.request is None,
    )  # fmt: skip
    # They hold data of users of the server they were made for.
    mine = (saved for saved in store.requests(key.name) if me().sees_details(saved.server))
    kept = {saved.id: saved for saved in mine}
    if not kept:
        days = f"{store.retention_days:g} days"
        words = f"No request is kept for {key.name}. What is saved is removed after {days}."
        panel(div(words, class_="ts-more"), key="saved_empty")
        return
    if st.session_state.get("saved choice") not in kept:
        st.session_state["saved choice"] = next(iter(kept))
    chosen = kept[
        st.selectbox("Kept", list(kept), key="saved choice", format_func=lambda one: kept[one].name)
    ]
    panel(_facts(config, chosen, store.retention_days), key="saved_facts")
    again, away = st.columns(2)
    again.button("Send it again", key="saved_send", on_click=press, args=("saved send",), width="stretch")
    away.button("Remove it", key="saved_remove", on_click=press, args=("saved remove",), width="stretch")
    if pressed("saved send"):
        _send(key, config, chosen)
    if pressed("saved remove"):
        store.delete(chosen.id)
        st.rerun()
    _expectation(store, chosen, job)


def _save(store: SavedRequests, prepared: Prepared) -> None:
    try:
        kept = saved_from(st.session_state.get("saved name", ""), me().name, prepared.steps)
        store.save(kept)
    except ControlError as error:
        panel(div(error.sentence, class_="ts-bad", role="alert"), key="saved_error")
        return
    st.session_state["saved choice"] = kept.id


def _send(key: ModelKey, config: ModelConfig, saved: SavedRequest) -> None:
    requests = request_of(saved, key.server)
    ready = prepared_of(config, requests, 1, [])
    if ready.request is None:
        panel(div(ready.refusal, class_="ts-bad", role="alert"), key="saved_refused")
        return
    before = st.session_state.get("test_job")
    send(ready)
    # A second click of the same moment sends nothing.
    if st.session_state.get("test_job") != before:
        st.session_state[_SENT] = (st.session_state["test_job"], saved.id)
    st.rerun()


def _expectation(store: SavedRequests, saved: SavedRequest, job: Job | None) -> None:
    """Take the last answer of this request for what is expected from now on."""
    sent = _sent_one(job)
    answered = sent is not None and sent.id == saved.id and isinstance(job.result, TestAnswer)
    if not answered and saved.expected is None:
        panel(div("Send it again to say what its answer should be.", class_="ts-more"), key="saved_expect")
        return
    how, bound, go = st.columns([3, 2, 3], vertical_alignment="bottom")
    mode = how.selectbox("Compare", list(Mode), key="saved mode", format_func=str)
    limit = bound.number_input(
        "At most, ms", 0.0, value=0.0, key="saved bound", format="%g", help="0: however long it takes."
    )
    go.button(
        "Expect this answer", key="saved_expect_go", on_click=press, args=("saved expect",), width="stretch",
        disabled=not answered, help=None if answered else "Send it again first.",
    )  # fmt: skip
    if pressed("saved expect") and answered:
        good = expected_of(job.result.replies, Mode(mode), latency_bound_us=limit * 1000.0 if limit else None)
        store.expect(saved.id, good)
        st.rerun()
    if saved.expected is not None:
        st.button(
            "Expect nothing", key="saved_forget", on_click=press, args=("saved forget",), type="tertiary"
        )
        if pressed("saved forget"):
            store.expect(saved.id, None)
            st.rerun()


def _sent_one(job: Job | None) -> SavedRequest | None:
    """The saved request that this job sent, None if it was another one or is gone."""
    job_id, saved_id = st.session_state.get(_SENT, (None, None))
    control = runtime.current().control
    if job is None or job.id != job_id or control is None or control.saved is None:
        return None
    try:
        return control.saved.get(saved_id)
    except ControlError:
        return None


def _facts(config: ModelConfig, saved: SavedRequest, retention_days: float) -> Html:
    steps = f", {len(saved.steps)} steps" if len(saved.steps) > 1 else ""
    rows = [
        ("saved", f"{utc(saved.saved_at)} by {saved.by}; removed after {retention_days:g} days"),
        ("sent", f"{saved.way}{steps}; {'; '.join(sent_as(config, tensor) for tensor in saved.steps[0])}"),
        ("expected", mode_words(saved.expected) if saved.expected else "nothing yet"),
    ]
    return tag("dl", [[tag("dt", name), tag("dd", words)] for name, words in rows], class_="ts-lines")


def mode_words(expected: Expected) -> str:
    """How an answer is compared, and its bound."""
    words = {
        Mode.EXACT: "every value exactly",
        Mode.TOLERANCE: f"every value within {expected.relative:g} of it or {expected.absolute:g}",
        Mode.SHAPE: "the shapes, and only finite values",
    }[expected.mode]
    bound = expected.latency_bound_us
    return words + (f", within {human(bound, Unit.US)}" if bound is not None else "")
