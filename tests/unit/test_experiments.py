"""Runs of several loads: the figures, the words, the knee, the bounds."""

from __future__ import annotations

import base64
from dataclasses import replace

import numpy as np
import pytest

from control.inference import Tensor
from control.request_errors import infer_failure
from experiments.figures import figures
from experiments.load_process import Target, order_json
from experiments.measure import Measurement, headline, notes
from experiments.plan import Arrivals, LoadPlan, Loop
from experiments.serial_vs_concurrent import config_notes, sentence, speedup
from experiments.sweep import (
    capacity,
    capacity_sentence,
    knee,
    knee_sentence,
    parse_concurrencies,
)
from experiments.wire import messages
from telemetry.errors import InvalidRequest, SettingsError
from tests.unit.load_figures import (
    ASKED,
    CONFIG,
    QUEUE_FULL,
    REQUEST,
    SERVER,
    measured,
    one,
    raw,
    split,
)


def test_the_figures_of_a_load() -> None:
    spans = [(0.0, 0.0, 0.01), (0.0, 0.0, 0.02), (0.01, 0.01, 0.04)]
    failures: list[list[object]] = [["status", 503, QUEUE_FULL, 2]]
    load = figures(2, False, raw(spans, failures=failures, seconds=0.05), ASKED)
    assert (load.succeeded, load.failed) == (3, 2)
    assert load.errors == {infer_failure("alpha", QUEUE_FULL, 503): 2}
    assert load.throughput_per_second == pytest.approx(60.0)
    assert load.mean_us == pytest.approx(20_000.0)
    assert load.p50_us == pytest.approx(20_000.0)
    assert load.p95_us == pytest.approx(29_000.0)
    assert load.max_us == pytest.approx(30_000.0)
    assert load.expected_per_second == pytest.approx(2 / 0.02)
    assert load.failed_ratio == pytest.approx(0.4)


def test_the_latency_of_an_open_loop_counts_from_when_a_request_was_due() -> None:
    # Due at 0, 10, 20 ms; one connection, and each answer takes 50 ms: the last one is sent at 100 ms.
    spans = [(0.00, 0.00, 0.05), (0.01, 0.05, 0.10), (0.02, 0.10, 0.15)]
    load = figures(1, True, raw(spans, seconds=0.15), ASKED)
    assert load.max_us == pytest.approx(130_000.0)
    assert load.service_p99_us == pytest.approx(50_000.0)
    assert load.expected_per_second is None


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (["timeout", 0, ""], "No answer from lab:8000 within 30 s"),
        (["refused", 0, "x"], "lab:8000 is not reachable (refused)"),
        (["closed", 0, ""], "lab:8000 closed the connection before it answered"),
        (["protocol", 0, "x"], "This port (lab:8000) does not speak HTTP: is it the gRPC port?"),
        (
            ["status", 403, "no"],
            "lab:8000 restricts its inference API (HTTP 403): write "
            "`api_headers_from_env: {inference: {HEADER: VARIABLE}}` at this server in tritonscope.yml",
        ),
        (["other", 0, ""], "other failures"),
    ],
)
def test_failures_have_the_sentences_of_test_requests(failure: list[object], expected: str) -> None:
    load = figures(1, False, raw([], failures=[[*failure, 3]], seconds=1.0), ASKED)
    ((sentence_, count),) = load.errors.items()
    assert (sentence_[: len(expected)], count) == (expected, 3)


def test_a_load_without_a_success_reports_nothing_instead_of_zero() -> None:
    load = figures(4, False, raw([], failures=[["refused", 0, "", 4]], seconds=0.5), ASKED)
    known = (load.throughput_per_second, load.mean_us, load.p99_us, load.expected_per_second)
    assert known == (None,) * 4
    assert load.under_way_mean is None


def test_the_course_of_a_load_adds_up_to_it() -> None:
    load = measured(4, 400, 0.010)
    assert sum(point.per_second for point in load.course) * load.seconds / len(load.course) == pytest.approx(
        400
    )
    assert {round(point.p99_us or 0) for point in load.course} == {10_000}
    assert len(load.course) == 4


def test_qps_is_concurrency_over_response_time() -> None:
    # The table of the seed: 100 at 5 s, 4 at 0.2 s and 1 at 0.05 s all give 20 per second.
    for concurrency, response_seconds in ((100, 5.0), (4, 0.2), (1, 0.05)):
        load = measured(concurrency, concurrency * 3, response_seconds)
        assert load.expected_per_second == pytest.approx(20.0)
        assert load.throughput_per_second == pytest.approx(20.0)
        assert load.under_way_mean == pytest.approx(concurrency)


# ---- serial against concurrent


def test_the_comparison_in_words() -> None:
    serial = one("serial", measured(1, 160, 0.010), split(160, 160))
    concurrent = one("concurrent", measured(16, 160, 0.020), split(160, 10))
    assert speedup([serial, concurrent]) == pytest.approx(8.0)
    assert sentence("alpha", [serial, concurrent]) == (
        "alpha: 16 at a time give 8 times the throughput of one (100 to 800 requests/s); "
        "160 rows in 10 executions, 16 each"
    )
    unbatched = one("concurrent", measured(16, 160, 0.160), split(160, 160))
    assert sentence("alpha", [serial, unbatched]).endswith("; no batches formed")
    assert sentence("alpha", [serial]) == "alpha: stopped before the concurrent half"
    failed = one(
        "concurrent", figures(4, False, raw([], failures=[["refused", 0, "", 4]], seconds=0.5), ASKED)
    )
    assert (
        sentence("alpha", [serial, failed]) == "alpha: no comparison, since requests of one half all failed"
    )


def test_an_ensemble_names_the_step_that_batched() -> None:
    serial = one("serial", measured(1, 12, 0.010), split(12, 12))
    concurrent = one("concurrent", measured(4, 12, 0.020), split(12, 12), split(12, 3, "step"))
    assert sentence("alpha", [serial, concurrent]).endswith("; step: 12 rows in 3 executions, 4 each")


def test_the_notes_say_what_would_mislead() -> None:
    serial = one("serial", measured(1, 10, 0.01), split(10, 10))
    busy = one("concurrent", measured(5, 10, 0.01), split(17, 1), bravo=40)
    assert notes((serial, serial)) == ()
    assert busy.others == 7
    assert notes((serial, busy)) == (
        "Other clients sent 7 requests to the model meanwhile: executions, batch sizes and latencies include "
        "them.",
        "Other models answered requests of others meanwhile and shared the server: bravo (40).",
    )
    (unmerged,) = config_notes(replace(CONFIG, dynamic_batching=False))
    assert unmerged.startswith("The model has no dynamic batching: Triton never merges requests of it.")
    (cached,) = config_notes(replace(CONFIG, response_cache=True))
    assert cached.startswith("The response cache is on")
    (single,) = config_notes(replace(CONFIG, max_batch_size=0))
    assert single == "max_batch_size is 0: this model takes one request per execution."


def test_what_an_open_loop_could_not_send_is_said() -> None:
    behind = replace(measured(4, 40, 0.01), open_loop=True, unsent=12, max_under_way=4)
    late = replace(behind, unsent=0)
    (never_sent,) = notes((one("", behind),))
    (waited,) = notes((one("", late),))
    assert never_sent.startswith("12 requests were due and never sent")
    assert waited.startswith("all 4 connections were busy at times")


def test_the_headline_names_throughput_p99_failures_and_an_early_end() -> None:
    good = one("", measured(1, 100, 0.01))
    assert headline(good) == "100 requests/s, p99 10 ms"
    bad = replace(good.clients, errors={"Queue full": 100}, ended_by="failed_ratio")
    assert headline(replace(good, clients=bad)) == (
        "100 requests/s, p99 10 ms, 50 % failed (Queue full); ended early: more than 50 % of the requests "
        "failed"
    )
    slow = replace(good.clients, ended_by="p99_us")
    limited = replace(good, clients=slow, plan=replace(good.plan, max_p99_us=5000.0))
    assert headline(limited).endswith("ended early: p99 went above 5 ms")


# ---- sweep


def steps() -> list[Measurement]:
    """Throughput 100, 190, 350, 400, 410 at 1, 2, 4, 8, 16 at a time."""
    rates = ((1, 100), (2, 190), (4, 350), (8, 400), (16, 410))
    return [one(f"{at} at a time", measured(at, at * 50, at / rate)) for at, rate in rates]


def test_the_knee_has_the_largest_throughput_over_latency() -> None:
    found = steps()
    # throughput^2 / concurrency: 10000, 18050, 30625, 20000, 10506.
    marked = knee(found)
    assert marked is not None and marked.clients.concurrency == 4
    assert knee_sentence(found) == (
        "the knee is at 4 at a time: 350 requests/s, p99 11.4 ms; 16 at a time give 17.1 % more at p99 39 ms"
    )
    assert knee(found[:1]) is None


def test_what_an_objective_allows() -> None:
    found = steps()
    carried = capacity(found, 20_100.0)
    assert carried is not None and carried.clients.concurrency == 8
    assert capacity_sentence(found, 20_100.0) == (
        "at p99 <= 20.1 ms this model carries 400 requests/s (8 at a time)"
    )
    assert capacity_sentence(found, 50_000.0).endswith("carries at least 410 requests/s (16 at a time)")
    assert capacity_sentence(found, 5000.0) == "no step kept p99 <= 5 ms: the lowest p99 was 10 ms"


def test_a_step_that_fails_carries_nothing() -> None:
    found = steps()
    broken = replace(found[3].clients, errors={"Queue full": 100})
    found[3] = replace(found[3], clients=broken)
    carried = capacity(found, 20_000.0)
    assert carried is not None and carried.clients.concurrency == 4


@pytest.mark.parametrize("text", ["1,2,x", "1.5 2", "0 1", "1 300"])
def test_concurrencies_are_whole_numbers_within_bounds(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_concurrencies(text)
    assert parse_concurrencies("1, 2 4") == (1, 2, 4)


# ---- the plan and the order


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (LoadPlan(concurrency=0), "1 to 256 at the same time (got 0)"),
        (LoadPlan(concurrency=257), "1 to 256 at the same time (got 257)"),
        (LoadPlan(seconds=601.0), "0.1 to 600 s (got 601)"),
        (LoadPlan(seconds=None), "A load run ends after a time or after so many requests: give one of them"),
        (LoadPlan(seconds=None, requests=0), "1 to 1,000,000 requests (got 0)"),
        (LoadPlan(warmup_seconds=-1.0), "0 to 60 s of warm-up (got -1)"),
        (LoadPlan(max_failed_ratio=1.5), "0 to 1 as the share of failures to stop at (got 1.5)"),
        (LoadPlan(loop=Loop.OPEN), "An open loop needs an arrival rate, in requests/s"),
        (LoadPlan(loop=Loop.OPEN, rate_per_second=0.0), "0.1 to 20,000 requests/s (got 0)"),
        (
            LoadPlan(loop=Loop.OPEN, rate_per_second=80.0, cap_per_second=50.0),
            "The settings allow 50 requests/s on this server, not 80: see load_runs in tritonscope.yml",
        ),
    ],
)
def test_the_bounds_are_kept_before_anything_is_sent(plan: LoadPlan, expected: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan.check()
    assert caught.value.sentence == expected


def test_a_plan_in_words() -> None:
    assert LoadPlan(concurrency=16).words == "16 at a time for 10 s"
    assert LoadPlan(seconds=None, requests=2000).words == "8 at a time, 2,000 requests"
    open_loop = LoadPlan(loop=Loop.OPEN, rate_per_second=50.0, arrivals=Arrivals.CONSTANT)
    assert open_loop.words == "50 requests/s, constant arrivals for 10 s"


def test_the_message_is_complete_and_carries_the_headers() -> None:
    texts = np.array([[b"\xff\x00", "ü".encode()]], dtype=object)
    request = replace(REQUEST, version="3", tensors=(*REQUEST.tensors, Tensor("T", "BYTES", texts)))
    (message,) = messages(replace(SERVER, http_url="http://lab:8000/base"), CONFIG, request, 4)
    head, _, body = message.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /base/v2/models/alpha/versions/3/infer HTTP/1.1"
    fields = dict(line.split(": ", 1) for line in lines[1:])
    assert (fields["Host"], fields["Authorization"]) == ("lab:8000", "Bearer x")
    assert int(fields["Content-Length"]) == len(body)
    at = int(fields["Inference-Header-Content-Length"])
    # FP32 1.0, then both elements with their lengths in front.
    assert body[at:] == b"\x00\x00\x80\x3f" + b"\x02\x00\x00\x00\xff\x00" + b"\x02\x00\x00\x00\xc3\xbc"


def test_every_connection_of_a_sequence_model_has_a_sequence_of_its_own() -> None:
    target = Target(SERVER, replace(CONFIG, sequence_batching=True), REQUEST)
    order = order_json(target, LoadPlan(concurrency=3))
    bodies = [base64.b64decode(message) for message in order["messages"]]
    assert len(set(bodies)) == 3
    assert all(b'"sequence_start":true' in body and b'"sequence_end":true' in body for body in bodies)


def test_a_header_with_a_line_break_is_not_sent() -> None:
    with pytest.raises(SettingsError, match="line break"):
        messages(replace(SERVER, headers={"X": "a\r\nB: c"}), CONFIG, REQUEST, 1)
