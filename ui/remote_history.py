"""What pages need of a Prometheus: servers that only it knows, and one quiet line on how well it tells."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import streamlit as st

import runtime
from charts.spec import Spec
from history.remote import Remote, RemoteStatus
from telemetry.units import human_duration
from ui import filters
from ui.format import counted
from ui.html import Html, span
from ui.person import me
from ui.sight import sees_everything

_READ_SECONDS = 1.5
"""How long a link to a server that nobody looked at before waits for its first figures."""


def servers() -> tuple[str, ...]:
    """Ids that can be chosen: those looked at, then those that Prometheus knows besides."""
    process = runtime.current()
    looked_at = [server.id for server in process.servers]
    known = [one.server for one in process.remote.targets().targets] if process.remote is not None else []
    return tuple(filter(me().sees, dict.fromkeys((*looked_at, *known))))


def is_far(server: str) -> bool:
    """True for a server that is read through Prometheus alone."""
    remote = runtime.current().remote
    return remote is not None and remote.fed(server)


def open_linked() -> None:
    """Look at the server the address names although it is not configured: by id, instance or pod."""
    remote, named = runtime.current().remote, st.session_state.get("server")
    if (
        remote is None
        or named in (None, "", filters.ALL_SERVERS)
        or any(one.id == named for one in runtime.current().servers)
    ):
        return
    if (known := remote.targets().find(named)) is not None and not me().sees(known.server):
        return
    opened: list[str | None] = []
    reading = threading.Thread(target=lambda: opened.append(remote.open(named)), daemon=True)
    reading.start()
    reading.join(_READ_SECONDS)
    target = remote.targets().find(named)
    if target is not None and me().sees(target.server):
        st.session_state["server"] = target.server


def honest(spec: Spec) -> Spec:
    """A chart that is empty because Prometheus has not told yet says that, and not that nothing happened."""
    process = runtime.current()
    if process.remote is None or not spec.empty:
        return spec
    status, span = process.remote.status(), process.ring.span()
    start = spec.range[0] if spec.range is not None else process.now() - filters.current().range_seconds
    if span is not None and start >= span[0]:
        return spec
    if status.error:
        return replace(spec, empty="Prometheus is silent, and this app has not watched for so long.")
    if status.pending:
        return replace(spec, empty="Asking Prometheus …")
    if not spec.time:
        return replace(spec, empty="Prometheus has no batch sizes of this time: the exporter publishes them "
                                   "with --raw-batch-sizes.")  # fmt: skip
    return spec


def line() -> Html | None:
    """How well Prometheus tells, for under a page's first line; None where there is none."""
    remote = runtime.current().remote
    if remote is None:
        return None
    status = remote.status()
    tip = _details(remote, status) if sees_everything() else ""
    if status.error:
        age = f" {human_duration(time.time() - status.answered_at)}" if status.answered_at is not None else ""
        words = f"Prometheus is silent{age}: only what this app remembers is shown"
        return span(words, class_="ts-warn", data_tip=f"{status.error}\n{tip}".strip())
    if status.pending:
        return span("asking Prometheus …", data_tip=tip)
    if status.warnings:
        return span("Prometheus answers in part", class_="ts-warn", data_tip=tip)
    return span("history from Prometheus", data_tip=tip)


def _details(remote: Remote, status: RemoteStatus) -> str:
    lines = [f"{status.host} knows {counted(status.servers, 'Triton server')}, "
             f"scraped every {human_duration(status.interval_seconds)}."]  # fmt: skip
    fed = len(remote.followed)
    if fed:
        lines.append(f"{counted(fed, 'server')} of this page are read through it alone.")
    lines += status.warnings
    if status.duplicates:
        names = " and ".join(status.duplicates)
        lines.append(f"Series stand there twice, apart only in {names}: they are counted once.")
    return "\n".join(lines)
