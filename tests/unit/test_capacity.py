"""The memory budget and the instances a target needs, by hand."""

from __future__ import annotations

import pytest

from signals.batch_time import BatchTime, SizeTime
from signals.batcher import BatcherConfig
from signals.capacity import (
    Budget,
    Fit,
    Line,
    Need,
    answer,
    concurrency_for,
    instances_at_least,
    instances_needed,
    need_of_instance,
    need_of_weights,
    requests_per_second,
    time_of_alone,
    weight_bytes,
)

TIME = BatchTime(8000.0, 250.0, 1, 16, 1000.0, 0.03)
GIB = 2.0**30


def test_weights_by_precision() -> None:
    assert weight_bytes(7e9, "FP16") == 14e9
    assert weight_bytes(7e9, "INT4") == 3.5e9
    with pytest.raises(KeyError):
        weight_bytes(1.0, "FP12")


def test_weights_need_up_to_a_fifth_more_and_a_process_its_context() -> None:
    assert need_of_weights(10e9) == Need(10e9, 12e9, "weights, up to 20% for batches")
    own = need_of_weights(10e9, own_process=True)
    assert (own.low_bytes, own.high_bytes) == (10.3e9, 12.5e9)
    assert own.basis == "weights, up to 20% for batches; a context of its own"


def test_one_more_instance_is_the_share_of_one() -> None:
    need = need_of_instance(4 * GIB, 2, lower_bound=False, basis="by its processes")
    assert (need.low_bytes, need.high_bytes) == (2 * GIB, 2.4 * GIB)
    assert need.basis == "4 GiB by its processes / 2"
    loose = need_of_instance(4 * GIB, 2, lower_bound=True, basis="reported")
    assert loose.high_bytes == pytest.approx(2.8 * GIB)
    with pytest.raises(ValueError, match="at least one instance"):
        need_of_instance(1.0, 0, lower_bound=False, basis="")


@pytest.mark.parametrize(
    ("free_gib", "fit", "words"),
    [
        (4.0, Fit.FITS, "at least 1 GiB are left"),
        (3.0, Fit.FITS, "at least 0 B are left"),
        (2.5, Fit.TIGHT, "it may fail at a full batch"),
        (1.5, Fit.NO, "512 MiB short at the least"),
    ],
)
def test_what_fits(free_gib: float, fit: Fit, words: str) -> None:
    found = answer(Need(2 * GIB, 3 * GIB, ""), free_gib * GIB)
    assert found.fit is fit
    assert words in found.sentence


def test_what_is_not_known_is_not_said_to_fit() -> None:
    assert answer(None, 5.0).fit is Fit.UNKNOWN
    assert answer(Need(1.0, 2.0, ""), None).fit is Fit.UNKNOWN


def test_the_budget_of_a_card() -> None:
    lines = (
        Line("resnet", 2, need_of_weights(3e9).times(2)),
        Line("bert", 1, need_of_weights(6e9)),
    )
    budget = Budget(16e9, 0.5e9, lines)
    assert budget.available_bytes == 15.5e9
    assert (budget.need.low_bytes, budget.need.high_bytes) == pytest.approx((12e9, 14.4e9))
    assert budget.answer.fit is Fit.FITS
    assert Budget(14e9, 0.5e9, lines).answer.fit is Fit.TIGHT
    assert Budget(12e9, 0.5e9, lines).answer.fit is Fit.NO


def test_no_setting_helps_below_the_bound() -> None:
    # 16 rows in 12 ms are 1333 per second and instance.
    assert instances_at_least(TIME, 16, 1300.0) == 1
    assert instances_at_least(TIME, 16, 1334.0) == 2
    assert instances_at_least(TIME, 1, 100.0) == 1
    assert instances_at_least(TIME, 1, 122.0) == 2


def test_instances_for_a_target_queue() -> None:
    batching = BatcherConfig(16, True, 2000.0)
    found = instances_needed(TIME, batching, 1500.0, 10_000.0)
    assert (found.instances, found.at_least) == (2, 2)
    assert found.outcome is not None and found.outcome.queue_us_mean <= 10_000
    tighter = instances_needed(TIME, batching, 1500.0, 3000.0)
    assert tighter.instances is not None and tighter.instances > 2
    # No number of instances undercuts the delay that a request alone waits for.
    assert instances_needed(TIME, batching, 20.0, 100.0).instances is None
    # Without batches: 300/s x 8.25 ms keep 2.5 instances busy.
    alone = instances_needed(TIME, BatcherConfig(16, False), 300.0, 5000.0)
    assert alone.at_least == 3 and alone.instances is not None and alone.instances >= 3


def test_a_model_that_takes_no_batches_needs_one_size_alone() -> None:
    sizes = (SizeTime(1, 500.0, 9000.0), SizeTime(2, 19.0, 9500.0))
    alone = time_of_alone(sizes, 1)
    assert alone is not None and alone.us(1) == 9000.0
    assert time_of_alone(sizes, 2) is None and time_of_alone(sizes, 3) is None
    found = instances_needed(alone, BatcherConfig(0, False), 300.0, 5000.0)
    # 300/s x 9 ms keep 2.7 instances busy.
    assert found.at_least == 3 and found.instances is not None and found.instances >= 3


@pytest.mark.parametrize(("seconds", "clients"), [(5.0, 100), (0.2, 4), (0.05, 1)])
def test_twenty_per_second_need_so_many_at_once(seconds: float, clients: int) -> None:
    assert concurrency_for(20.0, seconds) == clients
    assert requests_per_second(clients, seconds) == pytest.approx(20.0)


def test_no_rate_without_a_time() -> None:
    with pytest.raises(ValueError, match="above zero"):
        requests_per_second(4, 0.0)
