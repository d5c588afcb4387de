"""What happened besides numbers: events, own actions, test requests, processes, changed configurations.

Rules ask for these as facts. A process puts them together at each judgement; saved answers have none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from history.events import Event, EventLog
from history.inventory import Inventory
from history.ring import Ring
from telemetry.actions import Record
from telemetry.facts import ModelConfig
from telemetry.memory import ServerProcesses
from telemetry.probe import ProbeResult as ProbeResult
from telemetry.scrape import Scrape, Source

MEMORY_SECONDS = 3600.0
"""How long something that happened is of interest."""
PROCESSES_FRESH_SECONDS = 30.0

NameKey = tuple[str, str]
"""Server id and model name."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """The effective configuration of a READY model became another one at `at`: `text` names what changed."""

    at: float
    text: str
    sizes: bool
    """Instances or the largest batch changed: memory may differ for that reason."""


@dataclass(frozen=True)
class Happenings:
    """Everything of the last hour, as it is known now."""

    events: tuple[Event, ...] = ()
    records: tuple[Record, ...] = ()
    probes: Mapping[NameKey, ProbeResult] = field(default_factory=dict)
    processes: Mapping[str, ServerProcesses] = field(default_factory=dict)
    config_changes: Mapping[NameKey, ConfigChange] = field(default_factory=dict)

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
    """Puts the happenings of one process together; a `Sink`, for configurations are compared as they come."""

    def __init__(
        self, ring: Ring, events: EventLog, records: Callable[[], Sequence[Record]], probes: Probes
    ) -> None:
        self._ring, self._events, self._records, self._probes = ring, events, records, probes
        self._configs = _ConfigMemory()

    def now(self, inventory: Inventory, at: float) -> Happenings:
        """What is known at `at` (unix seconds)."""
        since = at - MEMORY_SECONDS
        return Happenings(
            self._events.events(since=since),
            tuple(one for one in self._records() if (one.ended_at or one.started_at) >= since),
            self._probes.results(),
            {server: seen for server in inventory.servers if (seen := self._seen(server, at)) is not None},
            self._configs.changes(since),
        )

    def accept(self, scrape: Scrape) -> None:
        """Take one scrape; only configurations are remembered."""
        if scrape.source is Source.CONFIG and scrape.ok and isinstance(scrape.payload, Mapping):
            self._configs.note(scrape.server, scrape.payload.values(), scrape.at)

    def config_changes(self, since: float) -> dict[NameKey, ConfigChange]:
        """Configurations that became others since then (unix seconds)."""
        return self._configs.changes(since)

    def restore(self, changes: Mapping[NameKey, ConfigChange]) -> None:
        """Know these changes of configurations."""
        self._configs.restore(changes)

    def _seen(self, server: str, at: float) -> ServerProcesses | None:
        scrape = self._ring.last(server, Source.PROCESSES)
        if scrape is None or at - scrape.at > PROCESSES_FRESH_SECONDS:
            return None
        return scrape.payload if isinstance(scrape.payload, ServerProcesses) else None


class _ConfigMemory:
    """Remembers the configurations of models, to say when one became another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[NameKey, ModelConfig] = {}
        self._changes: dict[NameKey, ConfigChange] = {}

    def note(self, server: str, configs: Iterable[object], at: float) -> None:
        with self._lock:
            for config in configs:
                if not isinstance(config, ModelConfig):
                    continue
                key = (server, config.name)
                before, self._known[key] = self._known.get(key), config
                if before is not None and before is not config and before.raw != config.raw:
                    self._changes[key] = _change(before, config, at)

    def restore(self, changes: Mapping[NameKey, ConfigChange]) -> None:
        with self._lock:
            self._changes.update(changes)

    def changes(self, since: float) -> dict[NameKey, ConfigChange]:
        with self._lock:
            self._changes = {key: one for key, one in self._changes.items() if one.at >= since}
            return dict(self._changes)


def _change(before: ModelConfig, now: ModelConfig, at: float) -> ConfigChange:
    sizes = (before.instance_count, before.max_batch_size) != (now.instance_count, now.max_batch_size)
    return ConfigChange(at, config_difference(before, now), sizes)


_COMPARED: tuple[tuple[str, Callable[[ModelConfig], object]], ...] = (
    ("instances", lambda config: config.instance_count),
    ("max_batch_size", lambda config: config.max_batch_size),
    ("dynamic batching", lambda config: "on" if config.dynamic_batching else "off"),
    ("max_queue_delay_microseconds", lambda config: config.max_queue_delay_us),
    ("max_queue_size", lambda config: config.max_queue_size),
    ("default_timeout_microseconds", lambda config: config.queue_timeout_us),
    ("preferred_batch_size", lambda config: list(config.preferred_batch_sizes)),
    ("response cache", lambda config: "on" if config.response_cache else "off"),
)


def config_difference(before: ModelConfig, now: ModelConfig) -> str:
    """`instances 1 → 2, max_batch_size 8 → 16`; what else differs is only counted, for it may be secret."""
    parts = [
        f"{name} {_shown(read(before))} → {_shown(read(now))}"
        for name, read in _COMPARED
        if read(before) != read(now)
    ]
    return ", ".join(parts) or "other settings"


def _shown(value: object) -> str:
    return "not set" if value is None else str(value)
