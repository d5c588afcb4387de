"""What happened to servers and models: loads, unloads, resets, restarts, outages, as a bounded log."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from history.changes import (
    Row,
    StateChange,
    compare_indexes,
    compare_pages,
    fallen_statistics,
)
from telemetry.facts import IndexEntry, ModelState, ModelStatistics, ServerMetadata
from telemetry.identity import ModelKey
from telemetry.reasons import reason_line
from telemetry.scrape import ANSWERED, Samples, Scrape, Source

RETENTION_SECONDS = 2 * 3600.0
MAX_EVENTS = 5000
_OFTEN = (Source.METRICS, Source.STATISTICS)
"""Sources asked at every interval."""
_SAME_RESTART_SECONDS = 30.0
"""A new server name, fallen counters and fallen failures within this time are one restart."""


class EventKind(StrEnum):
    """Kinds of events; each is one mark on a chart."""

    LOAD = "load"
    UNLOAD = "unload"
    RELOAD = "reload"
    RESET = "reset"
    RESTART = "restart"
    DOWN = "down"
    UP = "up"
    VERSION = "version"
    STATE = "state"
    JOINED = "joined"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at `at` (unix seconds, the reading that showed it)."""

    at: float
    server: str
    model: ModelKey | None
    kind: EventKind
    text: str


@dataclass(frozen=True, slots=True)
class EventState:
    """Events, and since when each server was watched; `newest` is the last reading. All in unix seconds.

    `restarted` says for servers of which a restart was seen which reading was the last one before it.
    """

    events: tuple[Event, ...]
    watched: Mapping[str, float]
    newest: float
    restarted: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Server:
    """What the last readings of one server were, to compare the next ones with."""

    since: float = float("inf")
    """Time of the first reading."""
    attempts: dict[Source, bool] = field(default_factory=dict)
    failing_since: dict[Source, float] = field(default_factory=dict)
    answered_at: float = float("-inf")
    answering: bool | None = None
    down_since: float | None = None
    down_since_page: bool = False
    page: Samples | None = None
    statistics: tuple[ModelStatistics, ...] | None = None
    index: tuple[IndexEntry, ...] | None = None
    metadata: ServerMetadata | None = None
    restarted_at: float = float("-inf")
    before_restart: float = float("-inf")
    """Time of the last reading before the newest restart."""
    changed_at: dict[Row, float] = field(default_factory=dict)
    """When each model last came, went or fell on the metrics page or in the index."""
    page_at: float = float("-inf")
    metadata_at: float = float("-inf")
    statistics_at: float = float("-inf")
    reload_candidates: list[tuple[Row, float, float]] = field(default_factory=list)
    """Model, time of the statistics that fell, time of those before: judged at the next metrics page."""


class EventLog:
    """A `Sink` that keeps what changed for two hours (at most 5,000 events); thread-safe."""

    def __init__(self, *, retention_seconds: float = RETENTION_SECONDS) -> None:
        self._retention_seconds = retention_seconds
        self._lock = threading.Lock()
        self._servers: dict[str, _Server] = {}
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self._revision = 0
        self._newest = float("-inf")

    @property
    def revision(self) -> int:
        """Grows with every event."""
        return self._revision

    def events(
        self, *, since: float | None = None, server: str | None = None, model: ModelKey | None = None
    ) -> tuple[Event, ...]:
        """Events in the order of their time; for a model also those of its server as a whole."""
        with self._lock:
            held = list(self._events)
        wanted = server if model is None else model.server
        return tuple(
            sorted(
                (
                    event
                    for event in held
                    if (since is None or event.at >= since)
                    and wanted in (None, event.server)
                    and (model is None or event.model in (None, model))
                ),
                key=lambda event: event.at,
            )
        )

    def watched_since(self, server: str) -> float:
        """From when on (unix seconds) this log knows what happened to a server; inf if it was never read."""
        with self._lock:
            known, newest = self._servers.get(server), self._newest
            return float("inf") if known is None else max(known.since, newest - self._retention_seconds)

    def restarted_after(self, server: str) -> float:
        """The last reading (unix seconds) before the newest restart that was seen, however long ago; -inf
        without one. What was done before that reading was done to an earlier process.
        """  # fmt: skip
        with self._lock:
            known = self._servers.get(server)
            return known.before_restart if known is not None else float("-inf")

    def state(self, servers: Collection[str], since: float) -> EventState:
        """What is known of these servers since `since`, unix seconds."""
        events = tuple(one for one in self.events(since=since) if one.server in servers)
        with self._lock:
            held = {name: one for name, one in self._servers.items() if name in servers}
            watched = {name: one.since for name, one in held.items()}
            restarted = {
                name: one.before_restart for name, one in held.items() if one.before_restart > float("-inf")
            }
            return EventState(events, watched, self._newest, restarted)

    def restore(self, state: EventState) -> None:
        """Know what `state` tells; only for a log that has taken nothing."""
        with self._lock:
            self._servers = {
                name: _Server(since=since, before_restart=state.restarted.get(name, float("-inf")))
                for name, since in state.watched.items()
            }
            self._events.extend(state.events)
            self._revision += len(state.events)
            self._newest = state.newest

    def joined(self, server: str, at: float, origin: str) -> None:
        """A server is listed from `at` (unix seconds) on in `origin`."""
        self._note(Event(at, server, None, EventKind.JOINED, f"{server} came: it is in {origin} now"))

    def left(self, server: str, at: float, origin: str) -> None:
        """A server is not listed any more. Nothing is compared with what it was if it comes again."""
        with self._lock:
            self._servers.pop(server, None)
        self._note(Event(at, server, None, EventKind.LEFT, f"{server} went: it is not in {origin} any more"))

    def _note(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)
            self._revision += 1

    def accept(self, scrape: Scrape) -> None:
        """Compare one scrape with the one before it from the same source."""
        with self._lock:
            state = self._servers.setdefault(scrape.server, _Server())
            state.since = min(state.since, scrape.at)
            self._newest = max(self._newest, scrape.at)
            events = [*_answering(state, scrape), *_changes(state, scrape)]
            self._events.extend(events)
            self._revision += len(events)
            while self._events and self._events[0].at < scrape.at - self._retention_seconds:
                self._events.popleft()


def _answering(state: _Server, scrape: Scrape) -> Iterator[Event]:
    """DOWN when everything that is asked at every interval fails, UP when anything answers again.

    A server that has not answered yet changed nothing: it is not down, and its first answer is no return.
    Its processes and GPUs are told by others.
    """
    if scrape.source not in ANSWERED:
        return
    seen = state.answered_at > float("-inf")
    state.attempts[scrape.source] = scrape.ok
    _note_attempt(state, scrape)
    answering = not _is_down(state)
    if not answering:
        state.down_since_page = True
    if answering == state.answering:
        return
    before, state.answering = state.answering, answering
    if not seen:
        return
    if not answering:
        state.down_since = scrape.at
        why = scrape.error.sentence if scrape.error is not None else "it does not answer"
        yield Event(scrape.at, scrape.server, None, EventKind.DOWN, f"{scrape.server} is down: {why}")
    elif before is False:
        down = "" if state.down_since is None else f" after {scrape.at - state.down_since:.0f} s"
        yield Event(scrape.at, scrape.server, None, EventKind.UP, f"{scrape.server} answers again{down}")


def _note_attempt(state: _Server, scrape: Scrape) -> None:
    # A refusal with an HTTP status is an answer: somebody is there.
    if scrape.ok or (scrape.error is not None and scrape.error.status is not None):
        state.answered_at = max(state.answered_at, scrape.at)
        state.failing_since.pop(scrape.source, None)
    else:
        state.failing_since.setdefault(scrape.source, scrape.at)


def _is_down(state: _Server) -> bool:
    """The sources asked at every interval fail, and no other one answered since: those are asked rarely."""
    often = [source for source in _OFTEN if source in state.attempts] or list(state.attempts)
    failing = [state.failing_since[source] for source in often if source in state.failing_since]
    return len(failing) == len(often) and state.answered_at < max(failing)


def _changes(state: _Server, scrape: Scrape) -> Iterator[Event]:
    if not scrape.ok:
        return
    payload = scrape.payload
    if scrape.source is Source.METRICS:
        yield from _page(state, scrape)
    elif scrape.source is Source.STATISTICS and isinstance(payload, tuple):
        _statistics(state, scrape.at, payload)
    elif scrape.source is Source.INDEX and isinstance(payload, tuple):
        yield from _index(state, scrape, payload)
    elif scrape.source is Source.METADATA and isinstance(payload, ServerMetadata):
        yield from _metadata(state, scrape, payload)


def _page(state: _Server, scrape: Scrape) -> Iterator[Event]:
    before, state.page = state.page, scrape.samples
    was_down, state.down_since_page = state.down_since_page, False
    if before is not None:
        change = compare_pages(before, scrape.samples, was_down=was_down, whole=not scrape.notices)
        for row in (*change.came, *change.went, *change.fell):
            state.changed_at[row] = scrape.at
        if change.restarted:
            yield from _restart(state, scrape, state.page_at, "all counters began again at zero")
        else:
            # With an index its states say the same, with the reason, and also for ensembles' versions.
            if not state.attempts.get(Source.INDEX, False):
                yield from (_model_event(scrape, row, EventKind.LOAD) for row in change.came)
                yield from (_model_event(scrape, row, EventKind.UNLOAD) for row in change.went)
            yield from (_model_event(scrape, row, EventKind.RESET) for row in change.fell)
    yield from _reloads(state, scrape)
    state.page_at = scrape.at


def _reloads(state: _Server, scrape: Scrape) -> Iterator[Event]:
    """Statistics began again while the metrics went on: loaded anew in place."""
    judged, state.reload_candidates = state.reload_candidates, []
    for row, at, since in judged:
        elsewhere = state.changed_at.get(row, float("-inf")) >= since - 1.0
        if not elsewhere and state.restarted_at < since - 1.0:
            yield _model_event(scrape, row, EventKind.RELOAD, at)


def _statistics(state: _Server, at: float, rows: tuple[ModelStatistics, ...]) -> None:
    before, state.statistics = state.statistics, rows
    if before is not None:
        # The page read before the statistics that still counted on may be the one to compare with.
        since = min(state.statistics_at, state.page_at)
        state.reload_candidates += [(row, at, since) for row in fallen_statistics(before, rows)]
    state.statistics_at = at


def _index(state: _Server, scrape: Scrape, entries: tuple[IndexEntry, ...]) -> Iterator[Event]:
    before, state.index = state.index, entries
    if before is None:
        return
    for change in compare_indexes(before, entries):
        if change.loaded or change.unloaded:
            state.changed_at[change.row] = scrape.at
        if change.loaded:
            yield _model_event(scrape, change.row, EventKind.LOAD)
        elif change.unloaded:
            yield _model_event(scrape, change.row, EventKind.UNLOAD)
        elif (text := _state_text(change)) is not None:
            key = ModelKey(scrape.server, *change.row)
            yield Event(scrape.at, scrape.server, key, EventKind.STATE, f"{key.label()} {text}")


def _state_text(change: StateChange) -> str | None:
    now = change.now
    if now is None:
        return "is no longer in the repository"
    if now.state is ModelState.READY and now.reason:
        return f"could not be updated, the version before still serves: {reason_line(now.reason)}"
    if now.failed:
        return f"failed to load: {reason_line(now.reason)}"
    if now.state is ModelState.LOADING:
        return "is loading"
    if change.before is None:
        return "is new in the repository"
    return None


def _metadata(state: _Server, scrape: Scrape, now: ServerMetadata) -> Iterator[Event]:
    before, state.metadata = state.metadata, now
    last, state.metadata_at = state.metadata_at, scrape.at
    if before is None:
        return
    if before.name != now.name:
        yield from _restart(state, scrape, last, f"it now calls itself {now.name}")
    if before.version != now.version:
        text = f"{scrape.server} now runs Triton {now.version} (before: {before.version})"
        yield Event(scrape.at, scrape.server, None, EventKind.VERSION, text)


def _restart(state: _Server, scrape: Scrape, last: float, why: str) -> Iterator[Event]:
    """`last`: time of the reading before, which did not show it yet."""
    before, state.restarted_at = state.restarted_at, scrape.at
    state.before_restart = max(state.before_restart, last)
    if scrape.at - before > _SAME_RESTART_SECONDS:
        text = f"{scrape.server} was restarted: {why}"
        yield Event(scrape.at, scrape.server, None, EventKind.RESTART, text)


_TEXTS = {
    EventKind.LOAD: "was loaded",
    EventKind.UNLOAD: "was unloaded",
    EventKind.RELOAD: "was reloaded in place: its statistics began again, its metrics went on",
    EventKind.RESET: "counts again from zero",
}


def _model_event(scrape: Scrape, row: Row, kind: EventKind, at: float | None = None) -> Event:
    key = ModelKey(scrape.server, *row)
    return Event(scrape.at if at is None else at, scrape.server, key, kind, f"{key.label()} {_TEXTS[kind]}")
