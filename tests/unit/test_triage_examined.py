"""Variants of other people's cases: other names, numbers, releases, several models, two causes at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from signals.saved import SavedAnswers, SavedFile
from triage.command import Judged, judged_answers
from triage.finding import Finding

Counts = dict[str, float]
FAMILIES = {
    "success": "request_success",
    "count": "count",
    "exec": "exec_count",
    "request": "request_duration_us",
    "queue": "queue_duration_us",
    "input": "compute_input_duration_us",
    "infer": "compute_infer_duration_us",
    "output": "compute_output_duration_us",
    "pending": "pending_request_count",
}
REASONS = ("OTHER", "REJECTED", "CANCELED", "BACKEND")


def lines(model: str, version: str = "1", **values: float) -> list[str]:
    """Series of one model on a page; families that are not named are not on it."""
    return [
        f'nv_inference_{FAMILIES[name]}{{model="{model}",version="{version}"}} {value}'
        for name, value in values.items()
    ]


def failed(model: str, version: str = "1", **reasons: float) -> list[str]:
    return [
        f'nv_inference_request_failure{{model="{model}",reason="{reason}",version="{version}"}} '
        f"{reasons.get(reason, 0)}"
        for reason in REASONS
    ]


def work(n: float, *, batch: float = 1, queue_us: float = 100, infer_us: float = 5_000) -> Counts:
    """Counters after `n` requests of one row each."""
    return {
        "success": n,
        "count": n,
        "exec": n / batch,
        "request": n * (queue_us + infer_us),
        "queue": n * queue_us,
        "infer": n * infer_us,
    }


def plus(one: Counts, other: Counts) -> Counts:
    return {name: value + other.get(name, 0) for name, value in one.items()}


def config(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "backend": "python", **fields}


def ensemble(name: str, *steps: str) -> dict[str, Any]:
    rows = [{"model_name": step, "model_version": -1} for step in steps]
    return config(name, platform="ensemble", max_batch_size=8, ensemble_scheduling={"step": rows})


def judged(
    pages: Sequence[Sequence[str]],
    configs: Sequence[dict[str, Any]] = (),
    *,
    indexes: Sequence[list[dict[str, Any]]] = (),
    statistics: Sequence[list[dict[str, Any]]] = (),
    every: float = 10.0,
) -> Judged:
    def files(name: str, answers: Sequence[Any]) -> list[SavedFile]:
        return [SavedFile(name, json.dumps(answer)) for answer in answers]

    return judged_answers(
        SavedAnswers(
            every,
            [SavedFile("page", "\n".join([*page, ""])) for page in pages],
            statistics=files("stats", [{"model_stats": rows} for rows in statistics]),
            indexes=files("index", indexes),
            configs=files("config", configs),
        )
    )


def found(one: Judged) -> list[str]:
    return [
        f"{finding.rule} {finding.severity.value} {finding.model.name if finding.model else finding.server}"
        for finding in one.judgement.findings
    ]


def first(one: Judged) -> Finding:
    return one.judgement.findings[0]


def evidence(finding: Finding) -> dict[str, float | None]:
    return {one.label: one.value for one in finding.evidence}


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
    assert first(one).sentence.startswith(
        "pipe takes 400 ms for a request, 97.5 % of it in its step detect (390 ms"
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
    assert found(judged(pages)) == []


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
