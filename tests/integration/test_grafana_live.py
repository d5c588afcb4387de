"""The boards on the real thing: the sandbox's tritonserver and the exporter, scraped by a real Prometheus."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
import requests

from grafana.boards import BOARDS
from grafana.parameters import Parameters
from sandbox import FAULT_MODELS, Sandbox, SandboxOptions
from tests.board_history import Asked, Reader, asked
from tests.integration.test_exporter import Exporter
from tests.parity import traffic
from tests.prometheus_server import PrometheusServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

SECONDS = float(os.environ.get("BOARDS_TRIAL_SECONDS", "30"))
"""How long the traffic lasts; a longer trial by hand."""
MODELS = ("batch_add_model", "batch_cost_model", "ensemble_pipeline", "resnet18", "label_head")
RATES = {
    "batch_add_model": 10.0,
    "batch_cost_model": 15.0,
    "ensemble_pipeline": 1.5,
    "flaky": 4.0,
    "flaky_cached": 4.0,
}
NOT_IN_THE_SANDBOX = {
    "tritonscope-fleet": {
        "$cluster", "$namespace", "Sources that did not answer A", "Series published B", "Alerts A",
        "Firing now A",
    },
    "tritonscope-model": {"$cluster", "$namespace", "Memory by model and source A"},
    "tritonscope-gpu": {"$cluster", "$namespace", "Memory by model and source A"},
    "tritonscope-llm": {"$cluster", "$namespace"},
}  # fmt: skip
"""What is not there: such labels, rules, a backend that reports memory; no source fails, no series drops."""
OTHER_SOURCES = ("DCGM_", "vllm:", "nv_trt_llm_", "nv_llm_", "nv_inference_first_response_histogram_ms")
"""Answered by the synthetic histories of test_grafana_queries.py."""


class Until(Protocol):
    def __call__(self, condition: Any, seconds: float = 10.0) -> Any: ...


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory, until: Until) -> Iterator[Reader]:
    """Prometheus has watched mixed traffic, failures, a model that cannot be loaded, an unload and a load."""
    cached = _with_response_cache(tmp_path_factory.mktemp("models"))
    options = SandboxOptions(
        http_port=0, grpc_port=0, metrics_port=0, models=MODELS, cache_bytes=1 << 20,
        extra_models=(*(FAULT_MODELS[name] for name in ("flaky", "decoupled_thread", "fail_init")), cached),
    )  # fmt: skip
    with Sandbox(options) as triton:
        servers = [{"id": "triton", "url": triton.http_url, "metrics_url": triton.metrics_url}]
        with Exporter(tmp_path_factory.mktemp("exporter"), servers, "--raw-batch-sizes") as exporter:
            pages = {"triton": triton.metrics_url, "tritonscope-exporter": f"{exporter.url}/metrics"}
            folder = tmp_path_factory.mktemp("prometheus")
            with PrometheusServer(folder, pages, every_seconds=1.0) as prometheus:
                until(prometheus.ready, 30.0)
                begin = time.time()
                with traffic(triton.http_url, {**RATES, "decoupled_thread": 0.5}):
                    _watched(prometheus, until, begin + SECONDS / 2)
                    _act(triton, "unload")
                    _watched(prometheus, until, time.time() + 8)
                    _act(triton, "load")
                    _watched(prometheus, until, max(begin + SECONDS, time.time() + 8))
                end = float(int(time.time()))
                yield Reader(prometheus, begin, end, 1, window_seconds=20)


def _with_response_cache(folder: Path) -> Path:
    model = folder / "flaky_cached"
    shutil.copytree(FAULT_MODELS["flaky"], model)
    config = model / "config.pbtxt"
    text = config.read_text(encoding="utf-8").replace('"flaky"', '"flaky_cached"')
    config.write_text(text + "\nresponse_cache { enable: true }\n", encoding="utf-8")
    return model


def _watched(prometheus: PrometheusServer, until: Until, moment: float) -> None:
    """Wait until Prometheus has scraped Triton after this moment."""

    def seen() -> bool:
        rows = prometheus.query('timestamp(up{job="triton"})', time.time())
        return bool(rows) and float(rows[0]["value"][1]) >= moment

    until(seen, moment - time.time() + 30.0)


def _act(triton: Sandbox, action: str) -> None:
    url = f"{triton.http_url}/v2/repository/models/batch_add_model/{action}"
    assert requests.post(url, timeout=60).status_code == 200


def in_the_sandbox(one: Asked) -> bool:
    return one.place not in NOT_IN_THE_SANDBOX[one.board] and not any(
        name in one.text for name in OTHER_SOURCES
    )


def test_every_query_about_what_the_sandbox_has_answers_with_numbers(reader: Reader, capsys: Any) -> None:
    queries = [one for build in BOARDS.values() for one in asked(build(Parameters()).document())]
    here = [one for one in queries if in_the_sandbox(one)]
    silent = [f"{one.board}: {one.place}: {one.text}" for one in here if not reader.values(one)]
    with capsys.disabled():
        print(
            f"\n{len(here)} of {len(queries)} queries asked, {len(here) - len(silent)} answered with numbers"
        )
    assert len(here) > 100
    assert not silent, "\n".join(silent)


def test_the_rest_is_no_error_either(reader: Reader) -> None:
    """What is not there is an empty answer: `values` fails on an error of Prometheus."""
    queries = [one for build in BOARDS.values() for one in asked(build(Parameters()).document())]
    rest = [one for one in queries if not in_the_sandbox(one)]
    assert rest
    for one in rest:
        reader.values(one)
