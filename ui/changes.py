"""What changed in the last hour, and what can and cannot be seen: two quiet lines."""

from __future__ import annotations

from collections.abc import Sequence

import runtime
from history.events import Event
from telemetry.memory import CPU
from triage.context import ServerCoverage
from ui.format import counted, moment
from ui.html import Html, join, span, tag
from ui.memory_view import devices
from ui.security_notes import restricted
from ui.view import View

LAST_SECONDS = 3600.0
_SHOWN = 4


def changes_and_coverage(view: View) -> Html:
    """Both lines as a list of terms."""
    recent = runtime.current().events.events(since=view.now - LAST_SECONDS, server=view.filters.server)
    events = [event for event in recent if view.sees(event.server)]
    return tag(
        "dl",
        tag("dt", "Changed in the last hour"),
        tag("dd", _changes(events)),
        tag("dt", "Seen"),
        tag("dd", _seen(view)),
        _unseen(view),
        class_="ts-lines",
    )


def _changes(events: Sequence[Event]) -> Html | str:
    if not events:
        return "nothing: no load, unload, restart or reset was seen"
    latest = list(reversed(events))
    shown = join([_event(one) for one in latest[:_SHOWN]], between=" · ")
    rest = latest[_SHOWN:]
    if not rest:
        return shown
    older = [tag("div", _event(event)) for event in rest]
    return join(shown, tag("details", tag("summary", f"{len(rest)} more"), older, class_="ts-fold"))


def _event(event: Event) -> Html:
    return span(moment(event.at), " ", event.text)


def _seen(view: View) -> Html | str:
    answering = [one for one in view.coverage if one.answering]
    if not view.coverage:
        return "no server is configured"
    words = f"{len(answering)} of {len(view.coverage)} servers answer" if len(view.coverage) > 1 else (
        "the server answers" if answering else "the server does not answer"
    )  # fmt: skip
    checked = f"{view.judgement.rules} rules checked"
    several = len(view.coverage) > 1
    silent = [
        span(f"{one.server}: {one.sentence}" if several else one.sentence, class_="ts-warn")
        for one in view.coverage
        if not one.answering and one.sentence
    ]
    failed = [*silent, *(line for one in view.coverage if one.answering for line in _failed(one))]
    return join([words, checked, *failed], between=" · ")


def _failed(one: ServerCoverage) -> list[Html]:
    return [
        span(
            f"{one.server}: {source.value} restricted"
            if restricted(one.server, source)
            else f"{one.server}: no {source.value}",
            class_="ts-warn",
            data_tip=sentence,
        )
        for source, sentence in one.failed_sources.items()
    ]


def _unseen(view: View) -> Html | None:
    """What no rule could judge, and the figures nobody reports."""
    lines = []
    if view.report.servers and not view.report.gpus:
        lines.append(
            span("GPU figures", data_tip="Triton reports no GPU metrics; GPU & VRAM names the causes.")
        )
    known = devices(view)
    if view.report.models and not any(model for one in known if one.device != CPU for model in one.models):
        tip = "No backend reports the memory of its models, and no process of theirs is seen on a GPU."
        lines.append(span("GPU memory per model", data_tip=tip))
    unjudged = view.judgement.unjudged
    if unjudged:
        tip = "\n".join(
            f"{one.model.label() if one.model else one.server}: {one.why}" for one in unjudged[:12]
        )
        lines.append(span(f"{counted(len(unjudged), 'check')} without figures", data_tip=tip))
    if not lines:
        return None
    return join(tag("dt", "Not visible"), tag("dd", join(lines, between=" · ")))
