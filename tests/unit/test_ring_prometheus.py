"""The ring against a plain re-implementation of Prometheus' extrapolatedRate (promql/functions.go, 2.42)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from history.protocol import Grid
from history.ring import Ring
from telemetry.scrape import Samples, Scrape, Series, Source

T0_MS = 1_700_000_000_000
FAMILY = "nv_inference_count"


def extrapolated_increase(samples: list[tuple[int, float]], start_ms: int, end_ms: int) -> float | None:
    """One series, one window, in the order in which Prometheus does it; samples are (ms, value)."""
    window = [(at, value) for at, value in samples if start_ms <= at <= end_ms]
    if len(window) < 2:
        return None
    result = window[-1][1] - window[0][1]
    for (_, before), (_, after) in pairwise(window):
        if after < before:
            result += before
    to_start = (window[0][0] - start_ms) / 1000
    to_end = (end_ms - window[-1][0]) / 1000
    sampled = (window[-1][0] - window[0][0]) / 1000
    mean = sampled / (len(window) - 1)
    if result > 0 and window[0][1] >= 0:
        to_start = min(to_start, sampled * (window[0][1] / result))
    threshold = mean * 1.1
    covered = sampled
    covered += to_start if to_start < threshold else mean / 2
    covered += to_end if to_end < threshold else mean / 2
    return result * (covered / sampled)


steps_ms = st.integers(min_value=1, max_value=30_000)
readings = st.lists(
    st.tuples(
        steps_ms, st.one_of(st.none(), st.integers(min_value=0, max_value=10**12), st.floats(0.0, 1e6))
    ),
    min_size=1,
    max_size=40,
)


def _ring(columns: Sequence[tuple[int, tuple[float | None, ...]]]) -> Ring:
    ring = Ring()
    for at_ms, values in columns:
        there = [(index, value) for index, value in enumerate(values) if value is not None]
        names = tuple(Series(FAMILY, (("model", f"m{index}"), ("version", "1"))) for index, _ in there)
        samples = Samples(names, np.array([value for _, value in there], dtype=np.float64))
        ring.accept(Scrape("a", Source.METRICS, at_ms / 1e3, 0.0, samples))
    return ring


@given(readings, st.integers(0, 300_000), st.integers(1, 200_000))
@settings(max_examples=300, deadline=None)
def test_increase_equals_prometheus(
    steps: list[tuple[int, float | None]], end_offset: int, window: int
) -> None:
    at, samples, columns = T0_MS, [], []
    for step, value in steps:
        at += step
        columns.append((at, (value,)))
        if value is not None:
            samples.append((at, float(value)))
    end = T0_MS + end_offset
    expected = extrapolated_increase(samples, end - window, end)
    got = _ring(columns).increase(FAMILY, ("model",), window / 1e3, end / 1e3).get(("m0",))
    assert (got is None) == (expected is None)
    if expected is not None:
        # Sums are taken in another order, so the last digits of sums over 1e12 may differ.
        assert got == pytest.approx(expected, rel=1e-9, abs=1e-3)


@given(
    st.lists(
        st.tuples(steps_ms, st.lists(st.one_of(st.none(), st.integers(0, 1000)), min_size=3, max_size=3)),
        min_size=2,
        max_size=25,
    ),
    st.integers(1, 60_000),
    st.integers(500, 20_000),
)
@settings(max_examples=100, deadline=None)
def test_increase_range_equals_prometheus_for_every_series_and_time(
    steps: list[tuple[int, list[int | None]]], window: int, grid_step: int
) -> None:
    at, columns = T0_MS, []
    for step, values in steps:
        at += step
        columns.append((at, tuple(values)))
    grid = Grid(T0_MS / 1e3, (at + 5000) / 1e3, grid_step / 1e3)
    frame = _ring(columns).increase_range(FAMILY, ("model",), window / 1e3, grid)
    for index in range(3):
        samples = [(t, float(one)) for t, v in columns if (one := v[index]) is not None]
        column = frame.column((f"m{index}",))
        for row, time in enumerate(grid.times()):
            end = round(time * 1e3)
            expected = extrapolated_increase(samples, end - window, end)
            got = math.nan if column is None else column[row]
            assert got == pytest.approx(math.nan if expected is None else expected, rel=1e-9, nan_ok=True)


def test_window_is_closed_at_both_ends() -> None:
    ring = _ring([(T0_MS + step, (float(step),)) for step in (0, 10_000, 20_000)])
    assert ring.increase(FAMILY, ("model",), 20, T0_MS / 1e3 + 20) == {("m0",): 20_000.0}


def test_two_thirds_of_a_minute_at_one_scrape_per_15_s() -> None:
    """rate[10s] has no value and rate[1m] is 1.0 for +15 per 15 s (case G04)."""
    ring = _ring([(T0_MS + step * 15_000, (900.0 + 15.0 * step,)) for step in range(6)])
    assert ring.increase(FAMILY, ("model",), 10, T0_MS / 1e3 + 75) == {}
    assert ring.increase(FAMILY, ("model",), 60, T0_MS / 1e3 + 75)[("m0",)] / 60 == pytest.approx(1.0)
