"""The advice card after a change: a prediction against what is measured since."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_runtime import small_repository

from signals.advice import Observed, Proposal, Range, advise, batcher_of
from signals.advice_book import Given, Prediction
from signals.batch_time import BatchTime


def checked(process, *, rate_then: float) -> None:
    """The configuration in force was another one until four minutes ago, when so many requests came."""
    (facts,) = (one for one in process.inventory().models if one.key.name == "fast_add")
    now = batcher_of(facts.config)
    before = advise(
        BatchTime(350.0, 2.0, 1, 8, 1000.0, 0.03),
        replace(now, delay_us=9000.0),
        Observed(rate_then, 1.0, 300.0, 700.0, 0.01, 1.0),
    )
    rates = Range(rate_then * 0.9, rate_then, rate_then * 1.1)
    promised = Proposal(now, rates, Range(1.0, 260.0, 400.0), 1.0)
    since = process.now() - 240.0
    prediction = Prediction(since - 60.0, since, before, promised)
    process.advice.restore([Given(facts.key, since, before, prediction)])


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (1.0, "as predicted. delay 9 ms → 2 ms; requests predicted"),
        (4.0, "Not to be checked since"),
    ],
)
def test_a_prediction_is_held_to_the_traffic_it_was_made_for(open_page, factor: float, words: str) -> None:
    process = small_repository()
    (row,) = (one for one in process.report().models if one.key.name == "fast_add")
    rate = row.signals.number("requests_per_second")
    assert rate
    checked(process, rate_then=rate * factor)
    shown = open_page(process, "model", model="fast_add").words("memory")
    assert words in shown
    assert ("instead of" in shown) is (factor != 1.0)
