"""One run from beginning to end: its measurements, its progress, its report."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from control.facade import Control
from control.generate import responses
from control.inference import InferenceRequest, Way, check_request, infer
from control.performer import Course, Work
from experiments.load_process import LoadProgress, RunLoad, Target, run_load
from experiments.measure import WARM_UP, Measurement, measure, notes
from experiments.plan import LoadPlan
from experiments.report import RunKind, RunProgress, RunReport
from experiments.server_side import LoadReader
from experiments.wire import check_way
from telemetry.actions import Conclusion, Outcome
from telemetry.facts import ModelConfig

_MAX_COURSE = 400
_PAUSE_SECONDS = 0.05

Save = Callable[[RunReport], str]
"""Keeps a report; returns why it could not, "" if it could."""


def not_saved(report: RunReport) -> str:
    """Keep nothing: what a run without a state folder does."""
    return ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What every run is asked with. `save` keeps its report; `load` is the generator."""

    control: Control
    config: ModelConfig
    request: InferenceRequest
    save: Save = not_saved
    load: RunLoad = run_load

    def check(self) -> None:
        """Raise InvalidRequest for a request that the server would refuse."""
        check_way(self.config, self.request)
        check_request(self.config, self.request)


class Session:
    """A run under way. Everything it sends goes to the course's server, below the limit set for it."""

    def __init__(self, kind: RunKind, wanted: Wanted, course: Course, plans: Sequence[LoadPlan]) -> None:
        self.kind = kind
        self.wanted = wanted
        self.course = course
        self.total = len(plans)
        self.began_at = time.time()
        self.measured: list[Measurement] = []
        self.config = wanted.config
        self._cap = wanted.control.policy.load_run_cap_per_second(course.server)
        self._points: list[LoadProgress] = []
        self._label = ""
        for plan in plans:
            replace(plan, cap_per_second=self._cap).check()

    @property
    def stopping(self) -> bool:
        """True once somebody asked it to stop."""
        return self.course.stopping

    def try_out(self) -> None:
        """Send one request ahead, unmeasured: one that fails is told at once. Raises a TritonscopeError."""
        self.course.sent()
        request = self.wanted.request
        if request.way is Way.INFER:
            infer(self.course.server, self.config, request)
        else:
            list(responses(self.course.server, self.config, request))

    def measure(self, label: str, plan: LoadPlan) -> Measurement:
        """One load, below the limit of the server; kept in `measured`."""
        self._points, self._label = [], label
        plan = replace(plan, cap_per_second=self._cap)
        self._let_the_cap_pass()
        target = Target(self.course.server, self.config, self.wanted.request)
        # The facade promises index, statistics and config; whoever builds it hands in a reader with GPUs too.
        reader = cast(LoadReader, self.wanted.control.reader)
        self.course.sent()
        found = measure(
            reader, target, label, plan, self._show, lambda: self.course.stopping, self.wanted.load
        )
        self.measured.append(found)
        return found

    def doing(self, words: str, plan: LoadPlan, label: str = "") -> None:
        """Say what goes on between two loads."""
        self._points, self._label = [], label
        self._show_progress(plan, words)
        self.course.say(words)

    def conclude(self, sentence: str, more_notes: tuple[str, ...] = (), **fields: Any) -> Conclusion:
        """The end of the run: its report, saved."""
        action = self.course.action
        complete = not self.stopping and len(self.measured) == self.total
        report = RunReport(
            id=run_id(self.began_at),
            kind=self.kind,
            at=self.began_at,
            server=action.server,
            model=action.model,
            version=action.version,
            who=action.who,
            sentence=sentence,
            measurements=tuple(self.measured),
            notes=(*more_notes, *notes(self.measured), *self._cap_note()),
            complete=complete,
            **fields,
        )
        if problem := self.wanted.save(report):
            report = replace(report, notes=(*report.notes, problem))
        return Conclusion(Outcome.STOPPED if self.stopping else Outcome.DONE, sentence, result=report)

    def _let_the_cap_pass(self) -> None:
        """Each load keeps the limit by itself; what was sent before must not count into its first second."""
        if self._cap is None:
            return
        rest(max(1.0, 1.0 / self._cap), lambda: self.stopping)

    def _cap_note(self) -> tuple[str, ...]:
        if self._cap is None:
            return ()
        return (
            f"The settings allow load runs {self._cap:g} requests/s on this server: it was kept to that.",
        )

    def _show(self, plan: LoadPlan, row: LoadProgress) -> None:
        if self._points and self._points[-1].phase != row.phase:
            self._points = []
        self._points.append(row)
        if len(self._points) > _MAX_COURSE:
            self._points = _merged(self._points)
        self._show_progress(plan, "warming up" if row.phase == WARM_UP else "")
        name = f"{self._label}: " if self._label else ""
        self.course.say(f"{name}{'warming up' if row.phase == WARM_UP else plan.words}")

    def _show_progress(self, plan: LoadPlan, words: str) -> None:
        number = min(self.total, len(self.measured) + 1)
        self.course.show(
            RunProgress(
                self.kind, number, self.total, self._label, plan, words,
                tuple(self._points), tuple(self.measured),
            )
        )  # fmt: skip


def rest(seconds: float, stopping: Callable[[], bool]) -> None:
    """Let so much time pass, less if the run is stopped."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not stopping():
        time.sleep(_PAUSE_SECONDS)


def run_id(at: float) -> str:
    """A name that sorts by time and does not collide: 20261130-181500-1a2b3c."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(at))}-{uuid.uuid4().hex[:6]}"


def work_of(
    kind: RunKind, wanted: Wanted, plans: Sequence[LoadPlan], run: Callable[[Session], Conclusion]
) -> Work:
    """The work of `Control.perform`: tries one request, then does `run`, which measures these plans.

    Raises InvalidRequest for a request or a plan that cannot be meant.
    """
    wanted.check()
    for plan in plans:
        plan.check()

    def work(course: Course) -> Conclusion:
        session = Session(kind, wanted, course, plans)
        session.try_out()
        return run(session)

    return work


def _merged(points: list[LoadProgress]) -> list[LoadProgress]:
    """Half as many points, each of two: a long load is shown more coarsely, not cut off."""
    merged = []
    for first, second in zip(points[::2], points[1::2], strict=False):
        merged.append(
            replace(
                second,
                recent_done=first.recent_done + second.recent_done,
                recent_failed=first.recent_failed + second.recent_failed,
                p99_us=max((one.p99_us for one in (first, second) if one.p99_us is not None), default=None),
            )
        )
    return merged
