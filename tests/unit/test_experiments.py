"""Runs of several loads: the figures, the words, the knee, the bounds."""

from __future__ import annotations

import base64
import csv
import io
import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from control.facade import Control
from control.inference import InferenceRequest, Reply, Tensor
from control.performer import Course, Work
from control.request_errors import infer_failure
from control.server_split import ModelSplit
from experiments import session
from experiments.figures import Asked, LoadFigures, figures
from experiments.load_process import LoadProgress, RunLoad, Target, Watch, order_json
from experiments.load_run import load_run_work
from experiments.measure import Measurement, headline, notes
from experiments.plan import Arrivals, LoadPlan, Loop
from experiments.report import RunKind, RunProgress, RunReport
from experiments.serial_vs_concurrent import config_notes, sentence, serial_vs_concurrent_work, speedup
from experiments.server_side import GpuReading, ServerSide
from experiments.session import Wanted
from experiments.store import RunStore, as_csv
from experiments.sweep import (
    capacity,
    capacity_sentence,
    knee,
    knee_sentence,
    parse_concurrencies,
    sweep_work,
)
from experiments.wire import messages
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.errors import InvalidRequest, NotAllowed, SettingsError
from telemetry.facts import BatchSizeStatistics, IndexEntry, ModelConfig, ModelStatistics, TensorSpec
from telemetry.identity import Server

SERVER = Server(
    "lab", "http://lab:8000", None, headers={"Authorization": "Bearer x"}, control=True,
    load_run_limit_per_second=100.0,
)  # fmt: skip
CONFIG = ModelConfig(
    name="alpha", backend="python", platform="", max_batch_size=8, dynamic_batching=True,
    preferred_batch_sizes=(), max_queue_delay_us=0, max_queue_size=None, queue_timeout_us=None,
    instance_groups=(), ensemble_steps=(), sequence_batching=False, decoupled=False, response_cache=False,
    inputs=(TensorSpec("A", "FP32", (1,)),), outputs=(),
)  # fmt: skip
REQUEST = InferenceRequest("lab", "alpha", "", (Tensor("A", "FP32", np.ones((1, 1), dtype=np.float32)),))
QUEUE_FULL = '{"error":"[request id: <id_unknown>] Exceeds maximum queue size"}'
ASKED = Asked("http://lab:8000", "alpha", 30.0)


def packed(values: list[float]) -> str:
    return base64.b64encode(np.array(values, dtype="<f8").tobytes()).decode()


def raw(
    spans: list[tuple[float, float, float]], *, failures: list[list[object]] | None = None, seconds: float
) -> dict[str, object]:
    """A generator's result: (intended, began, ended) of each success."""
    columns = [list(column) for column in zip(*spans, strict=True)] if spans else [[], [], []]
    count = sum(int(str(row[3])) for row in failures or [])
    return {
        "intended": packed(columns[0]), "began": packed(columns[1]), "ended": packed(columns[2]),
        "failed_at": packed([seconds / 2] * count), "failures": failures or [], "seconds": seconds,
        "stopped": False, "reason": "", "unanswered": 0, "unsent": 0, "max_under_way": 1, "held_by_cap": 0,
    }  # fmt: skip


def measured(concurrency: int, count: int, wait_seconds: float) -> LoadFigures:
    spans = [(at * wait_seconds, at * wait_seconds, (at + 1) * wait_seconds)
             for at in range(count // concurrency) for _ in range(concurrency)]  # fmt: skip
    return figures(concurrency, False, raw(spans, seconds=count / concurrency * wait_seconds), ASKED)


def split(requests: int, executions: int, model: str = "alpha") -> ModelSplit:
    sizes = {requests // executions: executions}
    return ModelSplit(model, "1", requests, 0, executions, requests, 1.0, 1.0, 1.0, 1.0, 1.0, sizes)


def one(label: str, clients: LoadFigures, *rows: ModelSplit, **others: int) -> Measurement:
    server = ServerSide(rows, {"alpha": 0.5}, others) if rows else None
    plan = LoadPlan(concurrency=clients.concurrency, seconds=None, requests=max(1, clients.succeeded))
    return Measurement(label, "alpha", plan, clients, server, 0.0)


def test_the_figures_of_a_load() -> None:
    spans = [(0.0, 0.0, 0.01), (0.0, 0.0, 0.02), (0.01, 0.01, 0.04)]
    failures: list[list[object]] = [["status", 503, QUEUE_FULL, 2]]
    load = figures(2, False, raw(spans, failures=failures, seconds=0.05), ASKED)
    assert (load.succeeded, load.failed) == (3, 2)
    assert load.errors == {infer_failure("alpha", QUEUE_FULL, 503): 2}
    assert load.throughput_per_second == pytest.approx(60.0)
    assert load.mean_us == pytest.approx(20_000.0)
    assert load.p50_us == pytest.approx(20_000.0)
    assert load.p95_us == pytest.approx(29_000.0)
    assert load.max_us == pytest.approx(30_000.0)
    assert load.expected_per_second == pytest.approx(2 / 0.02)
    assert load.failed_ratio == pytest.approx(0.4)


def test_the_latency_of_an_open_loop_counts_from_when_a_request_was_due() -> None:
    # Due at 0, 10, 20 ms; one connection, and each answer takes 50 ms: the last one is sent at 100 ms.
    spans = [(0.00, 0.00, 0.05), (0.01, 0.05, 0.10), (0.02, 0.10, 0.15)]
    load = figures(1, True, raw(spans, seconds=0.15), ASKED)
    assert load.max_us == pytest.approx(130_000.0)
    assert load.service_p99_us == pytest.approx(50_000.0)
    assert load.expected_per_second is None


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (["timeout", 0, ""], "No answer from lab:8000 within 30 s"),
        (["refused", 0, "x"], "lab:8000 is not reachable (refused)"),
        (["closed", 0, ""], "lab:8000 closed the connection before it answered"),
        (["protocol", 0, "x"], "This port (lab:8000) does not speak HTTP: is it the gRPC port?"),
        (
            ["status", 403, "no"],
            "lab:8000 restricts its inference API (HTTP 403): write "
            "`api_headers_from_env: {inference: {HEADER: VARIABLE}}` at this server in tritonscope.yml",
        ),
        (["other", 0, ""], "other failures"),
    ],
)
def test_failures_have_the_sentences_of_test_requests(failure: list[object], expected: str) -> None:
    load = figures(1, False, raw([], failures=[[*failure, 3]], seconds=1.0), ASKED)
    ((sentence_, count),) = load.errors.items()
    assert (sentence_[: len(expected)], count) == (expected, 3)


def test_a_load_without_a_success_reports_nothing_instead_of_zero() -> None:
    load = figures(4, False, raw([], failures=[["refused", 0, "", 4]], seconds=0.5), ASKED)
    known = (load.throughput_per_second, load.mean_us, load.p99_us, load.expected_per_second)
    assert known == (None,) * 4
    assert load.under_way_mean is None


def test_the_course_of_a_load_adds_up_to_it() -> None:
    load = measured(4, 400, 0.010)
    assert sum(point.per_second for point in load.course) * load.seconds / len(load.course) == pytest.approx(
        400
    )
    assert {round(point.p99_us or 0) for point in load.course} == {10_000}
    assert len(load.course) == 4


def test_qps_is_concurrency_over_response_time() -> None:
    # The table of the seed: 100 at 5 s, 4 at 0.2 s and 1 at 0.05 s all give 20 per second.
    for concurrency, response_seconds in ((100, 5.0), (4, 0.2), (1, 0.05)):
        load = measured(concurrency, concurrency * 3, response_seconds)
        assert load.expected_per_second == pytest.approx(20.0)
        assert load.throughput_per_second == pytest.approx(20.0)
        assert load.under_way_mean == pytest.approx(concurrency)


# ---- serial against concurrent


def test_the_comparison_in_words() -> None:
    serial = one("serial", measured(1, 160, 0.010), split(160, 160))
    concurrent = one("concurrent", measured(16, 160, 0.020), split(160, 10))
    assert speedup([serial, concurrent]) == pytest.approx(8.0)
    assert sentence("alpha", [serial, concurrent]) == (
        "alpha: 16 at a time give 8 times the throughput of one (100 to 800 requests/s); "
        "160 rows in 10 executions, 16 each"
    )
    unbatched = one("concurrent", measured(16, 160, 0.160), split(160, 160))
    assert sentence("alpha", [serial, unbatched]).endswith("; no batches formed")
    assert sentence("alpha", [serial]) == "alpha: stopped before the concurrent half"
    failed = one(
        "concurrent", figures(4, False, raw([], failures=[["refused", 0, "", 4]], seconds=0.5), ASKED)
    )
    assert (
        sentence("alpha", [serial, failed]) == "alpha: no comparison, since requests of one half all failed"
    )


def test_an_ensemble_names_the_step_that_batched() -> None:
    serial = one("serial", measured(1, 12, 0.010), split(12, 12))
    concurrent = one("concurrent", measured(4, 12, 0.020), split(12, 12), split(12, 3, "step"))
    assert sentence("alpha", [serial, concurrent]).endswith("; step: 12 rows in 3 executions, 4 each")


def test_the_notes_say_what_would_mislead() -> None:
    serial = one("serial", measured(1, 10, 0.01), split(10, 10))
    busy = one("concurrent", measured(5, 10, 0.01), split(17, 1), bravo=40)
    assert notes((serial, serial)) == ()
    assert busy.others == 7
    assert notes((serial, busy)) == (
        "Other clients sent 7 requests to the model meanwhile: executions, batch sizes and latencies include "
        "them.",
        "Other models answered requests of others meanwhile and shared the server: bravo (40).",
    )
    (unmerged,) = config_notes(replace(CONFIG, dynamic_batching=False))
    assert unmerged.startswith("The model has no dynamic batching: Triton never merges requests of it.")
    (cached,) = config_notes(replace(CONFIG, response_cache=True))
    assert cached.startswith("The response cache is on")
    (single,) = config_notes(replace(CONFIG, max_batch_size=0))
    assert single == "max_batch_size is 0: this model takes one request per execution."


def test_what_an_open_loop_could_not_send_is_said() -> None:
    behind = replace(measured(4, 40, 0.01), open_loop=True, unsent=12, max_under_way=4)
    late = replace(behind, unsent=0)
    (never_sent,) = notes((one("", behind),))
    (waited,) = notes((one("", late),))
    assert never_sent.startswith("12 requests were due and never sent")
    assert waited.startswith("all 4 connections were busy at times")


def test_the_headline_names_throughput_p99_failures_and_an_early_end() -> None:
    good = one("", measured(1, 100, 0.01))
    assert headline(good) == "100 requests/s, p99 10 ms"
    bad = replace(good.clients, errors={"Queue full": 100}, ended_by="failed_ratio")
    assert headline(replace(good, clients=bad)) == (
        "100 requests/s, p99 10 ms, 50 % failed (Queue full); ended early: more than 50 % of the requests "
        "failed"
    )
    slow = replace(good.clients, ended_by="p99_us")
    limited = replace(good, clients=slow, plan=replace(good.plan, max_p99_us=5000.0))
    assert headline(limited).endswith("ended early: p99 went above 5 ms")


# ---- sweep


def steps() -> list[Measurement]:
    """Throughput 100, 190, 350, 400, 410 at 1, 2, 4, 8, 16 at a time."""
    rates = ((1, 100), (2, 190), (4, 350), (8, 400), (16, 410))
    return [one(f"{at} at a time", measured(at, at * 50, at / rate)) for at, rate in rates]


def test_the_knee_has_the_largest_throughput_over_latency() -> None:
    found = steps()
    # throughput^2 / concurrency: 10000, 18050, 30625, 20000, 10506.
    marked = knee(found)
    assert marked is not None and marked.clients.concurrency == 4
    assert knee_sentence(found) == (
        "the knee is at 4 at a time: 350 requests/s, p99 11.4 ms; 16 at a time give 17.1 % more at p99 39 ms"
    )
    assert knee(found[:1]) is None


def test_what_an_objective_allows() -> None:
    found = steps()
    carried = capacity(found, 20_100.0)
    assert carried is not None and carried.clients.concurrency == 8
    assert capacity_sentence(found, 20_100.0) == (
        "at p99 <= 20.1 ms this model carries 400 requests/s (8 at a time)"
    )
    assert capacity_sentence(found, 50_000.0).endswith("carries at least 410 requests/s (16 at a time)")
    assert capacity_sentence(found, 5000.0) == "no step kept p99 <= 5 ms: the lowest p99 was 10 ms"


def test_a_step_that_fails_carries_nothing() -> None:
    found = steps()
    broken = replace(found[3].clients, errors={"Queue full": 100})
    found[3] = replace(found[3], clients=broken)
    carried = capacity(found, 20_000.0)
    assert carried is not None and carried.clients.concurrency == 4


@pytest.mark.parametrize("text", ["1,2,x", "1.5 2", "0 1", "1 300"])
def test_concurrencies_are_whole_numbers_within_bounds(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_concurrencies(text)
    assert parse_concurrencies("1, 2 4") == (1, 2, 4)


# ---- the plan and the order


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (LoadPlan(concurrency=0), "1 to 256 at the same time (got 0)"),
        (LoadPlan(concurrency=257), "1 to 256 at the same time (got 257)"),
        (LoadPlan(seconds=601.0), "0.1 to 600 s (got 601)"),
        (LoadPlan(seconds=None), "A load run ends after a time or after so many requests: give one of them"),
        (LoadPlan(seconds=None, requests=0), "1 to 1,000,000 requests (got 0)"),
        (LoadPlan(warmup_seconds=-1.0), "0 to 60 s of warm-up (got -1)"),
        (LoadPlan(max_failed_ratio=1.5), "0 to 1 as the share of failures to stop at (got 1.5)"),
        (LoadPlan(loop=Loop.OPEN), "An open loop needs an arrival rate, in requests/s"),
        (LoadPlan(loop=Loop.OPEN, rate_per_second=0.0), "0.1 to 20,000 requests/s (got 0)"),
        (
            LoadPlan(loop=Loop.OPEN, rate_per_second=80.0, cap_per_second=50.0),
            "The settings allow 50 requests/s on this server, not 80: see load_runs in tritonscope.yml",
        ),
    ],
)
def test_the_bounds_are_kept_before_anything_is_sent(plan: LoadPlan, expected: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        load_run_work(wanted(), plan)
    assert caught.value.sentence == expected


def test_a_plan_in_words() -> None:
    assert LoadPlan(concurrency=16).words == "16 at a time for 10 s"
    assert LoadPlan(seconds=None, requests=2000).words == "8 at a time, 2,000 requests"
    open_loop = LoadPlan(loop=Loop.OPEN, rate_per_second=50.0, arrivals=Arrivals.CONSTANT)
    assert open_loop.words == "50 requests/s, constant arrivals for 10 s"


def test_the_message_is_complete_and_carries_the_headers() -> None:
    texts = np.array([[b"\xff\x00", "ü".encode()]], dtype=object)
    request = replace(REQUEST, version="3", tensors=(*REQUEST.tensors, Tensor("T", "BYTES", texts)))
    (message,) = messages(replace(SERVER, http_url="http://lab:8000/base"), CONFIG, request, 4)
    head, _, body = message.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /base/v2/models/alpha/versions/3/infer HTTP/1.1"
    fields = dict(line.split(": ", 1) for line in lines[1:])
    assert (fields["Host"], fields["Authorization"]) == ("lab:8000", "Bearer x")
    assert int(fields["Content-Length"]) == len(body)
    at = int(fields["Inference-Header-Content-Length"])
    # FP32 1.0, then both elements with their lengths in front.
    assert body[at:] == b"\x00\x00\x80\x3f" + b"\x02\x00\x00\x00\xff\x00" + b"\x02\x00\x00\x00\xc3\xbc"


def test_every_connection_of_a_sequence_model_has_a_sequence_of_its_own() -> None:
    target = Target(SERVER, replace(CONFIG, sequence_batching=True), REQUEST)
    order = order_json(target, LoadPlan(concurrency=3))
    bodies = [base64.b64decode(message) for message in order["messages"]]
    assert len(set(bodies)) == 3
    assert all(b'"sequence_start":true' in body and b'"sequence_end":true' in body for body in bodies)


def test_a_header_with_a_line_break_is_not_sent() -> None:
    with pytest.raises(SettingsError, match="line break"):
        messages(replace(SERVER, headers={"X": "a\r\nB: c"}), CONFIG, REQUEST, 1)


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
