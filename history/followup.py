"""What a reading makes worth reading next: models that became ready, servers that came back, own actions.

Configurations are read seldom; what changed since is read at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from collectors.config import ConfigCollector, ready_models
from collectors.poller import Job
from history.events import Event, EventKind, EventLog
from history.ring import Ring
from telemetry.scrape import Scrape, Source

_LOADED_ANEW = (EventKind.LOAD, EventKind.RELOAD, EventKind.RESTART, EventKind.UP, EventKind.VERSION)
_EVENT_MEMORY_SECONDS = 60.0

Poke = Callable[[str, Source], None]
"""Read this source of the server with this id now."""


class FollowUp:
    """A `Sink` before the event log: it pokes the poller where the readings call for it.

    `came_back(server_id)` is called after a restart or an outage.
    """

    def __init__(self, ring: Ring, events: EventLog, poke: Poke, came_back: Callable[[str], None]) -> None:
        self._ring, self._events = ring, events
        self._poke, self._came_back = poke, came_back
        self._configs: dict[str, ConfigCollector] = {}
        self._ready: dict[str, Mapping[str, Hashable]] = {}
        self._followed: dict[str, frozenset[Event]] = {}

    def watch(self, jobs: list[Job]) -> list[Job]:
        """Remember who reads the configurations of a server; gives the jobs back."""
        for job in jobs:
            if isinstance(job.collector, ConfigCollector):
                self._configs[job.collector.server.id] = job.collector
        return jobs

    def forget(self, server_id: str) -> None:
        """The server is no longer watched."""
        self._configs.pop(server_id, None)
        self._ready.pop(server_id, None)
        self._followed.pop(server_id, None)

    def accept(self, scrape: Scrape) -> None:
        """Take one scrape that the ring already holds into the event log, and follow what it shows."""
        if scrape.source is Source.INDEX:
            self._follow_index(scrape.server)
        before = self._events.revision
        self._events.accept(scrape)
        if self._events.revision != before:
            self._follow_events(scrape)

    def ready_models(self, server_id: str) -> Mapping[str, Hashable] | None:
        """The models that serve now, None while that is not known; see `collectors.config`."""
        return ready_models(
            self._newest_payload(server_id, Source.INDEX), self._newest_payload(server_id, Source.STATISTICS)
        )

    def acted(self, server_id: str, model: str, *, ended: bool) -> None:
        """An action on the repository was sent or has ended: look at once what became of it."""
        self._poke(server_id, Source.INDEX)
        if ended:
            self._reread(server_id, model)
            for source in (Source.METRICS, Source.STATISTICS, Source.PROCESSES):
                self._poke(server_id, source)

    def _newest_payload(self, server_id: str, source: Source) -> Any:
        """What the newest attempt brought, None if it failed: then nothing is known about now."""
        scrape = self._ring.latest(server_id, source)
        return scrape.payload if scrape is not None and scrape.ok else None

    def _follow_index(self, server_id: str) -> None:
        """Models that became ready have a configuration to read: not only at its next time."""
        ready = self.ready_models(server_id)
        if ready is not None and ready != self._ready.get(server_id):
            self._ready[server_id] = ready
            self._poke(server_id, Source.CONFIG)

    def _follow_events(self, scrape: Scrape) -> None:
        # A reload is only known at the reading after the one that showed it: look a little further back.
        recent = self._events.events(since=scrape.at - _EVENT_MEMORY_SECONDS, server=scrape.server)
        followed = self._followed.get(scrape.server, frozenset())
        self._followed[scrape.server] = frozenset(recent)
        for event in recent:
            if event in followed:
                continue
            if event.kind in _LOADED_ANEW:
                self._reread(scrape.server, event.model.name if event.model else None)
            if event.kind in (EventKind.RESTART, EventKind.UP):
                self._came_back(scrape.server)

    def _reread(self, server_id: str, model: str | None) -> None:
        collector = self._configs.get(server_id)
        if collector is not None:
            collector.reread(model)
            self._poke(server_id, Source.CONFIG)
