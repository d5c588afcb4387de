"""Which model a page is about: chosen in the page, named in the address."""

from __future__ import annotations

import streamlit as st

from telemetry.identity import ModelKey
from ui.model_rows import model_rows
from ui.view import View


def choose_model() -> None:
    """Two choices: the model, the most harmed first, and its version where there are several."""
    rows = model_rows(View.take())
    names = list(dict.fromkeys(row.key.name for row in rows))
    if not names:
        return
    wanted = st.session_state.get("model")
    if wanted not in names:
        if wanted:
            st.caption(f"The link's model is not known to any server looked at: {wanted!r}. Shown instead:")
        st.session_state["model"] = names[0]
    which, version_of, _ = st.columns([3, 1, 4])
    name = which.selectbox("Model", names, key="model", label_visibility="collapsed")
    versions = sorted({row.key.version for row in rows if row.key.name == name}, key=_number, reverse=True)
    if st.session_state.get("version") not in versions:
        ready = [row.key.version for row in rows if row.key.name == name and row.state_class == "ok"]
        st.session_state["version"] = max(ready or versions, key=_number)
    if len(versions) > 1:
        version_of.selectbox(
            "Version",
            versions,
            key="version",
            format_func=lambda one: f"version {one}",
            label_visibility="collapsed",
        )


def chosen_model(view: View) -> ModelKey | None:
    """The chosen model; on the server with the worst finding where several have it. None without models."""
    name, version = st.session_state.get("model"), st.session_state.get("version")
    return next(
        (row.key for row in model_rows(view) if row.key.name == name and row.key.version == version), None
    )


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else -1
