"""The form of a load with another configuration, with the difference to what runs and to the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

import runtime
from control.override import Override, override_config
from history.drift import Drift, KnownFrom
from telemetry.actions import Action, ActionKind
from telemetry.config_diff import FieldChange, changes_between, durable_lines, shown
from telemetry.errors import InvalidRequest, TritonscopeError
from telemetry.facts import ModelConfig
from ui.confirm_facts import Asked, traffic
from ui.decide import decide
from ui.drift import drift_of_model
from ui.html import Html, div, span, tag
from ui.override_fields import override_fields
from ui.panel import panel
from ui.view import View

_RUNNING = "override_running"
_LOST = (
    "This is lost when the model is unloaded or the server restarts. While the new copy loads the running "
    "one serves on; if it does not load, the running one stays."
)


def override_form(asked: Asked) -> None:
    """Everything of the question: the fields, what they change, and the two buttons."""
    running = _running(asked)
    if isinstance(running, str):
        panel(div(tag("p", running)), key="question")
        decide(asked, refusal=running)
        return
    view = View.take()
    panel(div(tag("p", traffic(view, asked), style="margin:.15rem 0 .5rem")), key="question")
    try:
        changes = override_fields(running)
        wanted: Mapping[str, Any] = override_config(running, changes)
        refusal = "" if changes_between(running.raw, wanted) else "Change a field first."
    except InvalidRequest as error:
        changes, wanted, refusal = Override(), running.raw, error.sentence
    drift = drift_of_model(asked.server, asked.model)
    panel(_difference(asked, running, wanted, refusal, drift), key="difference")
    lines = durable_lines(running.raw, wanted, drift.changes if drift is not None else ())
    if lines:
        st.caption(f"{_LOST} To make it last, write into config.pbtxt:")
        st.code(lines, language="protobuf")
    decide(asked, make=lambda server: _action(asked, server, changes), refusal=refusal)


def _action(asked: Asked, server: str, changes: Override) -> Action:
    """The override of one replica: its own running configuration with the same changes."""
    control = runtime.current().control
    if control is None:
        raise InvalidRequest("Control is off.")
    running = control.reader.config(server, asked.model)
    config = override_config(running, changes)
    return Action(ActionKind.OVERRIDE, server, asked.model, config=config)


def _running(asked: Asked) -> ModelConfig | str:
    """The effective configuration, read once per question; a sentence if it cannot be read."""
    kept = st.session_state.get(_RUNNING)
    if kept is not None and kept[0] == asked.token:
        return kept[1]
    control = runtime.current().control
    try:
        config: ModelConfig | str = control.reader.config(asked.server, asked.model) if control else ""
    except TritonscopeError as error:
        config = f"The running configuration cannot be read, so that it cannot be changed. {error.sentence}."
    st.session_state[_RUNNING] = (asked.token, config)
    return config


def _difference(
    asked: Asked, running: ModelConfig, wanted: Mapping[str, Any], refusal: str, drift: Drift | None
) -> Html:
    made = {change.path: change for change in changes_between(running.raw, wanted)}
    from_file = {change.path: change.before for change in drift.changes} if drift else {}
    paths = [*made, *(path for path in from_file if path not in made)]
    rows = [_row(path, made.get(path), from_file, running.raw) for path in paths]
    heads = [tag("th", name) for name in ("field", "its file", "runs now", "to be loaded")]
    cells = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="ts-table")
    table = div(cells, class_="ts-scroll")
    said = div(
        span("NOT VALID", class_="ts-tag"), div(refusal, class_="ts-sentence"), class_="ts-finding ticket"
    )
    return div(
        said if refusal and refusal != "Change a field first." else None,
        table if rows else None,
        div(_source(asked, drift), class_="ts-faint", style="margin-top:.35rem"),
    )


def _row(
    path: str, change: FieldChange | None, from_file: Mapping[str, object], running: Mapping[str, Any]
) -> Html:
    now = change.before if change is not None else _at(running, path)
    file = from_file.get(path, now)
    wish = (
        span(shown(change.after), class_="ts-warn")
        if change is not None
        else span("as it is", class_="ts-faint")
    )
    name = (change or FieldChange(path, None, None)).name
    cells = [tag("td", shown(file)), tag("td", shown(now)), tag("td", wish)]
    return tag("tr", tag("td", name, style="overflow-wrap:anywhere;white-space:normal"), cells)


def _at(config: Mapping[str, Any], path: str) -> object:
    place: Any = config
    for step in path.replace("[", ".").replace("]", "").split("."):
        if isinstance(place, list) and step.isdecimal() and int(step) < len(place):
            place = place[int(step)]
        else:
            place = place.get(step) if isinstance(place, Mapping) else None
    return place


def _source(asked: Asked, drift: Drift | None) -> str:
    """Where the column of the file comes from."""
    if runtime.current().files.config_text(asked.server, asked.model) is not None:
        same = " It runs as it says." if drift is None else ""
        return f"Its file is the config.pbtxt in the sandbox's repository.{same}"
    known = "those from before the override, by the journal"
    if drift is None or drift.source is not KnownFrom.JOURNAL:
        known = "taken to be what ran when the app first saw the model"
    return f"Its file cannot be read from here: its values are {known}."
