"""What the signals mean for ensembles: one request of a client, its steps, its failures."""

from __future__ import annotations

import json

import pytest

from signals.saved import SavedFile
from tests.saved_pages import (
    Rows,
    ensemble,
    failures,
    model,
    page,
    report,
    server,
)

A, B, E = ("first", "1"), ("second", "1"), ("pipe", "1")


def pipeline_pages(version: str = "1") -> tuple[SavedFile, SavedFile]:
    """40 requests to an ensemble of two steps, 10 more to its first step; queue 100 and 300 us a request."""
    ends: Rows = {
        "request_success": {A: 50, B: 40, E: 40},
        "request_duration_us": {A: 50 * 1000, B: 40 * 2000, E: 40 * 3200},
        "queue_duration_us": {A: 50 * 100, B: 40 * 300, E: 0},
        "compute_infer_duration_us": {A: 50 * 800, B: 40 * 1600, E: 40 * 2400},
        "count": {A: 50, B: 40, E: 40},
        "exec_count": {A: 25, B: 10, E: 40},
        "pending_request_count": {A: 2, B: 3, E: 1},
    }
    begins: Rows = {family: dict.fromkeys(values, 0.0) for family, values in ends.items()}
    return page(begins), page(ends)


STEPS = ensemble("pipe", "first", "second")


def test_clients_requests_count_once_per_server() -> None:
    found = report(*pipeline_pages(), configs=[STEPS])
    assert model(found, "first").number("requests_total") == 50
    assert model(found, "pipe").number("requests_total") == 40
    # 40 to the ensemble and 10 directly to its first step.
    assert server(found).number("requests_total") == 50
    assert server(found).number("requests_per_second") == pytest.approx(5.0)


def test_an_ensemble_queues_in_its_steps() -> None:
    found = report(*pipeline_pages(), configs=[STEPS])
    pipe = model(found, "pipe")
    assert pipe.number("queue_us_mean") == pytest.approx(400.0)
    assert pipe.number("queue_ratio") == pytest.approx(400 / 3200)
    assert pipe.number("request_us_mean") == pytest.approx(3200.0)


def test_a_step_used_twice_queues_twice() -> None:
    found = report(*pipeline_pages(), configs=[ensemble("pipe", "first", "second", "first")])
    assert model(found, "pipe").number("queue_us_mean") == pytest.approx(500.0)


def test_server_figures_are_sums_over_sums_without_ensembles() -> None:
    figures = server(report(*pipeline_pages(), configs=[STEPS]))
    assert figures.number("queue_us_mean") == pytest.approx((50 * 100 + 40 * 300) / 90)
    assert figures.number("queue_ratio") == pytest.approx((5000 + 12000) / (50_000 + 80_000))
    assert figures.number("compute_infer_us_mean") == pytest.approx((40_000 + 64_000) / 90)
    assert figures.number("batch_size_mean") == pytest.approx(90 / 35)
    assert figures.number("executions_total") == 35
    assert figures.number("pending") == 5


def test_without_a_configuration_an_ensemble_is_a_model_like_others() -> None:
    found = report(*pipeline_pages())
    assert model(found, "pipe").number("queue_us_mean") == 0
    assert server(found).number("requests_total") == 130


@pytest.mark.parametrize("split", [False, True])
def test_a_failed_ensemble_request_is_one_failure(split: bool) -> None:
    """Triton counts two: under version 1, or one each under version 1 and the real one."""
    pipe = ("pipe", "1")
    served: Rows = {"request_success": {A: 100, B: 97, pipe: 97}}
    begin = [*failures("first", OTHER=0), *failures("second", BACKEND=0), *failures("pipe", OTHER=0)]
    ends = [*failures("first", OTHER=0), *failures("second", BACKEND=3)]
    if split:
        begin += failures("pipe", "3", OTHER=0)
        ends += failures("pipe", OTHER=3) + failures("pipe", "3", OTHER=3)
    else:
        ends += failures("pipe", OTHER=6)
    zero: Rows = {"request_success": dict.fromkeys(served["request_success"], 0.0)}
    index = json.dumps([{"name": "pipe", "version": "3" if split else "1", "state": "READY"}])
    found = report(
        page(zero, *begin), page(served, *ends), configs=[STEPS], indexes=[SavedFile("index", index)]
    )
    figures = model(found, "pipe", "3" if split else "1")
    assert figures.number("failures_total") == 3
    assert figures.mapping("failures_by_reason") == {"OTHER": 3}
    assert figures.number("failed_ratio") == pytest.approx(3 / 100)
    # The client saw 3 failures, not 3 of the ensemble and 3 of the step.
    assert server(found).number("failures_total") == 3
    assert [row.key.version for row in found.models if row.key.name == "pipe"] == ["3" if split else "1"]


def test_failures_of_an_ensemble_that_no_step_explains_count() -> None:
    zero: Rows = {"request_success": {A: 0, B: 0, E: 0}}
    served: Rows = {"request_success": {A: 10, B: 10, E: 10}}
    begin = failures("first", BACKEND=0) + failures("second", BACKEND=0) + failures("pipe", OTHER=0)
    ends = failures("first", BACKEND=1) + failures("second", BACKEND=0) + failures("pipe", OTHER=8)
    figures = server(report(page(zero, *begin), page(served, *ends), configs=[STEPS]))
    assert figures.number("failures_total") == 4
