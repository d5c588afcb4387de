"""Variants of other people's cases: on more pages, in other releases and under other versions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from signals.evaluate import evaluate
from signals.saved import SERVER, SavedAnswers, SavedFile, replay
from telemetry.identity import ModelKey, Server
from tests.made_answers import config, ensemble, evidence, failed, first, found, judged, lines, plus, work
from triage.conditions import parse_reference
from triage.context import Context
from triage.coverage import server_coverage
from triage.finding import ONE_READING
from triage.numbers import Numbers
from triage.vocabulary import Level

# ---- a model that hangs (case B04), on more pages than two


@pytest.mark.parametrize(
    ("every", "waiting", "told"),
    [
        (10.0, (0, 0, 7), "10 s"),
        (10.0, (0, 0, 2, 7), "20 s"),
        (15.0, (0, 0, 0, 2, 7), "30 s"),
        (30.0, (0, 0, 7, 9), "60 s"),
    ],
)
def test_a_model_that_stopped_while_it_was_watched_hangs_since_then(
    every: float, waiting: tuple[int, ...], told: str
) -> None:
    stuck = sum(count > 0 for count in waiting)
    pages = []
    for tick, count in enumerate(waiting):
        served = 50.0 * (1 + min(tick, len(waiting) - 1 - stuck))
        pages.append(lines("ocr", "4", **work(served), pending=count))
    one = judged(pages, every=every)
    assert [finding.rule for finding in one.judgement.findings] == ["ModelHung"]
    assert first(one).sentence.startswith(
        f"ocr has {waiting[-1]} waiting requests and finished none for {told}"
    )


def test_a_model_that_still_finishes_does_not_hang() -> None:
    pages = [lines("ocr", **work(50 + tick), pending=7) for tick in range(4)]
    assert "ModelHung" not in {finding.rule for finding in judged(pages).judgement.findings}


# ---- numbers over windows longer than what was recorded


def test_failures_of_five_minutes_are_no_more_than_were_counted() -> None:
    pages = [
        [*lines("ocr", **work(10_000 + 100 * tick)), *failed("ocr", BACKEND=1_000 + 40 * tick)]
        for tick in range(2)
    ]
    one = judged(pages)
    assert found(one) == ["RequestsFailing page ocr"]
    assert evidence(first(one)) == {
        "failed": pytest.approx(40 / 140),
        "failed per second": pytest.approx(4.0),
        "failed in 5 min": pytest.approx(40.0),
        "busy share of the instances": None,
    }


def test_requests_of_the_last_hour_are_a_rate_over_what_was_recorded() -> None:
    """A failed load of a model that was in use harms as many requests per second as it got."""
    pages = [lines("ocr", **work(1_000 * tick)) for tick in range(4)]
    pages[3] = []
    row = {"name": "ocr", "version": "1"}
    ready, broken = (
        {**row, "state": "READY"},
        {**row, "state": "UNAVAILABLE", "reason": "Internal: out of memory"},
    )
    one = judged([*pages[:3], ["nv_cpu_utilization 0.5"]], indexes=[[ready], [ready], [ready], [broken]])
    assert found(one) == ["ModelLoadFailed page ocr"]
    assert first(one).harm_per_second == pytest.approx(100.0)
    assert "2,000 requests within the last hour" in first(one).affected


# ---- a slow step of an ensemble, whichever version Triton prints beside it (trap 12)


def _pipeline(tick: int, version: str, slow_us: float) -> list[str]:
    before, now = work(100, infer_us=20_000), work(50 * tick, infer_us=slow_us)
    step = plus(work(100, infer_us=14_000), work(50 * tick, infer_us=slow_us - 10_000))
    other = plus(work(100), work(50 * tick))
    page = [*lines("resize", "1", **other), *lines("detect", "1", **step)]
    # Its counters are under version 1, and those of its own version stand at zero.
    page += lines("pipe", "1", **plus(before, now))
    return page if version == "1" else [*page, *lines("pipe", version, **work(0), pending=0)]


@pytest.mark.parametrize("version", ["1", "3"])
@pytest.mark.parametrize("indexed", [True, False])
def test_a_step_that_became_slow_is_named(version: str, indexed: bool) -> None:
    configs = [ensemble("pipe", "resize", "detect"), config("resize"), config("detect")]
    index = [
        {"name": name, "version": number, "state": "READY"}
        for name, number in (("pipe", version), ("resize", "1"), ("detect", "1"))
    ]
    pages = [_pipeline(tick, version, 400_000) for tick in range(2)]
    one = judged(pages, configs, indexes=[index] * 2 if indexed else ())
    assert found(one) == ["EnsembleSlowStep ticket pipe"]
    assert first(one).sentence == (
        "pipe takes 400 ms for a request; 97.5 % of its time is spent in its step detect (390 ms a request). "
        "Since it was loaded a request took 147 ms on average, before this 20.1 ms."
    )
    assert evidence(first(one))["request time before the window"] == pytest.approx(20_100.0)


def test_an_ensemble_that_always_took_so_long_is_no_finding() -> None:
    configs = [ensemble("pipe", "resize", "detect"), config("resize"), config("detect")]
    pages = [_pipeline(tick, "1", 400_000) for tick in (9, 10)]
    assert found(judged(pages, configs)) == []


# ---- counters that are switched off (trap 10)


def _switched_off(tick: int, *more: str) -> list[str]:
    return [*lines("ocr", **work(0), pending=2), *more]


def test_a_model_whose_summaries_count_does_not_hang() -> None:
    pages = [
        _switched_off(
            tick,
            f'nv_inference_request_summary_us_count{{model="ocr",version="1"}} {100 + 50 * tick}',
            f'nv_inference_request_summary_us_sum{{model="ocr",version="1"}} {(100 + 50 * tick) * 5_000}',
        )
        for tick in range(4)
    ]
    one = judged(pages)
    assert found(one) == ["CountersFrozen info ocr"]
    assert first(one).sentence.startswith("ocr answered 150 requests by the summaries of its metrics page")


def test_a_model_whose_summaries_stand_still_hangs_and_did_serve_before() -> None:
    summary = 'nv_inference_request_summary_us_count{model="ocr",version="1"} 100'
    one = judged([_switched_off(tick, summary) for tick in range(4)])
    assert found(one) == ["ModelHung ticket ocr"]
    assert first(one).sentence == "ocr has 2 waiting requests and finished none for 30 s."


def test_what_the_statistics_count_is_told_as_switched_off() -> None:
    batches = {"batch_size": 2, **{f"compute_{part}": {"count": 1, "ns": 0} for part in ("input", "output")}}

    def statistics(tick: int) -> list[dict[str, Any]]:
        count = 10 + 20 * tick
        times = {"compute_infer": {"count": count, "ns": count * 5_000_000}}
        return [
            {
                "name": "ocr",
                "version": "1",
                "inference_count": 2 * count,
                "execution_count": count,
                "batch_stats": [{**batches, **times}],
            }
        ]

    one = judged(
        [_switched_off(tick) for tick in range(4)], statistics=[statistics(tick) for tick in range(4)]
    )
    assert found(one) == ["CountersFrozen info ocr"]


# ---- what was not given is not said to be missing at the server


def test_without_a_metrics_page_it_is_not_called_a_server_without_figures() -> None:
    row = {"name": "ocr", "version": "1", "state": "READY"}
    one = judged([], indexes=[[row], [row]])
    assert found(one) == []
    assert one.verdict.sentence == "The requests to saved cannot be judged: its metrics page was not read."
    whys = {unjudged.rule: unjudged.why for unjudged in one.judgement.unjudged}
    assert whys["ModelHung"] == whys["GpuIdleWhileQueueing"] == "its metrics page was not read"
    assert whys["RequestsFailing"] == "its metrics page was not read"


def test_a_page_that_is_none_is_told_in_one_sentence() -> None:
    one = judged([lines("ocr", **work(100)), HTML])
    assert one.verdict.sentence == (
        "saved answers, but not its metrics page (This address does not serve Prometheus metrics. Triton's "
        "usual is http://host:8002/metrics): its requests cannot be judged."
    )
    assert not any(unjudged.why.endswith(".") for unjudged in one.judgement.unjudged)


HTML = ["<!doctype html><html><head><title>Sign in</title></head></html>"]


@pytest.mark.parametrize("unreadable", [1, 2, 3])
def test_a_rate_is_over_the_pages_that_could_be_read(unreadable: int) -> None:
    pages = [lines("ocr", **work(50 * tick), pending=0) for tick in range(2)]
    one = judged([*[HTML] * unreadable, *pages])
    assert one.verdict.sentence == "Nothing is wrong: 1 model seen, 5 req/s, nobody waits."
    assert one.report.window_seconds == 10.0


def test_one_page_that_could_be_read_says_nothing_about_now() -> None:
    one = judged([HTML, lines("ocr", **work(50), pending=3)])
    assert one.verdict.sentence == f"Nothing can be said yet: {ONE_READING}; requests wait at it for ocr (3)."


@pytest.mark.parametrize(
    ("waiting", "told"),
    [
        ({2999: 1}, "; requests wait at it for tenant02999_model (1)"),
        (
            {5: 7, 9: 1, 30: 2, 31: 2, 2000: 1},
            "; requests wait at it for tenant00005_model (7), tenant00030_model (2), tenant00031_model (2), "
            "2 more",
        ),
        ({}, ""),
    ],
)
def test_one_reading_of_thousands_of_models_tells_who_waits(waiting: dict[int, int], told: str) -> None:
    page = [
        line
        for number in range(3000)
        for line in lines(
            f"tenant{number:05d}_model", success=number + 1, exec=1, pending=waiting.get(number, 0)
        )
    ]
    assert judged([page]).verdict.sentence == f"Nothing can be said yet: {ONE_READING}{told}."


def test_a_model_that_keeps_sequences_apart_gets_no_second_batcher() -> None:
    pages = [lines("asr", **work(n, queue_us=1_900_000, infer_us=40_000)) for n in (0, 250)]
    group = [{"name": "asr_0", "kind": "KIND_CPU", "count": 1}]
    fields: dict[str, Any] = {"max_batch_size": 8, "instance_group": group}
    [plain, sequences] = [
        first(judged(pages, [config("asr", **fields, **more)])).change
        for more in ({}, {"sequence_batching": {"oldest": {"max_candidate_sequences": 4}}})
    ]
    assert plain is not None
    assert plain.setting == "max_queue_delay_microseconds"
    assert sequences is not None
    assert sequences.setting == "instance_group.count"


# ---- what was recorded for too short a time is told as that


def _not_batching(tick: int) -> list[str]:
    return lines("ocr", **work(200 * tick, queue_us=3_000), pending=3)


@pytest.mark.parametrize(("every", "rules"), [(10.0, []), (300.0, ["BatchingNotForming ticket ocr"])])
def test_a_cause_that_needs_minutes_is_named_or_said_to_need_them(every: float, rules: list[str]) -> None:
    batching = {"max_batch_size": 8, "dynamic_batching": {"max_queue_delay_microseconds": 5_000}}
    one = judged([_not_batching(tick) for tick in range(2)], [config("ocr", **batching)], every=every)
    assert found(one) == rules
    whys = [unjudged.why for unjudged in one.judgement.unjudged if unjudged.rule == "BatchingNotForming"]
    told = "ocr looks like it for all of the 10 s that were recorded; it is told from 5 min on"
    assert whys == ([] if rules else [told])


@pytest.mark.parametrize(("served", "needed"), [(100, "10 s"), (0, "25 s")])
def test_a_model_that_hung_for_too_short_a_time_is_not_forgotten(served: int, needed: str) -> None:
    pages = [lines("ocr", **work(served), pending=waiting) for waiting in (0, 3)]
    one = judged(pages, every=5.0)
    assert found(one) == []
    [why] = [unjudged.why for unjudged in one.judgement.unjudged if unjudged.rule == "ModelHung"]
    assert why == f"ocr looks like it for all of the 5 s that were recorded; it is told from {needed} on"


# ---- what the index does not list


def test_a_model_whose_directory_is_gone_serves_all_the_same() -> None:
    pages = [lines("ocr", **work(50 * tick), pending=0) for tick in range(2)]
    one = judged(pages, indexes=[[{"name": "big", "version": "1", "state": "LOADING"}]] * 2)
    assert one.verdict.sentence == "Nothing is wrong: 1 of 2 models loaded, 5 req/s."


def test_an_ensemble_goes_with_a_step_that_failed_to_load() -> None:
    def index(pipe: dict[str, str], step: dict[str, str]) -> list[dict[str, str]]:
        rows = (("pipe", pipe), ("resize", step), ("detect", ready))
        return [{"name": name, "version": "1", **state} for name, state in rows]

    ready = {"state": "READY"}
    gone = {"state": "UNAVAILABLE", "reason": "unloaded"}
    failed_load = {"state": "UNAVAILABLE", "reason": "Internal: RuntimeError: no weights"}
    pages = [[*lines("pipe", **work(100 * tick)), *lines("detect", **work(100 * tick))] for tick in range(2)]
    pages.append(lines("detect", **work(100)))
    indexes = [index(ready, ready), index(ready, ready), index(gone, failed_load)]
    one = judged(pages, [ensemble("pipe", "resize", "detect")], indexes=indexes)
    assert found(one) == ["ModelLoadFailed page resize"]
    [follower] = first(one).follows
    assert follower.sentence.startswith("pipe is down because its step resize is not loaded: Triton took")


def test_right_after_the_start_a_share_is_of_what_was_recorded() -> None:
    """Of a minute two seconds are known: 80 executions of 20 ms kept one instance busy for 1.6 s."""
    files = [
        SavedFile("page", "\n".join([*lines("ocr", **work(160 * tick, batch=2, infer_us=20_000)), ""]))
        for tick in range(2)
    ]
    group = [{"name": "ocr_0", "kind": "KIND_CPU", "count": 1}]
    settings = SavedFile("config", json.dumps(config("ocr", max_batch_size=8, instance_group=group)))
    played = replay(SavedAnswers(2.0, files, configs=[settings]))
    inventory = played.inventory()
    context = Context(
        report=evaluate(played.ring, inventory, played.at, 60.0),
        history=played.ring,
        inventory=inventory,
        coverage=[server_coverage(played.ring, Server(SERVER, None, None), played.at)],
        now=played.at,
        interval_seconds=2.0,
        history_from=played.since,
    )
    key = ModelKey(SERVER, "ocr", "1")
    told = {
        name: Numbers(context).value(parse_reference(name, Level.MODEL), key)
        for name in ("busy_ratio", "requests_per_second", "requests_total")
    }
    assert told == {"busy_ratio": pytest.approx(0.8), "requests_per_second": 80.0, "requests_total": 160.0}
