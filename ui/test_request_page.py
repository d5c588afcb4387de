"""The page Test request: one request and its answer; load runs are one click away."""

from __future__ import annotations

import streamlit as st

import runtime
from telemetry.actions import ActionKind
from ui import golden_save, request_code, saved_requests, test_answer, test_request, writes
from ui.drift import drift_badge
from ui.empty import answers, empty_state, nobody_answers, silent
from ui.header import header
from ui.html import div, link, span
from ui.live import live
from ui.model_choice import choose_model, chosen_model
from ui.panel import panel
from ui.person import me
from ui.view import View

_LINK = "color:var(--st-link-color);text-decoration:underline"


def _answer() -> None:
    view = View.take()
    key = chosen_model(view)
    if key is None:
        header(view, "No model is known yet.", "unknown")
        return
    level = "fine" if _is_ready(view, key) else "unknown"
    header(view, f"Ask {key.label()} on {key.server}.", level, extra=drift_badge(view.facts(key)))


def _is_ready(view, key) -> bool:
    facts = view.facts(key)
    return facts is not None and facts.state == "READY" and answers(view.coverage, key.server)


def _refusal_of(kind: ActionKind, key) -> str:
    control = runtime.current().control
    if control is None:
        return writes.OFF
    decision = control.decide(key.server, kind, key.name, by=me())
    return "" if decision.allowed else decision.reason


def _no_model(view: View):
    if silent(view.coverage):
        return nobody_answers(view.coverage, "there is no model to ask")
    return empty_state("There is no model to ask.", todo=("The page Repository loads one.",))


def _request_page() -> None:
    view = View.take()
    key = chosen_model(view)
    if key is None:
        panel(_no_model(view), key="none")
        return
    config = test_request.config_of(view, key)
    if isinstance(config, str):
        panel(empty_state(config), key="none")
        return
    refusal = _refusal_of(ActionKind.TEST_REQUEST, key)
    left, right = st.columns([5, 6], gap="large")
    with left:
        prepared = test_request.form(key, config, whole=True)
        panel(div(refusal, class_="ts-warn") if refusal else test_request.preview(prepared), key="preview")
        st.button(
            "Send request", type="primary", key="send", on_click=test_request.press, args=("send",),
            disabled=bool(refusal) or prepared.request is None, help=refusal or None, width="stretch",
        )  # fmt: skip
        if test_request.pressed("send"):
            test_request.send(prepared)
    # Under the answer, which on a phone is to stand right under the button; in boxes of their own, so that a
    # fold stays open whatever the answer draws.
    answer_box, folds = right.container(), right.container()
    job = test_request.job_of("test_job", key)
    with answer_box:
        test_answer.answer(job, test_request.refused("test_job"), saved_requests.verdict)
    with folds:
        request_code.section(prepared)
        if not refusal:
            golden_save.section(key, job)
            saved_requests.section(key, config, prepared, job)
    same = view.filters.params() | {"model": key.name, "version": key.version}
    panel(
        div(
            "How much does it carry? ",
            link("Load runs", "load_runs", same, style=_LINK),
            span(": serial against concurrent, a sweep over concurrency, configurations side by side."),
            class_="ts-faint", style="margin-top:1rem",
        ),
        key="load_runs",
    )  # fmt: skip


def draw() -> None:
    """The whole page, for one visitor."""
    choose_model()
    live(_answer, name="answer")
    _request_page()
