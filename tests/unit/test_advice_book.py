"""Advice that was given, and what came of it once the configuration changed."""

from __future__ import annotations

from dataclasses import replace

from signals.advice import Observed, advise
from signals.advice_book import AdviceBook
from signals.batch_time import BatchTime
from signals.batcher import Arrivals, BatcherConfig, simulate
from telemetry.identity import ModelKey

TIME = BatchTime(8000.0, 250.0, 1, 16, 1000.0, 0.03)
KEY = ModelKey("a", "m", "1")
ALONE = BatcherConfig(16, dynamic=False)
BATCHING = BatcherConfig(16, dynamic=True, delay_us=0.0, preferred=(16,))
CLIENTS = Arrivals(clients=16, think_us=1000.0)


def observed(config: BatcherConfig, arrivals: Arrivals = CLIENTS) -> Observed:
    seen = simulate(TIME, config, arrivals)
    whole = seen.queue_us_mean + TIME.us(seen.batch_size_mean)
    return Observed(
        seen.requests_per_second, 1.0, seen.queue_us_mean, whole, seen.busy_ratio, seen.batch_size_mean
    )


def book() -> AdviceBook:
    made = AdviceBook()
    made.give(KEY, advise(TIME, ALONE, observed(ALONE)), 100.0)
    return made


def test_while_the_configuration_stays_there_is_nothing_to_check() -> None:
    made = book()
    assert made.prediction(KEY, ALONE, 110.0) is None
    assert made.checked(KEY, ALONE, observed(ALONE), 110.0) is None
    other = ModelKey("a", "other", "1")
    assert made.prediction(other, BATCHING, 110.0) is None
    last = made.last(KEY)
    assert last is not None and last.now == ALONE and made.last(other) is None


def test_the_change_is_predicted_from_the_traffic_before_it_and_held_against_what_follows() -> None:
    made = book()
    prediction = made.prediction(KEY, BATCHING, 120.0)
    assert prediction is not None
    assert (prediction.made_at, prediction.since, prediction.before.now) == (100.0, 120.0, ALONE)
    assert made.checked(KEY, BATCHING, None, 130.0) is None
    found = made.checked(KEY, BATCHING, observed(BATCHING), 150.0)
    assert found is not None and found.check.within
    assert found.check.throughput_error_ratio is not None and found.check.throughput_error_ratio < 0.1
    assert found.prediction.since == 120.0


def test_a_promise_that_did_not_come_true_is_said_to() -> None:
    made = book()
    made.prediction(KEY, BATCHING, 120.0)
    half = observed(BATCHING)
    found = made.checked(
        KEY, BATCHING, replace(half, requests_per_second=half.requests_per_second / 2), 150.0
    )
    assert found is not None and not found.check.within


def test_advice_that_promised_nothing_is_not_held_to_it() -> None:
    made = AdviceBook()
    odd = replace(observed(ALONE), queue_us_mean=5_000_000.0)
    advice = advise(TIME, ALONE, odd)
    assert not advice.trusted
    made.give(KEY, advice, 100.0)
    assert made.prediction(KEY, BATCHING, 120.0) is None


def test_new_advice_does_not_undo_the_check_of_the_change_before() -> None:
    made = book()
    made.prediction(KEY, BATCHING, 120.0)
    made.give(KEY, advise(TIME, BATCHING, observed(BATCHING)), 140.0)
    kept = made.prediction(KEY, BATCHING, 150.0)
    assert kept is not None and kept.before.now == ALONE
    # The next change is judged by the newer advice.
    third = replace(BATCHING, instances=2)
    later = made.prediction(KEY, third, 160.0)
    assert later is not None and later.before.now == BATCHING
