"""The question before anything is done to a model: the facts, and leaving as the first choice."""

from __future__ import annotations

import streamlit as st

import runtime
from telemetry.access import Right
from telemetry.actions import ActionKind, new_token
from ui import confirm_facts
from ui.confirm_facts import Asked, facts, last_request, ready_words
from ui.decide import ASKED, Make, Told, begin, decide, leave, refuse, send, told
from ui.filters import Filters
from ui.html import Html, div, link, span
from ui.panel import panel
from ui.person import me
from ui.view import View

__all__ = ("Asked", "Told", "ask", "button", "facts", "last_request", "leave", "ready_words", "send", "told")

_KINDS = {kind.value: kind for kind in ActionKind if kind.changes_repository or kind is ActionKind.LOG_LEVEL}
ASK_AGAIN = "ask-again"
"""Forget that a server refused control, so that it is asked anew."""


def button(label: str, kind: str, server: str, model: str, filters: Filters, refusal: str = "") -> Html:
    """A button in a table: opens the question. `refusal` switches it off and is its tooltip."""
    if refusal:
        return span(
            label, class_="ts-copy ts-nowrap", style="opacity:.5;cursor:help", data_tip=refusal,
            role="button", aria_disabled="true", tabindex="0",
        )  # fmt: skip
    params = filters.params(do=kind, on=server, what=model)
    name = f"{label} {model or server}"
    return link(label, "repository", params, class_="ts-copy ts-nowrap", role="button", aria_label=name)


def take_from_address() -> None:
    """A click on such a button; what it asks leaves the address at once: a refresh must ask nothing."""
    wanted = {name: st.query_params.get(name, "") for name in ("do", "on", "what")}
    for name in wanted:
        if name in st.query_params:
            del st.query_params[name]
    control = runtime.current().control
    if wanted["do"] == ASK_AGAIN and control is not None and me().may(Right.LOAD, wanted["on"]):
        control.server_restarted(wanted["on"])
    elif wanted["do"] in _KINDS and (wanted["what"] or wanted["do"] == ActionKind.LOG_LEVEL):
        _open(Asked(_KINDS[wanted["do"]], wanted["on"], wanted["what"], new_token()))


def _open(asked: Asked) -> None:
    """Open the question of somebody who may do it; for others it would tell of servers they may not view."""
    control = runtime.current().control
    if control is None:
        return
    decision = control.decide(asked.server, asked.kind, asked.model, by=me())
    if decision.allowed:
        begin(asked)
    else:
        refuse(decision.reason)


def ask() -> None:
    """Show the question that is open in this session, if any."""
    asked: Asked | None = st.session_state.get(ASKED)
    if asked is None or runtime.current().control is None:
        return
    wide = asked.kind is ActionKind.OVERRIDE
    title = _TITLES.get(asked.kind, "{what} {model}?")
    title = title.format(what=asked.kind.value.capitalize(), model=asked.model, server=asked.server)
    st.dialog(title, width="large" if wide else "small", on_dismiss=leave)(lambda: _question(asked))()


_TITLES = {
    ActionKind.OVERRIDE: "Load {model} with another configuration",
    ActionKind.REVERT: "Bring {model} back to its files?",
    ActionKind.LOG_LEVEL: "Log level of {server}",
}


def _question(asked: Asked) -> None:
    if ASKED not in st.session_state:
        st.rerun()
    # What only somebody needs who may write is loaded when somebody does.
    if asked.kind is ActionKind.OVERRIDE:
        from ui.override_form import override_form

        override_form(asked)
    elif asked.kind is ActionKind.LOG_LEVEL:
        from ui.log_level import log_level_form

        log_level_form(asked)
    else:
        view = View.take()
        panel(div(facts(view, asked)), key="question")
        decide(asked, with_steps=_also_its_steps(view, asked), make=_gate(asked))


def _gate(asked: Asked) -> Make | None:
    """The choice to keep a reload only if the golden request is answered as expected."""
    from ui.golden_gate import gate

    return gate(asked)


def _also_its_steps(view: View, asked: Asked) -> bool:
    brought = confirm_facts.brought_steps(view, asked)
    return bool(brought) and st.checkbox(
        f"Also unload its steps ({', '.join(brought)})",
        help="Triton unloads the steps that came with the ensemble and keeps those that were loaded by hand.",
    )
