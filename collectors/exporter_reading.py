"""One server as the exporter reads it: all sources at once, within the time that Prometheus leaves."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from collectors.config import ConfigCollector, ready_models
from collectors.gpu_processes import read_processes
from collectors.metadata import MetadataCollector
from collectors.reading import Collector, Reading, timed
from collectors.repository import IndexCollector
from collectors.statistics import StatisticsCollector
from telemetry.errors import SourceError
from telemetry.facts import IndexEntry, ModelConfig, ModelState, ModelStatistics, ServerMetadata
from telemetry.identity import Server, is_http_addressable
from telemetry.memory import ServerProcesses
from telemetry.scrape import Scrape, Source
from telemetry.transport import Transport

SOURCES = (Source.INDEX, Source.STATISTICS, Source.CONFIG, Source.METADATA)
"""What the exporter asks. The metrics page is Prometheus' own to read; processes are looked at, not asked."""
METADATA_SECONDS = 300.0
CONFIG_SECONDS = 0.5
"""How long one probe goes on reading configurations: those of 1,000 models come in over several probes."""
_CONFIG_CALL_SECONDS = 1.0
_READY_WAIT_SHARE = 0.5
_SOURCE_SHARE = 0.95
_LOG = logging.getLogger(__name__)

Row = tuple[str, str]
"""Model name and version."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """How one source fares, times in seconds.

    `success` is None for a source that was never asked; the age is that of what is published of it, None
    if there is nothing. `notices` counts entries of its answer that could not be used.
    """

    source: Source
    success: bool | None = None
    duration_seconds: float | None = None
    age_seconds: float | None = None
    notices: int = 0


@dataclass(frozen=True, slots=True)
class Answers:
    """What one server answered. None: that source did not answer; nothing of an earlier answer is left.

    `configs` are those of models that are ready now, by name. `ready` are the model versions that serve.
    """

    server: Server
    sources: tuple[SourceState, ...] = ()
    index: tuple[IndexEntry, ...] | None = None
    statistics: tuple[ModelStatistics, ...] | None = None
    metadata: ServerMetadata | None = None
    configs: Mapping[str, ModelConfig] = field(default_factory=dict)
    ready: tuple[Row, ...] = ()
    processes: ServerProcesses | None = None
    """The server's processes, where the exporter runs beside it and sees them."""

    @property
    def configs_unreadable(self) -> int:
        """Ready models whose name Triton's HTTP API cannot take."""
        return sum(1 for name in self._ready_names() if not is_http_addressable(name))

    @property
    def configs_pending(self) -> int:
        """Ready models whose configuration is still to be read."""
        return len(self._ready_names()) - len(self.configs) - self.configs_unreadable

    def _ready_names(self) -> set[str]:
        return {name for name, _ in self.ready}


class Target:
    """One configured server. `read` is for one caller at a time; between two calls nothing is asked."""

    def __init__(self, server: Server, transport: Transport | None = None) -> None:
        self.server = server
        self._transport = transport or Transport(server)
        self._threads = ThreadPoolExecutor(len(SOURCES) + 1, thread_name_prefix=f"read-{server.id}")
        self._running: dict[Source, Future[Scrape | None]] = {}
        self._config_collector = ConfigCollector(
            server, self._transport, lambda: self._ready, timeout_seconds=_CONFIG_CALL_SECONDS
        )
        self._ready: Mapping[str, Hashable] | None = None
        self._configs: Mapping[str, ModelConfig] = {}
        self._last_config: Scrape | None = None
        self._config_at: float | None = None
        self._executions: dict[Row, int] = {}
        self._was_down = True

    def read(self, limit_seconds: float) -> Answers:
        """Read every source, returning after `limit_seconds` at the latest; what came later is not used.

        Configurations and metadata are kept between calls and read again when a state changes, when
        counters fell (a reload) or the server was away, and else every 5 minutes.
        """
        begin, end = time.monotonic(), time.monotonic() + limit_seconds
        source_limit = _SOURCE_SHARE * limit_seconds
        live = [
            self._started(IndexCollector(self.server, self._transport, timeout_seconds=source_limit)),
            self._started(StatisticsCollector(self.server, self._transport, timeout_seconds=source_limit)),
        ]
        running = [*live, self._start(Source.PROCESSES, self._read_processes)]
        if self._metadata_is_due():
            collector = MetadataCollector(self.server, self._transport, timeout_seconds=source_limit)
            running.append(self._started(collector))
        wait(live, timeout=_READY_WAIT_SHARE * limit_seconds)
        index, statistics = self._answered(Source.INDEX), self._answered(Source.STATISTICS)
        self._ready = ready_models(_entries(index), _statistics(statistics))
        self._note_reloads(_statistics(statistics))
        if self._ready:
            stop = min(time.monotonic() + CONFIG_SECONDS, begin + source_limit)
            running.append(self._start(Source.CONFIG, lambda: self._read_configs(stop)))
        wait(running, timeout=max(0.0, end - time.monotonic()))
        return self._answers(time.monotonic() - begin)

    def close(self) -> None:
        """Let the threads go."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    # ---- reading

    def _started(self, collector: Collector) -> Future[Scrape | None]:
        return self._start(collector.source, collector.collect)

    def _start(self, source: Source, read: Callable[[], Scrape | None]) -> Future[Scrape | None]:
        """One reading of a source at a time: one that is still under way is waited for, not doubled."""
        known = self._running.get(source)
        if known is None or known.done():
            known = self._running[source] = self._threads.submit(self._once, source, read)
        return known

    def _once(self, source: Source, read: Callable[[], Scrape | None]) -> Scrape | None:
        at, start = time.time(), time.monotonic()
        try:
            return read()
        except Exception as error:  # noqa: BLE001 - a defect in one source must not cost the others
            _LOG.exception("reading %s of %s failed", source, self.server.id)
            failure = SourceError(
                f"reading {source} of {self.server.id} failed inside Tritonscope: {error!r}"
            )
            return Scrape(self.server.id, source, at, time.monotonic() - start, error=failure)
        finally:
            # Until the next probe the other side may close an idle connection; the first request would fail.
            self._transport.close()

    def _read_configs(self, stop: float) -> Scrape | None:
        """Rounds of the collector until nothing is due, one fails or the time is up."""
        scrape = None
        while time.monotonic() < stop:
            scrape = self._config_collector.collect()
            if scrape is None:
                break
            self._last_config = scrape
            if not scrape.ok or not isinstance(scrape.payload, Mapping):
                break
            self._configs, self._config_at = scrape.payload, scrape.at
        return scrape

    def _read_processes(self) -> Scrape:
        return timed(self.server, Source.PROCESSES, lambda: Reading(read_processes(self.server)))

    def _metadata_is_due(self) -> bool:
        known = self._answered(Source.METADATA)
        fresh = known is not None and known.ok and time.time() - known.at < METADATA_SECONDS
        return self._was_down or not fresh

    def _note_reloads(self, rows: tuple[ModelStatistics, ...] | None) -> None:
        """Counters that fell say that a model was loaded anew, maybe with another configuration."""
        if rows is None:
            return
        executions = {(row.name, row.version): row.execution_count or 0 for row in rows}
        for row, count in executions.items():
            if count < self._executions.get(row, 0):
                self._config_collector.reread(row[0])
        self._executions = executions
        if self._was_down:
            self._config_collector.reread()

    def _answered(self, source: Source) -> Scrape | None:
        """The finished reading of this probe, failed or not; None while it is under way."""
        future = self._running.get(source)
        return future.result() if future is not None and future.done() else None

    # ---- what it comes to

    def _answers(self, elapsed_seconds: float) -> Answers:
        now = time.time()
        index, statistics = self._answered(Source.INDEX), self._answered(Source.STATISTICS)
        entries, rows = _entries(index), _statistics(statistics)
        self._was_down = entries is None and rows is None
        # What was kept says nothing about a server that does not answer now.
        metadata = None if self._was_down else self._answered(Source.METADATA)
        ready = _ready_versions(entries, rows)
        names = {name for name, _ in ready}
        return Answers(
            server=self.server,
            sources=(
                _state(Source.INDEX, index, elapsed_seconds, now),
                _state(Source.STATISTICS, statistics, elapsed_seconds, now),
                self._config_state(now),
                _state(Source.METADATA, metadata, elapsed_seconds, now),
                _processes_state(self._answered(Source.PROCESSES), now),
            ),
            index=entries,
            statistics=rows,
            metadata=_metadata(metadata),
            configs={name: config for name, config in self._configs.items() if name in names},
            ready=ready,
            processes=_processes(self._answered(Source.PROCESSES)),
        )

    def _config_state(self, now: float) -> SourceState:
        last, at = self._last_config, self._config_at
        if last is None:
            return SourceState(Source.CONFIG)
        age = None if at is None else now - at
        return SourceState(Source.CONFIG, last.ok, last.duration_seconds, age, len(last.notices))


def _state(source: Source, scrape: Scrape | None, elapsed_seconds: float, now: float) -> SourceState:
    if scrape is None:
        return SourceState(source, False, elapsed_seconds)
    age = now - scrape.at if scrape.ok else None
    return SourceState(source, scrape.ok, scrape.duration_seconds, age, len(scrape.notices))


def _processes(scrape: Scrape | None) -> ServerProcesses | None:
    """None where they are out of sight: on another machine, in another namespace."""
    payload = scrape.payload if scrape is not None else None
    return payload if isinstance(payload, ServerProcesses) and payload.pid is not None else None


def _processes_state(scrape: Scrape | None, now: float) -> SourceState:
    """Out of sight is no failure: most exporters run elsewhere."""
    if scrape is None or _processes(scrape) is None:
        return SourceState(Source.PROCESSES)
    return _state(Source.PROCESSES, scrape, scrape.duration_seconds, now)


def _ready_versions(
    entries: tuple[IndexEntry, ...] | None, rows: tuple[ModelStatistics, ...] | None
) -> tuple[Row, ...]:
    """Model versions that serve: READY in the index, or in the statistics, which list no others."""
    listed = [(entry.name, entry.version) for entry in entries or () if entry.state is ModelState.READY]
    counted = [(row.name, row.version) for row in rows or ()]
    return tuple(dict.fromkeys((*listed, *counted)))


def _entries(scrape: Scrape | None) -> tuple[IndexEntry, ...] | None:
    payload = scrape.payload if scrape is not None else None
    return payload if isinstance(payload, tuple) else None


def _statistics(scrape: Scrape | None) -> tuple[ModelStatistics, ...] | None:
    payload = scrape.payload if scrape is not None else None
    return payload if isinstance(payload, tuple) else None


def _metadata(scrape: Scrape | None) -> ServerMetadata | None:
    payload = scrape.payload if scrape is not None else None
    return payload if isinstance(payload, ServerMetadata) else None
