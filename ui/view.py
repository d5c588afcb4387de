"""Everything one drawing of a page looks at, taken at one moment, and narrowed to the servers looked at."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import runtime
from charts.palette import know_models
from history.inventory import Inventory, ModelFacts
from history.protocol import Frame, Grid
from signals.definition import Level
from signals.report import GpuSignals, ModelSignals, Report
from telemetry.identity import ModelKey
from telemetry.scrape import FloatArray, Source
from triage.budget import Budgets
from triage.context import Context, ServerCoverage
from triage.finding import Finding, Judgement, Severity
from triage.verdict import Verdict, VerdictLevel
from ui import filters, sight
from ui.filters import Filters
from ui.format import clock
from ui.person import me

STALE_INTERVALS = 2.0
"""A value older than this many intervals is shown grey, with its age."""

COURSE_POINTS = 60
"""A sparkline is drawn from at least so many points."""

NOTHING_TO_SEE = "You may view no server here: sign in, or ask whoever runs this app for the right."

NOT_SERVING = frozenset({"ServerDown", "HttpNotAnswering"})
"""Rules about a server that serves nobody: they concern each of its models."""

PATIENCE_SECONDS = 1.5
"""How long one drawing waits for Prometheus; what has not come by then is drawn at the next refresh."""
PAUSED_SECONDS = 8.0
"""The same while nothing refreshes."""


@dataclass(frozen=True, slots=True)
class View:
    """One moment. `now` is the unix time of the figures; `grid` the times charts show."""

    filters: Filters
    now: float
    grid: Grid
    report: Report
    inventory: Inventory
    judgement: Judgement
    coverage: tuple[ServerCoverage, ...]
    interval_seconds: float
    budgets: Budgets
    oldest: float | None
    """Time of the oldest figures there can be, unix seconds; None where Prometheus may know older ones."""
    sees: Callable[[str], bool]
    """True for a server that is looked at: of all that exist for this person, or the chosen one."""
    details: Callable[[str], bool]
    """True for a server of which this person sees more than a viewer: see `Identity.sees_details`."""
    deadline: float
    """Until when drawing may wait for Prometheus, in `time.monotonic()`."""

    @classmethod
    def take(cls) -> View:
        """The moment now, for the servers the reader looks at."""
        process = runtime.current()
        chosen, person = filters.current(), me()

        def sees(server: str) -> bool:
            return chosen.server in (None, server) and person.sees(server)

        now, oldest = process.now(), _oldest(process)
        know_models(facts.key.name for facts in process.inventory().models)
        return cls(
            filters=chosen,
            now=now,
            grid=chosen.grid(now, oldest),
            oldest=oldest,
            report=sight.report_of(process.report(), sees),
            inventory=sight.inventory_of(process.inventory(), sees),
            judgement=sight.judgement_of(process.judgement(), sees),
            coverage=tuple(one for one in process.coverage() if sees(one.server)),
            interval_seconds=process.interval_seconds(chosen.server),
            budgets=process.budgets(),
            sees=sees,
            details=person.sees_details,
            deadline=time.monotonic() + (PATIENCE_SECONDS if chosen.refresh_seconds else PAUSED_SECONDS),
        )

    def verdict(self) -> Verdict:
        """The one sentence: is anything wrong, for the servers looked at."""
        if not self.coverage and runtime.current().servers:
            return Verdict(VerdictLevel.UNKNOWN, NOTHING_TO_SEE)
        return runtime.current().verdict(self.judgement, clock, self._narrowed)

    def _narrowed(self, context: Context) -> Context:
        return replace(context, report=self.report, inventory=self.inventory, coverage=self.coverage)

    @property
    def shown_seconds(self) -> float:
        """Length of the time shown: the range, or what was recorded of it."""
        return self.grid.end - self.grid.start

    @property
    def before_the_record(self) -> bool:
        """True if the time shown ended before anything was recorded."""
        return self.oldest is not None and self.grid.end < self.oldest

    @property
    def range(self) -> tuple[float, float]:
        """First and last time shown, unix seconds."""
        return self.grid.start, self.grid.end

    def of_model(self, signal: str, key: ModelKey) -> Frame:
        """A signal of one model over the time shown; one column, or none."""
        return runtime.current().signal_range(
            signal,
            self.grid,
            level=Level.MODEL,
            server=key.server,
            model=key.name,
            version=key.version,
            deadline=self.deadline,
        )

    def over_range(self, signal: str, key: ModelKey) -> dict[str, float]:
        """A mapping signal of one model over the whole time shown as one window, by its own label."""
        whole = Grid(self.grid.end, self.grid.end, self.shown_seconds)
        frame = runtime.current().signal_range(
            signal,
            whole,
            level=Level.MODEL,
            server=key.server,
            model=key.name,
            version=key.version,
            deadline=self.deadline,
        )
        values = frame.values[-1].tolist() if frame.keys else []
        return {labels[-1]: value for labels, value in zip(frame.keys, values, strict=True) if value == value}

    def of_level(self, signal: str, level: Level) -> Frame:
        """A signal of every model, server, GPU or host of the view over the time shown."""
        return self._of_level(signal, level, self.grid)

    def courses(self, signal: str, level: Level) -> Frame:
        """The same with as many points as a sparkline shows: of many models that is much less to ask for."""
        return self._of_level(signal, level, sparse(self.grid))

    def _of_level(self, signal: str, level: Level, grid: Grid) -> Frame:
        frame = runtime.current().signal_range(
            signal, grid, level=level, server=self.filters.server, deadline=self.deadline
        )
        return sight.frame_of(frame, self.sees)

    def gpu_figure(self, gpu: GpuSignals, signal: str) -> float | None:
        """A GPU's figure now; while its server is silent the last one of the time shown, which is old."""
        value = gpu.signals.number(signal)
        if value is not None or self.stale_seconds(gpu.key.server) is None:
            return value
        course = self.of_level(signal, Level.GPU).column((gpu.key.server, gpu.key.uuid))
        known = course[np.isfinite(course)] if course is not None else np.empty(0)
        return float(known[-1]) if known.size else None

    def model_courses(self, signal: str) -> dict[ModelKey, FloatArray]:
        """A signal of every model of the view over the time shown, (n,) each, for sparklines."""
        frame = self.courses(signal, Level.MODEL)
        return {ModelKey(*key): frame.values[:, column] for column, key in enumerate(frame.keys)}

    def stale_seconds(self, server: str) -> float | None:
        """Age of a server's figures when they are older than two intervals, None while they are fresh."""
        age = next((one.age_seconds for one in self.coverage if one.server == server), None)
        interval = runtime.current().interval_seconds(server)
        return age if age is not None and age > STALE_INTERVALS * interval else None

    def collecting(self, server: str) -> bool:
        """True while a server's metrics page was read once only: a rate needs two readings."""
        ring = runtime.current().ring
        readings = ring.sample_times(server, Source.METRICS, 0.0, self.now + self.interval_seconds)
        return ring.last(server, Source.METRICS) is not None and len(readings) < 2

    def findings_of(self, key: ModelKey) -> tuple[Finding, ...]:
        """What triage found about a model, most harmful first; those that only follow come last."""
        direct = [one for one in self.judgement.findings if one.model == key]
        follows = [two for one in self.judgement.findings for two in one.follows if two.model == key]
        return (*direct, *follows)

    def findings_about(self, key: ModelKey) -> tuple[Finding, ...]:
        """The same; that its server does not serve at all comes first."""
        whole = (one for one in self.judgement.findings if one.model is None and one.server == key.server)
        return (*(one for one in whole if one.rule in NOT_SERVING), *self.findings_of(key))

    def figures(self, key: ModelKey) -> ModelSignals | None:
        """A model's figures, None if it has none."""
        return self.report.model(key)

    def facts(self, key: ModelKey) -> ModelFacts | None:
        """What is known about a model besides numbers."""
        return self.inventory.get(key)

    @property
    def harm(self) -> dict[ModelKey, tuple[int, Severity]]:
        """Place and severity of each model's worst finding: triage's order, the only one there is."""
        places: dict[ModelKey, tuple[int, Severity]] = {}
        told = (one for finding in self.judgement.findings for one in (finding, *finding.follows))
        for place, one in enumerate(told):
            if one.model is not None:
                places.setdefault(one.model, (place, one.severity))
        return places


def sparse(grid: Grid) -> Grid:
    """The times of a grid with a coarser step: enough points for a sparkline, on whole steps."""
    factor = len(grid.times()) // COURSE_POINTS
    if factor < 2:
        return grid
    step = factor * grid.step_seconds
    end = grid.end // step * step
    return Grid(end - (end - grid.start) // step * step, end, step)


def _oldest(process: runtime.Runtime) -> float | None:
    """The oldest time there can be figures of; None where Prometheus may know older ones."""
    remote = process.remote
    if remote is not None and remote.status().answered_at is not None:
        return None
    span = process.ring.span()
    return span[0] if span is not None else None
