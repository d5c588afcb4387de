"""Six faults and two healthy situations of the laboratory; `make bench-triage` plays all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from sandbox import free_ports
from sandbox.laboratory.command import SITUATIONS, chosen
from sandbox.laboratory.lab import Lab, Servers
from sandbox.laboratory.model_files import Model
from sandbox.laboratory.situation import WITHIN_SECONDS, Kind, play
from triage.__main__ import main as triage

pytestmark = pytest.mark.integration

FAULTS = (
    "failing-initialize",
    "bad-config",
    "wrong-version-folder",
    "hung-execution",
    "dead-stub",
    "wrong-weights",
)
HEALTHY = ("gentle", "reload-under-traffic")
HEALTHY_MINUTES = 0.15


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """One server without models, which all situations use in turn."""
    with Servers() as running:
        yield running


# Before the faults: a model whose process died stays on the metrics page, listed or not.
def test_the_command_says_the_same_of_a_live_server(
    servers: Servers, capsys: pytest.CaptureFixture[str]
) -> None:
    [server] = servers.plain(1)
    lab = Lab([server])
    command = ["--url", server.http_url, "--metrics-url", server.metrics_url.removesuffix("/metrics")]
    try:
        lab.add(Model("sound"))
        lab.clients("sound", 1, per_second=5.0)
        assert triage([*command, "--window", "3"]) == 0
        assert capsys.readouterr().out.startswith("Nothing is wrong: 1 of 1 model loaded")
        lab.place(Model("broken"))
        lab.switch("broken", "broken", "missing weights file on purpose")
        lab.load("broken")
        assert triage([*command, "--window", "3", "--json"]) == 1
        data = json.loads(capsys.readouterr().out)
        assert [one["sentence"] for one in data["findings"]] == [
            "broken failed to load: RuntimeError: missing weights file on purpose."
        ]
        assert "sound" in {row["model"] for row in data["models"] if row["state"] == "READY"}
    finally:
        lab.close()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_first_and_nothing_else_is(servers: Servers, name: str) -> None:
    outcome = play(SITUATIONS[name], servers, minutes=0.0)
    print(json.dumps(outcome.row()))
    assert outcome.others == {}
    assert outcome.seconds is not None, "it was never the first finding"
    assert outcome.stayed
    assert outcome.seconds <= WITHIN_SECONDS


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_said_where_nothing_is_wrong(servers: Servers, name: str) -> None:
    outcome = play(SITUATIONS[name], servers, minutes=HEALTHY_MINUTES)
    assert outcome.others == {}


def test_the_command_cannot_judge_who_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    [port] = free_ports(1)
    assert triage(["--url", f"127.0.0.1:{port}", "--metrics-url", f"127.0.0.1:{port}"]) == 2
    assert "is not reachable" in capsys.readouterr().err


def test_the_laboratory_has_what_the_benchmark_promises() -> None:
    kinds = [one.kind for one in SITUATIONS.values()]
    assert kinds.count(Kind.FAULT) >= 20
    assert kinds.count(Kind.HEALTHY) >= 8
    assert all(one.first for one in SITUATIONS.values() if one.kind is Kind.FAULT)
    assert chosen([]) == list(SITUATIONS.values())
