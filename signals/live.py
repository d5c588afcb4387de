"""Live readings for the command: one server, asked in turn for one window. The only I/O of this package."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from collectors.config import MODELS_PER_ROUND, ConfigCollector, ready_models
from collectors.metadata import MetadataCollector
from collectors.metrics_page import MetricsPageCollector
from collectors.reading import Collector
from collectors.repository import IndexCollector
from collectors.statistics import StatisticsCollector
from history.inventory import Inventory
from history.ring import Ring
from signals.evaluate import report_of
from signals.report import Report
from telemetry.identity import Server
from telemetry.scrape import FloatArray, Scrape, Sink, Source
from telemetry.transport import Transport, host_of, normalise_address

METRICS_PORT = 8002
"""Triton's default; taken when only the HTTP address is given."""
_INTERVALS = 5
_LONGEST_INTERVAL_SECONDS = 2.0
_CLOSE_SECONDS = 0.001


def server_of(url: str | None, metrics_url: str | None) -> Server:
    """The server at these addresses, called by its host and port. Raises SettingsError for a bad address."""
    http = None if url is None else normalise_address(url)
    metrics = _beside(http or "") if metrics_url is None else normalise_address(metrics_url)
    return Server(host_of(http or metrics), http, metrics)


def _beside(http_url: str) -> str:
    parts = urlsplit(http_url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return urlunsplit((parts.scheme, f"{host}:{METRICS_PORT}", "", "", ""))


@dataclass(frozen=True, slots=True)
class Watched:
    """What was read of a server within one window, `interval_seconds` apart."""

    server: Server
    ring: Ring
    interval_seconds: float

    def report(self) -> Report:
        """All signals over the window. Raises SourceError if no source could be read."""
        return _report(self.ring, self.server)

    def inventory(self) -> Inventory:
        """The models in the last answers."""
        return Inventory.of(self.ring, (self.server.id,))


def measure(server: Server, window_seconds: float, *, timeout_seconds: float = 3.0) -> Report:
    """Ask the server for one window and report on it. Raises SourceError if no source could be read."""
    return watch(server, window_seconds, timeout_seconds=timeout_seconds).report()


def watch(
    server: Server, window_seconds: float, *, timeout_seconds: float = 3.0, also: Sequence[Sink] = ()
) -> Watched:
    """Ask the server for one window; every reading also goes to `also`.

    What could not be read is told when it is reported on.
    """
    ring = _Read(also)
    transport = Transport(server, timeout_seconds=timeout_seconds)
    interval = min(_LONGEST_INTERVAL_SECONDS, window_seconds / _INTERVALS)
    _watch(ring, _repeated(server, transport, timeout_seconds), window_seconds, interval)
    for collector in _once(server, transport, timeout_seconds):
        _read(ring, collector)
    _read_configs(ring, server, transport, timeout_seconds)
    return Watched(server, ring, interval)


class _Read(Ring):
    """A ring that passes on what it took."""

    def __init__(self, also: Sequence[Sink]) -> None:
        super().__init__()
        self._also = also

    def accept(self, scrape: Scrape) -> None:
        super().accept(scrape)
        for sink in self._also:
            sink.accept(scrape)


def _watch(ring: Ring, collectors: list[Collector], window_seconds: float, interval: float) -> None:
    """Read at the beginning, at intervals, and at the end of the window; give up when nothing answers."""
    start = time.monotonic()
    while True:
        begun = time.monotonic()
        answered = [_read(ring, collector) for collector in collectors]
        left = start + window_seconds - begun
        if left <= _CLOSE_SECONDS or not any(answered):
            return
        time.sleep(max(0.0, min(interval, left) - (time.monotonic() - begun)))


def _read(ring: Ring, collector: Collector) -> bool:
    """One reading into the ring; False if it failed or nothing had to be asked."""
    scrape = collector.collect()
    if scrape is not None:
        ring.accept(scrape)
    return scrape is not None and scrape.ok


def _report(ring: Ring, server: Server) -> Report:
    answered = [source for source in Source if ring.last(server.id, source) is not None]
    if not answered:
        # What was asked for by name is what is told.
        sources = sorted(Source, key=lambda one: (one is Source.METRICS) is (server.http_url is not None))
        errors = [
            scrape.error for source in sources if (scrape := ring.latest(server.id, source)) is not None
        ]
        raise next(error for error in errors if error is not None)
    source = Source.METRICS if Source.METRICS in answered else Source.STATISTICS
    times = ring.sample_times(server.id, source, 0.0, float("inf"))
    at = ring.newest(source) or time.time()
    # Statistics are read just before the page: their first reading belongs to the window.
    first = min(float(one[0]) for one in _all_times(ring, server) if len(one))
    window = round(at - first, 3) if len(times) > 1 and at > first else None
    return report_of(ring, (server.id,), at, window)


def _all_times(ring: Ring, server: Server) -> list[FloatArray]:
    sources = (Source.METRICS, Source.STATISTICS)
    return [ring.sample_times(server.id, source, 0.0, float("inf")) for source in sources]


def _repeated(server: Server, transport: Transport, timeout_seconds: float) -> list[Collector]:
    collectors: list[Collector] = []
    if server.http_url is not None:
        collectors.append(StatisticsCollector(server, transport, timeout_seconds=timeout_seconds))
    collectors.append(MetricsPageCollector(server, transport, timeout_seconds=timeout_seconds))
    return collectors


def _once(server: Server, transport: Transport, timeout_seconds: float) -> list[Collector]:
    if server.http_url is None:
        return []
    return [
        MetadataCollector(server, transport, timeout_seconds=timeout_seconds),
        IndexCollector(server, transport, timeout_seconds=timeout_seconds),
    ]


def _read_configs(ring: Ring, server: Server, transport: Transport, timeout_seconds: float) -> None:
    """Configurations of all ready models; the collector reads a few in each round."""
    index, statistics = ring.last(server.id, Source.INDEX), ring.last(server.id, Source.STATISTICS)
    ready = ready_models(
        index.payload if index is not None and isinstance(index.payload, tuple) else None,
        statistics.payload if statistics is not None and isinstance(statistics.payload, tuple) else None,
    )
    if not ready:
        return
    collector = ConfigCollector(server, transport, lambda: ready, timeout_seconds=timeout_seconds)
    for _ in range(-(-len(ready) // MODELS_PER_ROUND)):
        if not _read(ring, collector):
            return
