"""Who the app takes one for, and what one may do: the last lines of the sidebar."""

from __future__ import annotations

import runtime
from telemetry.access import How, Identity, Right
from ui.html import Html, div, span, tag
from ui.panel import panel
from ui.person import me

SIGN_IN = "/sign-in"
"""Not a page of Streamlit's: it must be there before anybody is let in."""
_WAYS = {How.PASSWORD: "Sign out", How.OIDC: "Sign out"}
_ORDER = tuple(Right)


def who() -> None:
    """Name, how it is known, rights, and the way in or out."""
    person = me()
    panel(
        div(
            div(span(person.name, class_="ts-name"), " ", _way(person)),
            div(f"{person.how}: ", _rights(person), class_="ts-faint", style="font-size:.84rem"),
            style="overflow-wrap:anywhere",
            role="note",
            aria_label="who you are",
        ),
        key="who",
    )


def _way(person: Identity) -> Html | None:
    label = _WAYS.get(person.how, "")
    if person.how is How.ANONYMOUS and runtime.current().settings.access.can_sign_in:
        label = "Sign in"
    return tag("a", label, href=SIGN_IN, target="_self", class_="ts-copy ts-nowrap") if label else None


def _rights(person: Identity) -> Html:
    """The rights, by server where they differ."""
    servers = [server.id for server in runtime.current().servers if person.sees(server.id)]
    by_server = {server: words(person, server) for server in servers}
    tip = "\n".join(f"{server}: {held}" for server, held in by_server.items())
    kinds = set(by_server.values())
    if not kinds:
        return span("you may view no server")
    shown = kinds.pop() if len(kinds) == 1 else "rights differ by server"
    switch = "" if runtime.current().control is not None else "\nControl is off: nothing can be changed."
    return span(shown, data_tip=f"{tip}{switch}", tabindex="0")


def words(person: Identity, server: str) -> str:
    """`view, infer, load`, in the order in which they are given out."""
    held = person.on(server)
    return ", ".join(right.value for right in _ORDER if right in held)
