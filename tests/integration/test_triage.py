"""Triage on the real tritonserver: the first finding is the fault that was made, and goes with the fault."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from runtime import Runtime
from sandbox import FAULT_MODELS, Sandbox, SandboxOptions
from settings import Settings
from telemetry.identity import Server
from triage.finding import Finding, Severity

pytestmark = pytest.mark.integration

WITHIN_SECONDS = 30.0
"""An onset is named first within this time."""


@pytest.fixture(scope="module")
def faulty() -> Iterator[Sandbox]:
    """A server with one good model and one that cannot load."""
    options = SandboxOptions(
        http_port=0,
        grpc_port=0,
        metrics_port=0,
        models=("batch_add_model",),
        extra_models=(FAULT_MODELS["fail_init"],),
        simulated_gpu=False,
    )
    with Sandbox(options) as server:
        yield server


@pytest.fixture(scope="module")
def watch(faulty: Sandbox) -> Iterator[Runtime]:
    """The product's own poller, history and triage on that server, one reading a second."""
    server = Server("real", faulty.http_url, faulty.metrics_url.removesuffix("/metrics"))
    process = Runtime(Settings(servers=(server,), refresh_seconds=1.0))
    process.start()
    yield process
    process.stop()


def load(triton: Sandbox, fault: str, **parameters: str) -> str:
    name = triton.add_model(FAULT_MODELS[fault], parameters=parameters)
    answer = requests.post(f"{triton.http_url}/v2/repository/models/{name}/load", timeout=30)
    assert answer.status_code == 200
    return name


def ask(triton: Sandbox, model: str) -> int:
    body = {"inputs": [{"name": "INPUT", "shape": [1], "datatype": "FP32", "data": [1.0]}]}
    return requests.post(f"{triton.http_url}/v2/models/{model}/infer", json=body, timeout=60).status_code


def on_the_metrics_page(watch: Runtime, model: str) -> bool:
    """Counters are known from two readings on: what came before the first is in no increase."""
    rows = [row for row in watch.report().models if row.key.name == model]
    return bool(rows) and rows[0].signals.number("requests_total") is not None


def finding(watch: Runtime, rule: str, model: str | None = None) -> Finding | None:
    for one in watch.judgement().findings:
        if one.rule == rule and (model is None or (one.model is not None and one.model.name == model)):
            return one
    return None


def test_a_model_that_cannot_load_is_named_with_the_servers_reason(
    faulty: Sandbox, watch: Runtime, until: Any
) -> None:
    found = until(lambda: finding(watch, "ModelLoadFailed"), WITHIN_SECONDS)
    assert found.model.name == "fail_init"
    assert found.sentence.startswith("fail_init failed to load: ")
    assert "weights not found" in found.sentence
    assert "initialize" in found.detail
    assert found.severity is Severity.TICKET
    assert [one.rule for one in watch.judgement().findings] == ["ModelLoadFailed"]
    assert watch.verdict(watch.judgement()).sentence == "Look soon: fail_init failed to load."


def test_a_share_of_failing_requests_is_found_with_its_reason(
    faulty: Sandbox, watch: Runtime, until: Any
) -> None:
    name = load(faulty, "flaky", failure_ratio="0.5")
    until(lambda: on_the_metrics_page(watch, name), WITHIN_SECONDS)
    assert {ask(faulty, name) for _ in range(60)} == {200, 500}
    found = until(lambda: finding(watch, "RequestsFailing", name), WITHIN_SECONDS)
    assert watch.judgement().findings[0] == found
    assert found.severity is Severity.PAGE
    assert "(BACKEND)" in found.sentence
    assert found.harm_per_second > 0
    assert watch.verdict(watch.judgement()).sentence.startswith(f"Users are hurt: {name} fails 50 %")


def test_a_hung_model_is_found_while_its_request_waits_and_forgotten_when_it_finishes(
    faulty: Sandbox, watch: Runtime, until: Any, tmp_path: Path
) -> None:
    blocker = tmp_path / "block"
    name = load(faulty, "hang", while_file_exists=str(blocker))
    assert ask(faulty, name) == 200
    blocker.touch()
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(ask, faulty, name) for _ in range(3)]
        try:
            found = until(lambda: finding(watch, "ModelHung", name), WITHIN_SECONDS)
        finally:
            blocker.unlink()
        assert [answer.result() for answer in answers] == [200, 200, 200]
    assert found.sentence.startswith(f"{name} has 2 waiting requests and finished none for ")
    until(lambda: finding(watch, "ModelHung", name) is None, WITHIN_SECONDS)


def test_a_killed_server_is_first_hides_its_models_and_is_forgotten_when_it_answers(
    faulty: Sandbox, watch: Runtime, until: Any
) -> None:
    faulty.kill(signal.SIGKILL)
    found = until(lambda: finding(watch, "ServerDown"), 10.0)
    assert watch.judgement().findings == (found,)
    assert found.severity is Severity.PAGE
    assert found.sentence.startswith("real does not answer (connection refused); the last figures are ")
    assert found.since is not None
    assert watch.judgement().unjudged == ()
    faulty.restart()
    until(lambda: finding(watch, "ServerDown") is None, WITHIN_SECONDS)
    rules = {one.rule for one in watch.judgement().findings}
    assert rules <= {"ModelLoadFailed", "RequestsFailing"}
