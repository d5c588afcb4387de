"""Feeds a scenario's readings into a real ring, tick by tick, and judges what it then knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from collectors.config import parse_config
from collectors.repository import index_samples
from history.config_book import ConfigBook
from history.drift import Drifts, no_files
from history.events import EventLog
from history.inventory import Inventory
from history.ring import Ring
from signals.evaluate import evaluate
from telemetry.actions import Action, ActionKind, Outcome, Record
from telemetry.errors import Unreachable
from telemetry.identity import Server
from telemetry.memory import ServerProcesses, StubProcess
from telemetry.scrape import Samples, Scrape, Source
from tests.rules.series import HTTP, START, UP, Scenario
from triage.context import Context
from triage.coverage import server_coverage
from triage.durations import parse_duration
from triage.engine import judge
from triage.finding import Finding, Judgement
from triage.happenings import Happened, ProbeResult, Probes
from triage.rulebook import Rulebook, load_rulebook
from triage.verdict import Verdict, verdict

_FROM_STATISTICS = "tritonscope_"


@dataclass
class Replay:
    """One scenario being played; `seconds` is the time of the last reading, from 0."""

    scenario: Scenario
    rulebook: Rulebook = field(default_factory=load_rulebook)
    ring: Ring = field(default_factory=Ring)
    events: EventLog = field(default_factory=EventLog)
    probes: Probes = field(default_factory=Probes)
    configs: ConfigBook = field(default_factory=ConfigBook)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.servers = self.all_servers = [
            Server(name, None, None, workload=self.scenario.workload) for name in self.scenario.series
        ]
        # A scenario of a day is remembered whole.
        self.ring = Ring(retention_seconds=max(3600.0, self.scenario.ticks * self.scenario.interval_seconds))
        drifts = Drifts(
            self.configs,
            self.events,
            self._records,
            no_files,
            lambda: self.ring.revision,
            lambda: START + self.seconds,
        )
        self.happened = Happened(self.ring, self.events, self._records, self.probes, self.configs, drifts.all)

    def run(self) -> Iterator[float]:
        """Plays every tick; yields its time in seconds from 0."""
        for tick in range(self.scenario.ticks):
            self.seconds = tick * self.scenario.interval_seconds
            self.servers = [server for server in self.all_servers if self.scenario.listed(server.id, tick)]
            for server in self.servers:
                self._read(server.id, tick)
                self._see_processes(server.id, tick)
            self._probe()
            yield self.seconds

    def context(self) -> Context:
        """What is known right after the last reading."""
        now = START + self.seconds
        inventory = Inventory.of(self.ring, [server.id for server in self.servers])
        span = self.ring.span()
        return Context(
            report=evaluate(self.ring, inventory, now, self.scenario.window_seconds),
            history=self.ring,
            inventory=inventory,
            coverage=[server_coverage(self.ring, server, now) for server in self.servers],
            now=now,
            interval_seconds=self.scenario.interval_seconds,
            history_from=span[0] if span else None,
            choices=self.scenario.choices,
            objectives=self.scenario.objectives,
            happenings=self.happened.now(inventory, now),
        )

    def judge(self) -> tuple[Judgement, Verdict]:
        """Findings and the sentence on top, now."""
        context = self.context()
        judgement = judge(self.rulebook, context)
        return judgement, verdict(judgement, context, _clock)

    def _read(self, server: str, tick: int) -> None:
        rows = self.scenario.series[server]
        at = START + tick * self.scenario.interval_seconds
        if UP in rows and (tick >= len(rows[UP]) or not rows[UP][tick]):
            error = Unreachable(f"{server}:8000 is not reachable: connection refused")
            asked = (Source.METRICS, Source.INDEX) if server in self.scenario.indexes else (Source.METRICS,)
            for source in asked:
                self._accept(Scrape(server, source, at, 0.001, error=error))
            return
        http = HTTP not in rows or (tick < len(rows[HTTP]) and bool(rows[HTTP][tick]))
        if not http:
            error = Unreachable(f"{server}:8000 is not reachable: connection refused")
            for source in (Source.STATISTICS, Source.INDEX):
                self._accept(Scrape(server, source, at, 0.001, error=error))
        values = {
            series: column[tick]
            for series, column in rows.items()
            if series not in (UP, HTTP) and tick < len(column) and column[tick] is not None
        }
        for source, wanted in ((Source.METRICS, False), (Source.STATISTICS, True)):
            chosen = {
                series: value
                for series, value in values.items()
                if series.name.startswith(_FROM_STATISTICS) is wanted
            }
            samples = Samples(tuple(chosen), np.array(list(chosen.values()), dtype=np.float64))
            if source is Source.METRICS or (chosen and http):
                self._accept(Scrape(server, source, at, 0.001, samples))
        if http:
            self._read_repository(server, tick, at)

    def _accept(self, scrape: Scrape) -> None:
        self.ring.accept(scrape)
        self.events.accept(scrape)
        self.configs.accept(scrape)

    def _records(self) -> list[Record]:
        done = []
        for number, row in enumerate(self.scenario.records):
            at = parse_duration(row["at"])
            if at <= self.seconds:
                action = Action(
                    ActionKind(row["kind"]),
                    row.get("server", "saved"),
                    row["model"],
                    parameters={"changes": row.get("changes", {})},
                )
                record = Record(number, action, START + at, "", sent=True)
                record = replace(record, ended_at=START + at, outcome=Outcome(row["outcome"]))
                done.append(replace(record, sentence=row.get("sentence", ""), detail=row.get("detail")))
        # The newest first, as a journal gives them.
        return done[::-1]

    def _probe(self) -> None:
        for row in self.scenario.probes:
            at = parse_duration(row["at"])
            if at <= self.seconds:
                cause = row.get("cause", "")
                self.probes.report(
                    ProbeResult("saved", row["model"], START + at, not cause, cause, row.get("sentence", ""))
                )

    def _see_processes(self, server: str, tick: int) -> None:
        if not self.scenario.stubs:
            return
        stubs = []
        for name, counts in self.scenario.stubs.items():
            model, version = name.split("/")
            alive = counts[tick] if tick < len(counts) else 0
            stubs += [StubProcess(100 + one, model, version, f"{model}_{one}", None) for one in range(alive)]
        at = START + tick * self.scenario.interval_seconds
        self._accept(
            Scrape(server, Source.PROCESSES, at, 0.001, payload=ServerProcesses(99, stubs=tuple(stubs)))
        )

    def _read_repository(self, server: str, tick: int, at: float) -> None:
        entries = self.scenario.index_at(server, tick)
        if entries is not None:
            scrape = Scrape(server, Source.INDEX, at, 0.001, index_samples(entries), entries)
            self._accept(scrape)
        if self.scenario.configs and (tick == 0 or tick in self.scenario.config_ticks):
            configs = {
                name: parse_config({"name": name, **self.scenario.config_at(server, name, tick)})
                for name in self.scenario.configs
            }
            self._accept(Scrape(server, Source.CONFIG, at, 0.001, payload=configs))


def described(finding: Finding) -> str:
    """`Rule severity subject`, the form scenarios use."""
    subject = finding.model.label() if finding.model else finding.server
    return f"{finding.rule} {finding.severity.value} {subject}"


def _clock(at: float) -> str:
    return f"{at - START:g} s"
