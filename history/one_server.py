"""Is there one server behind an address? Behind a load balancer every reading may come from another one."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

from history.changes import fallen_series
from telemetry.facts import ServerMetadata
from telemetry.scrape import Samples, Scrape, Series, Source

REMEMBER_SECONDS = 600.0
MIN_SWINGS = 3
"""So often counters must fall and be back where they were: after a restart or a reload they begin at 0."""
SWING_READINGS = 4
"""Within so many readings after a fall the other server must be seen again: no counter grows back so fast."""


@dataclass(slots=True)
class _Seen:
    names: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=50))
    swings: deque[float] = field(default_factory=lambda: deque(maxlen=50))
    page: Samples | None = None
    fallen: dict[Series, float] = field(default_factory=dict)
    """Counters that fell, with their values before."""
    readings: int = 0
    """Readings since they fell."""


class OneServer:
    """A `Sink` that watches for two servers that answer in turn; thread-safe."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._lock = threading.Lock()
        self._newest = 0.0

    def accept(self, scrape: Scrape) -> None:
        """Take the name a server gives itself, and whether its counters fell."""
        with self._lock:
            seen = self._seen.setdefault(scrape.server, _Seen())
            self._newest = max(self._newest, scrape.at)
            if scrape.source is Source.METADATA and isinstance(scrape.payload, ServerMetadata):
                name = f"{scrape.payload.name} {scrape.payload.version}".strip()
                if not seen.names or seen.names[-1][1] != name:
                    seen.names.append((scrape.at, name))
            elif scrape.source is Source.METRICS:
                self._note_page(seen, scrape)

    def forget(self, server: str) -> None:
        """Nobody asks this server any more: who comes back under its id is looked at anew."""
        with self._lock:
            self._seen.pop(server, None)

    def doubt(self, server: str) -> str:
        """Why nobody knows which server the address leads to, "" if nothing speaks against one."""
        with self._lock:
            seen = self._seen.get(server)
            if seen is None:
                return ""
            return self._by_name(server, seen) or self._by_counters(server, seen)

    def _by_name(self, server: str, seen: _Seen) -> str:
        recent = [name for at, name in seen.names if at > self._newest - REMEMBER_SECONDS]
        # A restart gives a new name; a name that comes back belongs to a server that was there all along.
        if len(recent) < 3 or len(set(recent)) == len(recent):
            return ""
        return _sentence(server, f"it calls itself {' and '.join(sorted(set(recent)))} in turn")

    def _by_counters(self, server: str, seen: _Seen) -> str:
        swings = [at for at in seen.swings if at > self._newest - REMEMBER_SECONDS]
        if len(swings) < MIN_SWINGS:
            return ""
        return _sentence(server, f"its counters fell and were back {len(swings)} times")

    def _note_page(self, seen: _Seen, scrape: Scrape) -> None:
        if not scrape.ok:
            return
        before, seen.page = seen.page, scrape.samples
        if before is None:
            return
        seen.readings += 1
        if seen.readings > SWING_READINGS:
            seen.fallen = {}
        if not seen.fallen:
            fallen = set(fallen_series(before, scrape.samples))
            values = zip(before.series, before.values.tolist(), strict=True)
            seen.fallen = {series: value for series, value in values if series in fallen}
            seen.readings = 0
        elif _back(seen.fallen, scrape.samples):
            seen.swings.append(scrape.at)
            seen.fallen = {}


def _back(fallen: dict[Series, float], page: Samples) -> bool:
    """All counters that fell stand where they stood, or above."""
    now = dict(zip(page.series, page.values.tolist(), strict=True))
    return all(now.get(series, 0.0) >= value for series, value in fallen.items())


def _sentence(server: str, why: str) -> str:
    return (
        f"Refused: two servers answer at the address of {server} in turn ({why}), so that nobody can say "
        "which one an action would reach. Give each replica its own address in the settings."
    )
