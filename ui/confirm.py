"""The question before a model is loaded, unloaded or reloaded: the facts, and leaving as the first choice."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

import runtime
from history.inventory import ModelFacts
from telemetry.actions import Action, ActionKind, new_token
from telemetry.ensembles import dependents, missing_steps, steps
from telemetry.errors import ControlError
from telemetry.facts import ModelState
from telemetry.units import Unit, human, human_duration
from ui.filters import Filters
from ui.format import counted
from ui.html import Html, div, link, span, tag
from ui.panel import panel
from ui.person import me
from ui.view import View

_ASKED = "repository_asked"
_TOLD = "repository_told"
_KINDS = {kind.value: kind for kind in ActionKind if kind.changes_repository}
ASK_AGAIN = "ask-again"
"""Forget that a server refused control, so that it is asked anew."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question on the screen. Its token makes the click that follows be sent once."""

    kind: ActionKind
    server: str
    model: str
    token: str


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
    name = f"{label} {model}"
    return link(label, "repository", params, class_="ts-copy ts-nowrap", role="button", aria_label=name)


def take_from_address() -> None:
    """A click on such a button; what it asks leaves the address at once: a refresh must ask nothing."""
    wanted = {name: st.query_params.get(name, "") for name in ("do", "on", "what")}
    for name in wanted:
        if name in st.query_params:
            del st.query_params[name]
    control = runtime.current().control
    if wanted["do"] == ASK_AGAIN and control is not None:
        control.server_restarted(wanted["on"])
    elif wanted["do"] in _KINDS and wanted["what"]:
        st.session_state.pop(_TOLD, None)
        st.session_state[_ASKED] = Asked(_KINDS[wanted["do"]], wanted["on"], wanted["what"], new_token())


def ask() -> None:
    """Show the question that is open in this session, if any."""
    asked: Asked | None = st.session_state.get(_ASKED)
    if asked is None:
        return
    title = f"{asked.kind.value.capitalize()} {asked.model}?"
    st.dialog(title, on_dismiss=leave)(lambda: _question(asked))()


def leave() -> None:
    """Close the question; nothing is sent."""
    st.session_state.pop(_ASKED, None)


def send(unload_dependents: bool = False) -> None:
    """Send what the open question asks, once; a second click finds no question any more."""
    asked: Asked | None = st.session_state.pop(_ASKED, None)
    control = runtime.current().control
    if asked is None or control is None:
        return
    action = Action(
        asked.kind, asked.server, asked.model, token=asked.token, unload_dependents=unload_dependents
    )
    try:
        control.perform(action, by=me())
    except ControlError as error:
        st.session_state[_TOLD] = Told(error.sentence)


def told() -> Told | None:
    """Why the last click of this session was not sent; None if it was."""
    return st.session_state.get(_TOLD)


def _question(asked: Asked) -> None:
    if _ASKED not in st.session_state:
        st.rerun()
    view = View.take()
    panel(div(facts(view, asked)), key="question")
    brought = steps(_config(view, asked)) if asked.kind is ActionKind.UNLOAD else ()
    with_steps = bool(brought) and st.checkbox(
        f"Also unload its steps ({', '.join(brought)})",
        help="Triton unloads the steps that came with the ensemble and keeps those that were loaded by hand.",
    )
    control = runtime.current().control
    decision = control.decide(asked.server, asked.kind, asked.model, by=me()) if control is not None else None
    stay, go = st.columns(2)
    # The first choice, in focus order and in looks, is to leave everything as it is.
    stay.button("Leave it", type="primary", width="stretch", on_click=leave, key="leave")
    go.button(
        asked.kind.value.capitalize(), width="stretch", on_click=send, args=(with_steps,), key="go",
        disabled=decision is None or not decision.allowed,
        help=None if decision is None or decision.allowed else decision.reason,
    )  # fmt: skip


def facts(view: View, asked: Asked) -> list[Html]:
    """What a person must know before saying yes: traffic now, and what follows."""
    lines = [_traffic(view, asked), *_consequences(view, asked)]
    return [tag("p", line, style="margin:.15rem 0 .5rem") for line in lines if line]


def _traffic(view: View, asked: Asked) -> str:
    if asked.kind is ActionKind.LOAD and asked.model not in _ready(view, asked.server):
        return f"{asked.model} is not loaded on {asked.server}: it gets no traffic now."
    rows = [row for row in view.report.models if _same(row.key, asked)]
    rates = [rate for row in rows if (rate := row.signals.number("requests_per_second")) is not None]
    waiting = [count for row in rows if (count := row.signals.number("pending")) is not None]
    parts = [
        f"{human(sum(rates), Unit.NONE)} requests/s" if rates else "requests/s not reported",
        f"{human(sum(waiting), Unit.NONE)} waiting" if waiting else "waiting requests not reported",
        last_request(_of(view, asked), view.now),
    ]
    return f"Traffic now on {asked.server}: {', '.join(parts)}."


def last_request(models: list[ModelFacts], now: float) -> str:
    """When the last request was executed, over all versions: `last request 40 s ago`."""
    times = [one.statistics.last_inference_ms for one in models if one.statistics is not None]
    known = [at for at in times if at]
    if known:
        return f"last request {human_duration(now - max(known) / 1e3)} ago"
    return "no request since it was loaded" if any(at == 0 for at in times) else "last request not reported"


def _consequences(view: View, asked: Asked) -> list[str]:
    if asked.kind is ActionKind.UNLOAD:
        return [*_stop_too(view, asked), _AFTER_UNLOAD]
    if asked.kind is ActionKind.RELOAD:
        return [_RELOAD]
    missing = missing_steps(_config(view, asked), _ready(view, asked.server))
    with_it = f" Its steps {', '.join(missing)} are loaded with it." if missing else ""
    return [f"The server reads it from its repository and serves it when the load has ended well.{with_it}"]


_AFTER_UNLOAD = (
    "Requests under way and in the queue are finished; new ones are answered with an error (404) until it is "
    "loaded again."
)
_RELOAD = (
    "It is loaded again: changed files and settings are taken up while the running version serves on. "
    "If nothing changed on disk, the server does nothing; if the new files do not load, the old one stays."
)


def _stop_too(view: View, asked: Asked) -> list[str]:
    configs = {
        one.key.name: one.config
        for one in view.inventory.models
        if one.key.server == asked.server and one.config is not None
    }
    using = dependents(asked.model, configs, _ready(view, asked.server))
    return [f"{name} uses this model and will stop too." for name in using]


def _ready(view: View, server: str) -> set[str]:
    return {
        one.key.name
        for one in view.inventory.models
        if one.key.server == server and one.state is ModelState.READY
    }


def _of(view: View, asked: Asked) -> list[ModelFacts]:
    return [one for one in view.inventory.models if _same(one.key, asked)]


def _config(view: View, asked: Asked):
    return next((one.config for one in _of(view, asked) if one.config is not None), None)


def _same(key, asked: Asked) -> bool:
    return key.server == asked.server and key.name == asked.model


def ready_words(ready: int, known: int) -> str:
    """`7 of 8 models are loaded`, `All 8 models are loaded`."""
    if ready == known:
        return f"All {counted(known, 'model')} are loaded" if known > 1 else "The only model is loaded"
    return f"{ready} of {counted(known, 'model')} {'is' if known == 1 else 'are'} loaded"
