"""Notes on the security of the servers, folded: read once, acted upon, and not in the way."""

from __future__ import annotations

import runtime
from telemetry.advisories import advisories
from telemetry.errors import Restricted
from telemetry.scrape import Source
from ui.format import counted
from ui.html import Html, div, span, tag
from ui.view import View


def restricted(server: str, source: Source) -> str:
    """Why this source of a server could not be read just now if its API wants a key; "" otherwise."""
    scrape = runtime.current().ring.latest(server, source)
    error = scrape.error if scrape is not None else None
    return error.sentence if isinstance(error, Restricted) else ""


def restricted_banners(view: View) -> list[Html]:
    """A banner for each server that keeps its repository closed to this app, with what to set."""
    told = [sentence for one in view.coverage if (sentence := restricted(one.server, Source.INDEX))]
    return [
        div(
            span("RESTRICTED", class_="ts-tag"),
            div(f"{sentence}.", class_="ts-sentence"),
            class_="ts-finding ticket",
            role="note",
        )
        for sentence in told
    ]


def security_notes(view: View) -> Html | None:
    """A fold with the notes on the servers looked at; None where there are none."""
    process = runtime.current()
    found = []
    for one in view.coverage:
        server = process.server(one.server)
        if server is None:
            continue
        index = process.ring.latest(server.id, Source.INDEX)
        mode = process.control.control_mode(server.id) if process.control is not None else None
        found += advisories(
            server, one.version, index_answers=index is not None and index.ok, control_mode=mode
        )
    if not found:
        return None
    by_advice: dict[str, list[str]] = {}
    for note in found:
        by_advice.setdefault(note.detail, []).append(f"{note.sentence}.")
    rows = [
        tag("li", [div(one) for one in told], div(advice, class_="ts-faint"), style="margin:.35rem 0")
        for advice, told in by_advice.items()
    ]
    return tag(
        "details",
        tag("summary", f"{counted(len(found), 'note')} on security"),
        tag("ul", rows, style="margin:.25rem 0;padding-left:1.2rem;max-width:60rem"),
        class_="ts-fold",
    )
