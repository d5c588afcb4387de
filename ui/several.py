"""Several models loaded at once: the choice, and how far every series of actions is."""

from __future__ import annotations

import time

import streamlit as st

import runtime
from telemetry.actions import Action, ActionKind, Outcome, new_token
from telemetry.errors import TritonscopeError
from telemetry.facts import ModelState
from ui.html import Html, div, span, tag
from ui.person import me
from ui.view import View

_CHOSEN, _TOKEN, _WHY, _SAID = "several_chosen", "several_token", "several_why", "several_said"
SHOWN_SECONDS = 600.0
_WORDS = {
    Outcome.DONE: ("done", "ok"),
    Outcome.FAILED: ("failed", "page"),
    Outcome.REFUSED: ("not sent", "ticket"),
    Outcome.STOPPED: ("stopped", "off"),
    Outcome.UNKNOWN: ("unknown", "ticket"),
}

Choice = tuple[str, str]


def load_several() -> None:
    """The choice of models that are not loaded, and the button that loads them two at a time."""
    control = runtime.current().control
    if control is None:
        return
    view = View.take()
    offered = _loadable(view)
    if len(offered) < 2:
        return
    several_servers = len({server for server, _ in offered}) > 1
    with st.expander(f"Load several models ({len(offered)} are not loaded)"):
        chosen = st.multiselect(
            "Models", offered, key=_CHOSEN, placeholder="Choose models", label_visibility="collapsed",
            format_func=lambda one: f"{one[1]} on {one[0]}" if several_servers else one[1],
        )  # fmt: skip
        required = any(control.needs_reason(server, ActionKind.LOAD) for server, _ in chosen)
        why = st.text_input("Reason", key=_WHY, max_chars=300) if required else ""
        st.session_state.setdefault(_TOKEN, new_token())
        st.button(
            f"Load {len(chosen)} selected" if chosen else "Load selected", type="primary", on_click=_begin,
            disabled=not chosen or (required and not why.strip()), key="several_go",
            help="Two at a time: every load occupies one of the server's HTTP workers until it has ended.",
        )  # fmt: skip
        if said := st.session_state.get(_SAID):
            st.caption(said)


def _begin() -> None:
    control = runtime.current().control
    chosen: list[Choice] = st.session_state.get(_CHOSEN) or []
    token = st.session_state.pop(_TOKEN, None)
    if control is None or not chosen or token is None:
        return
    why = st.session_state.get(_WHY) or ""
    actions = [Action(ActionKind.LOAD, server, model, why=why) for server, model in chosen]
    st.session_state[_CHOSEN] = []
    try:
        control.several.begin(f"load {len(actions)} models, two at a time", actions, by=me(), token=token)
        st.session_state.pop(_SAID, None)
    except TritonscopeError as error:
        st.session_state[_SAID] = error.sentence


def _loadable(view: View) -> list[Choice]:
    """Models without a ready or moving version whose load is allowed, in the order of the table."""
    control = runtime.current().control
    if control is None:
        return []
    busy = (ModelState.READY, ModelState.LOADING, ModelState.UNLOADING, ModelState.GONE)
    taken = {(one.key.server, one.key.name) for one in view.inventory.models if one.state in busy}
    known = sorted({(one.key.server, one.key.name) for one in view.inventory.models} - taken)
    person = me()
    return [
        (server, model)
        for server, model in known
        if control.decide(server, ActionKind.LOAD, model, by=person).allowed
    ]


def progress(view: View) -> Html | None:
    """Every series that is under way or ended lately, action by action."""
    control = runtime.current().control
    if control is None:
        return None
    shown = []
    for series in control.several.all():
        steps = [
            step
            for step in series.steps
            if view.filters.shows(step.action.server) and me().sees(step.action.server)
        ]
        ended = [record.ended_at for step in steps if (record := step.record) is not None and record.ended_at]
        if not steps or (not series.running and ended and max(ended) < time.time() - SHOWN_SECONDS):
            continue
        rows = [_step(step, len({one.action.server for one in steps}) > 1) for step in steps]
        title = f"{series.title[:1].upper()}{series.title[1:]}"
        shown.append(
            div(
                div(title, span(series.sentence(), class_="ts-faint"), class_="ts-h"),
                tag("table", rows, class_="ts-facts"),
            )
        )
    return div(shown, role="status") if shown else None


def _step(step, several_servers: bool) -> Html:
    record, action = step.record, step.action
    name = f"{action.model} on {action.server}" if several_servers else action.model
    if step.refusal:
        # It may name who acts on the model just now: that is for those who see the journal's details.
        words = step.refusal if me().sees_details(action.server) else ""
        word, class_ = "not sent", "ticket"
    elif record is None:
        word, class_, words = "waiting", "off", ""
    elif record.outcome is None:
        word, class_, words = "under way", "moving", record.summary(time.time())
    else:
        word, class_ = _WORDS[record.outcome]
        words = record.sentence
    return tag(
        "tr",
        tag("td", name),
        tag("td", span(word, class_=f"ts-state {class_}")),
        tag("td", words, class_="ts-why"),
    )
