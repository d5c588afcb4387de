"""Load runs and the comparison of configurations on the real server, against its own count."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

import runtime
from control.override import GroupWish, Override
from control.performer import Work
from experiments.arms import Arm, batching_arms
from experiments.comparison import comparison_work, ratio
from experiments.load_run import load_run_work
from experiments.plan import Arrivals, LoadPlan, Loop
from experiments.report import RunReport
from experiments.session import Wanted
from experiments.store import RunStore
from experiments.sweep import knee, sweep_work
from sandbox import Sandbox, SandboxOptions
from settings import Settings
from telemetry.access import LOCAL
from telemetry.actions import ActionKind, Outcome
from telemetry.config_diff import changes_between
from telemetry.identity import Server
from telemetry.journal_choice import JournalChoice
from tests.counting_proxy import CountingProxy
from tests.integration.conftest import Until
from tests.integration.load_bench import LIMIT_SECONDS, Bench

pytestmark = pytest.mark.integration

MODEL = "batch_cost_model"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    options = SandboxOptions(
        http_port=0, grpc_port=0, metrics_port=0, models=(MODEL, "batch_add_model"), simulated_gpu=False
    )
    with Sandbox(options) as server:
        assert server.not_ready() == {}
        yield server


@pytest.fixture
def bench(sandbox: Sandbox) -> Bench:
    return Bench(sandbox.http_url)


def counts(sandbox: Sandbox, model: str = MODEL) -> dict[str, int]:
    """The server's own statistics, read without the product: requests, inferences, executions."""
    (row,) = requests.get(f"{sandbox.http_url}/v2/models/{model}/stats", timeout=5).json()["model_stats"]
    return {
        "requests": row["inference_stats"]["success"]["count"],
        "inferences": row["inference_count"],
        "executions": row["execution_count"],
        "queue_ns": row["inference_stats"]["queue"]["ns"],
    }


def batching_off_and_on(plan: LoadPlan) -> Callable[[Wanted], Work]:
    return lambda wanted: comparison_work(wanted, plan, batching_arms(wanted.config), LOCAL)


def config_on(sandbox: Sandbox, model: str = MODEL) -> dict[str, object]:
    found: dict[str, object] = requests.get(f"{sandbox.http_url}/v2/models/{model}/config", timeout=5).json()
    return found


def test_a_load_run_reports_what_the_server_counted(bench: Bench, sandbox: Sandbox) -> None:
    before = counts(sandbox)
    plan = LoadPlan(concurrency=16, seconds=1.5, warmup_seconds=0.0)
    report = bench.run(MODEL, lambda wanted: load_run_work(wanted, plan))
    after = counts(sandbox)
    (found,) = report.measurements
    clients, split = found.clients, found.split
    assert split is not None
    # One request goes ahead of the load.
    assert after["requests"] - before["requests"] - 1 == split.requests == clients.succeeded > 100
    assert after["inferences"] - before["inferences"] - 1 == split.inferences
    assert after["executions"] - before["executions"] - 1 == split.executions < split.requests
    assert split.queue_us is not None and clients.mean_us is not None
    assert (after["queue_ns"] - before["queue_ns"]) / 1000 / (split.requests + 1) == pytest.approx(
        split.queue_us, rel=0.02
    )
    assert 0.5 < (found.busy_ratio or 0) <= 1.0
    assert (clients.failed, found.others) == (0, 0)
    quantiles = [clients.p50_us, clients.p90_us, clients.p95_us, clients.p99_us, clients.max_us]
    assert quantiles == sorted(quantiles, key=lambda one: one or 0.0)
    assert clients.under_way_mean == pytest.approx(16, rel=0.15)


def test_an_open_loop_tells_the_wait_that_a_closed_one_would_hide(bench: Bench) -> None:
    # 300 requests/s to a model whose one connection serves under 125: they pile up before they are sent.
    plan = LoadPlan(
        loop=Loop.OPEN, concurrency=1, rate_per_second=300.0, arrivals=Arrivals.CONSTANT, seconds=1.0,
        warmup_seconds=0.0,
    )  # fmt: skip
    report = bench.run(MODEL, lambda wanted: load_run_work(wanted, plan))
    clients = report.measurements[0].clients
    assert clients.succeeded == 300
    assert clients.p99_us is not None and clients.service_p99_us is not None
    assert clients.p99_us > 800_000.0
    assert clients.service_p99_us < 400_000.0
    assert any("all 1 connections were busy" in note for note in report.notes)


def test_an_open_loop_below_the_capacity_keeps_its_rate(bench: Bench) -> None:
    plan = LoadPlan(loop=Loop.OPEN, concurrency=64, rate_per_second=100.0, seconds=2.0, warmup_seconds=0.0)
    clients = bench.run(MODEL, lambda wanted: load_run_work(wanted, plan)).measurements[0].clients
    # Poisson: 200 are expected, with a standard deviation of 14.
    assert 140 < clients.succeeded < 260
    assert clients.unsent == 0


def test_the_hard_limit_of_a_server_is_kept_by_whoever_asks_for_more(sandbox: Sandbox) -> None:
    with CountingProxy(sandbox.http_url) as proxy:
        bench = Bench(proxy.url, limit_per_second=20.0)
        plan = LoadPlan(concurrency=8, seconds=1.0, warmup_seconds=0.5)
        report = bench.run("batch_add_model", lambda wanted: sweep_work(wanted, plan, (4, 8)))
        at = [one.at for one in proxy.passed("POST", "/infer")]
    assert 40 < len(at) <= 1 + 2 * 31
    in_a_second = max(sum(1 for other in at if start <= other < start + 0.95) for start in at)
    assert in_a_second <= 20
    assert report.notes[-1].startswith("The settings allow load runs 20 requests/s")


def test_a_load_breaks_off_at_its_latency_limit(bench: Bench) -> None:
    plan = LoadPlan(concurrency=64, seconds=30.0, warmup_seconds=0.0, max_p99_us=20_000.0)
    report = bench.run(MODEL, lambda wanted: load_run_work(wanted, plan))
    assert report.measurements[0].clients.ended_by == "p99_us"
    assert report.sentence.endswith("ended early: p99 went above 20 ms")


def test_a_load_breaks_off_when_too_many_fail(bench: Bench, sandbox: Sandbox) -> None:
    job = bench.start(
        MODEL, lambda wanted: load_run_work(wanted, LoadPlan(seconds=30.0, max_failed_ratio=0.2))
    )
    while not getattr(getattr(job.progress, "latest", None), "done", 0):
        assert job.wait(0.02).running
    requests.post(f"{sandbox.http_url}/v2/repository/models/{MODEL}/unload", timeout=10).raise_for_status()
    record = job.wait(LIMIT_SECONDS)
    requests.post(f"{sandbox.http_url}/v2/repository/models/{MODEL}/load", timeout=30).raise_for_status()
    assert isinstance(job.result, RunReport), record
    clients = job.result.measurements[0].clients
    assert clients.ended_by == "failed_ratio"
    assert any("has no version that is ready" in sentence for sentence in clients.errors), clients.errors


def test_others_traffic_is_noticed(bench: Bench, sandbox: Sandbox) -> None:
    other = Bench(sandbox.http_url)
    plan = LoadPlan(concurrency=2, seconds=1.5, warmup_seconds=0.0)
    job = other.start("batch_add_model", lambda wanted: load_run_work(wanted, plan))
    report = bench.run(MODEL, lambda wanted: load_run_work(wanted, LoadPlan(seconds=0.7, warmup_seconds=0.0)))
    job.wait(LIMIT_SECONDS)
    server = report.measurements[0].server
    assert server is not None and server.other_models["batch_add_model"] > 10
    assert any("Other models answered requests" in note for note in report.notes)


def test_a_sweep_finds_a_knee_where_batches_are_full(bench: Bench) -> None:
    plan = LoadPlan(seconds=0.8, warmup_seconds=0.2)
    report = bench.run(MODEL, lambda wanted: sweep_work(wanted, plan, (1, 4, 16, 64), 500_000.0))
    rates = [one.clients.throughput_per_second or 0.0 for one in report.measurements]
    # Where exactly the knee stands depends on what else the machine does; its formula has tests of its own.
    assert 2 * rates[0] < max(rates)
    marked = knee(report.measurements)
    assert marked is not None and marked.clients.concurrency > 1
    assert "this model carries" in report.sentence


def test_batching_on_carries_at_least_three_times_of_off_and_the_configuration_comes_back(
    bench: Bench, sandbox: Sandbox, figure: Callable[[str], None]
) -> None:
    original = config_on(sandbox)
    plan = LoadPlan(concurrency=32, seconds=2.0, warmup_seconds=0.5)
    report = bench.run(
        MODEL, lambda wanted: comparison_work(wanted, plan, batching_arms(wanted.config), LOCAL)
    )
    off, on = (report.of(label) for label in ("batching off", "batching on"))
    assert off is not None and on is not None
    factor = ratio(report.measurements)
    assert factor is not None and factor >= 3.0, report.sentence
    figure(report.sentence)
    for arm in (off, on):
        split = arm.split
        assert split is not None
        # The table equals the server's own statistics.
        assert arm.clients.succeeded == pytest.approx(split.requests, rel=0.02)
        # One execution that ends while the server writes its answer stands in one count and not in the other.
        rows = sum(size * count for size, count in split.executions_by_batch_size.items())
        assert split.inferences == pytest.approx(rows, rel=0.02)
    assert off.split is not None and off.split.executions_by_batch_size.keys() == {1}
    assert on.split is not None and (on.split.batch_size_mean or 0) > 6
    assert report.settings["batching off"] == "dynamic batching off, 1 instance"
    assert not changes_between(original, config_on(sandbox))
    assert bench.control.journal.open_restorations() == ()
    kinds = [record.action.kind for record in bench.control.records("lab", MODEL)]
    assert kinds.count(ActionKind.OVERRIDE) >= 1 and kinds[0] is ActionKind.REVERT


def test_an_arm_that_cannot_be_loaded_is_left_out_and_said(bench: Bench, sandbox: Sandbox) -> None:
    original = config_on(sandbox)
    arms = (
        Arm("as it is", Override()),
        Arm("on GPU 7", Override(instance_groups=(GroupWish(count=1, kind="KIND_GPU", gpus=(7,)),))),
        Arm("two instances", Override(instances=2)),
    )
    plan = LoadPlan(concurrency=8, seconds=0.5, warmup_seconds=0.5)
    report = bench.run(MODEL, lambda wanted: comparison_work(wanted, plan, arms, LOCAL))
    assert [one.label for one in report.measurements] == ["as it is", "two instances"]
    (note,) = [note for note in report.notes if note.startswith("on GPU 7 could not be loaded")]
    assert "GPU" in note
    assert not changes_between(original, config_on(sandbox))


def test_a_stopped_comparison_puts_the_configuration_back(
    bench: Bench, sandbox: Sandbox, until: Until
) -> None:
    original = config_on(sandbox)
    plan = LoadPlan(concurrency=8, seconds=30.0, warmup_seconds=0.5)
    job = bench.start(
        MODEL, lambda wanted: comparison_work(wanted, plan, batching_arms(wanted.config), LOCAL)
    )
    until(lambda: "dynamic_batching" not in config_on(sandbox), 30.0)
    until(lambda: getattr(getattr(job.progress, "latest", None), "phase", "") == "measure", 30.0)
    job.stop()
    record = job.wait(LIMIT_SECONDS)
    assert record.outcome is Outcome.STOPPED
    assert not changes_between(original, config_on(sandbox))
    assert bench.control.journal.open_restorations() == ()


# ---- killed in the middle

_APP = """
import json, sys
sys.path.insert(0, {root!r})
from pathlib import Path
import runtime
from settings import Settings
from telemetry.access import LOCAL
from telemetry.identity import Server
from telemetry.journal_choice import JournalChoice
from telemetry.actions import Action, ActionKind
from experiments.arms import batching_arms
from experiments.comparison import comparison_work
from experiments.plan import LoadPlan
from tests.integration.load_bench import Bench
server = Server("lab", {url!r}, None, control=True, load_run_limit_per_second=5000.0)
process = runtime.Runtime(Settings(servers=(server,), journal=JournalChoice(path=Path({journal!r}))))
process.start()
bench = Bench({url!r})
bench.control = process.control
plan = LoadPlan(concurrency=8, seconds=60.0, warmup_seconds=0.5)
compare = lambda wanted: comparison_work(wanted, plan, batching_arms(wanted.config), LOCAL)
bench.start({model!r}, compare).wait()
"""


def test_an_app_killed_in_the_middle_is_repaired_by_its_next_start(
    sandbox: Sandbox, tmp_path: Path, until: Until
) -> None:
    original, journal = config_on(sandbox), tmp_path / "journal.jsonl"
    script = _APP.format(root=str(ROOT), url=sandbox.http_url, journal=str(journal), model=MODEL)
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT) as app:
        try:
            until(lambda: "dynamic_batching" not in config_on(sandbox), 40.0)
            before = counts(sandbox)["requests"]
            # The load of the first arm is under way.
            until(lambda: counts(sandbox)["requests"] > before + 20, 60.0)
        finally:
            app.kill()
    assert "dynamic_batching" not in config_on(sandbox)
    # The generator has ended with its starter: nothing is sent any more.
    until(lambda: counts(sandbox)["requests"] == counts(sandbox)["requests"], 30.0)
    server = Server("lab", sandbox.http_url, None, control=True, load_run_limit_per_second=5000.0)
    process = runtime.Runtime(Settings(servers=(server,), journal=JournalChoice(path=journal)))
    control = process.control
    assert control is not None
    (pending,) = control.journal.open_restorations()
    assert pending.left_over and "the comparison of" in pending.sentence
    (run,) = [one for one in control.records("lab", MODEL) if one.action.kind is ActionKind.LOAD_RUN]
    assert run.outcome is Outcome.UNKNOWN
    process.start()
    try:
        until(lambda: not control.journal.open_restorations(), 30.0)
    finally:
        process.stop()
    assert not changes_between(original, config_on(sandbox))
    reverted = next(one for one in control.records("lab", MODEL) if one.action.kind is ActionKind.REVERT)
    assert reverted.outcome is Outcome.DONE and "put back after the comparison" in reverted.action.why


def test_runs_are_kept_in_the_state_folder_and_readable_after_a_restart(bench: Bench, tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    plan = LoadPlan(concurrency=4, seconds=0.3, warmup_seconds=0.0)
    wanted = bench.wanted(MODEL)
    report = bench.run(
        MODEL,
        lambda _: load_run_work(
            type(wanted)(wanted.control, wanted.config, wanted.request, store.save), plan
        ),
    )
    assert RunStore(tmp_path / "runs").reports("lab", MODEL) == [report]
    (file,) = (tmp_path / "runs").glob("*.json")
    assert json.loads(file.read_text())["sentence"] == report.sentence
    file.write_text("{")
    assert RunStore(tmp_path / "runs").reports() == []
