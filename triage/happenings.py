"""What happened besides numbers: events, own actions, test requests, processes, changed configurations.

Rules ask for these as facts. A process puts them together at each judgement; saved answers have none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from history.config_book import ConfigBook, ConfigChange, NameKey
from history.drift import Drift, Drifts, no_files
from history.events import Event, EventLog
from history.inventory import Inventory
from history.ring import Ring
from telemetry.actions import Record
from telemetry.identity import ModelKey
from telemetry.memory import ServerProcesses
from telemetry.probe import ProbeResult as ProbeResult
from telemetry.scrape import Source

MEMORY_SECONDS = 3600.0
"""How long something that happened is of interest."""
PROCESSES_FRESH_SECONDS = 30.0


@dataclass(frozen=True)
class Happenings:
    """Everything of the last hour, as it is known now; `drifts` says which models do not run as their files
    say, however long ago that began.
    """  # fmt: skip

    events: tuple[Event, ...] = ()
    records: tuple[Record, ...] = ()
    probes: Mapping[NameKey, ProbeResult] = field(default_factory=dict)
    processes: Mapping[str, ServerProcesses] = field(default_factory=dict)
    config_changes: Mapping[NameKey, tuple[ConfigChange, ...]] = field(default_factory=dict)
    drifts: Mapping[ModelKey, Drift] = field(default_factory=dict)

    @cached_property
    def records_of(self) -> Mapping[NameKey, tuple[Record, ...]]:
        """Actions by server and model."""
        found: dict[NameKey, list[Record]] = {}
        for record in self.records:
            found.setdefault((record.action.server, record.action.model), []).append(record)
        return {name: tuple(records) for name, records in found.items()}


class Probes:
    """The newest result of each model's test request; whoever sends them reports here. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: dict[NameKey, ProbeResult] = {}

    def report(self, result: ProbeResult) -> None:
        """Take a result; it replaces the model's earlier one, and goes on from it where it says the same."""
        key = (result.server, result.model)
        with self._lock:
            before = self._results.get(key)
            if result.since is None and before is not None and before.ok == result.ok:
                result = replace(result, since=before.at if before.since is None else before.since)
            self._results[key] = result

    def forget(self, server: str, model: str) -> None:
        """The model is no longer asked."""
        with self._lock:
            self._results.pop((server, model), None)

    def results(self) -> dict[NameKey, ProbeResult]:
        """The newest of each model."""
        with self._lock:
            return dict(self._results)


class Happened:
    """Puts the happenings of one process together."""

    def __init__(
        self,
        ring: Ring,
        events: EventLog,
        records: Callable[[], Sequence[Record]],
        probes: Probes,
        configs: ConfigBook,
        drifts: Callable[[Inventory], Mapping[ModelKey, Drift]],
    ) -> None:
        """`drifts` judges the models of an inventory; see `history.drift`."""
        self._ring, self._events, self._probes = ring, events, probes
        self._records, self._configs, self._drifts = records, configs, drifts

    @classmethod
    def watched(
        cls, ring: Ring, events: EventLog, configs: ConfigBook, clock: Callable[[], float] | None = None
    ) -> Happened:
        """Of servers that are only read: without actions, test requests and files."""
        drifts = Drifts(configs, events, tuple, no_files, lambda: ring.revision, clock)
        return cls(ring, events, tuple, Probes(), configs, drifts.all)

    def now(self, inventory: Inventory, at: float) -> Happenings:
        """Everything that happened within the hour before `at` (unix seconds)."""
        since = at - MEMORY_SECONDS
        return Happenings(
            self._events.events(since=since),
            tuple(one for one in self._records() if (one.ended_at or one.started_at) >= since),
            self._probes.results(),
            {server: seen for server in inventory.servers if (seen := self._seen(server, at)) is not None},
            self._configs.changes(since),
            self._drifts(inventory),
        )

    def _seen(self, server: str, at: float) -> ServerProcesses | None:
        scrape = self._ring.last(server, Source.PROCESSES)
        if scrape is None or at - scrape.at > PROCESSES_FRESH_SECONDS:
            return None
        return scrape.payload if isinstance(scrape.payload, ServerProcesses) else None
