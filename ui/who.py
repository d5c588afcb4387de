"""Who the app takes one for, and what one may do: the last lines of the sidebar."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

import streamlit as st

import runtime
from telemetry.access import How, Identity
from ui.html import Html, div, span, tag
from ui.panel import panel
from ui.person import me

SIGN_IN = "/sign-in"
"""Not a page of Streamlit's: it must be there before anybody is let in."""
_STYLE = "overflow-wrap:anywhere;margin-top:.75rem;padding-top:.75rem;border-top:1px solid var(--line)"
_WAYS = {How.PASSWORD: "Sign out", How.OIDC: "Sign out"}


def who() -> None:
    """Name, how it is known, rights, and the way in or out."""
    person = me()
    panel(
        div(
            div(
                span(person.short_name, class_="ts-name"),
                _way(person),
                style="display:flex;justify-content:space-between;align-items:baseline;gap:.5rem",
            ),
            div(f"{person.how}: ", _rights(person), class_="ts-faint", style="font-size:.84rem"),
            style=_STYLE,
            role="note",
            aria_label="who you are",
        ),
        key="who",
    )


def _way(person: Identity) -> Html | None:
    label = _WAYS.get(person.how, "")
    if person.how is How.ANONYMOUS and runtime.current().settings.access.can_sign_in:
        label = "Sign in"
    here = urlsplit(st.context.url or "").path or "/"
    query = urlencode({"next": f"{here}?{urlencode(st.query_params.to_dict())}".rstrip("?")})
    return (
        tag("a", label, href=f"{SIGN_IN}?{query}", target="_self", class_="ts-copy ts-nowrap")
        if label
        else None
    )


def _rights(person: Identity) -> Html:
    """The rights, by server where they differ."""
    servers = [server.id for server in runtime.current().servers if person.sees(server.id)]
    by_server = {server: person.listed(server) for server in servers}
    tip = "\n".join(f"{server}: {held}" for server, held in by_server.items())
    kinds = set(by_server.values())
    if not kinds:
        return span("you may view no server")
    shown = kinds.pop() if len(kinds) == 1 else "rights differ by server"
    if runtime.current().control is None:
        return span("view; control is off", data_tip=f"Your rights, if it were on:\n{tip}", tabindex="0")
    return span(shown, data_tip=tip, tabindex="0")
