"""What the signals mean: cache, versions, self-queueing backends, switched-off counters, the impossible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from signals.saved import SavedFile
from tests.saved_pages import (
    Rows,
    batches,
    config,
    model,
    page,
    report,
    server,
    statistics,
    texts,
)

FIXTURES = Path(__file__).parents[1] / "fixtures"

A, B = ("first", "1"), ("second", "1")


def test_cache_hits_are_no_computed_requests() -> None:
    rows: Rows = {
        "request_success": {A: 100},
        "request_duration_us": {A: 100_000},
        "compute_infer_duration_us": {A: 40_000},
        "compute_input_duration_us": {A: 4_000},
        "count": {A: 20},
        "exec_count": {A: 10},
    }
    hits = [
        'nv_cache_num_hits_per_model{model="first",version="1"} 80',
        'nv_cache_num_misses_per_model{model="first",version="1"} 20',
    ]
    figures = model(report(page(rows, *hits)), "first")
    assert figures.number("compute_infer_us_mean") == 2000
    assert figures.number("compute_input_us_mean") == 200
    assert figures.number("request_us_mean") == 1000
    assert figures.number("batch_size_mean") == 2.0
    assert figures.number("cache_hit_ratio") == pytest.approx(0.8)


def test_without_a_cache_there_is_no_hit_ratio() -> None:
    figures = model(report(page({"request_success": {A: 1}})), "first")
    assert figures.number("cache_hit_ratio") is None


def test_versions_are_rows_of_their_own() -> None:
    two = ("first", "2")
    found = report(page({"request_success": {A: 10, two: 10}}), page({"request_success": {A: 15, two: 40}}))
    assert model(found, "first", "1").number("requests_total") == 5
    assert model(found, "first", "2").number("requests_total") == 30


@pytest.mark.parametrize(
    "fields",
    [
        {"backend": "vllm"},
        {"backend": "tensorrtllm"},
        {"backend": "python", "model_transaction_policy": {"decoupled": True}},
    ],
)
def test_a_backend_that_queues_inside_is_not_measured_by_triton(fields: dict[str, Any]) -> None:
    rows: Rows = {
        "request_success": {A: 4, B: 10},
        "request_duration_us": {A: 114_000, B: 20_000},
        "queue_duration_us": {A: 40, B: 5_000},
        "compute_infer_duration_us": {A: 100_000, B: 10_000},
        "count": {A: 4, B: 20},
        "exec_count": {A: 4, B: 10},
        "pending_request_count": {A: 0, B: 2},
    }
    found = report(page(rows), configs=[config("first", **fields)])
    figures = model(found, "first")
    for name in (
        "request_us_mean", "queue_us_mean", "queue_ratio", "compute_infer_us_mean", "batch_size_mean",
        "pending", "instance_busy_ratio", "executions_by_batch_size",
    ):  # fmt: skip
        assert figures.values[name] is None
    assert figures.number("requests_total") == 4
    assert "the backend queues by itself" in texts(found)
    whole = server(found)
    assert whole.number("queue_us_mean") == 500 and whole.number("pending") == 2
    assert whole.number("request_us_mean") == 2000


def test_busy_share_of_the_instances() -> None:
    # 10 s window, 2 instances: 25 executions of 0.4 s are 10 s of 20.
    first = statistics({"name": "first", "version": "1", "execution_count": 0, "batch_stats": []})
    last = statistics(
        {
            "name": "first",
            "version": "1",
            "execution_count": 25,
            "batch_stats": batches(b1=(5, 400_000_000 // 3), b8=(20, 400_000_000 // 3)),
        }
    )
    pages = page({"request_success": {A: 0}}), page({"request_success": {A: 165}})
    with_config = config("first", instance_group=[{"kind": "KIND_CPU", "count": 2}])
    found = report(*pages, statistics=[first, last], configs=[with_config])
    figures = model(found, "first")
    assert figures.number("instance_busy_ratio") == pytest.approx(0.5, rel=1e-6)
    assert figures.mapping("executions_by_batch_size") == {"1": 5, "8": 20}
    assert server(found).number("instance_busy_ratio") == pytest.approx(0.5, rel=1e-6)
    assert model(report(*pages, statistics=[first, last]), "first").number("instance_busy_ratio") is None
    assert model(report(*pages, configs=[with_config]), "first").number("instance_busy_ratio") is None


def test_an_idle_model_is_busy_for_none_of_the_time() -> None:
    idle = statistics(
        {"name": "first", "version": "1", "execution_count": 7, "batch_stats": batches(b1=(7, 9))}
    )
    pages = page({"request_success": {A: 7}}), page({"request_success": {A: 7}})
    group = config("first", instance_group=[{"kind": "KIND_GPU", "count": 2, "gpus": [0, 1]}])
    found = report(*pages, statistics=[idle, idle], configs=[group])
    assert model(found, "first").number("instance_busy_ratio") == 0
    assert model(found, "first").mapping("executions_by_batch_size") == {"1": 0}


def test_more_busy_than_all_instances_cannot_be() -> None:
    none = statistics({"name": "first", "version": "1", "execution_count": 0})
    much = statistics(
        {"name": "first", "version": "1", "execution_count": 9, "batch_stats": batches(b1=(9, 1_000_000_000))}
    )
    pages = page({"request_success": {A: 0}}), page({"request_success": {A: 9}})
    found = report(
        *pages,
        statistics=[none, much],
        configs=[config("first", instance_group=[{"kind": "KIND_CPU", "count": 1}])],
    )
    assert model(found, "first").number("instance_busy_ratio") is None
    assert "instance_busy_ratio of first v1 reads 2.7, cannot be" in texts(found)


def test_counters_that_are_switched_off_are_not_zero() -> None:
    names: Rows = {family: {A: 0, B: 0} for family in ("request_success", "count", "exec_count")}
    stats = [
        statistics(
            {"name": "first", "version": "1", "execution_count": n, "batch_stats": batches(b2=(n, 1000))},
            {"name": "second", "version": "1", "execution_count": 0},
        )
        for n in (10, 40)
    ]
    found = report(page(names), page(names), statistics=stats)
    figures = model(found, "first")
    assert figures.number("requests_total") is None and figures.number("batch_size_mean") is None
    assert figures.number("executions_total") == 30
    assert figures.number("executions_per_second") == pytest.approx(3.0)
    assert figures.mapping("executions_by_batch_size") == {"2": 30}
    assert "counter_latencies=false" in texts(found)
    assert server(found).number("requests_total") is None


def test_switched_off_counters_leave_the_summaries() -> None:
    names: Rows = {family: {A: 0} for family in ("request_success", "exec_count", "request_duration_us")}

    def summary(count: int, total: int) -> list[str]:
        return [
            "# TYPE nv_inference_request_summary_us summary",
            f'nv_inference_request_summary_us_count{{model="first",version="1"}} {count}',
            f'nv_inference_request_summary_us_sum{{model="first",version="1"}} {total}',
        ]

    stats = [statistics({"name": "first", "version": "1", "execution_count": n}) for n in (5, 9)]
    found = report(page(names, *summary(5, 5000)), page(names, *summary(15, 9000)), statistics=stats)
    figures = model(found, "first")
    assert figures.number("requests_total") == 10
    assert figures.number("requests_per_second") == pytest.approx(1.0)
    assert figures.number("request_us_mean") == pytest.approx(400.0)


def test_an_idle_server_is_not_taken_for_one_with_counters_off() -> None:
    names: Rows = {family: {A: 0} for family in ("request_success", "exec_count")}
    found = report(
        page(names), statistics=[statistics({"name": "first", "version": "1", "execution_count": 0})]
    )
    assert model(found, "first").number("requests_total") == 0
    assert found.notices == ()


def test_quantiles_of_a_server_are_those_of_its_slowest_model() -> None:
    def quantile(name: str, value: str) -> str:
        return f'nv_inference_request_summary_us{{model="{name}",version="1",quantile="0.99"}} {value}'

    declared = "# TYPE nv_inference_request_summary_us summary"
    found = report(
        page(
            {"request_success": {A: 1, B: 1, ("third", "1"): 1}},
            declared,
            quantile("first", "23000"),
            quantile("second", "Nan"),
            quantile("third", "900"),
        )
    )
    assert server(found).number("request_us_p99") == 23000
    assert model(found, "second").number("request_us_p99") is None
    assert model(found, "third").number("request_us_p99") == 900
    assert server(found).number("request_us_p50") is None


def test_pending_on_gpus_is_that_of_the_series_without_gpu() -> None:
    pending = "nv_inference_pending_request_count"
    lines = [
        f'{pending}{{model="first",version="1"}} 4',
        f'{pending}{{gpu_uuid="GPU-a",model="first",version="1"}} 9',
        f'{pending}{{gpu_uuid="GPU-b",model="second",version="1"}} 2',
        f'{pending}{{gpu_uuid="GPU-a",model="second",version="1"}} 1',
    ]
    found = report(page({"request_success": {A: 1, B: 1}}, *lines))
    assert model(found, "first").number("pending") == 4
    assert model(found, "second").number("pending") == 3


def test_impossible_readings_are_not_reported() -> None:
    lines = [
        'nv_gpu_utilization{gpu_uuid="GPU-a"} 87',
        'nv_gpu_memory_used_bytes{gpu_uuid="GPU-a"} 200',
        'nv_gpu_memory_total_bytes{gpu_uuid="GPU-a"} 100',
        'nv_gpu_power_usage{gpu_uuid="GPU-a"} -3',
        'nv_gpu_power_limit{gpu_uuid="GPU-a"} 300',
        "nv_cpu_utilization 1.7",
        "nv_cpu_memory_used_bytes +Inf",
    ]
    found = report(page({"request_success": {A: -4, B: 2}}, *lines))
    figures = found.gpus[0].signals
    for name in ("utilization_ratio", "memory_used_bytes", "memory_used_ratio", "power_watts"):
        assert figures.values[name] is None
    assert figures.number("memory_total_bytes") == 100 and figures.number("power_limit_watts") == 300
    assert set(found.host[0].signals.values.values()) == {None}
    assert model(found, "first").number("requests_total") is None
    assert model(found, "second").number("requests_total") == 2
    for part in ("utilization_ratio of GPU-a reads 87", "power_watts", "cpu_ratio", "reads -4"):
        assert part in texts(found)


def test_figures_of_dcgm_are_converted() -> None:
    lines = [
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-d"} 42',
        'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-d"} 1024',
        'DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-d"} 3072',
        'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-d"} 71.5',
    ]
    energy = 'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-d"} '
    found = report(page({}, *lines, energy + "1000000"), page({}, *lines, energy + "1715000"))
    (row,) = found.gpus
    assert row.key.uuid == "GPU-d"
    assert row.signals.number("utilization_ratio") == pytest.approx(0.42)
    assert row.signals.number("memory_used_bytes") == 2**30
    assert row.signals.number("memory_total_bytes") == 4 * 2**30
    assert row.signals.number("memory_used_ratio") == pytest.approx(0.25)
    assert row.signals.number("power_watts") == 71.5
    assert row.signals.number("energy_joules_total") == pytest.approx(715.0)
    assert found.other == ()


def test_memory_by_model_and_of_the_server() -> None:
    def row(name: str, *uses: tuple[str, int, int]) -> dict[str, Any]:
        memory = [{"type": kind, "id": device, "byte_size": size} for kind, device, size in uses]
        return {"name": name, "version": "1", "execution_count": 1, "memory_usage": memory}

    stats = statistics(row("first", ("GPU", 0, 5), ("GPU", 1, 7)), row("second", ("GPU", 0, 2)), row("third"))
    found = report(page({"request_success": {A: 1}}), page({"request_success": {A: 1}}), statistics=[stats])
    assert model(found, "first").mapping("memory_bytes_by_device") == {"GPU 0": 5, "GPU 1": 7}
    assert model(found, "third").mapping("memory_bytes_by_device") is None
    assert server(found).mapping("memory_bytes_by_device") == {"GPU 0": 7, "GPU 1": 7}


def test_one_page_gives_totals_since_start_and_no_rates() -> None:
    found = report(page({"request_success": {A: 10}, "queue_duration_us": {A: 500}}))
    figures = model(found, "first")
    assert found.window_seconds is None
    assert figures.number("requests_total") == 10 and figures.number("queue_us_mean") == 50
    assert figures.number("requests_per_second") is None and figures.number("instance_busy_ratio") is None


def test_a_model_seen_for_the_first_time_has_no_increase_yet() -> None:
    found = report(page({"request_success": {A: 10}}), page({"request_success": {A: 12, B: 99}}))
    assert model(found, "second").number("requests_total") is None
    assert model(found, "first").number("requests_total") == 2
    assert server(found).number("requests_total") == 2


def test_a_real_page_with_switched_off_counters() -> None:
    text = (FIXTURES / "metrics_counter_latencies_false.txt").read_text(encoding="utf-8")
    found = report(SavedFile("page", text))
    figures = model(found, "a")
    assert figures.number("requests_total") == 5
    assert figures.number("request_us_mean") == pytest.approx(23674 / 5)
    assert figures.number("queue_us_mean") == pytest.approx(145 / 5)
    assert figures.number("compute_infer_us_mean") == pytest.approx(22879 / 5)
    assert figures.number("request_us_p99") == 219
    assert figures.number("failures_total") is None and figures.number("executions_total") is None
    assert "counter_latencies=false" in texts(found)


def test_configurations_may_come_in_one_file() -> None:
    rows = [
        {"name": name, "instance_group": [{"kind": "KIND_CPU", "count": 2}]} for name in ("first", "second")
    ]
    stats = statistics(
        *({"name": name, "version": "1", "execution_count": 0} for name in ("first", "second"))
    )
    for whole in (rows, {row["name"]: row for row in rows}):
        found = report(
            page({"request_success": {A: 0, B: 0}}), page({"request_success": {A: 0, B: 0}}),
            statistics=[stats, stats], configs=[SavedFile("configs", json.dumps(whole))],
        )  # fmt: skip
        assert [row.signals.number("instance_busy_ratio") for row in found.models] == [0, 0]


def test_a_saved_answer_that_cannot_be_read_costs_itself() -> None:
    found = report(page({"request_success": {A: 3}}), statistics=[SavedFile("stats.json", "{")])
    assert model(found, "first").number("requests_total") == 3
    assert [notice.source for notice in found.notices] == ["stats.json"]
