"""Budgets over pairs of windows: from the process' own history, and from what lies before it."""

from __future__ import annotations

import numpy as np
import pytest

from history.inventory import Inventory
from history.protocol import History
from history.ring import Ring
from signals.evaluate import evaluate
from telemetry.identity import ModelKey
from telemetry.objective import Objective
from telemetry.scrape import Samples, Scrape, Series, Source
from triage.budget import budgets
from triage.burn import DAY, HOUR, PAIRS, Kind
from triage.burn_facts import BurnFacts
from triage.context import Context, ServerCoverage
from triage.engine import judge
from triage.rulebook import load_rulebook

NOW = 1_800_000_000.0
KEY = ModelKey("a", "m", "1")
OBJECTIVE = Objective("m", errors_budget_ratio=0.001)
SUCCESS = Series("nv_inference_request_success", (("model", "m"), ("version", "1")))
FAILURE = Series("nv_inference_request_failure", (("model", "m"), ("reason", "BACKEND"), ("version", "1")))


def ring(seconds: float, failed_ratio: float, *, step_seconds: float = 60.0) -> Ring:
    """So long of a hundred requests a second, a share of which fails."""
    filled = Ring(retention_seconds=max(HOUR, 2 * seconds))
    times = np.arange(NOW - seconds, NOW + 0.5, step_seconds)
    for at in times.tolist():
        done = 100.0 * (at - NOW + 10 * DAY)
        values = np.array([done * (1 - failed_ratio), done * failed_ratio])
        filled.accept(Scrape("a", Source.METRICS, at, 0.01, Samples((SUCCESS, FAILURE), values)))
    return filled


def context(near: Ring, distant: History | None = None, interval_seconds: float = 60.0) -> Context:
    inventory = Inventory.of(near, ["a"])
    span = near.span()
    assert span is not None
    return Context(
        report=evaluate(near, inventory, NOW, 300.0),
        history=near,
        inventory=inventory,
        coverage=[ServerCoverage("a", True, 0.0)],
        now=NOW,
        interval_seconds=interval_seconds,
        history_from=span[0],
        objectives=(OBJECTIVE,),
        distant=distant,
    )


def found(judged: Context) -> list[str]:
    return [
        f"{one.rule} {one.severity.value}"
        for one in judge(load_rulebook(), judged).findings
        if one.rule == "SloErrorsBurn"
    ]


def test_the_pairs_are_those_of_the_generated_rules() -> None:
    assert [round(pair.rate(30.0), 6) for pair in PAIRS] == [14.4, 6.0, 3.0, 1.0]
    assert [pair.long_seconds / HOUR for pair in PAIRS] == [1, 6, 24, 72]
    assert [pair.short_seconds / 60 for pair in PAIRS] == [5, 30, 120, 360]


@pytest.mark.parametrize(
    ("ratio", "wanted"), [(0.016, "page"), (0.007, "ticket"), (0.004, "no"), (0.0005, "no")]
)
def test_half_an_hour_of_history_is_judged_as_an_hour(ratio: float, wanted: str) -> None:
    facts = BurnFacts(context(ring(1800.0, ratio)))
    burning = facts.burning(Kind.ERRORS, KEY)
    assert burning is not None
    assert burning.severity == wanted
    assert (burning.long.window_seconds, burning.short.window_seconds) == (HOUR, 300.0)
    assert burning.long.rate == pytest.approx(ratio / 0.001)
    assert [pair.long_seconds / HOUR for pair in burning.unreached] == [6, 24, 72]
    assert facts.of(Kind.ERRORS, 6 * HOUR, KEY) is None
    assert facts.unreached(Kind.ERRORS, KEY) == (
        "Windows of 6 h, 24 h and 3 d are not judged: the history reaches back 30 min"
    )


@pytest.mark.parametrize(
    ("ratio", "wanted", "window"),
    [(0.016, "page", HOUR), (0.007, "page", 6 * HOUR), (0.004, "ticket", DAY), (0.0015, "ticket", 3 * DAY)],
)
def test_with_prometheus_every_pair_is_judged(ratio: float, wanted: str, window: float) -> None:
    distant = ring(3.1 * DAY, ratio, step_seconds=300.0)
    judged = context(ring(1800.0, ratio), distant)
    facts = BurnFacts(judged)
    burning = facts.burning(Kind.ERRORS, KEY)
    assert burning is not None
    assert (burning.severity, burning.long.window_seconds) == (wanted, window)
    assert burning.long.rate == pytest.approx(ratio / 0.001)
    assert facts.unreached(Kind.ERRORS, KEY) is None
    assert found(judged) == [f"SloErrorsBurn {wanted}"]
    windows = [burn.window_seconds for burn in budgets(judged)[KEY]]
    assert windows == [HOUR, 6 * HOUR, DAY, 3 * DAY]


def test_what_is_over_wakes_nobody_although_the_long_window_remembers_it() -> None:
    # Two in a hundred failed until two and a half hours ago.
    over, before = 2.5 * HOUR, Ring(retention_seconds=8 * HOUR)
    for at in np.arange(NOW - 6 * HOUR, NOW + 0.5, 300.0).tolist():
        done, failed = 100.0 * (at - NOW + DAY), 2.0 * (min(at, NOW - over) - NOW + DAY)
        before.accept(
            Scrape("a", Source.METRICS, at, 0.01, Samples((SUCCESS, FAILURE), np.array([done, failed])))
        )
    facts = BurnFacts(context(ring(1800.0, 0.0), before))
    six_hours, day = (facts.of(Kind.ERRORS, seconds, KEY) for seconds in (6 * HOUR, DAY))
    assert six_hours is not None and six_hours.rate > 6
    assert day is not None and day.rate > 3
    burning = facts.burning(Kind.ERRORS, KEY)
    # Over three days and six hours it is still too fast: that is for tomorrow.
    assert burning is not None
    assert (burning.severity, burning.long.window_seconds) == ("ticket", 3 * DAY)


def test_a_long_memory_of_the_process_itself_is_enough() -> None:
    burning = BurnFacts(context(ring(7 * HOUR, 0.007))).burning(Kind.ERRORS, KEY)
    assert burning is not None
    assert (burning.severity, burning.long.window_seconds) == ("page", 6 * HOUR)
    assert [pair.long_seconds / HOUR for pair in burning.unreached] == [24, 72]


def test_while_prometheus_has_not_told_the_hour_is_judged_and_that_is_said() -> None:
    facts = BurnFacts(context(ring(1800.0, 0.007), Ring()))
    burning = facts.burning(Kind.ERRORS, KEY)
    assert burning is not None and burning.severity == "ticket"
    assert facts.unreached(Kind.ERRORS, KEY) == (
        "Windows of 6 h, 24 h and 3 d are not judged: Prometheus has not told them"
    )


def test_readings_far_apart_make_the_shortest_windows_longer() -> None:
    near = ring(2 * HOUR, 0.016, step_seconds=150.0)
    burning = BurnFacts(context(near, interval_seconds=150.0)).burning(Kind.ERRORS, KEY)
    assert burning is not None
    assert burning.short.rate == pytest.approx(16.0)


def test_without_an_objective_nothing_is_told() -> None:
    facts = BurnFacts(context(ring(1800.0, 0.5)))
    other = ModelKey("a", "other", "1")
    assert facts.burning(Kind.ERRORS, other) is None
    assert facts.burning(Kind.LATENCY, KEY) is None
    assert facts.unreached(Kind.LATENCY, KEY) is None
