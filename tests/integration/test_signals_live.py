"""`python -m signals` on the real tritonserver."""

from __future__ import annotations

import json
import random
import threading
from typing import Any

import pytest
import requests

from sandbox import Sandbox, free_ports
from sandbox.traffic_requests import infer_request
from signals.__main__ import main

pytestmark = pytest.mark.integration


def send(triton: Sandbox, model: str, over: threading.Event, sent: list[int]) -> None:
    request = infer_request(model, 2, random.Random(7))
    while not over.wait(0.02):
        answer = requests.post(
            f"{triton.http_url}/v2/models/{model}/infer", request.body, headers=request.headers, timeout=10
        )
        sent.append(answer.status_code)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    status = main([*arguments, "--json"])
    printed = capsys.readouterr()
    return status, json.loads(printed.out) if printed.out else {}, printed.err


def test_a_window_of_traffic(triton: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    over, sent = threading.Event(), list[int]()
    thread = threading.Thread(target=send, args=(triton, "batch_add_model", over, sent))
    thread.start()
    try:
        status, report, error = run(
            capsys, "--url", triton.http_url, "--metrics-url", triton.metrics_url, "--window", "3"
        )
    finally:
        over.set()
        thread.join()
    assert (status, error) == (0, "")
    assert set(sent) == {200}
    assert report["window_seconds"] == pytest.approx(3.0, abs=0.5)
    rows = {row["model"]: row for row in report["models"]}
    signals = rows["batch_add_model"]["signals"]
    assert rows["batch_add_model"]["state"] == "READY"
    assert 0 < signals["requests_total"] <= len(sent)
    assert signals["requests_per_second"] == pytest.approx(signals["requests_total"] / 3.0, rel=0.2)
    assert signals["batch_size_mean"] == 2.0
    assert signals["executions_by_batch_size"]["2"] > 0
    assert 0 < signals["instance_busy_ratio"] < 1
    assert signals["failures_total"] == 0 and signals["pending"] == 0
    assert signals["request_us_mean"] >= signals["queue_us_mean"] > 0
    assert rows["label_head"]["signals"]["requests_total"] == 0
    (gpu,) = report["gpus"]
    assert gpu["gpu_uuid"].startswith("GPU-SIMULATED-") and gpu["signals"]["memory_total_bytes"] > 0
    assert report["host"][0]["signals"]["memory_total_bytes"] > 0
    assert set(report) == {"window_seconds", "servers", "models", "gpus", "host", "other", "warnings"}


def test_without_the_http_side_the_page_alone_is_read(
    triton: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    status, report, _ = run(capsys, "--metrics-url", triton.metrics_url, "--window", "0.5")
    assert status == 0
    rows = {row["model"]: row for row in report["models"]}
    assert rows["batch_add_model"]["state"] is None
    assert rows["batch_add_model"]["signals"]["instance_busy_ratio"] is None


def test_a_server_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    status, report, error = run(capsys, "--url", f"127.0.0.1:{port}", "--metrics-url", f"127.0.0.1:{port}")
    assert (status, report) == (2, {})
    assert "is not reachable: connection refused" in error and error.count("\n") == 1
