"""Our own golden requests told apart from everybody else's, by values."""

from __future__ import annotations

import pytest

from collectors.config import parse_config
from signals.own_requests import Sent, Shares, shares, to_model

NOW = 1_700_000_000.0
HOUR = 3600.0


def golden(count: int, *, every: float = 300.0, answered: bool = True, requests: int = 1) -> list[Sent]:
    """The last one a minute ago."""
    ends = [NOW - 60.0 - every * number for number in range(count)]
    return [Sent("m", at - 0.1, at, requests, answered) for at in ends]


def share(total: float, executed_at: list[float], sent: list[Sent]) -> Shares:
    return shares(total, executed_at, sent, NOW - HOUR, NOW)


def test_when_nobody_else_asked_all_requests_are_ours() -> None:
    sent = golden(12)
    found = share(12.0, [one.ended for one in sent], sent)
    assert (found.total, found.own, found.others, found.last_other) == (12, 12, 0, None)
    assert found.only_own


def test_the_last_request_of_somebody_else_is_the_newest_that_is_none_of_ours() -> None:
    sent = golden(12)
    theirs = [NOW - 2000.0, NOW - 1200.0]
    found = share(47.0, sorted([*theirs, *(one.ended for one in sent)]), sent)
    assert (found.total, found.own, found.others, found.last_other) == (47, 12, 35, NOW - 1200.0)
    assert not found.only_own


def test_a_golden_request_at_the_edge_is_nobody_elses() -> None:
    sent = golden(11)
    # Sent just before the window began and counted just after it: no execution but ours is seen.
    assert share(12.0, [one.ended for one in sent], sent).only_own
    # Two more are more than one golden request can make.
    assert share(13.0, [one.ended for one in sent], sent).others == 2
    # Where no times are read, one more is somebody else's.
    assert share(12.0, [], sent).others == 1


def test_a_request_that_the_last_reading_does_not_show_yet_is_no_negative_number() -> None:
    sent = golden(12)
    found = share(11.0, [one.ended for one in sent[1:]], sent)
    assert (found.total, found.others) == (12, 0)


def test_what_failed_is_not_taken_for_counted() -> None:
    """Ten failures that the server never saw must not hide ten requests of somebody else."""
    found = share(10.0, [NOW - 500.0], golden(10, answered=False))
    assert (found.own, found.doubtful, found.others, found.last_other) == (0, 10, 10, NOW - 500.0)
    assert not found.only_own


def test_a_servers_clock_that_goes_wrong_makes_nobody_of_nothing() -> None:
    sent = golden(12)
    late = [one.ended + 30.0 for one in sent]
    assert share(12.0, late, sent).only_own
    assert share(40.0, late, sent).others == 28


def test_nothing_of_ours_leaves_everything_to_the_others() -> None:
    found = share(5.0, [NOW - 10.0], [])
    assert (found.own, found.others, found.only_own) == (0, 5, False)


@pytest.mark.parametrize(("model", "requests"), [("pipe", 1), ("step", 2), ("outer", 0), ("other", 0)])
def test_a_golden_request_to_an_ensemble_reaches_its_steps(model: str, requests: int) -> None:
    def ensemble(name: str, *steps: str):
        rows = [{"model_name": one, "model_version": -1} for one in steps]
        return parse_config({"name": name, "platform": "ensemble", "ensemble_scheduling": {"step": rows}})

    configs = {
        "pipe": ensemble("pipe", "step", "last", "step"),
        "outer": ensemble("outer", "pipe"),
        "round": ensemble("round", "round"),
    }
    asked = [Sent("pipe", 1.0, 2.0, 1, True)]
    assert sum(one.requests for one in to_model(asked, model, configs)) == requests
    assert sum(one.requests for one in to_model([Sent("outer", 1.0, 2.0, 3, True)], "step", configs)) == 6
    assert to_model([Sent("round", 1.0, 2.0, 1, True)], "step", configs) == []
