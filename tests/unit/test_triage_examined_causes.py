"""Causes told apart on variants of other people's cases, by the metrics page and the config alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.made_answers import config, evidence, failed, first, found, judged, lines, work

# ---- one client at a time, a delay that is too long (case B01)


@pytest.mark.parametrize(
    ("delay_us", "infer_us", "rows", "n"),
    [(20_000, 4_000, 1, 8), (100_000, 4_000, 1, 5), (20_000, 4_000, 4, 30)],
    ids=["as it was", "100 ms", "four rows a request"],
)
def test_one_client_at_a_time(delay_us: float, infer_us: float, rows: int, n: int) -> None:
    after = work(n, queue_us=delay_us + 275, infer_us=infer_us) | {"count": n * rows}
    batching = {"preferred_batch_size": [4, 8], "max_queue_delay_microseconds": delay_us}
    pages = [lines("qa", **work(0)), lines("qa", **after)]
    one = judged(pages, [config("qa", max_batch_size=8, dynamic_batching=batching)])
    assert found(one) == ["OneClientAtATime info qa"]
    assert first(one).sentence.startswith("Only one request at a time reaches qa")
    assert evidence(first(one))["requests per execution"] == 1.0


def test_little_traffic_and_a_short_delay_are_no_remark() -> None:
    pages = [lines("qa", **work(n, queue_us=3_000, infer_us=4_000)) for n in (0, 300)]
    batching = {"max_queue_delay_microseconds": 2_000}
    assert found(judged(pages, [config("qa", max_batch_size=8, dynamic_batching=batching)])) == []


@pytest.mark.parametrize(
    ("n", "delay_us", "queue_us", "infer_us", "severity"),
    [
        (300, 100_000, 80_000, 3_000, "ticket"),
        (12, 500_000, 400_000, 3_000, "ticket"),
        (300, 10_000, 9_000, 300, "info"),
        (300, 10_000, 9_000, 4_000, ""),
    ],
)
def test_a_delay_is_too_long_beside_its_executions(
    n: float, delay_us: float, queue_us: float, infer_us: float, severity: str
) -> None:
    pages = [lines("qa", **work(count, batch=2, queue_us=queue_us, infer_us=infer_us)) for count in (0, n)]
    batching = {"max_queue_delay_microseconds": delay_us}
    one = judged(pages, [config("qa", max_batch_size=32, dynamic_batching=batching)])
    assert found(one) == ([f"BatchingDelayTooLong {severity} qa"] if severity else [])


def test_without_times_of_executions_nothing_is_said_of_them() -> None:
    pages = [lines("qa", **work(n, batch=2, queue_us=80_000)) for n in (0, 300)]
    pages = [[line for line in page if "compute_infer" not in line] for page in pages]
    one = judged(
        pages, [config("qa", max_batch_size=32, dynamic_batching={"max_queue_delay_microseconds": 100_000})]
    )
    assert first(one).sentence == (
        "qa makes requests wait 80 ms because its batching delay is 100 ms; batches still reach only 2 of 32."
    )


# ---- a long queue: which cause (case B07), by the metrics page alone


def _queue(
    n: float, *more: str, batch: float = 1, infer_us: float = 40_000, queue_us: float = 1_900_000
) -> list[Any]:
    pages = [
        lines("qa", **work(count, batch=batch, queue_us=queue_us, infer_us=infer_us)) for count in (0, n)
    ]
    return [[*page, *more] for page in pages]


GPU_IDLE = 'nv_gpu_utilization{gpu_uuid="GPU-a"} 0.12'
GPU_BUSY = 'nv_gpu_utilization{gpu_uuid="GPU-a"} 0.97'
ON_GPU = {"instance_group": [{"name": "qa_0", "kind": "KIND_GPU", "count": 1, "gpus": [0]}]}
ON_CPU = {"instance_group": [{"name": "qa_0", "kind": "KIND_CPU", "count": 1}]}
GPU_FIGURES = {"utilization": 0.1, "memory_total_bytes": 17e9, "memory_used_bytes": 9e9}
BATCHING = {"max_batch_size": 4, "dynamic_batching": {"max_queue_delay_microseconds": 100}}


_WAITS = "requests wait 1.9 s in the queue"
_BUSY = "1 instance busy 100 % of the time"
CAUSES = {
    "full": (
        _queue(1000, batch=4),
        BATCHING | ON_CPU,
        f"overloaded: {_WAITS}, batches are full (4 of 4)",
    ),
    "full, GPU busy": (
        _queue(1000, GPU_BUSY, batch=4),
        BATCHING | ON_GPU,
        f"overloaded: {_WAITS}, batches are full",
    ),
    "full, GPU idle": (
        _queue(1000, GPU_IDLE, batch=4),
        BATCHING | ON_GPU,
        f"too few instances: {_WAITS}, {_BUSY}, while no GPU of saved is used more than 12 %",
    ),
    "GPU idle": (_queue(250, GPU_IDLE), ON_GPU, "too few instances"),
    "not on that GPU": (
        _queue(250, GPU_IDLE),
        ON_CPU,
        f"overloaded: {_WAITS}, {_BUSY}, and the model takes one request at a time",
    ),
    "one by one": (
        _queue(250),
        BATCHING | ON_CPU,
        "overloaded because requests are executed one by one (1 per execution) although up to 4 may run",
    ),
    "not full": (
        _queue(625, batch=2.5),
        BATCHING | ON_CPU,
        f"overloaded: {_WAITS}, {_BUSY}, in batches of 2.5 of 4",
    ),
    "bursts": (
        _queue(250, infer_us=400),
        BATCHING | ON_CPU,
        "waits 1.9 s in the queue while its instances are busy only 1 % of the time",
    ),
}


@pytest.mark.parametrize(("pages", "fields", "told"), CAUSES.values(), ids=CAUSES)
def test_a_long_queue_has_its_cause(pages: list[Any], fields: dict[str, Any], told: str) -> None:
    one = judged(pages, [config("qa", **fields)])
    assert found(one) == ["QueueDominates ticket qa"]
    assert told in first(one).sentence


def test_who_is_not_busy_is_not_called_overloaded_without_its_config() -> None:
    one = judged(_queue(40, infer_us=4_000, queue_us=20_275))
    assert found(one) == ["QueueDominates ticket qa"]
    assert first(one).sentence.endswith("0.016 executions are under way: it is held back, not overloaded.")
    assert "faster than they are served" not in first(one).remedy


@pytest.mark.parametrize(("every", "n", "infer_us", "queue_us"), [(10.0, 5, 2e6, 2e7), (60.0, 6, 1e7, 1e8)])
def test_executions_of_seconds_finish_few_requests_while_many_wait(
    every: float, n: float, infer_us: float, queue_us: float
) -> None:
    one = judged(_queue(n, infer_us=infer_us, queue_us=queue_us), [config("qa", **ON_CPU)], every=every)
    assert found(one) == ["QueueDominates ticket qa"]


def test_three_requests_that_came_together_are_no_overload() -> None:
    assert found(judged(_queue(3, infer_us=1e6, queue_us=2e6), [config("qa", **ON_CPU)])) == []


# ---- failures


def _failing(served: Sequence[float], **reasons: Sequence[float]) -> list[list[str]]:
    return [
        [
            *lines("qa", **work(n)),
            *failed("qa", **{reason: counts[tick] for reason, counts in reasons.items()}),
        ]
        for tick, n in enumerate(served)
    ]


@pytest.mark.parametrize(
    ("served", "backend", "said"),
    [
        ((500, 600, 600, 600), (0, 0, 40, 90), "fails all of its requests"),
        ((500, 600, 700, 800), (0, 0, 40, 90), "of its requests: the model itself reports errors"),
    ],
    ids=["nothing succeeds any more", "some succeed"],
)
def test_a_dead_process_is_not_excluded_by_what_succeeded_before(
    served: tuple[float, ...], backend: tuple[float, ...], said: str
) -> None:
    one = judged(_failing(served, BACKEND=backend))
    assert found(one) == ["RequestsFailing page qa"]
    assert said in first(one).sentence
    dead = any("dead" in one for one in first(one).excluded)
    assert dead is (said != "fails all of its requests")


def test_a_few_failures_are_neither_an_alarm_nor_nothing() -> None:
    one = judged(_failing((0, 100), BACKEND=(0, 4), REJECTED=(0, 2), CANCELED=(0, 1)))
    assert found(one) == ["RequestsFailing info qa"]
    assert one.verdict.sentence == (
        "Nothing is urgent: 1 model seen, 10 req/s, 6 requests failed; "
        "worth knowing: qa fails 5.66 % of its requests."
    )


def test_what_failed_before_the_unload_is_over() -> None:
    pages = _failing((0, 50, 50), BACKEND=(0, 60, 60))
    pages[2] = failed("qa", BACKEND=60)
    row = {"name": "qa", "version": "1"}
    gone = {**row, "state": "UNAVAILABLE", "reason": "unloaded"}
    ready = {**row, "state": "READY"}
    assert found(judged(pages[:2], indexes=[[ready], [ready]])) == ["RequestsFailing page qa"]
    assert found(judged(pages, indexes=[[ready], [ready], [gone]])) == []


@pytest.mark.parametrize(
    ("infer_us", "timeout_us", "told", "setting"),
    [
        (
            40_000,
            300_000,
            "where those that are served wait 290 ms; 1 instance, busy 100 % of the time",
            "instance_group.count",
        ),
        (
            400,
            300_000,
            "although its instances are busy only 1 % of the time",
            "default_timeout_microseconds",
        ),
        (
            40_000,
            30_000,
            "because an execution takes 40 ms and they may wait 30 ms",
            "default_timeout_microseconds",
        ),
    ],
    ids=["overloaded", "bursts", "executions longer than the time-out"],
)
def test_time_outs_in_the_queue_have_their_cause(
    infer_us: float, timeout_us: int, told: str, setting: str
) -> None:
    pages = [
        [
            *lines("qa", **work(n, batch=4, queue_us=290_000, infer_us=infer_us)),
            *failed("qa", REJECTED=refused),
        ]
        for n, refused in ((0, 0), (1000, 400), (2000, 800))
    ]
    policy = {"default_queue_policy": {"default_timeout_microseconds": timeout_us}}
    one = judged(pages, [config("qa", max_batch_size=4, dynamic_batching=policy, **ON_CPU)])
    assert found(one) == ["RequestsFailing page qa"]
    assert told in first(one).sentence
    assert [follower.rule for follower in first(one).follows] == ["QueueDominates"]
    change = first(one).change
    assert change is not None
    assert change.setting == setting


def test_an_ensemble_whose_config_is_not_known_is_perhaps_counted_twice() -> None:
    one = judged(_failing((0, 80), OTHER=(0, 40)))
    assert found(one) == ["RequestsFailing page qa"]
    assert first(one).confidence.value == "low"
    assert "Triton counts each failure twice" in first(one).sentence


def test_how_busy_instances_are_is_not_told_from_before_it_began() -> None:
    """On two pages the instance may have been idle until the last second."""
    pages = [
        [*lines("qa", **work(n, infer_us=400), pending=waiting), *failed("qa", REJECTED=refused)]
        for n, refused, waiting in ((0, 0, 0), (1000, 400, 4))
    ]
    policy = {"default_queue_policy": {"default_timeout_microseconds": 300_000, "max_queue_size": 4}}
    one = judged(pages, [config("qa", max_batch_size=4, dynamic_batching=policy, **ON_CPU)])
    assert found(one) == ["RequestsFailing page qa"]
    told = [first(one).sentence, *(follower.sentence for follower in first(one).follows)]
    assert len(told) == 2
    assert not any("although" in sentence for sentence in told)


def test_nothing_is_more_than_always_busy() -> None:
    one = judged(_queue(8, infer_us=4e6, queue_us=9e6), [config("qa", **ON_CPU)])
    assert "1 instance busy 100 % of the time" in first(one).sentence


def test_one_cause_is_one_finding() -> None:
    """Ten minutes of a busy instance on an idle GPU, and of requests that are not put together."""
    group = [{"name": "qa_0", "kind": "KIND_GPU", "count": 1, "gpus": [0]}]
    gpu = [f'nv_gpu_{name}{{gpu_uuid="GPU-a"}} {value}' for name, value in GPU_FIGURES.items()]
    pages = [
        [
            line.replace("{model", '{gpu_uuid="GPU-a",model') if "pending" not in line else line
            for line in lines("qa", **work(15_000 * tick, queue_us=1_900_000, infer_us=40_000), pending=40)
        ]
        + gpu
        for tick in range(3)
    ]
    fields: dict[str, Any] = {"instance_group": group, **BATCHING}
    one = judged(pages, [config("qa", **fields)], every=600.0)
    assert found(one) == ["QueueDominates ticket qa"]
    assert {follower.rule for follower in first(one).follows} == {
        "GpuIdleWhileQueueing",
        "BatchingNotForming",
    }


def test_a_gpu_whose_fields_stand_at_zero_is_not_called_idle() -> None:
    """DCGM failed (trap 15): the memory of the GPU cannot be 0 either."""
    zeros = ('nv_gpu_utilization{gpu_uuid="GPU-a"} 0', 'nv_gpu_memory_total_bytes{gpu_uuid="GPU-a"} 0')
    one = judged(_queue(1000, *zeros, batch=4), [config("qa", **BATCHING, **ON_GPU)])
    assert found(one) == ["QueueDominates ticket qa"]
    assert "GPU" not in first(one).sentence


def test_a_hung_execution_whose_queue_gives_up_is_named() -> None:
    pages = [
        [*lines("qa", **work(90), pending=4), *failed("qa", REJECTED=refused)] for refused in (0, 30, 60)
    ]
    policy = {"default_queue_policy": {"default_timeout_microseconds": 300_000}}
    one = judged(pages, [config("qa", max_batch_size=4, dynamic_batching=policy, **ON_CPU)])
    assert found(one) == ["RequestsFailing page qa"]
    assert first(one).sentence == (
        "qa fails all of its requests: they time out in the queue (REJECTED) and none is finished, so an "
        "execution hangs or takes very long; 4 requests wait."
    )


def test_what_the_cache_answers_shares_no_execution() -> None:
    """Two of three requests are answered from the cache: the others are executed one by one."""
    pages = [
        [
            *lines("qa", **work(100 * tick, queue_us=6_000) | {"success": 300 * tick}, pending=3),
            f'nv_cache_num_hits_per_model{{model="qa",version="1"}} {200 * tick}',
            f'nv_cache_num_misses_per_model{{model="qa",version="1"}} {100 * tick}',
        ]
        for tick in range(2)
    ]
    batching = {"max_batch_size": 8, "dynamic_batching": {"max_queue_delay_microseconds": 5_000}}
    one = judged(pages, [config("qa", **batching)], every=300.0)
    assert found(one) == ["BatchingNotForming ticket qa"]
    assert evidence(first(one))["requests per execution"] == 1.0


@pytest.mark.parametrize(
    ("backend", "over"),
    [
        ((0, 60, 60, 60, 60), ", none within the last 30 s"),
        ((0, 60, 60, 90, 120), ""),
        ((0, 30, 60, 90, 90), ""),
    ],
)
def test_failures_that_are_over_are_told_as_that(backend: Sequence[float], over: str) -> None:
    one = judged(_failing((0, 100, 200, 300, 400), BACKEND=backend))
    assert found(one) == ["RequestsFailing page qa"]
    rate = f"{max(backend) / 40:g}"
    assert first(one).affected == f"clients of qa on saved: requests fail at {rate} /s{over}"


@pytest.mark.parametrize(
    ("queue_us", "told"), [(200_000, "can sleep up to half a second"), (20e6, "in bursts")]
)
def test_a_batcher_that_sleeps_for_half_a_second_explains_no_wait_of_many(queue_us: float, told: str) -> None:
    policy = {"max_queue_delay_microseconds": 100, "default_queue_policy": {"max_queue_size": 64}}
    pages = _queue(250, infer_us=8_000, queue_us=queue_us)
    one = judged(pages, [config("qa", max_batch_size=4, dynamic_batching=policy, **ON_CPU)])
    assert found(one) == ["QueueDominates ticket qa"]
    assert told in first(one).sentence
