"""The end of every question before something is done: where, why, yes or leave it; and the sending of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

import runtime
from telemetry.actions import Action, ActionKind, new_token
from telemetry.errors import TritonscopeError
from ui import confirm_facts
from ui.confirm_facts import Asked
from ui.person import me

ASKED = "repository_asked"
"""Where the open question of a session is kept."""
_TOLD = "repository_told"
_WHY = "question_why"
_WHERE = "question_where"

Make = Callable[[str], Action]
"""The action for one server; raises TritonscopeError if it cannot be made."""

_YES = {
    ActionKind.OVERRIDE: "Load with these changes",
    ActionKind.REVERT: "Unload and load",
    ActionKind.LOG_LEVEL: "Set it",
}


@dataclass(frozen=True, slots=True)
class Told:
    """Why a click was not sent."""

    sentence: str


def begin(asked: Asked) -> None:
    """Open a question; what was typed into an earlier one is forgotten."""
    _forget_inputs()
    st.session_state.pop(_TOLD, None)
    st.session_state[ASKED] = asked


def refuse(sentence: str) -> None:
    """No question is opened, and the page says why."""
    st.session_state[_TOLD] = Told(sentence)


def leave() -> None:
    """Close the question; nothing is sent."""
    st.session_state.pop(ASKED, None)
    _forget_inputs()


def send(unload_dependents: bool = False, make: Make | None = None) -> None:
    """Send what the open question asks, once; a second click finds no question any more.

    `make` makes the action for one server; without it it is the plain one of the question.
    """
    asked: Asked | None = st.session_state.pop(ASKED, None)
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
