"""All that the process has of its Prometheus: servers, long ranges, readings of servers without a path."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TypeVar

from history.combined import CombinedHistory
from history.events import Event
from history.hasty import Hasty
from history.promapi import PrometheusApi
from history.promapi_devices import DeviceFeed, Gpus, gpus_of
from history.promapi_feed import Feed
from history.promapi_fetch import Fetcher
from history.promapi_history import PromHistory
from history.promapi_marks import events_of
from history.promapi_targets import Target, Targets, discover, targets_of
from history.protocol import Grid, History
from history.ring import Ring
from telemetry.errors import SourceError
from telemetry.identity import ModelKey, Server
from telemetry.prometheus_endpoint import PrometheusEndpoint
from telemetry.rounds import Rounds
from telemetry.scrape import Sink, Source

Result = TypeVar("Result")

READ_SECONDS = 5.0
"""How often servers without a path are read; their figures move with Prometheus' own interval."""
DISCOVER_SECONDS = 60.0
START_SECONDS = 4.0
"""How long the start of the process waits for Prometheus."""
BACK_SECONDS = 3600.0
MAX_FOLLOWED = 20
"""So many servers are followed unasked where none is configured; any other opens by its link."""


@dataclass(frozen=True, slots=True)
class RemoteStatus:
    """How well Prometheus can be used now.

    `error` is a sentence, "" while it answers; `answered_at` unix seconds of its last answer, None before
    the first; `pending` queries under way; `warnings` it gave; `duplicates` the labels in which series
    stand twice; `interval_seconds` between two scrapes; `servers` how many Tritons it knows.
    """

    host: str
    error: str
    answered_at: float | None
    pending: int
    warnings: tuple[str, ...]
    duplicates: tuple[str, ...]
    interval_seconds: float
    servers: int


class Remote:
    """One Prometheus beside the ring; `start()` begins to read. Methods may be called from any thread."""

    def __init__(
        self,
        endpoint: PrometheusEndpoint,
        configured: Sequence[Server],
        ring: Ring,
        sink: Sink,
        *,
        follows_all: bool | None = None,
    ) -> None:
        """`follows_all`: servers are followed that are not configured; None: if none is configured."""
        self.api = PrometheusApi(endpoint)
        self._follows_all = not configured if follows_all is None else follows_all
        self._configured = tuple(configured)
        self._ring = ring
        self._sink = sink
        self._fetcher = Fetcher(self.api)
        self._targets = targets_of(endpoint, configured, ())
        self._discovered_at: float | None = None
        self._error = ""
        self._lock = threading.Lock()
        self._feeds: dict[str, Feed] = {
            server.id: self._feed(server.id) for server in configured if _without_path(server)
        }
        self._followed: tuple[Server, ...] = ()
        self._devices = DeviceFeed(self.api, self.targets)
        self._without_devices = ""
        self._rounds = Rounds("prometheus-feed", self._round, READ_SECONDS, at_once=False)
        self.everywhere: History = PromHistory(self._fetcher, self.targets, api=self.api)
        """All servers that Prometheus knows."""
        self._mine = PromHistory(self._fetcher, self.targets, only=self._ids, api=self.api)
        self.history: History = CombinedHistory(ring, self._mine)
        """The servers looked at: the ring, and what lies before it."""
        self.hasty: History = Hasty(self.history, self._fetcher.at_once)
        """The same for those who must not wait."""

    # ---- life

    def start(self) -> None:
        """Fill the ring with the last hour, if Prometheus answers within a few seconds, and go on reading."""
        if self._rounds.alive:
            return
        threads = ThreadPoolExecutor(2, thread_name_prefix="prometheus-start")
        wait([threads.submit(self._begin)], timeout=START_SECONDS)
        threads.shutdown(wait=False)
        self._rounds.start()

    def stop(self) -> None:
        """End reading; what was read stays readable."""
        self._rounds.stop()

    @property
    def alive(self) -> bool:
        """True while it reads."""
        return self._rounds.alive

    # ---- what is known

    def targets(self) -> Targets:
        """The servers that Prometheus knows."""
        return self._targets

    @property
    def followed(self) -> tuple[Server, ...]:
        """Servers that are not configured and are read through Prometheus."""
        return self._followed

    def fed(self, server: str) -> bool:
        """True for a server that is read through Prometheus alone."""
        return server in self._feeds

    def configure(self, servers: Sequence[Server]) -> None:
        """Other servers are configured from now on."""
        with self._lock:
            before, self._configured = self._configured, tuple(servers)
            known = {server.id for server in servers}
            for server in before:
                if server.id not in known:
                    self._feeds.pop(server.id, None)
            for server in servers:
                if _without_path(server):
                    self._feeds.setdefault(server.id, self._feed(server.id))
                elif server.id in self._feeds:
                    del self._feeds[server.id]
            self._followed = tuple(server for server in self._followed if server.id not in known)
        # Which series are whose is asked anew at the next round.
        self._discovered_at = None

    def open(self, text: str) -> str | None:
        """Follow a server by id, instance or pod; its id, None if Prometheus does not know it."""
        if any(server.id == text for server in (*self._configured, *self._followed)):
            return text
        target = self._targets.find(text)
        if target is None:
            return None
        if target.server not in self._ids():
            self._follow([target])
            self._read(target.server)
        return target.server

    def status(self) -> RemoteStatus:
        """How well it can be used now."""
        fetched = self._fetcher.status()
        answers = [at for at in (fetched.answered_at, self._discovered_at) if at is not None]
        return RemoteStatus(
            self.api.host,
            self._error or fetched.error,
            max(answers, default=None),
            fetched.pending,
            (*fetched.warnings, *filter(None, [self._without_devices])),
            self._targets.duplicates,
            self._targets.interval_seconds,
            len(self._targets.targets),
        )

    @property
    def revision(self) -> int:
        """Grows with every answer to a range query."""
        return self._fetcher.revision

    @property
    def feed_interval_seconds(self) -> float:
        """Time between two readings of servers without a path; 0 where there is none."""
        return self._targets.interval_seconds if self._feeds else 0.0

    def ages(self, now: float) -> dict[str, float | None]:
        """Seconds since the newest sample of every server without a path, None before the first."""
        return {
            server: None if feed.read_at is None else max(0.0, now - feed.read_at)
            for server, feed in list(self._feeds.items())
        }

    def events(self, server: str, model: ModelKey | None, grid: Grid, deadline: float) -> tuple[Event, ...]:
        """What happened to a server and one of its models at the times of the grid, as Prometheus tells it.

        With what it has answered until `deadline` (`time.monotonic()`).
        """
        return self.patiently(lambda: events_of(self._mine, self._targets, server, model, grid), deadline)

    def patiently(self, compute: Callable[[], Result], deadline: float) -> Result:
        """`compute()` over `history` with what Prometheus answers until `deadline` (`time.monotonic()`)."""
        return self._fetcher.patiently(compute, deadline)

    # ---- reading

    def _ids(self) -> frozenset[str]:
        return frozenset(server.id for server in (*self._configured, *self._followed))

    def _feed(self, server: str) -> Feed:
        return Feed(self.api, self.targets, server)

    def _begin(self) -> None:
        self._discover(START_SECONDS)
        if self._error:
            return
        for fed in list(self._feeds):
            self._read(fed)
        for server in self._configured:
            if server.id not in self._feeds and not self._rounds.ended:
                self._fill(server)
        self._read_devices()

    def _fill(self, server: Server) -> None:
        """What Prometheus saw of a server with a path before this process began: numbers only."""
        if self._ring.latest(server.id, Source.METRICS) is not None:
            return
        now = time.time()
        try:
            scrapes = self._feed(server.id).scrapes(now, BACK_SECONDS)
        except SourceError as error:
            self._error = error.sentence
            return
        if self._ring.latest(server.id, Source.METRICS) is not None:
            return
        for scrape in scrapes:
            # The server itself tells its states and configurations in a moment, and better.
            if scrape.source in (Source.METRICS, Source.STATISTICS) and scrape.at <= now and scrape.ok:
                self._ring.accept(scrape)

    def _round(self) -> None:
        # A Prometheus that has just started knows its first servers a scrape later.
        due = self._discovered_at is None or time.time() - self._discovered_at > DISCOVER_SECONDS
        if due or self._error or not self._targets.targets:
            self._discover(self.api.endpoint.timeout_seconds)
        for server in list(self._feeds):
            if self._error or self._rounds.ended:
                return
            self._read(server)
        self._read_devices()

    def _read_devices(self) -> None:
        """Figures of GPUs are numbers only: nothing follows from them about the servers.

        Nor from a question about them that is refused: everything else goes on.
        """
        try:
            scrapes = self._devices.scrapes(time.time(), BACK_SECONDS, self._ids())
        except SourceError as error:
            self._without_devices = error.sentence
            return
        self._without_devices = ""
        for scrape in scrapes:
            self._ring.accept(scrape)

    def _gpus(self, targets: Targets, now: float) -> Gpus:
        try:
            return gpus_of(self.api, targets, now)
        except SourceError as error:
            self._without_devices = error.sentence
            return self._targets.gpus

    def _discover(self, timeout_seconds: float) -> None:
        now = time.time()
        try:
            targets = discover(self.api, self._configured, now, timeout_seconds=timeout_seconds)
            self._targets = replace(targets, gpus=self._gpus(targets, now))
        except SourceError as error:
            self._error = error.sentence
            return
        self._error, self._discovered_at = "", now
        self._forget_the_gone()
        if self._follows_all:
            fresh = [one for one in self._targets.targets if one.server not in self._feeds]
            self._follow(fresh[: max(0, MAX_FOLLOWED - len(self._feeds))])

    def _follow(self, targets: Iterable[Target]) -> None:
        with self._lock:
            for target in targets:
                if target.server not in self._feeds:
                    self._feeds[target.server] = self._feed(target.server)
                    server = Server(target.server, None, None, workload=target.workload)
                    self._followed = (*self._followed, server)

    def _forget_the_gone(self) -> None:
        """Servers that Prometheus had no samples of for an hour; configured ones stay."""
        known = {one.server for one in self._targets.targets}
        with self._lock:
            gone = [server.id for server in self._followed if server.id not in known]
            self._followed = tuple(server for server in self._followed if server.id in known)
            for server_id in gone:
                del self._feeds[server_id]
        for server_id in gone:
            self._ring.forget(server_id)

    def _read(self, server: str) -> None:
        """New samples into the sink. While Prometheus is silent nothing is known: no failed reading then."""
        feed = self._feeds.get(server)
        if feed is None:
            return
        try:
            scrapes = feed.scrapes(time.time(), BACK_SECONDS)
        except SourceError as error:
            self._error = error.sentence
            return
        for scrape in scrapes:
            self._sink.accept(scrape)


def _without_path(server: Server) -> bool:
    """True for a server that this process cannot ask itself."""
    return server.http_url is None and server.metrics_url is None
