"""Request parameters on the form: rows of name, type and value; what Triton keeps for itself is explained."""

from __future__ import annotations

import streamlit as st

from control.request_parameters import KINDS, ParameterValue, explained, typed_parameter
from telemetry.errors import ControlError
from ui.html import div
from ui.panel import panel

MOST = 12


def parameters_of(name: str) -> tuple[dict[str, ParameterValue], list[str]]:
    """Draw the rows and read them: the parameters, and why one cannot be used."""
    found: dict[str, ParameterValue] = {}
    refusals: list[str] = []
    for row in range(MOST):
        given, value = _row(row, name, refusals)
        if not given:
            # One empty row is enough to begin with: the next comes when it has a name.
            break
        if given in found:
            refusals.append(f"The request parameter {given} is given twice")
        elif value is not None:
            found[given] = value
    return found, refusals


def _row(row: int, name: str, refusals: list[str]) -> tuple[str, ParameterValue | None]:
    """(name, value) of one row; the value is None where it cannot be used."""
    first, second, third = st.columns([4, 3, 4])
    hidden = "visible" if row == 0 else "collapsed"
    given = first.text_input("Name", key=f"parameter name {row} {name}", label_visibility=hidden).strip()
    kind = second.selectbox("Type", KINDS, key=f"parameter kind {row} {name}", label_visibility=hidden)
    text = third.text_input("Value", key=f"parameter value {row} {name}", label_visibility=hidden)
    if not given:
        return "", None
    if words := explained(given):
        panel(div(f"{given}: {words}", class_="ts-more"), key=f"parameter words {row} {name}")
    try:
        return given, typed_parameter(given, kind, text)
    except ControlError as error:
        refusals.append(error.sentence)
        return given, None
