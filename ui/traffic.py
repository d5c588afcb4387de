"""The switch of the sandbox's own traffic: what it sends now, and a file in which to ask for another."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import streamlit as st

_FILE = "traffic.json"
_KEY = "traffic_profile"


def switch(state_file: Path) -> None:
    """Show what the sandbox sends and let the reader change it; nothing when there is no sandbox."""
    state = _state(state_file)
    profiles: dict[str, str] = state.get("traffic_profiles") or {}
    wanted = state.get("traffic_wanted")
    if not profiles:
        return
    if wanted in profiles and st.session_state.get("traffic_seen") != wanted:
        st.session_state["traffic_seen"] = st.session_state[_KEY] = wanted
    st.selectbox(
        "Sandbox traffic",
        tuple(profiles),
        key=_KEY,
        on_change=lambda: choose(state_file.parent, st.session_state[_KEY]),
        help="Requests that the sandbox on this machine sends to itself, so that there is something to see. "
        "They come from no user.",
    )
    asked = st.session_state[_KEY]
    st.caption(f"The sandbox's own requests, from no user: {profiles[asked]}.")


def choose(folder: Path, profile: str) -> None:
    """Ask for a profile; the file is whole at every moment."""
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=_FILE, delete=False, encoding="utf-8") as file:
        json.dump({"profile": profile}, file)
    Path(file.name).replace(folder / _FILE)


def _state(path: Path) -> dict[str, Any]:
    """What the sandbox says of itself; empty when it does not run."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}
