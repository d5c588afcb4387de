"""The figures of one process: what is derived from its history, once per revision of it, however many ask.

Whoever asks first computes, the others wait for that. It lives beside triage because findings are the last
thing derived; what is watched, and how often, it is told.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from history.inventory import Inventory
from history.moment import Moment
from history.protocol import Frame, Grid, History
from history.remote import Remote
from history.ring import Ring
from signals.definition import Level
from signals.evaluate import report_of
from signals.facts import SignalFacts
from signals.fleet import Fleet, fleet, workloads_of
from signals.ranges import signal_range
from signals.report import Report
from telemetry.identity import Server
from telemetry.objective import Objective
from telemetry.rule_choice import RuleChoice
from telemetry.scrape import Source
from triage.budget import Budgets, budgets
from triage.context import Context, ServerCoverage
from triage.coverage import seen_through, server_coverage
from triage.engine import judge
from triage.finding import Judgement
from triage.happenings import Happened, Happenings
from triage.rulebook import Rulebook
from triage.verdict import Clock, Verdict, verdict

Narrowing = Callable[[Context], Context]

FLEET_SECONDS = 30.0
"""How often the replicas of a fleet are compared anew."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What deriving figures costs: how often a report was computed, and how long the last one took."""

    reports: int
    last_report_seconds: float | None


class Watch(Protocol):
    """What a process looks at now; it may change while the process runs."""

    @property
    def servers(self) -> tuple[Server, ...]:
        """The servers whose figures are wanted."""
        ...

    @property
    def gone(self) -> Mapping[str, float]:
        """Unix time at which servers went that were looked at within the last hour, by id."""
        ...

    @property
    def window_seconds(self) -> float:
        """The window of rates and means."""
        ...

    @property
    def fresh_seconds(self) -> float:
        """How old the last samples of a server may be that is read through Prometheus."""
        ...

    def interval_seconds(self, server: str | None = None) -> float:
        """Between two readings of a server; without one, of the one that is read least often."""
        ...


class Figures:
    """Derived from `ring`, and from `remote` where there is a Prometheus. Any thread may ask."""

    def __init__(
        self,
        watch: Watch,
        ring: Ring,
        remote: Remote | None,
        rulebook: Rulebook,
        *,
        choices: Mapping[str, RuleChoice],
        objectives: tuple[Objective, ...],
        happened: Happened | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`clock` gives the unix time that ages count to; None = the machine's clock."""
        self._clock = clock or time.time
        self._watch, self._ring, self._remote = watch, ring, remote
        self._rulebook, self._choices, self._objectives = rulebook, choices, objectives
        self._happened = happened
        self._lock = threading.Lock()
        self._moment: Moment | None = None
        self._effort = Effort(0, None)

    @property
    def history(self) -> History:
        """Numbers over time: of this process, and before it of Prometheus where there is one."""
        return self._ring if self._remote is None else self._remote.history

    @property
    def effort(self) -> Effort:
        """What computing reports costs."""
        return self._effort

    def now(self) -> float:
        """Unix time of the figures: the newest attempt at a metrics page; wall clock before the first."""
        return self._current().at

    def report(self) -> Report:
        """All signals at `now()` over the live window."""
        return self._current().once("report", self._report)

    def inventory(self) -> Inventory:
        """All models of all servers and what is known about them."""
        return self._current().once(
            "inventory", lambda: Inventory.of(self._ring, self._ids(), self._watch.gone)
        )

    def judgement(self) -> Judgement:
        """The findings of triage, most harmful first."""
        return self._current().once("judgement", lambda: judge(self._rulebook, self._context()))

    def budgets(self) -> Budgets:
        """How the objectives of `slo:` fared lately, by model."""
        return self._current().once("budgets", lambda: budgets(self._context()))

    def verdict(self, judgement: Judgement, clock: Clock, narrowed: Narrowing | None = None) -> Verdict:
        """The one sentence for a judgement, or for what is left of it: then `narrowed` leaves as much."""
        context = self._context()
        return verdict(judgement, context if narrowed is None else narrowed(context), clock)

    def signal_range(
        self,
        name: str,
        grid: Grid,
        *,
        level: Level | None,
        server: str | None,
        model: str | None,
        version: str | None,
        deadline: float | None,
    ) -> Frame:
        """One signal over the grid, in the unit of its name; see `signals.ranges.signal_range`.

        Waits for Prometheus until `deadline` (`time.monotonic()`), None = not at all.
        """
        window = max(self._watch.window_seconds, grid.step_seconds)
        remote, inventory = self._remote, self.inventory()

        def compute() -> Frame:
            return signal_range(
                self.history,
                inventory,
                name,
                grid,
                window,
                level=level,
                server=server,
                model=model,
                version=version,
            )

        key = (name, grid, level, server, model, version, remote.revision if remote is not None else 0)
        if remote is None:
            return self._current().once(key, compute)
        limit = time.monotonic() if deadline is None else deadline
        return self._current().once(key, lambda: remote.patiently(compute, limit))

    def fleet(self, deadline: float | None) -> Fleet:
        """Workloads with their replicas side by side; waits for Prometheus as `signal_range` does."""
        remote, facts = self._remote, SignalFacts.of(self.inventory())
        workload_of = {server.id: server.workload for server in self._watch.servers}
        if remote is None or remote.status().error:
            mine = workloads_of(workload_of)
            return self._current().once("fleet", lambda: fleet(self._ring, facts, mine, self.now()))
        known = {one.server: one.workload for one in remote.targets().targets if one.alive}
        workloads = workloads_of(
            known | {name: workload for name, workload in workload_of.items() if workload}
        )
        at = self._clock() // FLEET_SECONDS * FLEET_SECONDS
        limit = time.monotonic() if deadline is None else deadline
        everywhere = remote.everywhere
        return self._current().once(
            ("fleet", at, remote.revision),
            lambda: remote.patiently(lambda: fleet(everywhere, facts, workloads, at), limit),
        )

    def coverage(self) -> tuple[ServerCoverage, ...]:
        """How well each server can be seen now; ages count to the wall clock."""
        now, remote = self._clock(), self._remote
        found = [server_coverage(self._ring, server, now) for server in self._watch.servers]
        if remote is None:
            return tuple(found)
        why, fresh = remote.status().error, self._watch.fresh_seconds
        return tuple(seen_through(one, why, fresh) if remote.fed(one.server) else one for one in found)

    def _ids(self) -> list[str]:
        return [server.id for server in self._watch.servers]

    def _report(self) -> Report:
        start = time.perf_counter()
        inventory, window = self.inventory(), self._watch.window_seconds
        report = report_of(self._ring, self._ids(), self.now(), window, inventory=inventory)
        self._effort = Effort(self._effort.reports + 1, time.perf_counter() - start)
        return report

    def _context(self) -> Context:
        return self._current().once("context", self._new_context)

    def _new_context(self) -> Context:
        span = self._ring.span()
        return Context(
            report=self.report(),
            history=self._ring,
            inventory=self.inventory(),
            coverage=self.coverage(),
            now=self._clock(),
            interval_seconds=self._watch.interval_seconds(),
            history_from=span[0] if span is not None else None,
            choices=self._choices,
            objectives=self._objectives,
            happenings=self.happenings(),
            distant=self.distant(),
        )

    def happenings(self) -> Happenings:
        """What happened besides numbers within the last hour."""
        return self._happened.now(self.inventory(), self._clock()) if self._happened else Happenings()

    def distant(self) -> History | None:
        """Prometheus beside the ring, while it answers."""
        remote = self._remote
        return remote.hasty if remote is not None and not remote.status().error else None

    def _current(self) -> Moment:
        revision = self._ring.revision
        with self._lock:
            if self._moment is None or self._moment.revision != revision:
                self._moment = Moment(revision, self._newest_attempt())
            return self._moment

    def _newest_attempt(self) -> float:
        for sources in ((Source.METRICS,), tuple(Source)):
            times = [
                scrape.at
                for server in self._ids()
                for source in sources
                if (scrape := self._ring.latest(server, source)) is not None
            ]
            if times:
                return max(times)
        return self._clock()
