"""The timeline: what was done and what happened in the last hours, with the alerts, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import runtime
from telemetry.alerts import Alert, AlertState
from telemetry.units import human_duration
from triage.finding import Severity
from ui.format import clock, counted, moment
from ui.html import Child, Html, div, join, span, tag
from ui.model_panels import section
from ui.sight import sees_everything
from ui.triage_happened import FAILED, Happened, happened, span_shown
from ui.triage_links import rule_named, silence
from ui.view import View

SHOWN = 25
FOLDED = 200
"""So many more lines stand behind the fold; the page Repository has all actions."""
_TOLD_ANYHOW_SECONDS = 2.0
"""A finding about a failed load that begins so near to the failure is the same news."""


@dataclass(frozen=True, slots=True)
class _Line:
    at: float
    kind: str
    server: str
    words: Child
    tone: str = ""


def timeline(view: View) -> Html:
    """The section; also who could not be asked about alerts."""
    start, end = span_shown(view)
    done = happened(view, start, end)
    lines = [
        *(_Line(one.at, one.done.kind, one.done.server, one.done.text, one.tone) for one in done),
        *_findings(view, start, end, done),
        *_alerts(view, start, end),
    ]
    lines.sort(key=lambda one: -one.at)
    note = f"{clock(start)} to {clock(end)}" if view.filters.start is not None else _reach(start, end)
    return section("Timeline", _listed(lines, view), _unread(), note=note)


def _reach(start: float, end: float) -> str:
    return f"last {human_duration(end - start)}, newest first"


def _listed(lines: Sequence[_Line], view: View) -> Html:
    if not lines:
        return div(
            "Nothing was seen: no action, load, restart, reset, outage, version change or alert.",
            class_="ts-faint",
        )
    several = len(view.coverage) > 1
    rows = [_row(one, several=several) for one in lines]
    rest = rows[SHOWN : SHOWN + FOLDED]
    older = (
        tag("details", tag("summary", f"{counted(len(rows) - SHOWN, 'older line')}"),
            tag("ol", rest, class_="ts-timeline"), class_="ts-fold")
        if rest
        else None
    )  # fmt: skip
    return join(tag("ol", rows[:SHOWN], class_="ts-timeline"), older)


def _row(line: _Line, *, several: bool) -> Html:
    return tag(
        "li",
        span(moment(line.at), class_="ts-timeline-at"),
        span(line.kind, class_=f"ts-badge {line.tone}".rstrip()),
        span(line.words, span(f" on {line.server}", class_="ts-faint") if several and line.server else None),
        data_key=f"{line.at:.3f} {line.kind} {line.server} {line.words}",
    )


def _findings(view: View, start: float, end: float, done: Sequence[Happened]) -> Iterator[_Line]:
    """When what is wrong now began; a load that failed is told by the failure itself."""
    failed = [one for one in done if one.done.kind == FAILED]
    for one in view.judgement.findings:
        if one.since is None or not start <= one.since <= end:
            continue
        model = one.model.name if one.model else ""
        told = any(
            (row.done.server, row.done.model) == (one.server, model)
            and abs(row.at - one.since) <= _TOLD_ANYHOW_SECONDS
            for row in failed
        )
        if not told:
            yield _Line(one.since, "finding", one.server, f"{one.clause or one.sentence}", one.severity.value)


# ---- alerts


def _alerts(view: View, start: float, end: float) -> Iterator[_Line]:
    for one in runtime.current().alerts.seen().alerts:
        if one.starts_at > end or (one.ends_at is not None and one.ends_at < start):
            continue
        server = runtime.current().server_called(one.server) if one.server else None
        if server is not None:
            if view.sees(server):
                yield _alert(one, server)
        elif rule_named(one.name) is not None and not one.server and sees_everything():
            # About a workload or about everything.
            yield _alert(one, "")


def _alert(one: Alert, server: str) -> _Line:
    model = f" for {one.model}" if one.model else ""
    if one.ends_at is not None:
        state = f"fired until {clock(one.ends_at)} ({human_duration(one.ends_at - one.starts_at)})"
    else:
        state = {AlertState.FIRING: "fires", AlertState.SILENCED: "fires, silenced: nobody is told"}.get(
            one.state, "fires, but another alert stands for it: nobody is told"
        )
    words = join(
        f"{one.name}{model} {state}",
        f": {one.summary}" if one.summary else None,
        span(" by ", one.source, class_="ts-faint"),
        join(" ", quiet) if one.ends_at is None and (quiet := silence(one.name, one.labels)) else None,
    )
    return _Line(one.starts_at, "alert", server, words, "" if one.ends_at is not None else _tone(one))


def _tone(one: Alert) -> str:
    """How bad it is by its label; somebody else's words for severities count as the worst."""
    named = one.labels.get("severity", "")
    return named if named in {severity.value for severity in Severity} else Severity.PAGE.value


def _unread() -> Html | None:
    """Why alerts may be missing; without any source, quietly that there is none."""
    alerts = runtime.current().alerts
    if not alerts.configured:
        words = "Alerts are not shown: the settings name neither an Alertmanager nor a Prometheus."
        return div(words, class_="ts-more")
    errors = alerts.seen().errors
    return div("Alerts may be missing: ", "; ".join(errors), class_="ts-more ts-warn") if errors else None
