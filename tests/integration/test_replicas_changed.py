"""What changed just before, on three real servers: the replica with the change is told from the others."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path

import pytest
import requests
from streamlit.testing.v1 import AppTest

import runtime
from sandbox.laboratory.lab import Lab, Servers
from sandbox.laboratory.model_files import Batching, Model
from tests.integration.conftest import Until
from tests.pages.conftest import Shown
from triage.finding import Finding
from ui import triage_changes

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
STEP_SECONDS = 4.0
"""Of the series that are looked through, instead of ten: a step needs six values on each side."""
SIDE_SECONDS = 7 * STEP_SECONDS
SLOWER_US = 90_000
CHANGED = 1
"""The replica that is loaded with another configuration."""


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with Servers() as running:
        yield running


@pytest.fixture
def replicas(servers: Servers) -> Iterator[Lab]:
    """Three servers with one small model each, under even traffic."""
    lab = Lab(servers.plain(3))
    try:
        lab.add(Model("ranker", max_batch_size=8, batching=Batching(delay_us=0), cost_us=8_000))
        lab.clients("ranker", 6, per_second=24.0, batched=True)
        yield lab
    finally:
        runtime.shut_down()
        lab.close()


def load_slower(lab: Lab, number: int) -> float:
    """Somebody's tool loads the model of one replica with a longer batching delay; when (unix seconds)."""
    url = lab.sandboxes[number].http_url
    config = requests.get(f"{url}/v2/models/ranker/config", timeout=5).json()
    config["dynamic_batching"]["max_queue_delay_microseconds"] = SLOWER_US
    at = time.time()
    assert lab.load("ranker", number, {"parameters": {"config": json.dumps(config)}}) == 200
    return at


def triage_page(lab: Lab) -> dict[str, str]:
    """The words of the panels of the page Triage on this process."""
    runtime.install(lab.runtime)
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    app.query_params["refresh"] = "pause"
    app.run()
    app.switch_page("pages/triage.py")
    app.run()
    shown = Shown(app)
    return {key: unescape(shown.words(key)) for key in shown.panels}


def test_the_replica_with_the_change_is_named_with_the_difference(
    replicas: Lab, until: Until, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    monkeypatch.setattr(triage_changes, "LEAST_STEP_SECONDS", STEP_SECONDS)
    process = replicas.watch()
    began = time.time()
    until(lambda: time.time() - began > SIDE_SECONDS + 2 * STEP_SECONDS, 60)
    assert process.judgement().findings == ()
    at = load_slower(replicas, CHANGED)
    until(lambda: time.time() - at > SIDE_SECONDS, 60)

    def told() -> str:
        words = triage_page(replicas)["changed"]
        return words if "only where something was done it changed" in words else ""

    words = until(told, 30)
    figure(words)
    step = re.search(rf"ranker v1 on server{CHANGED} latency rose from ([\d.]+) ms to ([\d.]+) ms", words)
    assert step is not None
    assert float(step[1]) < 40.0 < float(step[2])
    assert (
        f"ranker runs with another configuration: max_queue_delay_microseconds {SLOWER_US} (was 0)" in words
    )
    [sides] = re.findall(r"Replicas \(3 servers\): (.*?); only where something was done it changed", words)
    named = [one.split(" ", 1) for one in sides.split(", ")]
    assert [server for server, _ in named] == [f"server{CHANGED}", "server0", "server2"]
    assert [figures.startswith("(something was done) ") for _, figures in named] == [True, False, False]
    assert words.endswith("that is likely why.")

    [found] = until(lambda: slow_one(process), 30)
    assert found.server == f"server{CHANGED}"
    difference = f"max_queue_delay_microseconds {SLOWER_US} (on server0: 0)"
    assert found.sentence.endswith(f"and is configured there unlike on them ({difference}).")
    assert [(one.rule, one.server) for one in found.follows] == [("ReplicasDiffer", found.server)]
    assert {one.server for one in process.judgement().findings} == {found.server}


def slow_one(process: runtime.Runtime) -> list[Finding]:
    """The first finding, once it is about the replica that is slower than the others."""
    return [one for one in process.judgement().findings[:1] if one.rule == "OneBadReplica"]
