"""An incident that was opened: figures, inventory and findings as they were, at the time it was captured."""

from __future__ import annotations

from collections.abc import Mapping

from history.config_book import ConfigBook
from history.events import EventLog
from history.memory_ledger import MemoryLedger
from history.protocol import History
from history.ring import Ring
from history.tape import Tape
from signals.advice_book import AdviceBook
from telemetry.actions import Record
from telemetry.identity import Server
from triage.command import Judged
from triage.context import ServerCoverage
from triage.figures import Figures
from triage.happenings import Happened, Probes
from triage.incident import Incident
from triage.rulebook import Rulebook, load_rulebook
from triage.with_figures import WithFigures


class _AsItWas(Figures):
    """Figures whose coverage and answers of Prometheus come from the file."""

    coverage_then: tuple[ServerCoverage, ...] = ()
    distant_then: History | None = None

    def coverage(self) -> tuple[ServerCoverage, ...]:
        return self.coverage_then

    def distant(self) -> History | None:
        return self.distant_then


class Opened(WithFigures):
    """Read-only: nothing is asked of any server, and the clock stands at the time of the capture."""

    def __init__(
        self, incident: Incident, rulebook: Rulebook | None = None, *, distant: History | None = None
    ) -> None:
        """`distant`: asked instead of what was taped."""
        self.incident = incident
        manifest, facts = incident.manifest, incident.facts
        self.ring, self.events, self.configs = Ring(), EventLog(), ConfigBook()
        self.ring.restore(incident.ring)
        self.events.restore(facts.events)
        self.configs.restore(facts.configs)
        self.memory = MemoryLedger(self.ring, self.events, self.records, self.interval_seconds)
        self.memory.restore(facts.memory)
        self.advice = AdviceBook()
        self.advice.restore(facts.advice)
        self.probes = Probes()
        for probe in facts.probes:
            self.probes.report(probe)
        self.happened = Happened(
            self.ring, self.events, self.records, self.probes, self.configs, lambda _inventory: facts.drifts
        )
        self._servers = tuple(row.server() for row in manifest.servers)
        figures = _AsItWas(
            self,
            self.ring,
            None,
            rulebook if rulebook is not None else load_rulebook(),
            choices=manifest.choices,
            objectives=manifest.objectives,
            happened=self.happened,
            clock=self.clock,
        )
        figures.coverage_then = facts.coverage
        figures.distant_then = distant or (Tape(taped=incident.taped) if incident.taped else None)
        self._figures: Figures = figures

    @property
    def figures(self) -> Figures:
        """All that is derived from it."""
        return self._figures

    # ---- what is looked at

    def clock(self) -> float:
        """Unix time of the capture: ages count to it."""
        return self.incident.manifest.captured_at

    def records(self) -> tuple[Record, ...]:
        """What was done, newest first."""
        return self.incident.facts.records

    @property
    def servers(self) -> tuple[Server, ...]:
        """The servers of the incident."""
        return self._servers

    @property
    def gone(self) -> Mapping[str, float]:
        """Unix time at which servers went within the hour before, by id."""
        return self.incident.manifest.gone

    @property
    def window_seconds(self) -> float:
        """The window of rates and means."""
        return self.incident.manifest.window_seconds

    @property
    def fresh_seconds(self) -> float:
        """How old the last samples of a server could be that was read through Prometheus."""
        return self.incident.manifest.fresh_seconds

    def interval_seconds(self, server: str | None = None) -> float:
        """Between two readings of a server; without one, of the one that was read least often."""
        manifest = self.incident.manifest
        return manifest.intervals.get(server or "", manifest.interval_seconds)

    def judged(self) -> Judged:
        """Findings, verdict and figures, as `python -m triage` prints them."""
        judgement = self.judgement()
        return Judged(self.report(), judgement, self.verdict(judgement), clocked=True)
