"""Configurations side by side: rights, what is loaded, and that the one from before comes back."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from collectors.config import parse_config
from control.facade import Control
from control.inference import InferenceRequest, Reply, Tensor
from control.override import Override
from control.performer import Course, Job, Work
from experiments import comparison, server_side, session, way_back
from experiments.arms import Arm, batching_arms, delay_arms, instance_arms, preferred_arms, words_of
from experiments.comparison import comparison_work
from experiments.figures import LoadFigures
from experiments.load_process import LoadProgress, Target, Watch
from experiments.plan import LoadPlan
from experiments.report import RunReport
from experiments.server_side import GpuReading
from experiments.session import Wanted
from telemetry.access import LOCAL, How, Identity, Right
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.errors import ActionFailed, AlreadyRunning, InvalidRequest, NotAllowed, SourceError
from telemetry.facts import IndexEntry, ModelConfig, ModelState, ModelStatistics
from telemetry.identity import Server

SERVER = Server("lab", "http://lab:8000", None, control=True, load_run_limit_per_second=1000.0)
ON_DISK: dict[str, Any] = {
    "name": "alpha", "backend": "python", "platform": "", "max_batch_size": 16,
    "input": [{"name": "A", "data_type": "TYPE_FP32", "dims": ["1"]}],
    "output": [{"name": "B", "data_type": "TYPE_FP32", "dims": ["1"]}],
    "dynamic_batching": {"preferred_batch_size": [8, 16], "max_queue_delay_microseconds": 2000},
    "instance_group": [{"name": "alpha_0", "kind": "KIND_CPU", "count": 1, "gpus": []}],
    "parameters": {"secret": {"string_value": "x"}},
}  # fmt: skip
REQUEST = InferenceRequest("lab", "alpha", "", (Tensor("A", "FP32", np.ones((1, 1), dtype=np.float32)),))
PLAN = LoadPlan(concurrency=4, seconds=1.0)
FIGURES = LoadFigures(4, 100, {}, 1.0, 1e4, 1e4, 1e4, 1e4, 1e4, 1e4, 1e4)


class Reader:
    """A server with one model, whose running configuration the control below changes."""

    def __init__(self) -> None:
        self.running: dict[str, Any] = copy.deepcopy(ON_DISK)
        self.silent = 0
        self.loaded = True

    def config(self, server_id: str, model: str, version: str = "") -> ModelConfig:
        if self.silent:
            self.silent -= 1
            raise SourceError("lab:8000 is not reachable")
        return parse_config(copy.deepcopy(self.running))

    def statistics(self, server_id: str) -> tuple[ModelStatistics, ...]:
        return ()

    def index(self, server_id: str) -> tuple[IndexEntry, ...]:
        return (IndexEntry("alpha", "1", ModelState.READY if self.loaded else ModelState.UNAVAILABLE),)

    def gpus(self, server_id: str) -> tuple[GpuReading, ...]:
        return ()


class Bench(Control):
    """The real guard and journal; overrides and reverts change the reader's configuration."""

    def __init__(self) -> None:
        self.server = Reader()
        super().__init__(lambda: (SERVER,), self.server, lambda server_id: False)
        self.done: list[tuple[ActionKind, str]] = []
        self.loaded: list[Mapping[str, Any]] = []
        self.refuse: Sequence[str] = ()
        self.busy = 0
        self.half_reverted = False

    def perform(self, action: Action, work: Work | None = None, *, by: Identity) -> Job:
        if action.kind is ActionKind.LOAD_RUN:
            return super().perform(action, work, by=by)
        if self.busy:
            self.busy -= 1
            raise AlreadyRunning("Already running: loading alpha. Nothing was sent.")
        self.done.append((action.kind, action.why))
        return self._performer.perform(action, self._change, by=by)

    def _change(self, course: Course) -> Conclusion:
        action = course.action
        if any(word in action.why for word in self.refuse):
            raise ActionFailed("alpha not loaded: out of memory")
        if action.kind is ActionKind.REVERT and self.half_reverted:
            self.half_reverted, self.server.loaded = False, False
            course.sent()
            raise ActionFailed("alpha was unloaded, and is not loaded again")
        if action.kind in (ActionKind.REVERT, ActionKind.LOAD):
            self.server.running, self.server.loaded = copy.deepcopy(ON_DISK), True
        elif action.config is not None:
            self.server.running = copy.deepcopy(dict(action.config))
            self.loaded.append(action.config)
        return Conclusion(Outcome.DONE, "done")


def load(target: Target, plan: LoadPlan, watch: Watch) -> LoadFigures:
    watch.measuring()
    watch.progress(LoadProgress("measure", 50, 0, 0.5))
    return FIGURES


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "infer", lambda server, config, request: Reply("alpha", "1", (), 1.0))
    monkeypatch.setattr(session, "rest", lambda seconds, stopping: None)
    monkeypatch.setattr(server_side, "COUNTED_WITHIN_SECONDS", 0.0)
    monkeypatch.setattr(comparison, "rest", lambda seconds, stopping: None)
    monkeypatch.setattr(way_back, "rest", lambda seconds, stopping: None)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def compare(bench: Bench, arms: Sequence[Arm], *, by: Identity = LOCAL, load: Any = load) -> Job:
    wanted = Wanted(bench, bench.server.config("lab", "alpha"), REQUEST, load=load)
    work = comparison_work(wanted, PLAN, arms, by)
    job = bench.perform(Action(ActionKind.LOAD_RUN, "lab", "alpha"), work, by=by)
    job.wait(10.0)
    return job


def two_arms(bench: Bench) -> tuple[Arm, ...]:
    return batching_arms(bench.server.config("lab", "alpha"))


def test_each_arm_is_loaded_and_measured_and_the_files_configuration_comes_back(bench: Bench) -> None:
    job = compare(bench, two_arms(bench))
    report = job.result
    assert isinstance(report, RunReport) and job.record.outcome is Outcome.DONE
    assert [one.label for one in report.measurements] == ["batching off", "batching on"]
    assert "dynamic_batching" not in bench.loaded[0]
    # The whole configuration is sent: Triton replaces, it does not merge.
    assert all(config["parameters"] == ON_DISK["parameters"] for config in bench.loaded)
    assert [kind for kind, _ in bench.done] == [ActionKind.OVERRIDE, ActionKind.OVERRIDE, ActionKind.REVERT]
    assert all("the comparison of" in why for _, why in bench.done)
    assert bench.server.running == ON_DISK
    assert bench.journal.open_restorations() == ()
    assert report.settings == {
        "batching off": "dynamic batching off, 1 instance",
        "batching on": "dynamic batching up to 16, prefers 8 and 16, waits up to 2 ms, 1 instance",
    }


def test_an_override_from_before_comes_back_and_not_the_files_configuration(bench: Bench) -> None:
    before = copy.deepcopy(ON_DISK) | {"max_batch_size": 8}
    before["dynamic_batching"] = {"preferred_batch_size": [8], "max_queue_delay_microseconds": 0}
    bench.perform(Action(ActionKind.OVERRIDE, "lab", "alpha", config=before), by=LOCAL).wait(5.0)
    compare(bench, two_arms(bench))
    assert bench.server.running == before
    assert ActionKind.REVERT not in [kind for kind, _ in bench.done]
    assert bench.journal.open_restorations() == ()


def test_the_configuration_comes_back_when_the_generator_breaks(bench: Bench) -> None:
    def broken(target: Target, plan: LoadPlan, watch: Watch) -> LoadFigures:
        raise ActionFailed("The load generator ended without a result")

    job = compare(bench, two_arms(bench), load=broken)
    assert job.record.outcome is Outcome.FAILED
    assert job.record.sentence == "The load generator ended without a result"
    assert bench.server.running == ON_DISK
    assert bench.journal.open_restorations() == ()


def test_the_configuration_comes_back_after_an_error_nobody_expected(bench: Bench) -> None:
    def broken(target: Target, plan: LoadPlan, watch: Watch) -> LoadFigures:
        raise KeyError("a bug")

    job = compare(bench, two_arms(bench), load=broken)
    assert job.record.outcome is Outcome.UNKNOWN
    assert bench.server.running == ON_DISK
    assert bench.journal.open_restorations() == ()


def test_a_busy_model_and_a_silent_server_are_waited_for(bench: Bench) -> None:
    def then_busy(target: Target, plan: LoadPlan, watch: Watch) -> LoadFigures:
        bench.busy = 3
        return load(target, plan, watch)

    job = compare(bench, (*two_arms(bench)[:1], Arm("same", Override())), load=then_busy)
    assert bench.server.running == ON_DISK
    assert bench.journal.open_restorations() == ()
    assert isinstance(job.result, RunReport)


def test_a_model_that_the_way_back_unloaded_is_loaded_again(bench: Bench) -> None:
    bench.half_reverted = True
    job = compare(bench, two_arms(bench))
    assert job.record.outcome is Outcome.DONE
    assert (bench.server.running, bench.server.loaded) == (ON_DISK, True)
    assert [kind for kind, _ in bench.done][-2:] == [ActionKind.REVERT, ActionKind.LOAD]
    assert bench.journal.open_restorations() == ()


def test_a_model_that_somebody_took_out_of_service_is_left_so(bench: Bench) -> None:
    def taken_out(target: Target, plan: LoadPlan, watch: Watch) -> LoadFigures:
        bench.server.loaded = False
        return load(target, plan, watch)

    job = compare(bench, two_arms(bench), load=taken_out)
    assert isinstance(job.result, RunReport)
    assert not bench.server.loaded
    assert "Somebody unloaded alpha meanwhile: its next load takes the files." in job.result.notes
    assert bench.journal.open_restorations() == ()


def test_an_arm_waits_for_a_model_that_is_busy_for_a_moment(bench: Bench) -> None:
    bench.busy = 3
    report = compare(bench, two_arms(bench)).result
    assert isinstance(report, RunReport) and report.complete
    bench.busy = 5
    report = compare(bench, two_arms(bench)).result
    assert isinstance(report, RunReport)
    assert report.notes[0].startswith(
        "batching off could not be loaded and was not measured: Already running"
    )


def test_what_cannot_be_put_back_is_said_and_stays_open_in_the_journal(bench: Bench) -> None:
    bench.refuse = ("the end of",)
    job = compare(bench, two_arms(bench))
    assert job.record.outcome is Outcome.FAILED
    assert job.record.sentence.startswith(
        "The configuration of alpha from before could not be put back: alpha not loaded: out of memory"
    )
    assert isinstance(job.result, RunReport) and len(job.result.measurements) == 2
    (pending,) = bench.journal.open_restorations()
    assert (pending.restoration.model, pending.restoration.config) == ("alpha", None)
    assert pending.left_over, "the repairs look after it from now on"


def test_a_broken_run_says_both_why_it_ended_and_that_the_configuration_did_not_come_back(
    bench: Bench,
) -> None:
    def broken(target: Target, plan: LoadPlan, watch: Watch) -> LoadFigures:
        raise ActionFailed("The load generator ended without a result", detail="Killed")

    bench.refuse = ("the end of",)
    job = compare(bench, two_arms(bench), load=broken)
    assert job.record.outcome is Outcome.FAILED
    assert job.record.sentence == (
        "The configuration of alpha from before could not be put back: alpha not loaded: out of memory. "
        "The page Repository says when it is tried again. The load generator ended without a result"
    )
    assert job.record.detail == "Killed"


def test_figures_are_kept_when_the_server_goes_away_after_an_arm(bench: Bench) -> None:
    def then_silent(target: Target, plan: LoadPlan, watch: Watch) -> LoadFigures:
        figures = load(target, plan, watch)
        bench.server.silent = 1
        return figures

    report = compare(bench, two_arms(bench), load=then_silent).result
    assert isinstance(report, RunReport)
    assert [one.label for one in report.measurements] == ["batching off", "batching on"]
    assert report.notes[0] == (
        "batching off: whether it ran with this configuration until the end is not known: "
        "lab:8000 is not reachable"
    )
    assert bench.server.running == ON_DISK


def test_an_arm_that_cannot_be_loaded_is_left_out(bench: Bench) -> None:
    bench.refuse = ("batching off",)
    report = compare(bench, two_arms(bench)).result
    assert isinstance(report, RunReport)
    assert [one.label for one in report.measurements] == ["batching on"]
    assert report.notes[0] == (
        "batching off could not be loaded and was not measured: alpha not loaded: out of memory"
    )
    assert not report.complete


def test_somebody_elses_change_in_the_middle_is_noticed(bench: Bench) -> None:
    def meddling(target: Target, plan: LoadPlan, watch: Watch) -> LoadFigures:
        bench.server.running["max_batch_size"] = 4
        return load(target, plan, watch)

    report = compare(bench, two_arms(bench), load=meddling).result
    assert isinstance(report, RunReport)
    assert "batching off: somebody changed the configuration" in report.notes[0]
    assert bench.server.running == ON_DISK


def test_it_needs_the_right_to_override_besides_the_one_to_load_runs(bench: Bench) -> None:
    rights = frozenset({Right.VIEW, Right.INFER, Right.LOAD_RUN})
    tester = Identity("tester", How.LOCAL, MappingProxyType({"*": rights}))
    with pytest.raises(NotAllowed, match="'override' on lab"):
        compare(bench, two_arms(bench), by=tester)
    assert bench.done == []


@pytest.mark.parametrize(
    ("arms", "sentence"),
    [
        ((Arm("one", Override()),), "A comparison needs 2 to 8 configurations (got 1)"),
        ((Arm("a", Override()), Arm("a", Override(instances=2))), "Each configuration of a comparison needs"),
        ((Arm("a", Override()), Arm(" ", Override(instances=2))), "Each configuration of a comparison needs"),
        ((Arm("a", Override()), Arm("b", Override(preferred_batch_sizes=(32,)))), "b: "),
        ((Arm("a", Override()), Arm("b", Override(instances=0))), "b: "),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_sent(
    bench: Bench, arms: tuple[Arm, ...], sentence: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        compare(bench, arms)
    assert caught.value.sentence.startswith(sentence)
    assert bench.done == []


def test_ready_made_sets_start_from_what_the_model_has() -> None:
    config = parse_config(copy.deepcopy(ON_DISK))
    assert words_of(config) == "dynamic batching up to 16, prefers 8 and 16, waits up to 2 ms, 1 instance"
    assert [arm.label for arm in delay_arms(config)] == ["delay 0", "delay 1 ms", "delay 2 ms", "delay 4 ms"]
    assert [arm.label for arm in instance_arms(config)] == ["1 instance", "2 instances"]
    sizes = [arm.changes.preferred_batch_sizes for arm in preferred_arms(config)]
    assert sizes == [(16,), (8, 16), (4, 8, 16)]
    bare = parse_config({key: value for key, value in ON_DISK.items() if key != "dynamic_batching"})
    assert words_of(bare) == "dynamic batching off, 1 instance"
    off, on = batching_arms(bare)
    assert off.changes.dynamic_batching is False
    assert (on.changes.dynamic_batching, on.changes.max_queue_delay_us) == (True, 2000)
