"""Serial against concurrent on the real server: concurrent forms batches and is faster, by its own count."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from control.inference import InferenceRequest, Tensor
from experiments.report import RunProgress, RunReport
from experiments.serial_vs_concurrent import serial_vs_concurrent_work, speedup
from sandbox import Sandbox, SandboxOptions
from sandbox.repository import FAULT_MODELS
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Outcome
from telemetry.errors import AlreadyRunning
from tests.counting_proxy import CountingProxy
from tests.integration.load_bench import LIMIT_SECONDS, Bench

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    options = SandboxOptions(
        http_port=0,
        grpc_port=0,
        metrics_port=0,
        models=("batch_add_model", "batch_cost_model", "ensemble_pipeline"),
        simulated_gpu=False,
    )
    with Sandbox(options) as server:
        assert server.not_ready() == {}
        yield server


@pytest.fixture
def bench(sandbox: Sandbox) -> Bench:
    return Bench(sandbox.http_url)


def done(progress: object) -> int:
    latest = progress.latest if isinstance(progress, RunProgress) else None
    return latest.done if latest is not None else 0


@pytest.mark.parametrize(
    ("model", "requests", "concurrency", "factor"),
    [("batch_add_model", 300, 8, 1.2), ("batch_cost_model", 200, 32, 4.0)],
)
def test_concurrent_forms_batches_and_is_faster(
    bench: Bench, model: str, requests: int, concurrency: int, factor: float
) -> None:
    report = bench.run(model, lambda wanted: serial_vs_concurrent_work(wanted, requests, concurrency))
    serial, concurrent = report.measurements
    assert serial.split is not None and concurrent.split is not None
    assert serial.clients.succeeded == concurrent.clients.succeeded == requests
    assert (serial.clients.failed, concurrent.clients.failed) == (0, 0)
    # The server's own count: every request alone, then merged.
    assert serial.split.executions_by_batch_size == {1: requests}
    sizes = concurrent.split.executions_by_batch_size
    assert sum(size * count for size, count in sizes.items()) == concurrent.split.inferences == requests
    assert sum(sizes.values()) == concurrent.split.executions < requests
    assert max(sizes) > 1
    assert concurrent.split.batch_size_mean is not None and concurrent.split.batch_size_mean > 1.2
    measured = speedup(report.measurements)
    assert measured is not None and measured > factor
    assert (serial.others, concurrent.others) == (0, 0)
    # QPS = concurrency / response time holds for a closed loop.
    for load in (serial.clients, concurrent.clients):
        assert load.expected_per_second is not None and load.throughput_per_second is not None
        assert load.throughput_per_second == pytest.approx(load.expected_per_second, rel=0.35)


def test_an_ensemble_shows_what_its_steps_executed(bench: Bench) -> None:
    report = bench.run("ensemble_pipeline", lambda wanted: serial_vs_concurrent_work(wanted, 12, 4))
    server = report.measurements[1].server
    assert server is not None
    executed = {row.model: row.requests for row in server.rows}
    assert executed == {"ensemble_pipeline": 12, "resnet18": 12, "label_head": 12}


def test_all_requests_of_both_halves_are_sent_and_one_goes_ahead(sandbox: Sandbox) -> None:
    with CountingProxy(sandbox.http_url) as proxy:
        report = Bench(proxy.url).run(
            "batch_add_model", lambda wanted: serial_vs_concurrent_work(wanted, 20, 4)
        )
        assert len(proxy.passed("POST", "/models/batch_add_model/infer")) == 1 + 20 + 20
    assert report.measurements[0].clients.succeeded == 20


def test_it_can_be_stopped_and_a_second_one_waits_its_turn(bench: Bench) -> None:
    job = bench.start("batch_cost_model", lambda wanted: serial_vs_concurrent_work(wanted, 2000, 1))
    with pytest.raises(AlreadyRunning, match="running load on batch_cost_model"):
        bench.start("batch_add_model", lambda wanted: serial_vs_concurrent_work(wanted, 10, 2))
    seen = threading.Event()
    while not seen.is_set():
        if done(job.progress) > 5:
            seen.set()
        else:
            assert job.wait(0.05).running
    job.stop()
    record = job.wait(10.0)
    assert record.outcome is Outcome.STOPPED
    assert isinstance(job.result, RunReport)
    (serial,) = job.result.measurements
    assert 5 < serial.clients.succeeded < 2000
    assert serial.clients.stopped


def test_a_request_that_fails_is_told_before_the_load_begins(sandbox: Sandbox) -> None:
    with CountingProxy(sandbox.http_url) as proxy:
        bench = Bench(proxy.url)
        request = replace(bench.request("batch_add_model"), version="7")
        job = bench.start("batch_add_model", lambda wanted: serial_vs_concurrent_work(wanted, 50, 4), request)
        record = job.wait(LIMIT_SECONDS)
        assert record.outcome is Outcome.FAILED
        assert record.sentence.startswith("batch_add_model has no version 7")
        assert len(proxy.passed("POST", "/infer")) == 1


def test_a_stop_does_not_wait_for_a_model_that_hangs(sandbox: Sandbox, tmp_path: Path) -> None:
    held = tmp_path / "held"
    sandbox.add_model(FAULT_MODELS["hang"], name="hangs", parameters={"while_file_exists": str(held)})
    bench = Bench(sandbox.http_url)
    loaded = bench.control.perform(Action(ActionKind.LOAD, "lab", "hangs"), by=LOCAL).wait(LIMIT_SECONDS)
    assert loaded.outcome is Outcome.DONE
    request = InferenceRequest("lab", "hangs", "", (Tensor("INPUT", "FP32", np.ones(1, dtype=np.float32)),))
    job = bench.start("hangs", lambda wanted: serial_vs_concurrent_work(wanted, 2000, 2), request)
    while done(job.progress) <= 3:
        assert job.wait(0.02).running
    held.touch()
    began = time.monotonic()
    job.stop()
    record = job.wait(20.0)
    held.unlink()
    assert record.outcome is Outcome.STOPPED
    assert time.monotonic() - began < 8.0
    assert isinstance(job.result, RunReport)
    (serial,) = job.result.measurements
    assert serial.clients.succeeded > 3
    assert serial.clients.unanswered == 1
