"""The poller: one thread per source of each server, so that a hanging source delays nothing else."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from collectors.reading import Collector
from telemetry.errors import SourceError
from telemetry.scrape import Scrape, Sink, Source

STALL_SECONDS = 60.0
"""A loop that has not come round for so long beyond its period is reported as dead."""
_JOIN_SECONDS = 1.0
_LOG = logging.getLogger(__name__)

JobKey = tuple[str, Source]
"""(server id, source)."""


@dataclass(frozen=True, slots=True)
class Job:
    """One collector and how often it reads, in seconds."""

    collector: Collector
    period_seconds: float

    @property
    def key(self) -> JobKey:
        """(server id, source)."""
        return self.collector.server.id, self.collector.source


@dataclass(frozen=True, slots=True)
class JobHealth:
    """How one job fares. Ages in seconds; `success_age_seconds` None: never succeeded yet.

    `rounds` are readings: a round in which nothing had to be asked does not count.
    """

    alive: bool
    age_seconds: float
    success_age_seconds: float | None
    rounds: int
    failures: int
    last_duration_seconds: float | None


class Poller:
    """Runs jobs on a steady schedule and hands every scrape to the sink.

    A reading that outlasts its period is not run twice: the missed times are skipped. When a server's
    metrics page answers again after a failure, its other sources are read at once.
    """

    def __init__(self, jobs: Iterable[Job], sink: Sink) -> None:
        self._sink = sink
        self._lock = threading.Lock()
        self._loops: dict[JobKey, _Loop] = {}
        self._running = False
        for job in jobs:
            self.add(job)

    @property
    def running(self) -> bool:
        """True between start() and stop()."""
        return self._running

    def start(self) -> None:
        """Start all jobs; a second call does nothing."""
        with self._lock:
            if self._running:
                return
            self._running = True
            for loop in self._loops.values():
                loop.start()

    def stop(self) -> None:
        """Stop all jobs. Waits a moment at most: a reading that hangs ends by its own time-out."""
        with self._lock:
            self._running = False
            loops = list(self._loops.values())
        _stop(loops)
        with self._lock:
            self._loops = {
                key: _Loop(loop.job, self._sink, self._recovered) for key, loop in self._loops.items()
            }

    def add(self, job: Job) -> None:
        """Add a job; started at once if the poller runs. Replaces the job of the same server and source."""
        loop = _Loop(job, self._sink, self._recovered)
        with self._lock:
            old = self._loops.get(job.key)
            self._loops[job.key] = loop
            if self._running:
                loop.start()
        if old is not None:
            _stop([old])

    def remove(self, *server_ids: str) -> None:
        """Drop all jobs of these servers."""
        with self._lock:
            gone = [key for key in self._loops if key[0] in server_ids]
            loops = [self._loops.pop(key) for key in gone]
        _stop(loops)

    def poke(self, server_id: str, source: Source) -> None:
        """Read this source now instead of at its next time; an unknown one is ignored."""
        loop = self._loops.get((server_id, source))
        if loop is not None:
            loop.poke()

    def health(self) -> Mapping[JobKey, JobHealth]:
        """Every job's state now."""
        with self._lock:
            loops = dict(self._loops)
        return {key: loop.health() for key, loop in loops.items()}

    def _recovered(self, server_id: str) -> None:
        with self._lock:
            others = [
                loop
                for (server, source), loop in self._loops.items()
                if server == server_id and source is not Source.METRICS
            ]
        for loop in others:
            loop.poke()


def _stop(loops: list[_Loop]) -> None:
    for loop in loops:
        loop.end()
    deadline = time.monotonic() + _JOIN_SECONDS
    for loop in loops:
        loop.join(max(0.0, deadline - time.monotonic()))


class _Loop:
    """One job and its thread."""

    def __init__(self, job: Job, sink: Sink, recovered: Callable[[str], None]) -> None:
        self.job = job
        self._sink = sink
        self._recovered = recovered
        self._wake = threading.Event()
        self._ended = threading.Event()
        server, source = job.key
        self._thread = threading.Thread(target=self._run, name=f"poll-{server}-{source}", daemon=True)
        self._beat = time.monotonic()
        self._success: float | None = None
        self._rounds = 0
        self._failures = 0
        self._duration: float | None = None
        self._failed_before = False
        self._logged: set[str] = set()

    def start(self) -> None:
        self._beat = time.monotonic()
        self._thread.start()

    def poke(self) -> None:
        self._wake.set()

    def end(self) -> None:
        self._ended.set()
        self._wake.set()

    def join(self, timeout_seconds: float) -> None:
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_seconds)

    def health(self) -> JobHealth:
        now = time.monotonic()
        age = now - self._beat
        success = self._success
        return JobHealth(
            alive=self._thread.is_alive() and age < self.job.period_seconds + STALL_SECONDS,
            age_seconds=age,
            success_age_seconds=None if success is None else now - success,
            rounds=self._rounds,
            failures=self._failures,
            last_duration_seconds=self._duration,
        )

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ended.is_set():
            self._beat = time.monotonic()
            self._round()
            due = next_due(due, self.job.period_seconds, time.monotonic())
            self._wake.wait(max(0.0, due - time.monotonic()))
            self._wake.clear()

    def _round(self) -> None:
        scrape = self._collect()
        if scrape is None or self._ended.is_set():
            return
        self._rounds += 1
        self._duration = scrape.duration_seconds
        if scrape.ok:
            self._success = time.monotonic()
        else:
            self._failures += 1
        try:
            self._sink.accept(scrape)
        except Exception as error:  # noqa: BLE001 - a defect in a sink must not end the polling
            self._log(error)
        came_back = scrape.ok and self._failed_before
        self._failed_before = not scrape.ok
        if came_back and scrape.source is Source.METRICS:
            self._recovered(scrape.server)

    def _collect(self) -> Scrape | None:
        at, start = time.time(), time.monotonic()
        try:
            return self.job.collector.collect()
        except Exception as error:  # noqa: BLE001 - a defect in a collector must not end the polling
            self._log(error)
            server, source = self.job.key
            failure = SourceError(
                f"reading {source} of {server} failed inside Tritonscope ({type(error).__name__}): "
                "see its log"
            )
            return Scrape(server, source, at, time.monotonic() - start, error=failure)

    def _log(self, error: Exception) -> None:
        """Once per kind of error: a loop that fails every two seconds would bury everything else."""
        kind = f"{type(error).__name__}: {error}"
        if kind not in self._logged and len(self._logged) < 20:
            self._logged.add(kind)
            _LOG.exception("the poller's %s of %s failed", self.job.key[1], self.job.key[0], exc_info=error)


def next_due(due: float, period_seconds: float, now: float) -> float:
    """The next time on the schedule due + k * period that is after now (monotonic seconds)."""
    if period_seconds <= 0:
        return now
    return due + period_seconds * max(1, math.floor((now - due) / period_seconds) + 1)
