"""Which model a page is about: chosen in the page, named in the address."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from telemetry.identity import ModelKey, version_number
from ui.html import div
from ui.model_rows import ModelRow, model_rows
from ui.panel import panel
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
            # Not a caption: that would read the link's text as Markdown.
            words = f"The link's model is not known to any server looked at: {wanted!r}. Shown instead:"
            panel(div(words, class_="ts-warn"), key="unknown_model")
        st.session_state["model"] = names[0]
    which, version_of, _ = st.columns([3, 1, 4])
    name = which.selectbox("Model", names, key="model", label_visibility="collapsed")
    mine = [row for row in rows if row.key.name == name]
    versions = sorted({row.key.version for row in mine}, key=version_number, reverse=True)
    if st.session_state.get("version") not in versions:
        st.session_state["version"] = best_version(mine)
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
    return pick(model_rows(view), st.session_state.get("model"), st.session_state.get("version"))


def pick(rows: Sequence[ModelRow], name: str | None, version: str | None) -> ModelKey | None:
    """The first row of this name and version; without that version the best one: it may just be loading.

    A model that was never loaded has no version; when it is loaded, it has one, and the page goes on with it.
    """
    mine = [row for row in rows if row.key.name == name]
    if not mine:
        return None
    if all(row.key.version != version for row in mine):
        version = best_version(mine)
    return next(row.key for row in mine if row.key.version == version)


def best_version(rows: Sequence[ModelRow]) -> str:
    """The highest ready version of a model's rows, or the highest where none is ready."""
    ready = [row.key.version for row in rows if row.state_class == "ok"]
    return max(ready or [row.key.version for row in rows], key=version_number)
