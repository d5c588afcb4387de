"""The question before anything is done to a model: the facts, and leaving as the first choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

import runtime
from telemetry.access import Right
from telemetry.actions import Action, ActionKind, new_token
from telemetry.errors import TritonscopeError
from ui import confirm_facts
from ui.confirm_facts import Asked, facts, last_request, ready_words
from ui.filters import Filters
from ui.html import Html, div, link, span
from ui.panel import panel
from ui.person import me
from ui.view import View

__all__ = ("Asked", "Told", "ask", "button", "facts", "last_request", "leave", "ready_words", "send", "told")

_ASKED = "repository_asked"
_TOLD = "repository_told"
_WHY = "question_why"
_WHERE = "question_where"
_KINDS = {kind.value: kind for kind in ActionKind if kind.changes_repository or kind is ActionKind.LOG_LEVEL}
ASK_AGAIN = "ask-again"
"""Forget that a server refused control, so that it is asked anew."""

Make = Callable[[str], Action]
"""The action for one server; raises TritonscopeError if it cannot be made."""


@dataclass(frozen=True, slots=True)
class Told:
    """Why a click was not sent."""

    sentence: str


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
        _forget_inputs()
        st.session_state.pop(_TOLD, None)
        st.session_state[_ASKED] = Asked(_KINDS[wanted["do"]], wanted["on"], wanted["what"], new_token())


def ask() -> None:
    """Show the question that is open in this session, if any."""
    asked: Asked | None = st.session_state.get(_ASKED)
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
_YES = {
    ActionKind.OVERRIDE: "Load with these changes",
    ActionKind.REVERT: "Unload and load",
    ActionKind.LOG_LEVEL: "Set it",
}


def leave() -> None:
    """Close the question; nothing is sent."""
    st.session_state.pop(_ASKED, None)
    _forget_inputs()


def send(unload_dependents: bool = False, make: Make | None = None) -> None:
    """Send what the open question asks, once; a second click finds no question any more.

    `make` makes the action for one server; without it it is the plain one of the question.
    """
    asked: Asked | None = st.session_state.pop(_ASKED, None)
    why, where = _inputs()
    control = runtime.current().control
    if asked is None or control is None:
        return
    servers = where or (asked.server,)
    try:
        actions = [
            _action(asked, server, why, unload_dependents, make, first=place == 0)
            for place, server in enumerate(servers)
        ]
        if len(actions) == 1:
            control.perform(actions[0], by=me())
        else:
            # One after the other: while one replica is loaded, the others serve.
            title = f"{asked.kind.value} {asked.model} on {len(servers)} replicas, one after the other"
            control.several.begin(title, actions, by=me(), token=asked.token, at_a_time=1, stops=True)
    except TritonscopeError as error:
        st.session_state[_TOLD] = Told(error.sentence)


def _action(
    asked: Asked, server: str, why: str, unload_dependents: bool, make: Make | None, *, first: bool
) -> Action:
    token = asked.token if first else new_token()
    if make is not None:
        made = make(server)
        return Action(
            made.kind,
            server,
            made.model,
            token=token,
            why=why,
            parameters=made.parameters,
            config=made.config,
        )
    return Action(asked.kind, server, asked.model, token=token, why=why, unload_dependents=unload_dependents)


def told() -> Told | None:
    """Why the last click of this session was not sent; None if it was."""
    return st.session_state.get(_TOLD)


def _question(asked: Asked) -> None:
    if _ASKED not in st.session_state:
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
        decide(asked, with_steps=_also_its_steps(view, asked))


def _also_its_steps(view: View, asked: Asked) -> bool:
    brought = confirm_facts.brought_steps(view, asked)
    return bool(brought) and st.checkbox(
        f"Also unload its steps ({', '.join(brought)})",
        help="Triton unloads the steps that came with the ensemble and keeps those that were loaded by hand.",
    )


def decide(asked: Asked, *, with_steps: bool = False, make: Make | None = None, refusal: str = "") -> None:
    """The end of every question: on which replicas, why, and the two buttons. `refusal` switches yes off."""
    control = runtime.current().control
    if control is None:
        return
    _choose_replicas(asked)
    required = control.needs_reason(asked.server, asked.kind)
    why = st.text_input(
        "Reason" if required else "Reason (optional)", key=_WHY, max_chars=300,
        placeholder="It stands in the journal beside your name.",
    )  # fmt: skip
    decision = control.decide(asked.server, asked.kind, asked.model, by=me())
    if not decision.allowed:
        refusal = decision.reason
    elif required and not why.strip():
        refusal = refusal or "Say why first: the settings ask for a reason."
    stay, go = st.columns(2)
    # The first choice, in focus order and in looks, is to leave everything as it is.
    stay.button("Leave it", type="primary", width="stretch", on_click=leave, key="leave")
    go.button(
        _YES.get(asked.kind, asked.kind.value.capitalize()), width="stretch", on_click=send,
        args=(with_steps, make), key="go", disabled=bool(refusal), help=refusal or None,
    )  # fmt: skip


def _choose_replicas(asked: Asked) -> None:
    if asked.kind is ActionKind.LOG_LEVEL:
        return
    workload, servers = confirm_facts.replicas(asked)
    if len(servers) < 2:
        return
    everywhere = f"On all {len(servers)} replicas of {workload}: {', '.join(servers)}"
    st.radio(
        "Where", ((asked.server,), tuple(servers)), key=_WHERE,
        format_func=lambda chosen: f"On {asked.server} only" if len(chosen) == 1 else everywhere,
        captions=("The others stay as they are.", "One after the other; none after the first failure."),
    )  # fmt: skip


def _inputs() -> tuple[str, Sequence[str]]:
    return st.session_state.get(_WHY) or "", st.session_state.get(_WHERE) or ()


def _forget_inputs() -> None:
    for key in (_WHY, _WHERE):
        st.session_state.pop(key, None)
