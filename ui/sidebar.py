"""The sidebar: name, menu with the number of findings, the sandbox's traffic, notices of the settings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import runtime
from settings import SANDBOX_ID
from telemetry.access import Right
from triage.finding import Finding, Severity
from ui import filters, incident, traffic
from ui.format import counted
from ui.html import Html, div, link, span, tag
from ui.live import live
from ui.navigation import PAGES
from ui.panel import panel
from ui.person import me
from ui.sight import findings_of, sees_everything
from ui.who import who

_COUNTED = "overview"
"""The page whose menu entry carries the number of findings."""


def brand() -> None:
    """The product's name with its mark: single requests that become batches."""
    panel(div(_mark(), span("Tritonscope"), class_="ts-brand"), key="brand")


def menu(current: str) -> None:
    """The pages; `current` is the address of the one that is open."""
    live(partial(_menu, current), name="menu", otherwise=partial(_entries, current, ()))


def foot(current: str) -> None:
    """The sandbox's traffic switch where there is a sandbox, then what could not be used of the settings,
    the incident file unless the header of the page `current` has it, and who one is.
    """
    settings = runtime.current().settings
    if settings.sandbox_state is not None and me().may(Right.LOAD_RUN, SANDBOX_ID):
        traffic.switch(settings.sandbox_state)
    live(_notes, name="notes")
    if current not in incident.IN_HEADER:
        incident.foot()
    who()


def _notes() -> None:
    """What cannot be used of settings and lists of servers: it comes and goes while the process runs."""
    notices = runtime.current().notices
    if notices and sees_everything():
        lines = (tag("li", _notice(notice)) for notice in notices)
        panel(
            tag(
                "details",
                tag("summary", f"{counted(len(notices), 'note')} on the settings"),
                tag("ul", lines, class_="ts-faint"),
                class_="ts-fold",
            ),
            key="settings_notices",
        )


def _menu(current: str) -> None:
    _entries(current, findings_of(runtime.current().judgement().findings, me().sees))


def _entries(current: str, findings: Sequence[Finding]) -> None:
    """The menu has to be there whatever is wrong with the findings."""
    params = filters.current().params()
    entries = (
        link(
            (
                span(_glyph(row.icon), class_="ts-glyph", aria_hidden="true"),
                row.title,
                _count(row.address, findings),
            ),
            row.address,
            params,
            class_="ts-menu-entry",
            aria_current="page" if row.address == current else None,
            data_key=row.address,
            title=row.question,
        )
        for row in PAGES
        if row.file.exists()
    )
    panel(tag("nav", entries, class_="ts-menu", aria_label="Pages"), key="menu")


def _count(address: str, findings: Sequence[Finding]) -> Html | None:
    urgent = [finding for finding in findings if finding.severity is not Severity.INFO]
    if address != _COUNTED or not urgent:
        return None
    worst = Severity.PAGE if any(f.severity is Severity.PAGE for f in urgent) else Severity.TICKET
    return span(len(urgent), class_=f"ts-count {worst}", aria_label=f"{len(urgent)} findings")


def _glyph(icon: str) -> str:
    return icon.removeprefix(":material/").removesuffix(":")


def _notice(notice: object) -> str:
    line = f" line {notice.line}" if notice.line is not None else ""
    return f"{notice.source}{line}: {notice.text}"


def _mark() -> Html:
    bar = partial(tag, "rect", rx="1.5", height="5")
    return tag(
        "svg",
        bar(x="1", y="3", width="6", fill="var(--queue)"),
        bar(x="1", y="9.5", width="6", fill="var(--queue)"),
        bar(x="1", y="16", width="6", fill="var(--queue)"),
        bar(x="9", y="3", width="6", fill="var(--infer)"),
        bar(x="9", y="9.5", width="6", fill="var(--infer)"),
        bar(x="17", y="9.5", width="6", fill="var(--output)"),
        viewBox="0 0 24 24",
        aria_hidden="true",
    )
