"""The odd one of a fleet: by median absolute deviations, same version, enough requests, not by noise."""

from __future__ import annotations

import numpy as np
import pytest

from history.ring import Ring
from signals.facts import SignalFacts
from signals.fleet import FleetModel, Replica, fleet, odd_ones, workloads_of
from telemetry.identity import ModelKey
from telemetry.scrape import Samples, Scrape, Series, Source

START = 1_700_000_000.0


def replica(server: str, us: float, requests: float = 500.0, failed: float = 0.0) -> Replica:
    figures = {"request_us_mean": us, "failed_ratio": failed, "queue_us_mean": 100.0}
    return Replica(ModelKey(server, "m", "1"), requests, figures)


def odd(*replicas: Replica) -> list[tuple[str, str]]:
    return [(one.key.server, one.signal) for one in odd_ones(replicas)]


def test_the_slow_one_of_four_is_odd_and_only_that_one() -> None:
    rows = [replica("a", 1000), replica("b", 1040), replica("c", 980), replica("d", 3000)]
    assert odd(*rows) == [("d", "request_us_mean")]
    (found,) = odd_ones(rows)
    assert (found.median, found.siblings, found.value) == (1000.0, 3, 3000.0)
    assert found.mads == pytest.approx(2000 / 50)


def test_the_fast_one_is_odd_too() -> None:
    assert odd(replica("a", 1000), replica("b", 1040), replica("c", 990), replica("d", 300)) == [
        ("d", "request_us_mean")
    ]


def test_the_bound_is_three_deviations_of_the_siblings() -> None:
    siblings = [replica("a", 900), replica("b", 1000), replica("c", 1100)]
    assert odd(*siblings, replica("d", 1299)) == []
    assert ("d", "request_us_mean") in odd(*siblings, replica("d", 1301))


def test_siblings_that_happen_to_be_equal_do_not_make_every_difference_odd() -> None:
    equal = [replica("a", 1000), replica("b", 1000), replica("c", 1000)]
    assert odd(*equal, replica("d", 1100)) == []
    assert odd(*equal, replica("d", 1200)) == [("d", "request_us_mean")]


def test_fewer_than_a_hundred_requests_are_not_compared_on_either_side() -> None:
    rows = [replica("a", 1000), replica("b", 1010), replica("c", 990)]
    assert odd(*rows, replica("d", 9000, requests=99)) == []
    assert odd(*rows, replica("d", 9000, requests=100)) == [("d", "request_us_mean")]
    assert odd(replica("a", 1000), replica("b", 1010, requests=99), replica("d", 9000)) == []


def test_two_replicas_have_no_majority() -> None:
    assert odd(replica("a", 1000), replica("b", 9000)) == []


def test_a_replica_that_fails_is_odd_and_a_share_under_the_floor_is_not() -> None:
    rows = [replica("a", 1000), replica("b", 1000), replica("c", 1000)]
    assert odd(*rows, replica("d", 1000, failed=0.014)) == []
    assert odd(*rows, replica("d", 1000, failed=0.02)) == [("d", "failed_ratio")]


def test_a_workload_has_more_than_one_server() -> None:
    assert workloads_of({"a": "w", "b": "w", "c": "", "d": "x"}) == {"w": ("a", "b")}


def test_from_a_history_versions_are_compared_with_the_same_version_only() -> None:
    """Server d answers version 2 slowly: nobody else has that version."""
    ring = Ring()
    versions = {"a": "1", "b": "1", "c": "1", "d": "2"}
    for server, version in versions.items():
        slow = 5.0 if server == "d" else 1.0
        for step in range(11):
            count = 100.0 * step
            values = {"request_success": count, "request_duration_us": count * 1000 * slow,
                      "request_failure": 0.0, "queue_duration_us": count * 10}  # fmt: skip
            series = tuple(
                Series(f"nv_inference_{name}", (("model", "m"), ("version", version))) for name in values
            )
            samples = Samples(series, np.array(list(values.values())))
            ring.accept(Scrape(server, Source.METRICS, START + 15 * step, 0.0, samples))
    found = fleet(ring, SignalFacts(), {"w": tuple(versions)}, START + 150.0, 150.0)
    assert found.odd == ()
    by_version = {one.version: one for one in found.models}
    assert isinstance(by_version["1"], FleetModel)
    assert [one.key.server for one in by_version["1"].replicas] == ["a", "b", "c"]
    assert by_version["1"].requests == pytest.approx(3000)
    assert by_version["2"].replicas[0].figures["request_us_mean"] == pytest.approx(5000)
