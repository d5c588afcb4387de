"""What a server writes to its log: the form that changes it for a while, and the line that tells of it."""

from __future__ import annotations

import time

import streamlit as st

import runtime
from control.log_level import MAX_VERBOSE, LogLevel, due_at, level_of, log_level_action, read_log_level
from telemetry.actions import Action
from telemetry.errors import TritonscopeError
from ui.confirm_facts import Asked
from ui.decide import decide
from ui.format import clock
from ui.html import div, tag
from ui.panel import panel

_READ = "log_level_read"
_MINUTES = {"5 minutes": 5.0, "15 minutes": 15.0, "1 hour": 60.0, "until it is changed": None}


def log_level_form(asked: Asked) -> None:
    """Everything of the question: what it logs now, what it shall log, for how long."""
    now = _read(asked)
    if isinstance(now, str):
        panel(div(tag("p", now)), key="question")
        decide(asked, refusal=now)
        return
    panel(
        div(
            tag("p", f"{asked.server} logs now: {now.words()}.{_until(asked.server)}"),
            tag("p", "The log itself stands on the server; Triton has no endpoint that shows it."),
        ),
        key="question",
    )
    verbose = st.slider(
        "Verbose level", 0, MAX_VERBOSE, min(now.verbose, MAX_VERBOSE), key="log_verbose",
        help="1 tells of every request. It costs time and disk: not for long on a busy server.",
    )  # fmt: skip
    info, warnings, errors = st.columns(3)
    wanted = LogLevel(
        info.toggle("Info", now.info, key="log_info"),
        warnings.toggle("Warnings", now.warning, key="log_warning"),
        errors.toggle("Errors", now.error, key="log_error"),
        verbose,
    )
    minutes = _MINUTES[st.selectbox("For", tuple(_MINUTES), 1, key="log_minutes")]
    if minutes is not None:
        st.caption("Then the app sets it back by itself, also if it was restarted meanwhile.")

    def make(server: str) -> Action:
        return log_level_action(server, wanted, minutes)

    decide(asked, make=make, refusal="That is what it logs now." if wanted == now else "")


def returning(server: str) -> str:
    """`logs info, verbose 1 until 14:20`, "" where nothing is to be set back."""
    control = runtime.current().control
    due = control.log_returns.due(server) if control is not None else None
    if due is None or due_at(due) < time.time() - 60.0:
        return ""
    return f"logs {level_of(due.action).words()} until {clock(due_at(due))}"


def _until(server: str) -> str:
    words = returning(server)
    return f" It {words}, then as before." if words else ""


def _read(asked: Asked) -> LogLevel | str:
    """The level now, read once per question; a sentence if it cannot be read."""
    kept = st.session_state.get(_READ)
    if kept is not None and kept[0] == asked.token:
        return kept[1]
    server = runtime.current().server(asked.server)
    try:
        level: LogLevel | str = read_log_level(server) if server is not None else "That server is not listed."
    except TritonscopeError as error:
        level = f"The log settings cannot be read: {error.sentence}."
    st.session_state[_READ] = (asked.token, level)
    return level
