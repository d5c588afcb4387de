"""What happened on the servers looked at, as one list: events, actions, changed configurations, findings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import runtime
from history.events import Event, EventKind
from telemetry.actions import Outcome, Record
from triage.change_points import Done
from ui.marks import before_the_watch, done_by_us, is_told
from ui.person import me
from ui.view import View

LAST_SECONDS = 2 * 3600.0
"""The timeline reaches so far back at least: as far as the process remembers events."""
CONFIG = "config"
FAILED = "failed"
"""Kind of the line of a load that failed."""
_TONES = {EventKind.DOWN: "page", EventKind.RESTART: "ticket", EventKind.RESET: "ticket"}
_OUTCOMES = {Outcome.FAILED: "page", Outcome.UNKNOWN: "ticket"}
_WORDS = {EventKind.STATE: "state", EventKind.JOINED: "joined", EventKind.LEFT: "left"}


@dataclass(frozen=True, slots=True)
class Happened:
    """One line: what was done or happened, and how bad it is ("page", "ticket" or "")."""

    done: Done
    tone: str = ""

    @property
    def at(self) -> float:
        """Unix seconds."""
        return self.done.at


def span_shown(view: View) -> tuple[float, float]:
    """The time of the timeline: the one the reader fixed, else the range and two hours at least."""
    start, end = view.range
    return (start, end) if view.filters.start is not None else (min(start, view.now - LAST_SECONDS), view.now)


def happened(view: View, start: float, end: float) -> list[Happened]:
    """Everything from `start` to `end` (unix seconds), the newest first; what two tell stands once."""
    found = [*_events(view, start, end), *_actions(view, start, end), *_configs(view, start, end)]
    return sorted(found, key=lambda one: -one.at)


def _events(view: View, start: float, end: float) -> Iterator[Happened]:
    server = view.filters.server
    recent = runtime.current().events.events(since=start, server=server)
    done = done_by_us(server, None)
    for event in (*before_the_watch(view, server, None), *recent):
        if not start <= event.at <= end or not view.sees(event.server):
            continue
        # That it begins to load is told by the action, and by the end of the load.
        if not is_told(event, done, view) and not event.text.endswith(" is loading"):
            yield Happened(_event(event), _tone(event))


def _event(event: Event) -> Done:
    kind = FAILED if _failed_load(event) else _WORDS.get(event.kind, event.kind.value)
    return Done(event.at, event.server, event.model.name if event.model else "", kind, event.text)


def _tone(event: Event) -> str:
    return "ticket" if _failed_load(event) else _TONES.get(event.kind, "")


def _failed_load(event: Event) -> bool:
    return event.kind is EventKind.STATE and (
        " failed to load" in event.text or " could not be" in event.text
    )


def _actions(view: View, start: float, end: float) -> Iterator[Happened]:
    for record in done_by_us(view.filters.server, None):
        if start <= record.started_at <= end and view.sees(record.action.server):
            yield Happened(_action(record), _OUTCOMES.get(record.outcome, "") if record.outcome else "")


def _action(record: Record) -> Done:
    """Who did it is for those who see the journal's details."""
    action = record.action
    who = f" by {action.who}" if me().sees_details(action.server) else ""
    why = f" ({action.why})" if action.why and who else ""
    text = f"{action.kind.value} {action.target}{who}{why}: {record.summary(runtime.current().clock())}"
    return Done(record.started_at, action.server, action.model, action.kind.value, text)


def _configs(view: View, start: float, end: float) -> Iterator[Happened]:
    """Configurations that became others, whoever did it."""
    for (server, model), changes in runtime.current().happenings().config_changes.items():
        for change in changes:
            if start <= change.at <= end and view.sees(server):
                text = f"{model} runs with another configuration: {change.words()}"
                yield Happened(Done(change.at, server, model, CONFIG, text))
