"""Who looks at this page: what the gate before the app found out about the connection."""

from __future__ import annotations

import streamlit as st

import runtime
from signin.tickets import PROCESS_TICKETS
from signin.visitors import HEADER, Visitor, opened
from telemetry.access import LOCAL, NOBODY, How, Identity

_HERE = Visitor(LOCAL.name, How.LOCAL)


def me() -> Identity:
    """The person of this session, with their rights as the settings are now."""
    found = visitor()
    return NOBODY if found is None else found.identity(runtime.current().settings.access)


def visitor() -> Visitor | None:
    """The person as the gate told it; None if it did not, if it is too long ago, or after signing out.

    Without any connection (a page that is run for its own sake, by nobody from outside) it is the local one.
    """
    headers = st.context.headers
    if not headers:
        return _HERE
    return opened(headers.get(HEADER, ""), PROCESS_TICKETS)
