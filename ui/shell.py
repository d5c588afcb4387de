"""The frame around every page: page set-up, navigation, filters, and the guard for deep links."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import streamlit as st
from streamlit.navigation.page import Page
from streamlit.runtime.scriptrunner import get_script_run_ctx

import runtime
from ui import address, assets, filters, incident, remote_history, sidebar
from ui.live import drawn
from ui.navigation import DEFAULTS, PAGES
from ui.person import me

_OUTSIDE = SimpleNamespace(tritonscope_entered=True)


def main() -> None:
    """Run the app for one visitor: the frame, then the page the address names."""
    st.set_page_config(page_title="Tritonscope", page_icon=assets.icon(), layout="wide")
    assets.load()
    rows = [row for row in PAGES if row.file.exists()]
    pages = [st.Page(row.file, title=row.title, url_path=row.address) for row in rows]
    # Streamlit gives the default page no address of its own: without this one, /overview would not be found.
    home = st.Page(lambda: _open(pages[0]), title=rows[0].title, url_path="", default=True)
    page = st.navigation([home, *pages], position="hidden")
    if page is home:
        page.run()
    row = rows[pages.index(page)]
    st.set_page_config(page_title=f"{row.title} · Tritonscope")
    address.read(row.address, (*filters.KEYS, *row.keys), DEFAULTS)
    # Links of alerts and boards name a server as Prometheus does.
    named = runtime.current().server_called(st.session_state.get("server") or None)
    if named and me().sees(named):
        st.session_state["server"] = named
    remote_history.open_linked()
    with st.sidebar:
        above_the_filters = st.container()
        process = runtime.current()
        filters.controls(
            remote_history.servers(),
            long_ranges=process.remote is not None,
            refreshes=process.replayed is None,
        )
        with above_the_filters:
            sidebar.brand()
            sidebar.menu(row.address)
        sidebar.foot(row.address)
    run = _run()
    run.tritonscope_entered = True
    try:
        incident.banner()
        drawn(page.run, name="page")
    finally:
        run.tritonscope_entered = False
    chosen = {key: value for key in row.keys if (value := st.session_state.get(key)) != DEFAULTS.get(key)}
    address.write(row.address, dict.fromkeys(row.keys) | filters.current().choices() | chosen)


def _open(page: Page) -> None:
    st.switch_page(page, query_params=st.query_params.to_dict())


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
