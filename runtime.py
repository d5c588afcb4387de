"""The process without its pages: settings, poller, history, signals, triage and the write side, started once.

Pages, tests and the ASGI edge take everything from `current()`. What is derived from the history is computed
once per revision of it, however many viewers ask.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from collectors.exporter_families import instance_of
from collectors.plan import jobs_for
from collectors.poller import Job, Poller
from control.actions import Record
from control.facade import Control
from control.telling_journal import TellingJournal
from experiments.fresh_reader import FreshReader
from history.events import EventLog
from history.followup import FollowUp
from history.inventory import Inventory
from history.protocol import Frame, Grid, History
from history.remote import Remote
from history.ring import Ring
from settings import MIN_LIVE_INTERVALS, Settings, load_settings
from signals.definition import Level
from signals.fleet import Fleet
from signals.report import Report
from telemetry.facts import ServerMetadata
from telemetry.identity import Server
from telemetry.scrape import ANSWERED, Scrape, Source
from triage.budget import Budgets
from triage.context import ServerCoverage
from triage.figures import Effort, Figures, Narrowing
from triage.finding import Judgement
from triage.rulebook import Rulebook, load_rulebook
from triage.verdict import Clock, Verdict, local_clock


class Runtime:
    """One process' state; `start()` begins polling. Every method may be called from any thread."""

    def __init__(self, settings: Settings, *, rulebook: Rulebook | None = None) -> None:
        self.settings = settings
        self.ring = Ring(retention_seconds=settings.retention_seconds)
        self.remote: Remote | None = None
        if settings.prometheus is not None:
            self.remote = Remote(settings.prometheus, settings.servers, self.ring, self)
        self.events = EventLog()
        # The poller is looked up at every call: it is made below.
        self._followup = FollowUp(
            self.ring, self.events, lambda server, source: self.poller.poke(server, source), self._came_back
        )
        self._figures = Figures(
            self,
            self.ring,
            self.remote,
            rulebook if rulebook is not None else load_rulebook(),
            choices=settings.rules,
            objectives=settings.slo,
        )
        self.control: Control | None = Control(
            lambda: self.servers,
            FreshReader(lambda: self.servers),
            self._may_write_unasked,
            journal=TellingJournal(self._acted),
        )
        self.poller = Poller((job for server in self.servers for job in self._jobs(server)), self)

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
        return self._figures.history

    def interval_seconds(self, server: str | None = None) -> float:
        """Between two readings of a server; without one, of the one that is read least often."""
        remote = self.remote
        fed = remote is not None and (server is None or remote.fed(server))
        return max(self.settings.refresh_seconds, remote.feed_interval_seconds if remote and fed else 0.0)

    @property
    def window_seconds(self) -> float:
        """The window of rates and means: the live window, but never under four readings."""
        return max(self.settings.live_window_seconds, MIN_LIVE_INTERVALS * self.interval_seconds())

    @property
    def fresh_seconds(self) -> float:
        """How old the last samples of a server may be that is read through Prometheus."""
        return MIN_LIVE_INTERVALS * self.interval_seconds()

    def accept(self, scrape: Scrape) -> None:
        """Take one scrape into the history and the events: the poller's sink."""
        self.ring.accept(scrape)
        self._followup.accept(scrape)

    # ---- figures

    def now(self) -> float:
        """Unix time of the figures: the newest attempt at a metrics page; wall clock before the first."""
        return self._figures.now()

    def report(self) -> Report:
        """All signals at `now()` over the live window."""
        return self._figures.report()

    def inventory(self) -> Inventory:
        """All models of all servers and what is known about them."""
        return self._figures.inventory()

    def judgement(self) -> Judgement:
        """The findings of triage, most harmful first."""
        return self._figures.judgement()

    def budgets(self) -> Budgets:
        """How the objectives of `slo:` fared within the last hour, by model."""
        return self._figures.budgets()

    def verdict(
        self, judgement: Judgement, clock: Clock = local_clock, narrowed: Narrowing | None = None
    ) -> Verdict:
        """The one sentence for a judgement, or for what is left of it: then `narrowed` leaves as much."""
        return self._figures.verdict(judgement, clock, narrowed)

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
        return self._figures.signal_range(
            name, grid, level=level, server=server, model=model, version=version, deadline=deadline
        )

    def fleet(self, *, deadline: float | None = None) -> Fleet:
        """Workloads with their replicas side by side; waits for Prometheus as `signal_range` does."""
        return self._figures.fleet(deadline)

    def coverage(self) -> tuple[ServerCoverage, ...]:
        """How well each server can be seen now; ages count to the wall clock."""
        return self._figures.coverage()

    @property
    def effort(self) -> Effort:
        """What computing reports costs."""
        return self._figures.effort

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
        for (server_id, source), job in jobs.items():
            if source not in ANSWERED:
                continue
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
        ready = self._followup.ready_models
        return self._followup.watch(jobs_for(server, self.settings.refresh_seconds, lambda: ready(server.id)))

    def _came_back(self, server_id: str) -> None:
        if self.control is not None:
            self.control.server_restarted(server_id)

    def _acted(self, record: Record) -> None:
        self._followup.acted(record.action.server, record.action.model, ended=not record.running)


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
