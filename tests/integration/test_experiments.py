"""Serial against concurrent on the real server: concurrent forms batches and is faster, by its own count."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from control.actions import Action, ActionKind, Outcome
from control.facade import Control
from control.inference import InferenceRequest, Tensor
from control.performer import Job
from control.tensors import random_array
from experiments.fresh_reader import FreshReader
from experiments.serial_vs_concurrent import Comparison, Progress, experiment_work
from sandbox import Sandbox, SandboxOptions
from sandbox.repository import FAULT_MODELS
from telemetry.access import LOCAL
from telemetry.errors import AlreadyRunning
from telemetry.identity import Server
from tests.counting_proxy import CountingProxy

pytestmark = pytest.mark.integration

LIMIT_SECONDS = 60.0


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


class Bench:
    """Control of one address of the sandbox."""

    def __init__(self, url: str) -> None:
        self.server = Server("lab", url, None, control=True)
        self.reader = FreshReader(lambda: (self.server,))
        self.control = Control(lambda: (self.server,), self.reader, lambda server_id: False)

    def start(self, model: str, requests: int, concurrency: int) -> Job:
        config = self.reader.config("lab", model)
        tensors = tuple(
            Tensor(spec.name, spec.datatype, random_array(spec.datatype, (1, *spec.dims), 1))
            for spec in config.inputs
        )
        request = InferenceRequest("lab", model, "", tensors)
        work = experiment_work(self.reader, config, request, requests, concurrency)
        return self.control.perform(Action(ActionKind.EXPERIMENT, "lab", model), work, by=LOCAL)


@pytest.fixture
def bench(sandbox: Sandbox) -> Bench:
    return Bench(sandbox.http_url)


def compared(job: Job) -> Comparison:
    record = job.wait(LIMIT_SECONDS)
    assert record.outcome is Outcome.DONE, record
    assert isinstance(job.result, Comparison)
    return job.result


@pytest.mark.parametrize(
    ("model", "requests", "concurrency", "speedup"),
    [("batch_add_model", 300, 8, 1.2), ("batch_cost_model", 200, 32, 4.0)],
)
def test_concurrent_forms_batches_and_is_faster(
    bench: Bench, model: str, requests: int, concurrency: int, speedup: float
) -> None:
    result = compared(bench.start(model, requests, concurrency))
    serial, concurrent = result.serial, result.concurrent
    assert concurrent is not None and serial.split is not None and concurrent.split is not None
    assert serial.clients.succeeded == concurrent.clients.succeeded == requests
    assert (serial.clients.failed, concurrent.clients.failed) == (0, 0)
    # The server's own count: every request alone, then merged.
    assert serial.split.executions_by_batch_size == {1: requests}
    sizes = concurrent.split.executions_by_batch_size
    assert sum(size * count for size, count in sizes.items()) == concurrent.split.inferences == requests
    assert sum(sizes.values()) == concurrent.split.executions < requests
    assert max(sizes) > 1
    assert concurrent.split.batch_size_mean is not None and concurrent.split.batch_size_mean > 1.2
    assert result.speedup is not None and result.speedup > speedup
    assert (serial.others, concurrent.others) == (0, 0)
    # QPS = concurrency / response time holds for a closed loop.
    for load in (serial.clients, concurrent.clients):
        assert load.expected_per_second is not None and load.throughput_per_second is not None
        assert load.throughput_per_second == pytest.approx(load.expected_per_second, rel=0.35)


def test_an_ensemble_shows_what_its_steps_executed(bench: Bench) -> None:
    result = compared(bench.start("ensemble_pipeline", 12, 4))
    assert result.concurrent is not None
    executed = {row.model: row.requests for row in result.concurrent.server or ()}
    assert executed == {"ensemble_pipeline": 12, "resnet18": 12, "label_head": 12}


def test_all_requests_of_both_halves_are_sent_and_one_goes_ahead(sandbox: Sandbox) -> None:
    with CountingProxy(sandbox.http_url) as proxy:
        result = compared(Bench(proxy.url).start("batch_add_model", 20, 4))
        assert len(proxy.passed("POST", "/models/batch_add_model/infer")) == 1 + 20 + 20
    assert result.serial.clients.succeeded == 20


def test_it_can_be_stopped_and_a_second_one_waits_its_turn(bench: Bench) -> None:
    job = bench.start("batch_cost_model", 2000, 1)
    with pytest.raises(AlreadyRunning, match="running an experiment on batch_cost_model"):
        bench.start("batch_add_model", 10, 2)
    seen = threading.Event()
    while not seen.is_set():
        progress = job.progress
        if isinstance(progress, Progress) and progress.load.done > 5:
            seen.set()
        else:
            job.wait(0.05)
    job.stop()
    record = job.wait(10.0)
    assert record.outcome is Outcome.STOPPED
    assert isinstance(job.result, Comparison)
    assert job.result.concurrent is None
    assert 5 < job.result.serial.clients.succeeded < 2000
    assert job.result.serial.clients.stopped


def test_a_request_that_fails_is_told_before_the_load_begins(sandbox: Sandbox) -> None:
    with CountingProxy(sandbox.http_url) as proxy:
        bench = Bench(proxy.url)
        config = bench.reader.config("lab", "batch_add_model")
        tensors = tuple(
            Tensor(spec.name, spec.datatype, np.ones((1, 1), dtype=np.float32)) for spec in config.inputs
        )
        request = InferenceRequest("lab", "batch_add_model", "7", tensors)
        work = experiment_work(bench.reader, config, request, 50, 4)
        job = bench.control.perform(Action(ActionKind.EXPERIMENT, "lab", "batch_add_model"), work, by=LOCAL)
        record = job.wait(LIMIT_SECONDS)
        assert (record.outcome, record.sentence) == (Outcome.FAILED, "batch_add_model has no version 7")
        assert len(proxy.passed("POST", "/infer")) == 1


def test_a_stop_does_not_wait_for_a_model_that_hangs(sandbox: Sandbox, tmp_path: Path) -> None:
    held = tmp_path / "held"
    sandbox.add_model(FAULT_MODELS["hang"], name="hangs", parameters={"while_file_exists": str(held)})
    bench = Bench(sandbox.http_url)
    loaded = bench.control.perform(Action(ActionKind.LOAD, "lab", "hangs"), by=LOCAL).wait(LIMIT_SECONDS)
    assert loaded.outcome is Outcome.DONE
    config = bench.reader.config("lab", "hangs")
    request = InferenceRequest("lab", "hangs", "", (Tensor("INPUT", "FP32", np.ones(1, dtype=np.float32)),))
    job = bench.control.perform(
        Action(ActionKind.EXPERIMENT, "lab", "hangs"),
        experiment_work(bench.reader, config, request, 2000, 2),
        by=LOCAL,
    )
    while not (isinstance(job.progress, Progress) and job.progress.load.done > 3):
        assert job.wait(0.02).running
    held.touch()
    began = time.monotonic()
    job.stop()
    record = job.wait(20.0)
    held.unlink()
    assert record.outcome is Outcome.STOPPED
    assert time.monotonic() - began < 8.0
    assert isinstance(job.result, Comparison)
    assert job.result.serial.clients.succeeded > 3
