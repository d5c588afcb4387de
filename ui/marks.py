"""What happened to a model and its server, as lines on its charts."""

from __future__ import annotations

import runtime
from charts.spec import Mark
from history.events import EventKind
from telemetry.identity import ModelKey
from ui.view import View

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


def marks(view: View, key: ModelKey | None = None) -> tuple[Mark, ...]:
    """Events of the time shown: of one model and its server, or of all servers looked at."""
    start, end = view.range
    log = runtime.current().events
    server = key.server if key is not None else view.filters.server
    events = log.events(since=start, server=server, model=key)
    return tuple(
        Mark(event.at, _WORDS[event.kind], event.text, _COLORS.get(event.kind, "@grey"))
        for event in events
        if event.at <= end and event.kind in _WORDS
    )
