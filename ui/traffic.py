"""The switch of the sandbox's own traffic: a file beside its state that its traffic process reads."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import streamlit as st

PROFILES = {
    "idle": "no requests",
    "healthy": "a gentle mix of all models",
    "burst": "many clients at once, on and off",
    "unbatched": "one client at a time: no batches form",
    "overload": "more than the models can serve",
}
"""The sandbox's profiles and what each is, for people."""

_FILE = "traffic.json"
_DEFAULT = "healthy"


def switch(state_file: Path) -> None:
    """Show what the sandbox sends and let the reader change it; nothing when the sandbox is not running."""
    if not state_file.exists():
        return
    folder = state_file.parent
    st.session_state.setdefault("traffic_profile", chosen(folder))
    st.selectbox(
        "Sandbox traffic",
        tuple(PROFILES),
        key="traffic_profile",
        format_func=lambda name: f"{name}: {PROFILES[name]}",
        on_change=lambda: choose(folder, st.session_state.traffic_profile),
        help="The sandbox on this machine sends these requests to itself, so that there is something to see. "
        "They come from no user.",
    )


def chosen(folder: Path) -> str:
    """The profile the file names; the sandbox's default where there is none it knows."""
    try:
        name = json.loads((folder / _FILE).read_text(encoding="utf-8"))["profile"]
    except (OSError, ValueError, KeyError, TypeError):
        return _DEFAULT
    return name if name in PROFILES else _DEFAULT


def choose(folder: Path, profile: str) -> None:
    """Write the choice so that a reader sees the old or the new file, never half of one."""
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=_FILE, delete=False, encoding="utf-8") as file:
        json.dump({"profile": profile}, file)
    Path(file.name).replace(folder / _FILE)
