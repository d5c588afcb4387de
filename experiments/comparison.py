"""Configurations of one model against each other: each loaded, warmed and measured under the same load.

The configuration the model had is put back whatever happens. Before the first change it is written into the
journal what must be put back, so that the next start of the app does it if this process is killed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from control.override import raw_config
from control.performer import Work
from experiments.arms import Arm, arm_configs, words_of
from experiments.measure import Measurement
from experiments.plan import LoadPlan
from experiments.report import RunKind
from experiments.session import Session, Wanted, rest, work_of
from experiments.way_back import PAUSE_SECONDS, WayBack
from telemetry.access import Identity
from telemetry.actions import Action, ActionKind, Conclusion, Outcome, Record
from telemetry.config_diff import changes_between, in_words
from telemetry.errors import ActionFailed, AlreadyRunning, NotAllowed, TritonscopeError
from telemetry.facts import ModelConfig
from telemetry.units import Unit, human, significant

_WARM_UP_AT_LEAST_SECONDS = 0.5
_ARM_TRIES = 5


def comparison_work(wanted: Wanted, plan: LoadPlan, arms: Sequence[Arm], by: Identity) -> Work:
    """The work of `Control.perform`; raises InvalidRequest or NotAllowed before anything is begun.

    Needs the right to override besides the one to load runs. The result is a `RunReport` with one measurement
    for each arm that could be loaded.
    """
    plan = replace(plan, warmup_seconds=max(plan.warmup_seconds, _WARM_UP_AT_LEAST_SECONDS))
    request = wanted.request
    decision = wanted.control.decide(request.server, ActionKind.OVERRIDE, request.model, by=by)
    if not decision.allowed:
        raise NotAllowed(decision.reason)
    arm_configs(wanted.config, arms)

    def run(session: Session) -> Conclusion:
        return _Comparison(session, plan, arms, by).run()

    return work_of(RunKind.COMPARISON, wanted, [plan] * len(arms), run)


def ratio(measurements: Sequence[Measurement]) -> float | None:
    """Throughput of the best arm / of the worst; None without two that worked."""
    rates = [rate for one in measurements if (rate := one.clients.throughput_per_second)]
    return max(rates) / min(rates) if len(rates) > 1 else None


def inferences_per_second(one: Measurement) -> float | None:
    """Rows answered per second, by the server's count of rows per request; None without it."""
    rate, split = one.clients.throughput_per_second, one.split
    if rate is None or split is None or not split.requests:
        return None
    return rate * split.inferences / split.requests


def sentence(model: str, measurements: Sequence[Measurement]) -> str:
    """What the comparison says, in words."""
    worked = [one for one in measurements if one.clients.throughput_per_second]
    factor = ratio(worked)
    if factor is None:
        return f"{model}: no comparison, fewer than two configurations were measured"
    best = max(worked, key=lambda one: one.clients.throughput_per_second or 0.0)
    worst = min(worked, key=lambda one: one.clients.throughput_per_second or 0.0)
    rates = " to ".join(significant(one.clients.throughput_per_second or 0.0) for one in (worst, best))
    waits = " to ".join(human(one.clients.mean_us, Unit.US) for one in (worst, best))
    return (
        f"{model}: {best.label} gives {significant(factor)} times the throughput of {worst.label} "
        f"({rates} requests/s), mean latency {waits}"
    )


class _Comparison:
    """One comparison under way."""

    def __init__(self, session: Session, plan: LoadPlan, arms: Sequence[Arm], by: Identity) -> None:
        self._session = session
        self._plan = plan
        self._arms = arms
        self._by = by
        self._control = session.wanted.control
        self._server = session.course.action.server
        self._model = session.course.action.model
        self._what = f"the comparison of {time.strftime('%H:%M', time.localtime())} on {self._model}"
        self._way_back = WayBack(self._control, self._server, self._model, self._what)
        self._notes: list[str] = []
        self._settings: dict[str, str] = {}

    def run(self) -> Conclusion:
        """Measure all arms, put the configuration back, report."""
        configs = arm_configs(self._way_back.config, self._arms)
        self._way_back.write_down()
        broken: TritonscopeError | None = None
        try:
            for arm, config in zip(self._arms, configs, strict=True):
                if self._session.stopping:
                    break
                self._measure(arm, config)
        except TritonscopeError as error:
            broken = error
        finally:
            self._session.doing("putting the configuration back", self._plan)
            problem = self._way_back.put_back()
        if broken is not None:
            # Both must be told: that a model stays changed matters more than why the run ended.
            words = f"{problem}. {broken.sentence}" if problem else broken.sentence
            raise ActionFailed(words, detail=broken.detail) from broken
        return self._conclude(problem)

    def _conclude(self, problem: str) -> Conclusion:
        words = sentence(self._model, self._session.measured)
        if problem:
            words = f"{problem}. {words}"
        if self._way_back.note:
            self._notes.append(self._way_back.note)
        ended = self._session.conclude(words, tuple(self._notes), settings=self._settings)
        return replace(ended, outcome=Outcome.FAILED) if problem else ended

    def _measure(self, arm: Arm, config: Mapping[str, Any]) -> None:
        session = self._session
        session.doing(f"loading the configuration {arm.label!r}", self._plan, arm.label)
        try:
            self._load(config, f"{self._what}: {arm.label}")
            session.config = running = self._read()
        except TritonscopeError as error:
            self._notes.append(f"{arm.label} could not be loaded and was not measured: {error.sentence}")
            return
        self._settings[arm.label] = words_of(running)
        session.measure(arm.label, self._plan)
        try:
            changed = changes_between(raw_config(running), raw_config(self._read()))
        except TritonscopeError as error:
            self._notes.append(
                f"{arm.label}: whether it ran with this configuration until the end is not known: "
                f"{error.sentence}"
            )
            return
        if changed:
            self._notes.append(
                f"{arm.label}: somebody changed the configuration while it was measured "
                f"({in_words(changed)}): its figures are not of one configuration."
            )

    def _load(self, config: Mapping[str, Any], why: str) -> None:
        """Load a configuration; raises a TritonscopeError if the model does not run with it afterwards."""
        if not changes_between(raw_config(self._read()), config):
            return
        self._way_back.changed = True
        record = self._override(config, why)
        if record.outcome is not Outcome.DONE:
            raise ActionFailed(record.sentence, detail=record.detail)

    def _override(self, config: Mapping[str, Any], why: str) -> Record:
        """The load itself; a refusal of the moment (somebody acts on the model) is waited out."""
        tries = 0
        while True:
            action = Action(ActionKind.OVERRIDE, self._server, self._model, why=why, config=config)
            try:
                return self._control.perform(action, by=self._by).wait()
            except (AlreadyRunning, NotAllowed):
                tries += 1
                if tries >= _ARM_TRIES or self._session.stopping:
                    raise
                rest(PAUSE_SECONDS, lambda: self._session.stopping)

    def _read(self) -> ModelConfig:
        return self._control.reader.config(self._server, self._model)
