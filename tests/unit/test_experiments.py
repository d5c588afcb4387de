"""Serial against concurrent: the figures, the words, the bounds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from control.actions import Action, ActionKind, Conclusion, Outcome
from control.facade import Control
from control.inference import InferenceRequest, Reply, Tensor
from control.performer import Course
from control.server_split import ModelSplit
from experiments import serial_vs_concurrent
from experiments.load import LoadFigures, LoadOrder, LoadProgress, figures, order_json
from experiments.serial_vs_concurrent import Comparison, Phase, experiment_work, notes
from telemetry.access import LOCAL
from telemetry.errors import InvalidRequest
from telemetry.facts import BatchSizeStatistics, IndexEntry, ModelConfig, ModelStatistics, TensorSpec
from telemetry.identity import Server

SERVER = Server("lab", "http://lab:8000", None, headers={"Authorization": "Bearer x"}, control=True)
CONFIG = ModelConfig(
    name="alpha", backend="python", platform="", max_batch_size=8, dynamic_batching=True,
    preferred_batch_sizes=(), max_queue_delay_us=0, max_queue_size=None, queue_timeout_us=None,
    instance_groups=(), ensemble_steps=(), sequence_batching=False, decoupled=False, response_cache=False,
    inputs=(TensorSpec("A", "FP32", (1,)),), outputs=(),
)  # fmt: skip
REQUEST = InferenceRequest("lab", "alpha", "", (Tensor("A", "FP32", np.ones((1, 1), dtype=np.float32)),))


def measured(concurrency: int, count: int, wait_seconds: float) -> LoadFigures:
    spans = [[round_ * wait_seconds, (round_ + 1) * wait_seconds] for round_ in range(count // concurrency)]
    seconds = count / concurrency * wait_seconds
    result = {"spans": spans * concurrency, "errors": {}, "seconds": seconds, "stopped": False}
    return figures(concurrency, result)


def split(requests: int, executions: int, model: str = "alpha") -> ModelSplit:
    return ModelSplit(
        model,
        "1",
        requests,
        0,
        executions,
        requests,
        1.0,
        1.0,
        1.0,
        1.0,
        1.0,
        {requests // executions: executions},
    )


def phase(name: str, clients: LoadFigures, *rows: ModelSplit) -> Phase:
    return Phase(name, clients.succeeded, clients, rows or None, "alpha")


def test_the_figures_of_a_load() -> None:
    result = {
        "spans": [[0.0, 0.01], [0.0, 0.02], [0.01, 0.04]],
        "errors": {"Queue full": 2},
        "seconds": 0.05,
        "stopped": True,
    }
    load = figures(2, result)
    assert (load.succeeded, load.failed, load.errors) == (3, 2, {"Queue full": 2})
    assert load.throughput_per_second == pytest.approx(60.0)
    assert load.mean_us == pytest.approx(20_000.0)
    assert load.p50_us == pytest.approx(20_000.0)
    assert load.p95_us == pytest.approx(29_000.0)
    assert load.max_us == pytest.approx(30_000.0)
    assert load.expected_per_second == pytest.approx(2 / 0.02)
    assert load.stopped


def test_a_load_without_a_success_reports_nothing_instead_of_zero() -> None:
    load = figures(4, {"spans": [], "errors": {"refused": 4}, "seconds": 0.5, "stopped": False})
    assert (load.throughput_per_second, load.mean_us, load.p95_us, load.expected_per_second) == (None,) * 4


def test_qps_is_concurrency_over_response_time() -> None:
    # The table of the seed: 100 at 5 s, 4 at 0.2 s and 1 at 0.05 s all give 20 per second.
    for concurrency, response_seconds in ((100, 5.0), (4, 0.2), (1, 0.05)):
        load = measured(concurrency, concurrency * 3, response_seconds)
        assert load.expected_per_second == pytest.approx(20.0)
        assert load.throughput_per_second == pytest.approx(20.0)


def test_the_comparison_in_words() -> None:
    serial = phase("serial", measured(1, 160, 0.010), split(160, 160))
    concurrent = phase("concurrent", measured(16, 160, 0.020), split(160, 10))
    comparison = Comparison("alpha", serial, concurrent)
    assert comparison.speedup == pytest.approx(8.0)
    assert comparison.sentence == (
        "alpha: 16 at a time give 8 times the throughput of one (100 to 800 requests/s); "
        "160 rows in 10 executions, 16 each"
    )
    unbatched = phase("concurrent", measured(16, 160, 0.160), split(160, 160))
    assert Comparison("alpha", serial, unbatched).sentence.endswith("; no batches formed")
    assert Comparison("alpha", serial, None).sentence == "alpha: stopped before the concurrent half"


def test_an_ensemble_names_the_step_that_batched() -> None:
    serial = phase("serial", measured(1, 12, 0.010), split(12, 12))
    concurrent = phase("concurrent", measured(4, 12, 0.020), split(12, 12), split(12, 3, "step"))
    sentence = Comparison("alpha", serial, concurrent).sentence
    assert sentence.endswith("; step: 12 rows in 3 executions, 4 each")


def test_a_half_in_which_all_failed_gives_no_ratio() -> None:
    failed = figures(4, {"spans": [], "errors": {"refused": 4}, "seconds": 0.5, "stopped": False})
    comparison = Comparison("alpha", phase("serial", measured(1, 4, 0.01)), phase("concurrent", failed))
    assert comparison.speedup is None
    assert comparison.sentence == "alpha: no comparison, since requests of one half all failed"


def test_the_notes_say_what_would_mislead() -> None:
    serial = phase("serial", measured(1, 10, 0.01), split(10, 10))
    busy = phase("concurrent", measured(5, 10, 0.01), split(17, 1))
    assert notes(CONFIG, serial, serial) == ()
    assert busy.others == 7
    assert notes(CONFIG, serial, busy) == (
        "Other clients sent 7 requests to it meanwhile: executions and batch sizes include theirs.",
    )
    (unmerged,) = notes(replace(CONFIG, dynamic_batching=False), serial, None)
    assert unmerged.startswith("The model has no dynamic batching: Triton never merges requests of it.")
    (cached,) = notes(replace(CONFIG, response_cache=True), serial, None)
    assert cached.startswith("The response cache is on")
    (single,) = notes(replace(CONFIG, max_batch_size=0), serial, None)
    assert single == "max_batch_size is 0: this model takes one request per execution."


@pytest.mark.parametrize(
    ("requests", "concurrency", "sentence"),
    [
        (2001, 8, "1 to 2000 requests (got 2001)"),
        (0, 8, "1 to 2000 requests (got 0)"),
        (10, 65, "1 to 64 at the same time (got 65)"),
        (10, 0, "1 to 64 at the same time (got 0)"),
    ],
)
def test_the_bounds_are_kept_before_anything_is_sent(requests: int, concurrency: int, sentence: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        experiment_work(Reader(), CONFIG, REQUEST, requests, concurrency)
    assert caught.value.sentence == sentence


def test_the_order_carries_exact_values_and_the_headers() -> None:
    texts = np.array([[b"\xff\x00", "ü".encode()]], dtype=object)
    order = LoadOrder(replace(REQUEST, tensors=(*REQUEST.tensors, Tensor("T", "BYTES", texts))), 10, 2)
    row = order_json(SERVER, order)
    assert row["headers"] == {"Authorization": "Bearer x"}
    assert (row["requests"], row["concurrency"], row["url"]) == (10, 2, "http://lab:8000")
    assert row["inputs"][0] == {"name": "A", "datatype": "FP32", "shape": [1, 1], "data": "AACAPw=="}
    assert row["inputs"][1]["elements"] == ["/wA=", "w7w="]


class Reader:
    """Counts what the fake load below sends: one batch of everything for concurrent clients."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}

    def statistics(self, server_id: str) -> tuple[ModelStatistics, ...]:
        rows = sum(size * count for size, count in self.sizes.items())
        batches = tuple(BatchSizeStatistics(size, count, 0, 0, 0) for size, count in self.sizes.items())
        return (ModelStatistics("alpha", "1", 0, rows, sum(self.sizes.values()), rows, 0, batches),)

    def index(self, server_id: str) -> tuple[IndexEntry, ...]:
        raise AssertionError("an experiment does not read the index")

    def config(self, server_id: str, model: str, version: str = "") -> ModelConfig:
        raise AssertionError("an experiment is given the configuration")

    def load(
        self,
        server: Server,
        order: LoadOrder,
        progress: Callable[[LoadProgress], None],
        stopping: Callable[[], bool],
    ) -> LoadFigures:
        size = order.concurrency
        self.sizes[size] = self.sizes.get(size, 0) + order.requests // size
        progress(LoadProgress(order.requests // 2, 0, 0.5))
        return measured(size, order.requests, 0.010)


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> Control:
    def answered(server: Server, config: ModelConfig, request: InferenceRequest) -> Reply:
        return Reply("alpha", "1", (), 1.0)

    monkeypatch.setattr(serial_vs_concurrent, "infer", answered)
    return Control(lambda: (SERVER,), Reader(), lambda server_id: False)


def test_the_experiment_compares_both_halves_by_clients_and_server(control: Control) -> None:
    reader = Reader()
    work = experiment_work(reader, CONFIG, REQUEST, 40, 8, load=reader.load)
    job = control.perform(Action(ActionKind.EXPERIMENT, "lab", "alpha"), work, by=LOCAL)
    assert job.wait(5.0).outcome is Outcome.DONE
    result = job.result
    assert isinstance(result, Comparison) and result.concurrent is not None
    assert result.serial.split is not None and result.concurrent.split is not None
    assert result.serial.split.executions_by_batch_size == {1: 40}
    assert result.concurrent.split.executions_by_batch_size == {8: 5}
    assert result.speedup == pytest.approx(8.0)
    assert result.notes == ()


def test_a_stopped_experiment_keeps_the_half_it_has(control: Control) -> None:
    reader = Reader()

    def load_and_stop(*arguments: object) -> LoadFigures:
        job.stop()
        return reader.load(*arguments)  # type: ignore[arg-type]

    work = experiment_work(reader, CONFIG, REQUEST, 40, 8, load=load_and_stop)
    started = threading.Event()

    def gated(course: Course) -> Conclusion:
        assert started.wait(5.0)
        return work(course)

    job = control.perform(Action(ActionKind.EXPERIMENT, "lab", "alpha"), gated, by=LOCAL)
    started.set()
    record = job.wait(5.0)
    assert (record.outcome, record.sentence) == (Outcome.STOPPED, "alpha: stopped before the concurrent half")
    assert isinstance(job.result, Comparison)
    assert job.result.serial.clients.succeeded == 40
