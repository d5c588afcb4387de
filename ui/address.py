"""The address of the page holds the reader's choices, both ways: links open them, changes show up in it.

Streamlit's own binding of widgets refuses to open another page with parameters; the choices of a session are
therefore kept here: read before the widgets are drawn, written when they are.
"""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

_SEEN = "address_seen"


def read(page: str, keys: tuple[str, ...], defaults: Mapping[str, str]) -> None:
    """Take the choices of `page` from the address, if it changed since it was written: a link, "back".

    What the address does not name becomes its default, or empty. Run before any widget with one of these keys
    is drawn.
    """
    now = st.query_params.to_dict()
    if (page, now) == st.session_state.get(_SEEN):
        return
    for key in keys:
        if key in now:
            st.session_state[key] = now[key]
        elif key in st.session_state:
            # Only forgetting it would leave the text in the browser's field, which then comes back.
            st.session_state[key] = defaults.get(key, "")
    st.session_state[_SEEN] = (page, now)


def write(page: str, choices: Mapping[str, str | None]) -> None:
    """Put the choices into the address; None (the default) is left out. Parameters of others are kept."""
    now = st.query_params.to_dict()
    wanted = {key: value for key, value in now.items() if key not in choices}
    wanted |= {key: value for key, value in choices.items() if value}
    if wanted != now:
        st.query_params.from_dict(wanted)
    st.session_state[_SEEN] = (page, wanted)
