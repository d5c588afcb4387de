"""The simulated batcher against cases that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from signals.batch_time import BatchTime
from signals.batcher import Arrivals, BatcherConfig, handover_us, simulate

TIME = BatchTime(8000.0, 250.0, 1, 16, 1000.0, 0.03)
"""T(1) = 8.25 ms, T(8) = 10 ms, T(16) = 12 ms."""
ALONE = BatcherConfig(16, dynamic=False)
BATCHING = BatcherConfig(16, dynamic=True, delay_us=2000.0)


def test_one_client_waits_only_for_the_delay() -> None:
    found = simulate(TIME, ALONE, Arrivals(clients=1, think_us=1750.0), requests=500)
    # 8.25 ms in the server and 1.75 ms on the way: a hundred a second.
    assert found.requests_per_second == pytest.approx(100, rel=0.02)
    assert (found.queue_us_mean, found.batch_size_mean) == (0.0, 1.0)
    assert found.busy_ratio == pytest.approx(0.825, rel=0.02)
    delayed = simulate(TIME, BATCHING, Arrivals(clients=1, think_us=1750.0), requests=500)
    assert delayed.queue_us_mean == pytest.approx(2000, rel=0.01)
    assert delayed.requests_per_second == pytest.approx(1e6 / 12_000, rel=0.02)


def test_without_batching_the_capacity_is_one_over_t1() -> None:
    found = simulate(TIME, replace(ALONE, instances=2), Arrivals(clients=20))
    assert found.requests_per_second == pytest.approx(2e6 / 8250, rel=0.01)
    assert found.busy_ratio == pytest.approx(1.0, abs=0.001)


def test_many_clients_fill_the_largest_batch() -> None:
    found = simulate(TIME, BATCHING, Arrivals(clients=64, think_us=500.0))
    assert found.batch_size_mean == pytest.approx(16, rel=0.01)
    assert found.requests_per_second == pytest.approx(16e6 / 12_000, rel=0.01)
    # Little: 64 clients at this rate are 48 ms, of which 12 compute and 0.5 on the way.
    assert found.queue_us_mean == pytest.approx(48_000 - 12_000 - 500, rel=0.03)


def test_half_as_many_clients_as_fill_it_alternate() -> None:
    # While eight are computed the other eight wait: two groups for ever.
    found = simulate(TIME, replace(BATCHING, delay_us=0.0), Arrivals(clients=16, think_us=1500.0))
    assert found.batch_size_mean == pytest.approx(8, rel=0.05)
    assert found.requests_per_second == pytest.approx(8e6 / 10_000, rel=0.05)


def test_a_long_enough_delay_joins_the_two_groups() -> None:
    patient = replace(BATCHING, delay_us=10_000.0, preferred=(16,))
    found = simulate(TIME, patient, Arrivals(clients=16, think_us=1500.0))
    assert found.batch_size_mean == pytest.approx(16, rel=0.02)
    # The last of sixteen is back after about 2.25 ms (1.5 times the mean at most).
    assert found.requests_per_second == pytest.approx(16e6 / (12_000 + 2250), rel=0.05)


def test_a_preferred_size_goes_at_once() -> None:
    small = replace(BATCHING, delay_us=50_000.0, preferred=(4,))
    found = simulate(TIME, small, Arrivals(clients=4))
    assert found.batch_size_mean == 4.0 and found.queue_us_mean < 50


def test_random_arrivals_queue_as_theory_says() -> None:
    # M/D/1: the mean wait is rho * T / (2 * (1 - rho)); rho = 60 * 8.25 ms = 0.495.
    found = simulate(TIME, ALONE, Arrivals(rate_per_second=60.0), requests=20_000)
    assert found.queue_us_mean == pytest.approx(0.495 * 8250 / (2 * 0.505), rel=0.1)
    assert found.stable


def test_more_than_the_capacity_is_not_stable() -> None:
    assert not simulate(TIME, ALONE, Arrivals(rate_per_second=200.0)).stable
    assert simulate(TIME, BATCHING, Arrivals(rate_per_second=200.0)).stable


def test_requests_of_several_rows_fill_batches_sooner() -> None:
    found = simulate(TIME, BATCHING, Arrivals(clients=32, rows=4))
    assert found.batch_size_mean == pytest.approx(16, rel=0.01)
    assert found.requests_per_second == pytest.approx(4e6 / 12_000, rel=0.01)


def test_arrivals_in_groups_keep_their_rate_and_fill_batches() -> None:
    found = simulate(TIME, BATCHING, Arrivals(rate_per_second=50.0, group=4), requests=8000)
    assert found.requests_per_second == pytest.approx(50, rel=0.1)
    # 1 to 7 at once, seldom two groups within the delay: about four in an execution.
    assert found.batch_size_mean == pytest.approx(4.4, rel=0.15)


def test_the_same_question_has_the_same_answer() -> None:
    arrivals = Arrivals(rate_per_second=300.0)
    assert simulate(TIME, BATCHING, arrivals) == simulate(TIME, BATCHING, arrivals)
    assert simulate(TIME, BATCHING, arrivals) != simulate(TIME, BATCHING, arrivals, seed=2)


def test_the_handover_is_found_again() -> None:
    arrivals = Arrivals(rate_per_second=40.0)
    queue = simulate(TIME, ALONE, arrivals, handover_us=300.0, requests=2000).queue_us_mean
    assert handover_us(TIME, ALONE, arrivals, queue) == pytest.approx(300, abs=10)
    # What keeps requests waiting for a second is no handover.
    assert handover_us(TIME, ALONE, arrivals, 1e6) <= 0.05 * TIME.us(1)


def test_arrivals_are_one_thing_or_the_other() -> None:
    with pytest.raises(ValueError, match="either a rate or a number of clients"):
        simulate(TIME, ALONE, Arrivals(rate_per_second=1.0, clients=1))


MEASURED = (
    # Requests per second, mean queue in us: a real tritonserver (24.10, two cores with nothing else to do),
    # batch_cost_model with T(b) = 8541 us + 337.6 us * b, random arrivals of 300 per second.
    (BatcherConfig(16, True, 0.0, (), 1), 4869.0),
    (BatcherConfig(16, True, 10_000.0, (16,), 1), 6404.0),
    (BatcherConfig(16, True, 5_000.0, (4, 8), 1), 8245.0),
    (BatcherConfig(8, True, 2_000.0, (8,), 1), 10_198.0),
    (BatcherConfig(16, True, 2_000.0, (8, 16), 2), 3046.0),
    (BatcherConfig(16, True, 0.0, (), 2), 2006.0),
    (BatcherConfig(4, True, 1_000.0, (4,), 3), 1480.0),
)
SERVED = BatchTime(8541.0, 337.6, 1, 16, 1000.0, 0.03)


@pytest.mark.parametrize(("config", "queue_us"), MEASURED)
def test_the_queue_of_a_real_server_under_random_arrivals(config: BatcherConfig, queue_us: float) -> None:
    found = simulate(SERVED, config, Arrivals(rate_per_second=300.0), handover_us=100.0, requests=12_000)
    assert found.queue_us_mean == pytest.approx(queue_us, rel=0.15)


def test_what_arrives_behind_a_small_batch_misses_it() -> None:
    # Triton sleeps until eight are together or the instance has taken the batch. Where shapes must be
    # compared it looks at every arrival, and all that waits goes into the next execution.
    config, arrivals = BatcherConfig(8, True, 2000.0, (8,), 1), Arrivals(rate_per_second=300.0)
    asleep = simulate(SERVED, config, arrivals, requests=12_000)
    awake = simulate(SERVED, replace(config, every_arrival_wakes=True), arrivals, requests=12_000)
    assert asleep.queue_us_mean > 1.8 * awake.queue_us_mean
    assert asleep.batch_size_mean == pytest.approx(awake.batch_size_mean, rel=0.1)


def test_groups_of_clients_do_not_keep_one_step_for_ever() -> None:
    # Measured: 1,005 per second in batches of 5.3; two instances in lockstep would leave 836 in 4.3.
    config = BatcherConfig(16, True, 0.0, (), 2)
    found = simulate(SERVED, config, Arrivals(clients=16, think_us=624.0), handover_us=100.0)
    assert found.requests_per_second == pytest.approx(1005, rel=0.1)
