"""Incident files on the pages: how to take one along, and what is said while one is replayed."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

import streamlit as st

import runtime
from charts.spec import Spec
from telemetry.units import human_duration
from ui import filters
from ui.format import clock, day, utc
from ui.html import Html, div, span, tag
from ui.panel import panel
from ui.person import me

_TIP = (
    "One zip for the ticket: numbers, the servers' answers, configurations, events, actions and findings "
    "of the range chosen here. Secrets and parameter values are masked. "
    "It opens again with: python -m triage replay FILE"
)
IN_HEADER = frozenset({"overview", "triage"})
"""Pages whose first lines carry the links, where a phone shows them too; on the others the sidebar does."""
_STYLE = "margin-top:.75rem;padding-top:.75rem;border-top:1px solid var(--line)"


def links() -> Html | None:
    """The file and its summary, of the range and the server that are looked at; None in a replay."""
    process = runtime.current()
    if process.replayed is not None or not any(me().sees(one.id) for one in process.servers):
        return None
    return span(
        tag("a", "Incident file", href=_address("zip"), download=True, class_="ts-copy", data_tip=_TIP),
        " ",
        tag(
            "a",
            "summary",
            href=_address("html"),
            download=True,
            class_="ts-copy",
            data_tip="The same as one page to read: verdict, findings, timeline and charts.",
        ),
        class_="ts-nowrap",
    )


def foot() -> None:
    """The last but one line of the sidebar."""
    shown = links()
    if shown is not None:
        panel(div(shown, style=_STYLE, role="note", aria_label="incident file"), key="incident")


def banner() -> None:
    """On top of every page of a replay: which moment this is, and that nothing here is now."""
    manifest = runtime.current().replayed
    if manifest is None:
        return
    at, covered = manifest.captured_at, human_duration(manifest.captured_at - manifest.start)
    panel(
        div(
            span("REPLAY", class_="ts-tag"),
            div(
                f"Replay of an incident captured {day(at)} {clock(at, seconds=True)}",
                div(
                    f"{utc(at)} · the {covered} before it · read-only: no server is asked, nothing is sent",
                    class_="ts-evidence",
                ),
                class_="ts-sentence",
            ),
            class_="ts-finding ticket", role="note", aria_label="replay",
        ),
        key="replay",
    )  # fmt: skip


def badged(spec: Spec) -> Spec:
    """A chart of a replay says that it is one."""
    manifest = runtime.current().replayed
    if manifest is None:
        return spec
    return replace(spec, badge=" · ".join(filter(None, (spec.badge, "replay"))))


def _address(kind: str) -> str:
    """Below the address the app is served at; the whole range that is shown counts."""
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    chosen = filters.current()
    now = runtime.current().clock()
    start = chosen.start if chosen.start is not None else now - chosen.range_seconds
    query = {"minutes": f"{max(1.0, (now - start) / 60.0):.0f}"}
    if chosen.server is not None:
        query["server"] = chosen.server
    path = f"/{base}/incident.{kind}" if base else f"/incident.{kind}"
    return f"{path}?{urlencode(query)}"
