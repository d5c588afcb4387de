"""The pure parts of the load generator: answers, arrivals, the cap, limits, quantiles."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.load_generator.answers import KEPT_TEXT_BYTES, Answer, BadAnswer
from experiments.load_generator.recorder import Recorder, quantile
from experiments.load_generator.schedule import Arrivals, Gate

TRITON = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
    b"Inference-Header-Content-Length: 4\r\nContent-Length: 8\r\n\r\n{..}\x00\x00\x80?"
)
REFUSED = b'HTTP/1.1 400 Bad Request\r\ncontent-length: 15\r\nConnection: close\r\n\r\n{"error":"bad"}'
CHUNKED = (
    b"HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"6\r\n{\"erro\r\n8;x=1\r\nr\":\"no\"}\r\n0\r\n\r\n"
)  # fmt: skip


def fed(data: bytes, cuts: list[int]) -> tuple[Answer, list[bool]]:
    """The answer after the data came in parts, cut at these places; and what each part returned."""
    answer = Answer()
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    return answer, [answer.feed(data[a:b]) for a, b in itertools.pairwise(places)]


@given(st.sampled_from([TRITON, REFUSED, CHUNKED]), st.lists(st.integers(0, 500), max_size=6))
def test_an_answer_is_complete_with_its_last_byte_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    answer, returned = fed(data, cuts)
    assert returned == [False] * (len(returned) - 1) + [True]
    assert (answer.status, answer.text, answer.close) == {
        TRITON: (200, b"", False),
        REFUSED: (400, b'{"error":"bad"}', True),
        CHUNKED: (503, b'{"error":"no"}', False),
    }[data]


def test_one_answer_after_the_other_on_one_connection() -> None:
    answer = Answer()
    for data, status in ((REFUSED, 400), (TRITON, 200), (CHUNKED, 503)):
        answer.reset()
        assert answer.feed(data)
        assert answer.status == status


def test_only_the_beginning_of_a_long_failure_is_kept() -> None:
    text = b"x" * 100_000
    answer = Answer()
    assert answer.feed(b"HTTP/1.1 500 E\r\nContent-Length: 100000\r\n\r\n" + text)
    assert answer.text == text[:KEPT_TEXT_BYTES]


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x06\x04\x00",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a" * 70_000,
    ],
)
def test_what_is_no_http_is_a_bad_answer(data: bytes) -> None:
    with pytest.raises(BadAnswer):
        Answer().feed(data)


def times(arrivals: Arrivals, count: int) -> list[float]:
    found = []
    for _ in range(count):
        found.append(arrivals.next)
        arrivals.step()
    return found


def test_constant_arrivals_have_equal_gaps_and_do_not_drift() -> None:
    found = times(Arrivals(30.0, "constant", 1), 30_001)
    assert found[0] == 0.0
    assert found[-1] == 1000.0
    assert np.allclose(np.diff(found), 1 / 30)


def test_poisson_arrivals_have_the_rate_and_the_spread_of_exponential_gaps() -> None:
    gaps = np.diff(times(Arrivals(50.0, "poisson", 7), 20_000))
    assert gaps.mean() == pytest.approx(1 / 50, rel=0.03)
    assert gaps.std() == pytest.approx(1 / 50, rel=0.05)
    assert times(Arrivals(50.0, "poisson", 7), 5) == times(Arrivals(50.0, "poisson", 7), 5)


@given(
    st.floats(0.2, 200.0),
    st.booleans(),
    st.lists(st.floats(0.0, 0.5), min_size=1, max_size=300),
)
def test_never_more_than_the_cap_passes_within_any_second(
    cap: float, spaced: bool, waits: list[float]
) -> None:
    gate, now, sent = Gate(cap, spaced=spaced), 0.0, []
    for wait in waits:
        now += wait
        if gate.closed(now):
            now = gate.opens_at()
        gate.passed(now)
        sent.append(now)
    allowed, window = max(1, int(cap)), max(1, int(cap)) / cap
    for first, later in zip(sent, sent[allowed:], strict=False):
        assert later - first >= window - 1e-9
    if spaced:
        assert all(b - a >= 1 / cap - 1e-9 for a, b in itertools.pairwise(sent))


def test_without_a_cap_everything_passes() -> None:
    gate = Gate(None, spaced=True)
    assert not gate.capped
    for _ in range(10):
        assert not gate.closed(0.0)
        gate.passed(0.0)


def recorder(ends: list[tuple[float, float]], failures: list[float]) -> Recorder:
    """Successes as (latency, end) and failures by their end, seconds."""
    found = Recorder()
    for wait, end in ends:
        found.success(end - wait, end - wait, end)
    for end in failures:
        found.failure("status", 503, "full", end)
    return found


def test_limits_are_judged_over_the_last_second() -> None:
    limits = {"failed_ratio": 0.5, "p99_us": 50_000.0}
    slow_before = [(0.2, at / 100) for at in range(100)]
    fast_now = [(0.01, 5 + at / 100) for at in range(100)]
    assert recorder(slow_before, []).beyond(limits, 1.0, []) == "p99_us"
    assert recorder([*slow_before, *fast_now], []).beyond(limits, 6.0, []) == ""
    assert recorder(fast_now, [5.9] * 101).beyond(limits, 6.0, []) == "failed_ratio"
    assert recorder(fast_now, [5.9] * 99).beyond(limits, 6.0, []) == ""


def test_few_requests_are_judged_over_the_last_twenty_and_nineteen_are_not() -> None:
    limits = {"failed_ratio": None, "p99_us": 50_000.0}
    slow = [(0.2, at * 0.2) for at in range(20)]
    assert recorder(slow, []).beyond(limits, 4.0, []) == "p99_us"
    assert recorder(slow[:19], []).beyond(limits, 4.0, []) == ""
    # Those that still wait count with the age they have.
    assert recorder(slow[:19], []).beyond(limits, 4.0, [300_000.0]) == "p99_us"


def test_kinds_of_failures_are_bounded() -> None:
    found = Recorder()
    for number in range(100):
        found.failure("status", 500, f"text {number}", 1.0)
    rows = found.result()["failures"]
    assert len(rows) == 41
    assert sum(row[3] for row in rows) == 100
    assert rows[-1] == ["other", 0, "", 60]


@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_quantile_is_a_value_that_share_does_not_exceed(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = quantile(ordered, share)
    assert found in ordered
    assert sum(1 for value in values if value <= found) >= share * len(values) - 1e-9
    assert sum(1 for value in values if value < found) < share * len(values) + 1e-9
    assert quantile([], share) is None
