"""The gate in the question before a reload: keep what was loaded only if the golden request is answered."""

from __future__ import annotations

import streamlit as st

import runtime
from control.gated_reload import GATE, OR_REVERT
from telemetry.access import Right
from telemetry.actions import Action, ActionKind
from telemetry.errors import ControlError
from ui.confirm_facts import Asked
from ui.decide import Make
from ui.person import me


def gate(asked: Asked) -> Make | None:
    """Draw the choice where there is one; the action with the gate if it is chosen."""
    control = runtime.current().control
    if asked.kind is not ActionKind.RELOAD or control is None:
        return None
    try:
        kept = asked.model in control.golden.of(asked.server)
    except ControlError:
        kept = False
    if not kept:
        return None
    allowed = me().may(Right.OVERRIDE, asked.server)
    chosen = st.checkbox(
        "Send the golden request after the load; go back if the answer is not as expected",
        value=allowed, key=f"gate {asked.token}", disabled=not allowed,
        help="Back is the version, or the configuration, that served before. Files that were overwritten in "
        "the same version folder cannot be put back by Triton. It needs the right to override.",
    )  # fmt: skip
    if not chosen:
        return None
    return lambda server: Action(asked.kind, server, asked.model, parameters={GATE: OR_REVERT})
