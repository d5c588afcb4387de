"""The frame around every page: page set-up, navigation, filters, and the guard for deep links."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import runtime
import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ui import address, assets, filters, sidebar
from ui.navigation import PAGES

_OUTSIDE = SimpleNamespace(tritonscope_entered=True)


def main() -> None:
    """Run the app for one visitor: the frame, then the page the address names."""
    st.set_page_config(page_title="Tritonscope", page_icon=":material/monitoring:", layout="wide")
    assets.load()
    rows = [row for row in PAGES if row.file.exists()]
    pages = [
        st.Page(row.file, title=row.title, icon=row.icon, url_path=row.address, default=row is rows[0])
        for row in rows
    ]
    page = st.navigation(pages, position="hidden")
    row = rows[pages.index(page)]
    address.read((*filters.KEYS, *row.keys))
    with st.sidebar:
        above_the_filters = st.container()
        filters.controls(tuple(server.id for server in runtime.current().servers))
        with above_the_filters:
            sidebar.brand()
            sidebar.menu(row.address)
        sidebar.foot()
    run = _run()
    run.tritonscope_entered = True
    try:
        page.run()
    finally:
        run.tritonscope_entered = False
    chosen = {key: st.session_state.get(key) for key in row.keys}
    address.write(filters.current().choices() | chosen)


def guard() -> None:
    """First line of every page.

    On a fresh process Streamlit opens a deep link by running the page's file alone, without app.py: without
    menu, filters and sign-in. Then the frame is run here instead, and it runs the page.
    """
    if not getattr(_run(), "tritonscope_entered", False):
        main()
        st.stop()


def _run() -> Any:
    """The object of this script run; a stand-in that counts as entered where there is none (imports)."""
    return get_script_run_ctx(suppress_warning=True) or _OUTSIDE
