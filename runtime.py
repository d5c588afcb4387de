"""The process without its pages: settings, poller, history, signals, triage and the write side, started once.

Pages, tests and the ASGI edge take everything from `current()`. What is derived from the history is computed
once per revision of it, however many viewers ask.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collectors.plan import jobs_for
from collectors.poller import Job, Poller
from collectors.roster import Change, Roster
from experiments.sandbox_files import SandboxFiles
from history.alerts import AlertWatch
from history.config_book import ConfigBook
from history.drift import Drifts
from history.events import EventLog
from history.followup import FollowUp
from history.health import health_of
from history.kept_file import KeptFile
from history.memory_ledger import MemoryLedger, kept_changes
from history.one_server import OneServer
from history.remote import Remote
from history.ring import Ring
from history.with_servers import WithServers
from settings import MIN_LIVE_INTERVALS, Settings, load_settings
from signals.advice_book import AdviceBook, kept_advice
from telemetry.identity import Server
from telemetry.scrape import Notice, Scrape
from triage.choices import unknown_choices
from triage.figures import Figures
from triage.happenings import Happened, Probes
from triage.incident import Manifest, Sources, take
from triage.incident_file import save
from triage.rulebook import Rulebook, load_rulebook
from triage.with_figures import WithFigures

if TYPE_CHECKING:
    from control.facade import Control
    from experiments.golden_prober import GoldenProber
    from telemetry.actions import Record


class Runtime(WithServers, WithFigures):
    """One process' state; `start()` begins polling. Every method may be called from any thread."""

    def __init__(self, settings: Settings, *, rulebook: Rulebook | None = None) -> None:
        self.settings = settings
        rulebook = rulebook if rulebook is not None else load_rulebook()
        self._no_rules = unknown_choices(settings.rules, (rule.name for rule in rulebook.rules))
        self.roster = Roster(settings)
        self.ring = Ring(retention_seconds=settings.retention_seconds)
        self.remote: Remote | None = None
        if settings.prometheus is not None:
            alone = not (settings.servers or settings.discoveries)
            self.remote = Remote(settings.prometheus, settings.servers, self.ring, self, follows_all=alone)
        self.events = EventLog()
        # The poller is looked up at every call: it is made below.
        self._followup = FollowUp(
            self.ring, self.events, lambda server, source: self.poller.poke(server, source), self._came_back
        )
        journal = settings.journal.path
        changes, advice = (None, None) if journal is None else (kept_changes(journal), kept_advice(journal))
        self._kept: tuple[KeptFile[Any], ...] = tuple(one for one in (changes, advice) if one is not None)
        """What outlives the process, beside its journal."""
        self.memory = MemoryLedger(self.ring, self.events, self._records, self.interval_seconds, changes)
        self.advice = AdviceBook(advice)
        self.alerts = AlertWatch.of(settings.prometheus, settings.elsewhere.alertmanager)
        self.probes = Probes()
        """Where whoever sends test requests with known answers reports how they went."""
        self.files = SandboxFiles(settings.sandbox_state, self.is_sandbox)
        self._configs = ConfigBook()
        drifts = Drifts(
            self._configs,
            self.events,
            self._records,
            self.files.config_text,
            lambda: self.ring.revision,
            self.clock,
        )
        self._happened = Happened(
            self.ring, self.events, self._records, self.probes, self._configs, drifts.all
        )
        self._figures = Figures(
            self,
            self.ring,
            self.remote,
            rulebook,
            choices=settings.rules,
            objectives=settings.slo,
            happened=self._happened,
        )
        self._one_server = OneServer()
        self.control: Control | None = None
        """The write side; None, and not even imported, while no server may be written to."""
        self.golden: GoldenProber | None = None
        """Who sends golden requests; None without a write side."""
        self.poller = Poller((job for server in self.servers for job in self._jobs(server)), self)
        self._want_control()

    # ---- life

    @property
    def running(self) -> bool:
        """True while the poller runs."""
        return self.poller.running

    def start(self) -> None:
        """Begin polling, after a look at Prometheus of a few seconds at most; a second call does nothing."""
        if self.remote is not None:
            self.remote.start()
        for one in self._kept:
            one.open()
        self.poller.start()
        self.alerts.start()
        self._start_writing()
        self.roster.start(self._servers_changed)

    def stop(self) -> None:
        """End polling; what was read stays readable."""
        self.roster.stop()
        if self.remote is not None:
            self.remote.stop()
        self.poller.stop()
        self.alerts.stop()
        if self.golden is not None:
            self.golden.stop()
        if self.control is not None:
            self.control.stop()
        for one in self._kept:
            one.close()

    # ---- what is looked at

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What of the settings and of the lists of servers cannot be used now."""
        kept = (notice for one in self._kept for notice in one.notices)
        return (*self.roster.notices, *self._no_rules, *kept)

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
        if scrape.server in self.roster.gone:
            # A reading that was under way when its server went.
            return
        self.ring.accept(scrape)
        self._followup.accept(scrape)
        self._configs.accept(scrape)
        self._one_server.accept(scrape)
        self.memory.accept(scrape)

    # ---- who is who

    def records(self, server: str | None = None, model: str | None = None) -> tuple[Record, ...]:
        """What was done through this process, newest first: of a server and a model if given."""
        return tuple(
            one
            for one in self._records()
            if server in (None, one.action.server) and model in (None, one.action.model)
        )

    # ---- to be taken along

    def clock(self) -> float:
        """Unix time now, to which ages count: the machine's clock, but for a replay."""
        return time.time()

    @property
    def replayed(self) -> Manifest | None:
        """What is replayed here; None for a process that reads servers."""
        return None

    def sources(self) -> Sources:
        """Where everything is that an incident is made of."""
        access = self.settings.access
        endpoints = (self.settings.prometheus, self.settings.elsewhere.alertmanager)
        secrets = [value for one in endpoints if one is not None for value in one.headers.values()]
        if access.password is not None:
            secrets.append(access.password.value)
        if access.oidc is not None:
            secrets += (access.oidc.client_secret, access.oidc.cookie_secret)
        return Sources(
            watch=self,
            ring=self.ring,
            events=self.events,
            configs=self._configs,
            memory=self.memory,
            drifts=self.drifts,
            probes=self.probes,
            records=self._records,
            coverage=self.coverage,
            choices=self.settings.rules,
            objectives=self.settings.slo,
            distant=self._figures.distant(),
            secrets=tuple(secrets),
            alerts=self.alerts.seen,
            advice=self.advice,
        )

    def capture(
        self,
        path: Path,
        *,
        minutes: float | None = None,
        sees: Callable[[str], bool] = lambda _server: True,
        details: Callable[[str], bool] = lambda _server: True,
    ) -> None:
        """Write an incident file of the last `minutes`, None = all that is held; see `triage.incident.take`.

        Raises TritonscopeError if there is nothing to write.
        """
        save(take(self.sources(), self.clock(), minutes=minutes, sees=sees, details=details), path)

    # ---- health

    def health(self) -> dict[str, Any]:
        """What /healthz answers; see `history.health`."""
        return health_of(self.poller, self.servers, self.remote)

    # ---- polling

    def _jobs(self, server: Server) -> list[Job]:
        ready = self._followup.ready_models
        return self._followup.watch(jobs_for(server, self.settings.refresh_seconds, lambda: ready(server.id)))

    def _servers_changed(self, change: Change) -> None:
        """Servers came or went: an event each, but for those that are listed when the process starts."""
        if not change:
            return
        now = time.time()
        self._want_control()
        if self.remote is not None:
            self.remote.configure(self.roster.servers)
        self.poller.remove(*(one.server.id for one in (*change.went, *change.changed)))
        for one in change.went:
            self.ring.end(one.server.id, now)
            self.events.left(one.server.id, now, one.origin)
            for memory in (self._followup, self._configs, self._one_server):
                memory.forget(one.server.id)
            # Its control mode is not known any more either.
            self._came_back(one.server.id)
        for server_id in change.forgotten:
            self.ring.forget(server_id)
        for one in (*change.came, *change.changed):
            for job in self._jobs(one.server):
                self.poller.add(job)
        if not change.first:
            for one in change.came:
                self.events.joined(one.server.id, now, one.origin)

    def _records(self) -> tuple[Record, ...]:
        return self.control.records() if self.control is not None else ()

    def _want_control(self) -> None:
        """Bring in the write side with the first server that may be written to."""
        wanted = any(server.control or server.expected_server_name is not None for server in self.servers)
        if self.control is not None or not wanted:
            return
        from experiments.golden_prober import Hearers
        from experiments.golden_side import golden_prober, golden_requests
        from experiments.write_side import write_side

        self.control = write_side(
            lambda: self.servers,
            self._may_write_unasked,
            self.settings.journal,
            self._acted,
            self.files,
            self._one_server.doubt,
            self.settings.saved_requests,
            golden_requests(self, self.settings.golden, self.files.golden_folder),
        )
        hearers = Hearers(self.probes.report, self.probes.forget, self.accept)
        self.golden = golden_prober(self, self.control, self.settings.golden, hearers)
        if self.running:
            self._start_writing()

    def _start_writing(self) -> None:
        if self.control is not None:
            self.control.start()
        if self.golden is not None:
            self.golden.start()

    def _came_back(self, server_id: str) -> None:
        if self.control is not None:
            self.control.server_restarted(server_id)

    def _acted(self, record: Record) -> None:
        self._followup.acted(record.action.server, record.action.model, ended=not record.running)
        if self.golden is not None and not record.running:
            self.golden.poke(record.action.server)


_process_lock = threading.Lock()
_process: Runtime | None = None


def current() -> Runtime:
    """The process' runtime, made from the process' settings and started at the first call."""
    global _process
    with _process_lock:
        if _process is None:
            _process = _of(load_settings())
            _process.start()
        return _process


def _of(settings: Settings) -> Runtime:
    """A process that reads servers, or one that shows an incident file; then raises UnusableFile."""
    if settings.incident is None:
        return Runtime(settings)
    from replay import replayed

    return replayed(settings.incident, settings)


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
