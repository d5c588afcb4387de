"""Advice from what was observed: what is proposed, what is promised, and whether it came true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from signals.advice import (
    Aim,
    Observed,
    Proposal,
    Range,
    advise,
    batcher_of,
    config_lines,
    predict,
)
from signals.advice_check import check, other_traffic
from signals.batch_time import BatchTime
from signals.batcher import Arrivals, BatcherConfig, simulate
from telemetry.facts import InstanceGroup, ModelConfig, TensorSpec

TIME = BatchTime(8000.0, 250.0, 1, 16, 1000.0, 0.03)
ALONE = BatcherConfig(16, dynamic=False)
BATCHING = BatcherConfig(16, dynamic=True, delay_us=2000.0, preferred=(8, 16))


def observed(config: BatcherConfig, arrivals: Arrivals) -> Observed:
    """What a server with this configuration would have shown."""
    seen = simulate(TIME, config, arrivals, handover_us=200.0)
    return Observed(
        seen.requests_per_second,
        1.0,
        seen.queue_us_mean,
        seen.queue_us_mean + TIME.us(seen.batch_size_mean),
        seen.busy_ratio,
        seen.batch_size_mean,
    )


def test_clients_that_queue_for_single_executions_are_told_to_batch() -> None:
    advice = advise(TIME, ALONE, observed(ALONE, Arrivals(clients=16, think_us=1000.0)))
    assert advice.saturated and advice.aim is Aim.THROUGHPUT
    assert advice.arrivals.clients == pytest.approx(16, abs=1)
    assert advice.model_error_ratio is not None and advice.model_error_ratio < 0.1
    best = next(one for one in advice.proposals if one.config.instances == 1)
    assert best.config.dynamic and best.changes(ALONE)[0] == "dynamic batching on"
    # 121 requests per second become at least 5 times as many.
    assert best.requests_per_second.low > 5 * 121
    # What it promises is what such a server would then show.
    then = observed(best.config, Arrivals(clients=16, think_us=1000.0))
    assert check(best, then).within


def test_a_model_that_waits_out_its_delay_for_nobody_is_told_to_stop() -> None:
    slow = replace(BATCHING, delay_us=20_000.0)
    advice = advise(TIME, slow, observed(slow, Arrivals(rate_per_second=20.0)))
    assert not advice.saturated and advice.aim is Aim.QUEUE
    best = advice.proposals[0]
    assert best.config.instances == 1 and best.config.delay_us <= 500
    assert best.queue_us.high < 0.5 * advice.observed.queue_us_mean
    wanted = f"max_queue_delay_microseconds: {best.config.delay_us:.0f}"
    assert wanted in config_lines(best.config, slow)


def test_a_single_client_is_told_to_wait_for_nobody() -> None:
    advice = advise(TIME, BATCHING, observed(BATCHING, Arrivals(clients=1, think_us=1000.0)))
    assert advice.arrivals.clients == 1 and advice.saturated
    best = advice.proposals[0]
    assert best.config.delay_us <= 500 and best.config.instances == 1
    # 2 of 11.25 ms are the delay.
    assert best.requests_per_second.middle > 1.1 * advice.observed.requests_per_second


def test_requests_that_come_several_at_once_are_recognised() -> None:
    advice = advise(TIME, BATCHING, observed(BATCHING, Arrivals(rate_per_second=40.0, group=4)))
    assert not advice.saturated and advice.arrivals.group in (3, 4, 6)
    assert advice.model_error_ratio is not None and advice.model_error_ratio < 0.15
    single = advise(TIME, BATCHING, observed(BATCHING, Arrivals(rate_per_second=40.0)))
    assert single.arrivals.group == 1


def test_a_model_that_hardly_waits_is_left_alone() -> None:
    quick = replace(BATCHING, delay_us=0.0)
    assert advise(TIME, quick, observed(quick, Arrivals(rate_per_second=5.0))).proposals == ()


def test_more_instances_are_proposed_for_what_they_bring() -> None:
    quick = replace(BATCHING, delay_us=0.0)
    advice = advise(TIME, quick, observed(quick, Arrivals(rate_per_second=900.0)))
    assert not advice.saturated
    assert [one.config.instances for one in advice.proposals if one.config.instances > 1] == [2]


def test_a_range_holds_its_middle_and_widens_with_the_error_of_the_fit() -> None:
    traffic = observed(BATCHING, Arrivals(rate_per_second=400.0))
    narrow = predict(advise(TIME, BATCHING, traffic), replace(BATCHING, instances=2))
    wide = predict(advise(replace(TIME, error_ratio=0.2), BATCHING, traffic), replace(BATCHING, instances=2))
    for one in (narrow, wide):
        assert one.queue_us.low <= one.queue_us.middle <= one.queue_us.high
    assert wide.queue_us.high - wide.queue_us.low > narrow.queue_us.high - narrow.queue_us.low


def test_without_traffic_there_is_no_advice() -> None:
    with pytest.raises(ValueError, match="rests on traffic"):
        advise(TIME, BATCHING, Observed(0.0, 1.0, 0.0, 0.0, 0.0))


def test_the_lines_name_only_what_changes() -> None:
    one = (InstanceGroup("g", "KIND_GPU", 1, (0,)),)
    assert config_lines(replace(BATCHING, instances=3), BATCHING, one) == (
        "instance_group [ { count: 3 kind: KIND_GPU } ]"
    )
    assert config_lines(replace(BATCHING, delay_us=500.0), BATCHING) == (
        "dynamic_batching {\n  preferred_batch_size: [ 8, 16 ]\n  max_queue_delay_microseconds: 500\n}"
    )
    assert config_lines(BATCHING, BATCHING) == ""


def test_instances_are_written_as_triton_counts_them() -> None:
    """count is per listed GPU, and adds up over groups."""
    two = replace(BATCHING, instances=2)
    both = (InstanceGroup("g", "KIND_GPU", 1, (0, 1)),)
    assert config_lines(replace(two, instances=4), two, both) == (
        "# count is per GPU: 4 instances in all\n"
        "instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] } ]"
    )
    groups = (InstanceGroup("g", "KIND_GPU", 1, (0,)), InstanceGroup("h", "KIND_CPU", 1))
    assert config_lines(replace(two, instances=3), two, groups) == (
        "# instances 2 → 3: over 2 instance groups, raise the count of one"
    )


def test_a_check_says_how_far_off_it_was() -> None:
    promised = Proposal(BATCHING, Range(90, 100, 110), Range(4000, 5000, 6000), 4.0)
    found = check(promised, Observed(125.0, 1.0, 4000.0, 9000.0, 0.5))
    assert (found.throughput_error_ratio, found.queue_error_ratio) == (0.2, 0.25)
    assert not found.within
    assert check(promised, Observed(115.0, 1.0, 3700.0, 9000.0, 0.5)).within
    # 0.2 against 0.1 ms of queue is twice as much, and nothing beside 9 ms of work.
    hardly = replace(promised, queue_us=Range(190, 200, 210))
    assert check(hardly, Observed(100.0, 1.0, 100.0, 9100.0, 0.5)).within
    assert not check(hardly, Observed(100.0, 1.0, 900.0, 9900.0, 0.5)).within


def config(**changes: object) -> ModelConfig:
    values = {
        "name": "m",
        "backend": "python",
        "platform": "",
        "max_batch_size": 16,
        "dynamic_batching": True,
        "preferred_batch_sizes": (8, 16),
        "max_queue_delay_us": 2000,
        "max_queue_size": 0,
        "queue_timeout_us": 0,
        "instance_groups": (InstanceGroup("g", "KIND_CPU", 1),),
        "ensemble_steps": (),
        "sequence_batching": False,
        "decoupled": False,
        "response_cache": False,
        "inputs": (),
        "outputs": (),
    }
    return ModelConfig(**{**values, **changes})  # type: ignore[arg-type]


def test_only_models_that_triton_queues_are_advised() -> None:
    assert batcher_of(config()) == BATCHING
    assert batcher_of(config(max_batch_size=0)) == replace(BATCHING, max_batch_size=0, dynamic=False)
    assert batcher_of(config(inputs=(TensorSpec("IN", "FP32", (4, 224)),))) == BATCHING
    variable = TensorSpec("IN", "FP32", (4, -1))
    assert batcher_of(config(inputs=(variable,))) == replace(BATCHING, every_arrival_wakes=True)
    assert batcher_of(config(inputs=(replace(variable, ragged=True),))) == BATCHING
    assert batcher_of(config(decoupled=True)) is None
    assert batcher_of(config(backend="vllm")) is None
    assert batcher_of(config(sequence_batching=True)) is None
    assert batcher_of(config(platform="ensemble", instance_groups=())) is None


def test_a_prediction_for_other_traffic_is_not_held_to_this_one() -> None:
    before = advise(TIME, BATCHING, observed(BATCHING, Arrivals(rate_per_second=200.0)))
    then = before.observed
    assert before.arrivals.clients is None
    assert other_traffic(before, replace(then, requests_per_second=240.0)) == ""
    more = other_traffic(before, replace(then, requests_per_second=600.0))
    assert more == f"600 /s instead of {then.requests_per_second:.0f} /s"
    assert other_traffic(before, replace(then, rows=4.0)) == "4 rows a request instead of 1"
    found = check(predict(before, BATCHING), replace(then, requests_per_second=600.0), before)
    assert found.other_traffic == more and not found.within


def test_waiting_clients_are_counted_by_their_requests_under_way() -> None:
    before = advise(TIME, BATCHING, observed(BATCHING, Arrivals(clients=16, think_us=1000.0)))
    assert before.arrivals.clients is not None
    # Twice as fast an answer to as many clients is what advice is for.
    faster = observed(replace(BATCHING, instances=2), Arrivals(clients=16, think_us=1000.0))
    assert other_traffic(before, faster) == ""
    fewer = observed(replace(BATCHING, instances=2), Arrivals(clients=4, think_us=1000.0))
    assert other_traffic(before, fewer) == f"about 4 waiting clients instead of {before.arrivals.clients}"
