"""The process without its pages: settings, poller, history, signals, triage and the write side, started once.

Pages, tests and the ASGI edge take everything from `current()`. What is derived from the history is computed
once per revision of it, however many viewers ask.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from collectors.config import ConfigCollector, ready_models
from collectors.exporter_families import instance_of
from collectors.plan import jobs_for
from collectors.poller import Job, Poller
from control.actions import Record
from control.facade import Control
from control.telling_journal import TellingJournal
from experiments.fresh_reader import FreshReader
from history.events import Event, EventKind, EventLog
from history.inventory import Inventory
from history.moment import Moment
from history.protocol import Frame, Grid, History
from history.remote import Remote
from history.ring import Ring
from settings import MIN_LIVE_INTERVALS, Settings, load_settings
from signals.definition import Level
from signals.evaluate import report_of
from signals.facts import SignalFacts
from signals.fleet import Fleet, fleet, workloads_of
from signals.ranges import signal_range
from signals.report import Report
from telemetry.facts import ServerMetadata
from telemetry.identity import Server
from telemetry.scrape import Scrape, Source
from triage.budget import Budgets, budgets
from triage.context import Context, ServerCoverage
from triage.coverage import seen_through, server_coverage
from triage.engine import judge
from triage.finding import Judgement
from triage.rulebook import Rulebook, load_rulebook
from triage.verdict import Clock, Verdict, local_clock, verdict

_LOADED_ANEW = (EventKind.LOAD, EventKind.RELOAD, EventKind.RESTART, EventKind.UP, EventKind.VERSION)
_EVENT_MEMORY_SECONDS = 60.0
FLEET_SECONDS = 30.0
"""How often the replicas of a fleet are compared anew."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What deriving figures costs: how often a report was computed, and how long the last one took."""

    reports: int
    last_report_seconds: float | None


class Runtime:
    """One process' state; `start()` begins polling. Every method may be called from any thread."""

    def __init__(self, settings: Settings, *, rulebook: Rulebook | None = None) -> None:
        self.settings = settings
        self.ring = Ring(retention_seconds=settings.retention_seconds)
        self.remote: Remote | None = None
        if settings.prometheus is not None:
            self.remote = Remote(settings.prometheus, settings.servers, self.ring, self)
        self.events = EventLog()
        self._rulebook = rulebook if rulebook is not None else load_rulebook()
        self._configs: dict[str, ConfigCollector] = {}
        self._ready: dict[str, Mapping[str, Hashable]] = {}
        self._followed: dict[str, frozenset[Event]] = {}
        self.control: Control | None = Control(
            lambda: self.servers,
            FreshReader(lambda: self.servers),
            self._may_write_unasked,
            journal=TellingJournal(self._acted),
        )
        self.poller = Poller((job for server in self.servers for job in self._jobs(server)), self)
        self._lock = threading.Lock()
        self._moment: Moment | None = None
        self._effort = Effort(0, None)

    # ---- life

    @property
    def running(self) -> bool:
        """True while the poller runs."""
        return self.poller.running

    def start(self) -> None:
        """Begin polling, after a look at Prometheus of a few seconds at most; a second call does nothing."""
        if self.remote is not None:
            self.remote.start()
        self.poller.start()

    def stop(self) -> None:
        """End polling; what was read stays readable."""
        if self.remote is not None:
            self.remote.stop()
        self.poller.stop()

    # ---- what is looked at

    @property
    def servers(self) -> tuple[Server, ...]:
        """The configured servers and those that Prometheus alone knows."""
        return self.settings.servers + (self.remote.followed if self.remote is not None else ())

    @property
    def history(self) -> History:
        """Numbers over time: of this process, and before it of Prometheus where there is one."""
        return self.ring if self.remote is None else self.remote.history

    def interval_seconds(self, server: str | None = None) -> float:
        """Between two readings of a server; without one, of the one that is read least often."""
        remote = self.remote
        fed = remote is not None and (server is None or remote.fed(server))
        return max(self.settings.refresh_seconds, remote.feed_interval_seconds if remote and fed else 0.0)

    @property
    def window_seconds(self) -> float:
        """The window of rates and means: the live window, but never under four readings."""
        return max(self.settings.live_window_seconds, MIN_LIVE_INTERVALS * self.interval_seconds())

    def accept(self, scrape: Scrape) -> None:
        """Take one scrape into the history and the events: the poller's sink."""
        self.ring.accept(scrape)
        if scrape.source is Source.INDEX:
            self._follow_index(scrape.server)
        before = self.events.revision
        self.events.accept(scrape)
        if self.events.revision != before:
            self._follow_events(scrape)

    # ---- figures

    def now(self) -> float:
        """Unix time of the figures: the newest attempt at a metrics page; wall clock before the first."""
        return self._current_moment().at

    def report(self) -> Report:
        """All signals at `now()` over the live window."""
        return self._current_moment().once("report", self._report)

    def inventory(self) -> Inventory:
        """All models of all servers and what is known about them."""
        return self._current_moment().once("inventory", self._inventory)

    def judgement(self) -> Judgement:
        """The findings of triage, most harmful first."""
        return self._current_moment().once("judgement", lambda: judge(self._rulebook, self._context()))

    def budgets(self) -> Budgets:
        """How the objectives of `slo:` fared within the last hour, by model."""
        return self._current_moment().once("budgets", lambda: budgets(self._context()))

    def verdict(self, judgement: Judgement, clock: Clock = local_clock) -> Verdict:
        """The one sentence for a judgement (the whole one, or what is left of it for one server)."""
        return verdict(judgement, self._context(), clock)

    def signal_range(
        self,
        name: str,
        grid: Grid,
        *,
        level: Level | None = None,
        server: str | None = None,
        model: str | None = None,
        version: str | None = None,
        deadline: float | None = None,
    ) -> Frame:
        """One signal over the grid, in the unit of its name; see `signals.ranges.signal_range`.

        Waits for Prometheus until `deadline` (`time.monotonic()`), None = not at all: until it has answered,
        what it told before is used.
        """
        window = max(self.window_seconds, grid.step_seconds)
        where = {"level": level, "server": server, "model": model, "version": version}
        remote, inventory = self.remote, self.inventory()

        def compute() -> Frame:
            return signal_range(self.history, inventory, name, grid, window, **where)  # type: ignore[arg-type]

        key = (name, grid, level, server, model, version, remote.revision if remote is not None else 0)
        if remote is None:
            return self._current_moment().once(key, compute)
        limit = time.monotonic() if deadline is None else deadline
        return self._current_moment().once(key, lambda: remote.patiently(compute, limit))

    def fleet(self, *, deadline: float | None = None) -> Fleet:
        """Workloads with their replicas side by side; waits for Prometheus as `signal_range` does."""
        remote, facts = self.remote, SignalFacts.of(self.inventory())
        workload_of = {server.id: server.workload for server in self.servers}
        if remote is None or remote.status().error:
            mine = workloads_of(workload_of)
            return self._current_moment().once("fleet", lambda: fleet(self.ring, facts, mine, self.now()))
        known = {one.server: one.workload for one in remote.targets().targets if one.alive}
        workloads = workloads_of(
            known | {name: workload for name, workload in workload_of.items() if workload}
        )
        at = time.time() // FLEET_SECONDS * FLEET_SECONDS
        limit = time.monotonic() if deadline is None else deadline
        everywhere = remote.everywhere
        return self._current_moment().once(
            ("fleet", at, remote.revision),
            lambda: remote.patiently(lambda: fleet(everywhere, facts, workloads, at), limit),
        )

    def coverage(self) -> tuple[ServerCoverage, ...]:
        """How well each server can be seen now; ages count to the wall clock."""
        now, remote = time.time(), self.remote
        found = [server_coverage(self.ring, server, now) for server in self.servers]
        if remote is None:
            return tuple(found)
        why, fresh = remote.status().error, MIN_LIVE_INTERVALS * self.interval_seconds()
        return tuple(seen_through(one, why, fresh) if remote.fed(one.server) else one for one in found)

    @property
    def effort(self) -> Effort:
        """What computing reports costs."""
        return self._effort

    def _report(self) -> Report:
        start = time.perf_counter()
        ids = [server.id for server in self.servers]
        report = report_of(self.ring, ids, self.now(), self.window_seconds, inventory=self.inventory())
        self._effort = Effort(self._effort.reports + 1, time.perf_counter() - start)
        return report

    def _inventory(self) -> Inventory:
        return Inventory.of(self.ring, [server.id for server in self.servers])

    def _context(self) -> Context:
        return self._current_moment().once("context", self._new_context)

    def _new_context(self) -> Context:
        span = self.ring.span()
        return Context(
            report=self.report(),
            history=self.ring,
            inventory=self.inventory(),
            coverage=self.coverage(),
            now=time.time(),
            interval_seconds=self.interval_seconds(),
            history_from=span[0] if span is not None else None,
            choices=self.settings.rules,
            objectives=self.settings.slo,
        )

    def _current_moment(self) -> Moment:
        revision = self.ring.revision
        with self._lock:
            if self._moment is None or self._moment.revision != revision:
                self._moment = Moment(revision, self._newest_attempt())
            return self._moment

    def _newest_attempt(self) -> float:
        for sources in ((Source.METRICS,), tuple(Source)):
            times = [
                scrape.at
                for server in self.servers
                for source in sources
                if (scrape := self.ring.latest(server.id, source)) is not None
            ]
            if times:
                return max(times)
        return time.time()

    # ---- who is who

    def server_called(self, name: str | None) -> str | None:
        """Id of the watched server of that id, `instance` or pod; None if there is none."""
        for server in self.servers:
            if name in (server.id, instance_of(server), dict(server.match).get("pod", server.id)):
                return server.id
        return None

    def is_sandbox(self, server_id: str) -> bool:
        """True if `GET /v2` last answered with the random id this run gave its own tritonserver."""
        server = self.settings.server(server_id)
        if server is None or server.expected_server_name is None:
            return False
        scrape = self.ring.last(server_id, Source.METADATA)
        payload = scrape.payload if scrape is not None else None
        return isinstance(payload, ServerMetadata) and payload.name == server.expected_server_name

    def _may_write_unasked(self, server_id: str) -> bool:
        """As `is_sandbox`, and it still answers so: another server may listen there after an outage."""
        latest = self.ring.latest(server_id, Source.METADATA)
        return latest is not None and latest.ok and self.is_sandbox(server_id)

    # ---- health

    def health(self) -> dict[str, Any]:
        """`status` (ok, dead), `poller_age_seconds` since any loop came round, and by server the age of its
        last successful reading in seconds, None if there was none.
        """  # fmt: skip
        jobs = self.poller.health()
        alive = self.poller.running and all(job.alive for job in jobs.values())
        ages: dict[str, float | None] = {server.id: None for server in self.servers}
        for (server_id, _), job in jobs.items():
            known = [age for age in (ages.get(server_id), job.success_age_seconds) if age is not None]
            ages[server_id] = round(min(known), 3) if known else None
        if self.remote is not None:
            ages |= self.remote.ages(time.time())
            alive = alive and self.remote.alive
        return {
            "status": "ok" if alive else "dead",
            "poller_age_seconds": round(min((job.age_seconds for job in jobs.values()), default=0.0), 3),
            "servers": ages,
        }

    # ---- polling

    def _jobs(self, server: Server) -> list[Job]:
        jobs = jobs_for(server, self.settings.refresh_seconds, lambda: self._ready_models(server.id))
        for job in jobs:
            if isinstance(job.collector, ConfigCollector):
                self._configs[server.id] = job.collector
        return jobs

    def _ready_models(self, server_id: str) -> Mapping[str, Hashable] | None:
        return ready_models(
            self._newest_payload(server_id, Source.INDEX), self._newest_payload(server_id, Source.STATISTICS)
        )

    def _newest_payload(self, server_id: str, source: Source) -> Any:
        """What the newest attempt brought, None if it failed: then nothing is known about now."""
        scrape = self.ring.latest(server_id, source)
        return scrape.payload if scrape is not None and scrape.ok else None

    def _follow_index(self, server_id: str) -> None:
        """Models that became ready have a configuration to read: not only at its next time."""
        ready = self._ready_models(server_id)
        if ready is not None and ready != self._ready.get(server_id):
            self._ready[server_id] = ready
            self.poller.poke(server_id, Source.CONFIG)

    def _follow_events(self, scrape: Scrape) -> None:
        # A reload is only known at the reading after the one that showed it: look a little further back.
        recent = self.events.events(since=scrape.at - _EVENT_MEMORY_SECONDS, server=scrape.server)
        followed = self._followed.get(scrape.server, frozenset())
        self._followed[scrape.server] = frozenset(recent)
        for event in recent:
            if event in followed:
                continue
            if event.kind in _LOADED_ANEW:
                self._reread(scrape.server, event.model.name if event.model else None)
            if event.kind in (EventKind.RESTART, EventKind.UP) and self.control is not None:
                self.control.server_restarted(scrape.server)

    def _reread(self, server_id: str, model: str | None) -> None:
        collector = self._configs.get(server_id)
        if collector is not None:
            collector.reread(model)
            self.poller.poke(server_id, Source.CONFIG)

    def _acted(self, record: Record) -> None:
        """An action on the repository was sent or has ended: look at once what became of it."""
        server_id = record.action.server
        self.poller.poke(server_id, Source.INDEX)
        if not record.running:
            self._reread(server_id, record.action.model)
            for source in (Source.METRICS, Source.STATISTICS):
                self.poller.poke(server_id, source)


_process_lock = threading.Lock()
_process: Runtime | None = None


def current() -> Runtime:
    """The process' runtime, made from the process' settings and started at the first call."""
    global _process
    with _process_lock:
        if _process is None:
            _process = Runtime(load_settings())
            _process.start()
        return _process


def install(runtime: Runtime) -> None:
    """Make this the process' runtime, as it is, and stop the one before: tests bring their own history."""
    global _process
    with _process_lock:
        before, _process = _process, runtime
    if before is not None and before is not runtime:
        before.stop()


def shut_down() -> None:
    """Stop the process' runtime, if there is one, and forget it."""
    global _process
    with _process_lock:
        before, _process = _process, None
    if before is not None:
        before.stop()
