"""HTML that refreshes in place: nodes that did not change stay, with focus, selection and opened folds."""

from __future__ import annotations

import streamlit as st

from ui.assets import WAIT
from ui.html import Child, join

_panel = st.components.v2.component("tritonscope_panel", js=WAIT % "panel", isolate_styles=False)


def panel(*children: Child, key: str) -> None:
    """Show markup made by `ui.html`. `key` is unique on the page and the same at every refresh.

    A click on a link made by `ui.html.link` opens that page in the running session.
    """
    _panel(key=key, data={"html": join(*children)})
