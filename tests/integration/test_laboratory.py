"""Six faults and two healthy situations of the laboratory; `make bench-triage` plays all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from sandbox.laboratory.command import SITUATIONS, chosen
from sandbox.laboratory.lab import Servers
from sandbox.laboratory.situation import WITHIN_SECONDS, Kind, play

pytestmark = pytest.mark.integration

FAULTS = (
    "failing-initialize",
    "bad-config",
    "wrong-version-folder",
    "hung-execution",
    "dead-stub",
    "exceptions",
)
HEALTHY = ("gentle", "reload-under-traffic")
HEALTHY_MINUTES = 0.2


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """One server without models, which all situations use in turn."""
    with Servers() as running:
        yield running


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


def test_the_laboratory_has_what_the_benchmark_promises() -> None:
    kinds = [one.kind for one in SITUATIONS.values()]
    assert kinds.count(Kind.FAULT) >= 20
    assert kinds.count(Kind.HEALTHY) >= 8
    assert all(one.first for one in SITUATIONS.values() if one.kind is Kind.FAULT)
    assert chosen([]) == list(SITUATIONS.values())
