"""What a process tells of its figures, as pages and tests ask for it."""

from __future__ import annotations

from collections.abc import Mapping

from history.drift import Drift
from history.inventory import Inventory
from history.protocol import Frame, Grid, History
from signals.definition import Level
from signals.fleet import Fleet
from signals.report import Report
from telemetry.identity import ModelKey
from triage.budget import Budgets
from triage.context import ServerCoverage
from triage.figures import Effort, Figures, Narrowing
from triage.finding import Judgement
from triage.happenings import Happenings
from triage.verdict import Clock, Verdict, local_clock


class WithFigures:
    """A process that has `Figures`; every method may be called from any thread."""

    _figures: Figures

    @property
    def history(self) -> History:
        """Numbers over time: of this process, and before it of Prometheus where there is one."""
        return self._figures.history

    @property
    def distant(self) -> History | None:
        """Prometheus beside the process' own history, while it answers; nobody who asks it waits."""
        return self._figures.distant()

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

    def drifts(self) -> Mapping[ModelKey, Drift]:
        """Which models run with another configuration than their files give them: as the judgement has it."""
        return self.judgement().drifts

    def happenings(self) -> Happenings:
        """What happened besides numbers within the last hour: events, actions, changed configurations."""
        return self._figures.happenings()

    def budgets(self) -> Budgets:
        """How the objectives of `slo:` fared within the last hour, by model."""
        return self._figures.budgets()

    def verdict(
        self,
        judgement: Judgement,
        clock: Clock = local_clock,
        narrowed: Narrowing | None = None,
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
