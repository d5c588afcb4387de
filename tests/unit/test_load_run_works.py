"""Runs as actions: what they send and keep, below which limit, and what is kept of them."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from control.facade import Control
from control.inference import InferenceRequest, Reply
from control.performer import Course, Work
from experiments import session
from experiments.figures import LoadFigures
from experiments.load_process import LoadProgress, RunLoad, Target, Watch
from experiments.load_run import load_run_work
from experiments.plan import LoadPlan, Loop
from experiments.report import RunKind, RunProgress, RunReport
from experiments.serial_vs_concurrent import serial_vs_concurrent_work, speedup
from experiments.server_side import GpuReading
from experiments.session import Wanted
from experiments.store import RunStore, as_csv
from experiments.sweep import (
    sweep_work,
)
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.errors import InvalidRequest, NotAllowed
from telemetry.facts import BatchSizeStatistics, IndexEntry, ModelConfig, ModelStatistics
from telemetry.identity import Server
from tests.unit.load_figures import (
    CONFIG,
    REQUEST,
    SERVER,
    measured,
)

# ---- the works


class Reader:
    """Counts what the fake load below sends: one batch of everything for concurrent clients."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.plans: list[LoadPlan] = []

    def statistics(self, server_id: str) -> tuple[ModelStatistics, ...]:
        rows = sum(size * count for size, count in self.sizes.items())
        batches = tuple(BatchSizeStatistics(size, count, 0, 0, 0) for size, count in self.sizes.items())
        return (ModelStatistics("alpha", "1", 0, rows, sum(self.sizes.values()), rows, 0, batches),)

    def gpus(self, server_id: str) -> tuple[GpuReading, ...]:
        return (GpuReading("GPU-1", 0.5, 2.0**30, None),)

    def index(self, server_id: str) -> tuple[IndexEntry, ...]:
        raise AssertionError("these runs do not read the index")

    def config(self, server_id: str, model: str, version: str = "") -> ModelConfig:
        raise AssertionError("these runs are given the configuration")

    def load(self, target: Target, plan: LoadPlan, watch: Watch) -> LoadFigures:
        self.plans.append(plan)
        watch.progress(LoadProgress("warm-up", 1, 0, 0.1))
        watch.measuring()
        size = plan.concurrency
        count = plan.requests or 40
        self.sizes[size] = self.sizes.get(size, 0) + count // size
        watch.progress(LoadProgress("measure", count // 2, 0, 0.5, recent_done=count // 2))
        return measured(size, count, 0.010)


def wanted(reader: Reader | None = None, load: RunLoad | None = None, server: Server = SERVER) -> Wanted:
    used = reader or Reader()
    control = Control(lambda: (server,), used, lambda server_id: False)
    return Wanted(control, CONFIG, REQUEST, load=load or used.load)


@pytest.fixture(autouse=True)
def answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def infer(server: Server, config: ModelConfig, request: InferenceRequest) -> Reply:
        return Reply("alpha", "1", (), 1.0)

    monkeypatch.setattr(session, "infer", infer)
    monkeypatch.setattr(session, "rest", lambda seconds, stopping: None)


def ran(asked: Wanted, work: Work, kind: ActionKind = ActionKind.LOAD_RUN) -> RunReport:
    job = asked.control.perform(Action(kind, "lab", "alpha"), work, by=LOCAL)
    assert job.wait(5.0).outcome is Outcome.DONE, job.record
    assert isinstance(job.result, RunReport)
    assert isinstance(job.progress, RunProgress)
    return job.result


def test_serial_against_concurrent_compares_both_halves_by_clients_and_server() -> None:
    reader = Reader()
    asked = wanted(reader)
    report = ran(asked, serial_vs_concurrent_work(asked, 40, 8))
    serial, concurrent = report.measurements
    assert serial.split is not None and concurrent.split is not None
    assert serial.split.executions_by_batch_size == {1: 40}
    assert concurrent.split.executions_by_batch_size == {8: 5}
    assert speedup(report.measurements) == pytest.approx(8.0)
    assert serial.gpu_ratio == 0.5
    assert report.complete and report.kind is RunKind.SERIAL


def test_every_load_keeps_the_limit_of_its_server_and_says_so() -> None:
    reader = Reader()
    asked = wanted(reader)
    report = ran(asked, sweep_work(asked, LoadPlan(seconds=1.0), (1, 4), 50_000.0))
    assert [plan.cap_per_second for plan in reader.plans] == [100.0, 100.0]
    assert report.notes[-1] == (
        "The settings allow load runs 100 requests/s on this server: it was kept to that."
    )
    assert report.max_p99_us == 50_000.0


def test_an_arrival_rate_above_the_limit_is_refused_before_the_load() -> None:
    reader = Reader()
    asked = wanted(reader)
    plan = LoadPlan(loop=Loop.OPEN, rate_per_second=200.0)
    job = asked.control.perform(
        Action(ActionKind.LOAD_RUN, "lab", "alpha"), load_run_work(asked, plan), by=LOCAL
    )
    record = job.wait(5.0)
    assert record.sentence.startswith("The settings allow 100 requests/s on this server, not 200")
    assert reader.plans == []


def test_without_a_limit_nothing_is_sent_to_a_server_that_is_not_the_sandbox() -> None:
    reader = Reader()
    asked = wanted(reader, server=replace(SERVER, load_run_limit_per_second=None))
    with pytest.raises(NotAllowed, match="Load runs on lab are off"):
        asked.control.perform(
            Action(ActionKind.LOAD_RUN, "lab", "alpha"), load_run_work(asked, LoadPlan()), by=LOCAL
        )
    assert reader.plans == []


def test_a_stopped_run_keeps_the_half_it_has() -> None:
    reader = Reader()

    def load_and_stop(target: Target, plan: LoadPlan, watch: Watch) -> LoadFigures:
        job.stop()
        return reader.load(target, plan, watch)

    asked = wanted(reader, load_and_stop)
    work = serial_vs_concurrent_work(asked, 40, 8)
    started = threading.Event()

    def gated(course: Course) -> Conclusion:
        assert started.wait(5.0)
        return work(course)

    job = asked.control.perform(Action(ActionKind.EXPERIMENT, "lab", "alpha"), gated, by=LOCAL)
    started.set()
    record = job.wait(5.0)
    assert (record.outcome, record.sentence) == (Outcome.STOPPED, "alpha: stopped before the concurrent half")
    assert isinstance(job.result, RunReport) and not job.result.complete
    assert job.result.measurements[0].clients.succeeded == 40


# ---- kept runs


@pytest.fixture
def report() -> RunReport:
    asked = wanted()
    return ran(asked, serial_vs_concurrent_work(asked, 40, 8))


def test_a_report_survives_being_written_and_read(report: RunReport) -> None:
    again = RunReport.from_json(report.to_json())
    assert again == report


def test_the_csv_has_a_line_for_each_load_and_empty_cells_for_what_is_not_known(report: RunReport) -> None:
    blind = replace(report, measurements=(replace(report.measurements[0], server=None, label="=1+1"),))
    rows = list(csv.DictReader(io.StringIO(as_csv([report, blind]))))
    assert [row["label"] for row in rows] == ["serial", "concurrent", "'=1+1"]
    assert [row["succeeded"] for row in rows] == ["40", "40", "40"]
    assert [row["server_executions"] for row in rows] == ["40", "5", ""]
    assert rows[0]["executions_by_batch_size"] == "1: 40"
    assert float(rows[1]["throughput_per_second"]) == pytest.approx(800.0)


def test_a_store_without_a_folder_keeps_the_newest_in_memory(report: RunReport) -> None:
    store = RunStore(None, keep=2)
    for number in range(4):
        assert store.save(replace(report, id=f"20260101-00000{number}-abcdef")) == ""
    kept: Callable[..., list[RunReport]] = store.reports
    assert [one.id[14:15] for one in kept("lab", "alpha")] == ["3", "2"]
    assert kept("lab", "bravo") == []


def test_a_plan_out_of_bounds_is_refused_before_anything_is_begun() -> None:
    asked = wanted()
    makers: tuple[Callable[[], Work], ...] = (
        lambda: load_run_work(asked, LoadPlan(concurrency=0)),
        lambda: sweep_work(asked, LoadPlan(seconds=1e9), (1, 2)),
        lambda: sweep_work(asked, LoadPlan(), (4,)),
        lambda: serial_vs_concurrent_work(asked, 0, 4),
    )
    for make in makers:
        with pytest.raises(InvalidRequest):
            make()
    assert asked.control.records() == ()
