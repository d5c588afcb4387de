"""What happened to a model and its server, and what was done to them, as lines on their charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import runtime
from charts.spec import Mark
from history.events import Event, EventKind
from telemetry.identity import ModelKey
from telemetry.units import Unit, human
from ui.person import me
from ui.view import View

if TYPE_CHECKING:
    from telemetry.actions import Record

_WORDS = {
    EventKind.LOAD: "load",
    EventKind.UNLOAD: "unload",
    EventKind.RELOAD: "reload",
    EventKind.RESET: "reset",
    EventKind.RESTART: "restart",
    EventKind.DOWN: "down",
    EventKind.UP: "up",
    EventKind.VERSION: "version",
    EventKind.JOINED: "joined",
    EventKind.LEFT: "left",
}
_COLORS = {EventKind.DOWN: "@red", EventKind.RESTART: "@amber", EventKind.RESET: "@amber"}
_OUTCOME_COLORS = {"failed": "@red", "unknown": "@amber"}
_BROUGHT_ABOUT = (EventKind.LOAD, EventKind.UNLOAD, EventKind.RELOAD, EventKind.RESET)
_FEW_SERVERS = 4
"""Of more servers the marks before this process watched would be too many lines."""
_SEEN_WITHIN_SECONDS = 10.0
"""What an action on the repository brings about is read this long after its end at the latest."""


def marks(view: View, key: ModelKey | None = None) -> tuple[Mark, ...]:
    """Actions and events of the time shown: of one model and its server, or of all servers looked at."""
    start, end = view.range
    server = key.server if key is not None else view.filters.server
    done = done_by_us(server, key.name if key is not None else None)
    recent, person = runtime.current().events.events(since=start, server=server, model=key), me()
    recent = (*before_the_watch(view, server, key), *recent)
    events = [event for event in recent if event.at <= end and person.sees(event.server)]
    seen = [
        Mark(event.at, _WORDS[event.kind], event.text, _COLORS.get(event.kind, "@grey"))
        for event in events
        if event.kind in _WORDS and not is_told(event, done, view)
    ]
    return (*seen, *(_action(one) for one in done if start <= one.started_at <= end))


def before_the_watch(view: View, server: str | None, key: ModelKey | None) -> tuple[Event, ...]:
    """What Prometheus tells of the time before this process watched, of one server or of a few."""
    process = runtime.current()
    servers = [server] if server is not None else [one.server for one in view.coverage]
    if process.remote is None or len(servers) > _FEW_SERVERS:
        return ()
    found: list[Event] = []
    for one in servers:
        since = process.events.watched_since(one)
        if view.grid.start < since - view.grid.step_seconds:
            told = process.remote.events(one, key, view.grid, view.deadline)
            found += (event for event in told if event.at < since)
    return tuple(found)


def done_by_us(server: str | None, model: str | None) -> list[Record]:
    """Actions that were sent, of a server and a model if given, that this person may see."""
    person = me()
    return [
        one
        for one in runtime.current().records(server, model)
        if one.sent is not False and person.sees(one.action.server)
    ]


def _action(record: Record) -> Mark:
    """An action with its outcome; who did it is for those who see the journal's details."""
    action = record.action
    who = f", by {action.who}" if me().sees_details(action.server) else ""
    outcome = record.summary(runtime.current().clock())
    took = "" if record.running else f" ({human(record.seconds(0.0), Unit.SECONDS)})"
    text = f"{action.kind.value} {action.target}{who}: {outcome}{took}"
    return Mark(
        record.started_at, action.kind.value, text, _OUTCOME_COLORS.get(record.outcome or "", "@grey")
    )


def is_told(event: Event, done: list[Record], view: View) -> bool:
    """True if an action of this app is why: one line says both."""
    if event.model is None or event.kind not in _BROUGHT_ABOUT:
        return False
    late = max(_SEEN_WITHIN_SECONDS, 3.0 * view.interval_seconds)
    return any(_brought_about(event, event.model, record, late) for record in done)


def _brought_about(event: Event, model: ModelKey, record: Record, late: float) -> bool:
    action = record.action
    if not action.kind.changes_repository or (action.server, action.model) != (model.server, model.name):
        return False
    return record.started_at <= event.at and (record.running or event.at <= (record.ended_at or 0.0) + late)
