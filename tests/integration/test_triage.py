"""Triage on the real tritonserver: the first finding is the fault that was made, and goes with the fault."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from control.override import Override, override_config
from runtime import Runtime
from sandbox import Sandbox
from settings import Settings
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Outcome
from telemetry.identity import Server
from tests.faulty_server import BROKEN, GOOD, ask, faulty_server, load_fault
from triage.finding import Finding, Severity

pytestmark = pytest.mark.integration

WITHIN_SECONDS = 30.0
"""An onset is named first within this time."""


@pytest.fixture(scope="module")
def faulty() -> Iterator[Sandbox]:
    with faulty_server() as server:
        yield server


@pytest.fixture(scope="module")
def watch(faulty: Sandbox) -> Iterator[Runtime]:
    """The product's own poller, history and triage on that server, one reading a second."""
    server = Server("real", faulty.http_url, faulty.metrics_url.removesuffix("/metrics"), control=True)
    process = Runtime(Settings(servers=(server,), refresh_seconds=1.0))
    process.start()
    yield process
    process.stop()


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
    assert found.model.name == BROKEN
    assert found.sentence.startswith(f"{BROKEN} failed to load: ")
    assert "weights not found" in found.sentence
    assert "initialize" in found.detail
    assert found.severity is Severity.TICKET
    assert [one.rule for one in watch.judgement().findings] == ["ModelLoadFailed"]
    assert watch.verdict(watch.judgement()).sentence == f"Look soon: {BROKEN} failed to load."


def test_a_share_of_failing_requests_is_found_with_its_reason(
    faulty: Sandbox, watch: Runtime, until: Any
) -> None:
    name = load_fault(faulty, "flaky", failure_ratio="0.5")
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
    name = load_fault(faulty, "hang", while_file_exists=str(blocker))
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


def drifted(watch: Runtime) -> str:
    """What the finding says of the good model, "" without one; pages and findings name the same models."""
    judgement = watch.judgement()
    found = [one for one in judgement.findings if one.rule == "ConfigDrift"]
    assert [one.model for one in found] == list(judgement.drifts)
    return next((one.sentence for one in found if one.model and one.model.name == GOOD), "")


def test_drift_lasts_until_a_revert_a_load_that_takes_the_files_and_the_restart_below(
    faulty: Sandbox, watch: Runtime, until: Any
) -> None:
    control = watch.control
    assert control is not None
    disk = control.reader.config("real", GOOD)
    wanted = override_config(disk, Override(max_batch_size=8))

    def counted() -> bool:
        rows = [row for row in watch.inventory().models if row.key.name == GOOD and row.statistics]
        return bool(rows and rows[0].statistics and rows[0].statistics.success_count)

    def use() -> None:
        """Counted requests tell a load that loaded from one that did nothing."""
        tensors = [
            {"name": name, "shape": [1, 1], "datatype": "FP32", "data": [1.0]}
            for name in ("INPUT_A", "INPUT_B")
        ]
        url = f"{faulty.http_url}/v2/models/{GOOD}/infer"
        requests.post(url, json={"inputs": tensors}, timeout=WITHIN_SECONDS).raise_for_status()
        until(counted, WITHIN_SECONDS)

    def act(kind: ActionKind, config: dict[str, Any] | None = None) -> None:
        record = control.perform(Action(kind, "real", GOOD, config=config), by=LOCAL).wait(WITHIN_SECONDS)
        assert record.outcome is Outcome.DONE, record

    use()
    theirs = json.dumps(override_config(disk, Override(max_batch_size=2)))
    url = f"{faulty.http_url}/v2/repository/models/{GOOD}/load"
    requests.post(url, json={"parameters": {"config": theirs}}, timeout=WITHIN_SECONDS).raise_for_status()
    said = until(lambda: drifted(watch), WITHIN_SECONDS)
    assert said.startswith(f"The configuration of {GOOD} changed while it was loaded: ")
    assert "max_batch_size 2 (was 4)" in said
    act(ActionKind.REVERT)
    until(lambda: not drifted(watch), WITHIN_SECONDS)

    act(ActionKind.OVERRIDE, wanted)
    said = until(lambda: drifted(watch), WITHIN_SECONDS)
    assert "a configuration that a load call brought" in said and "max_batch_size 8 (its file: 4)" in said
    use()
    act(ActionKind.RELOAD)
    assert control.reader.config("real", GOOD).max_batch_size == 8
    assert drifted(watch) == said

    # A load takes a file that says something else. One that says what runs it would not load at all.
    file = faulty.repository / GOOD / "config.pbtxt"
    file.write_text(file.read_text().replace("max_batch_size: 4", "max_batch_size: 6"))
    act(ActionKind.RELOAD)
    until(lambda: not drifted(watch), WITHIN_SECONDS)
    assert control.reader.config("real", GOOD).max_batch_size == 6

    act(ActionKind.OVERRIDE, override_config(disk, Override(max_batch_size=16)))
    assert "max_batch_size 16 (its file: 6)" in until(lambda: drifted(watch), WITHIN_SECONDS)


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
    until(lambda: not drifted(watch), WITHIN_SECONDS)
    rules = {one.rule for one in watch.judgement().findings}
    assert rules <= {"ModelLoadFailed", "RequestsFailing"}
