from __future__ import annotations

import json
import struct

from fake_runtime import CASES, FIXTURES, case, runtime_of, small_repository, text, wrong_metrics_page


def header_of(chart: bytes) -> dict:
    (length,) = struct.unpack_from("<I", chart)
    return json.loads(chart[4 : 4 + length])


def test_without_gpu_metrics_the_causes_are_named_and_the_host_is_shown(open_page) -> None:
    page = open_page(case("a04_no_gpu_families.prom"), "gpu")
    assert page.words("header").startswith("Triton reports no GPU metrics.")
    for cause in ("no GPU", "MIG", "Another DCGM agent", "--allow-gpu-metrics=false"):
        assert cause in page.words("no_gpu")
    assert "CPU 25 % whole machine as seen by Triton" in page.words("host")
    assert "(10 %)" in page.words("host")
    assert page.charts == {}


def test_a_gpu_without_models_holds_process_overhead_and_no_alarm(open_page) -> None:
    config = json.loads(text(CASES / "b01.config.json"))
    config |= {
        "name": "alpha",
        "instance_group": [{"name": "a", "kind": "KIND_GPU", "count": 1, "gpus": [0]}],
    }
    index = json.dumps([{"name": "alpha", "version": "1", "state": "READY"}])
    page = text(CASES / "e07_idle_gpu_context.prom")
    process = runtime_of([page] * 2, indexes=[index], configs=[json.dumps(config)])
    page = open_page(process, "gpu")
    assert page.words("header").startswith(
        "The fullest of 2 GPUs, GPU 0 on 127.0.0.1:1, holds 9 GiB of 16 GiB (56.2 %)"
    )
    assert "unattributed 450 MiB no model placed here; process overhead (2.75 % of the GPU)" in page.words(
        "bar_1"
    )
    assert "process overhead" not in page.words("bar_0")
    assert "findings" not in page.panels


def test_triton_and_dcgm_readings_are_the_same_percent(open_page) -> None:
    page = open_page(case("e06_util_scales.prom"), "gpu")
    chart = header_of(page.charts["Utilization"])
    assert {one["last"] for one in chart["legend"]} == {"87 %"}
    assert chart["layout"]["yaxis"]["range"] == [0, 100.0]


def test_models_memory_is_put_on_the_only_gpu_and_the_rest_is_unattributed(open_page) -> None:
    process = runtime_of(
        [text(CASES / "a03_families_without_samples.prom")] * 2,
        statistics=[text(CASES / "e03_stats_memory_empty.json")],
    )
    page = open_page(process, "gpu")
    gpu = page.words("bar_0")
    assert "bravo v1 ≥ 2 GiB reported measured by its backend at load" in gpu
    assert "1 of 2 models: nothing tells what they hold (alpha v1)." in page.words("model_memory")


def test_several_gpus_are_not_given_models_by_guess(open_page) -> None:
    process = runtime_of(
        [text(FIXTURES / "metrics_SYNTHETIC_gpu_26x.txt")] * 2,
        statistics=[text(FIXTURES / "stats_memory_usage_and_response_stats.json")],
    )
    page = open_page(process, "gpu")
    assert "which is which is not reported" in page.words("bar_0")
    assert "measured by its backend at load" not in page.words("bar_0")


def test_the_first_line_of_a_server_without_gpus_is_not_a_zero(open_page) -> None:
    page = open_page(small_repository(), "gpu")
    assert "0 %" not in page.words("header")


def test_a_server_that_never_answered_is_not_said_to_have_no_gpu(open_page) -> None:
    page = open_page(runtime_of(down=True), "gpu")
    assert page.words("header").startswith("Nothing is known about the GPUs.")
    assert page.words("no_gpu").startswith("No server answers, so nothing is known about the GPUs.")
    assert "connection refused" in page.words("no_gpu")
    assert "backend" not in page.words("model_memory")


def test_a_metrics_page_at_the_wrong_address_is_not_a_missing_gpu(open_page) -> None:
    process = runtime_of(indexes=["[]"])
    process.accept(wrong_metrics_page(process.servers[0].id))
    page = open_page(process, "gpu")
    assert page.words("header").startswith("Nothing is known about the GPUs.")
    assert "answered 404" in page.words("no_gpu") and "metrics_url" in page.words("no_gpu")
