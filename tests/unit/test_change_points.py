"""Lasting steps are found, noise and bursts are none, and what was done just before is named."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.scrape import FloatArray
from triage.change_points import ChangePoint, Done, change_points, just_before, sides, told_apart

STEP = 10.0


def times(count: int) -> FloatArray:
    return 1000.0 + STEP * np.arange(count, dtype=np.float64)


def noisy(generator: np.random.Generator, *levels: tuple[int, float], share: float = 0.1) -> FloatArray:
    parts = [level * (1 + share * generator.standard_normal(count)) for count, level in levels]
    return np.concatenate(parts)


def found(values: FloatArray, **limits: float) -> tuple[ChangePoint, ...]:
    return change_points(times(len(values)), values, **limits)


def test_a_step_is_found_between_the_readings_where_it_is() -> None:
    (one,) = found(np.array([10.0] * 20 + [30.0] * 20))
    assert (one.after, one.until) == (1000.0 + 19 * STEP, 1000.0 + 20 * STEP)
    assert (one.before, one.now, one.deviations) == (10.0, 30.0, float("inf"))
    assert one.rising


@pytest.mark.parametrize("count", [12, 30, 90, 300])
def test_noise_without_a_change_has_none(count: int) -> None:
    generator = np.random.default_rng(7)
    for _ in range(60):
        assert found(noisy(generator, (count, 20.0), share=0.3)) == ()
        assert found(20.0 + generator.standard_cauchy(count)) == ()
        assert found(generator.poisson(3.0, count).astype(np.float64)) == ()


def test_a_step_in_noise_is_found_within_three_readings() -> None:
    generator = np.random.default_rng(11)
    runs = [found(noisy(generator, (40, 20.0), (25, 40.0))) for _ in range(200)]
    once = [points[0] for points in runs if len(points) == 1]
    assert len(once) >= 195
    off = np.array([abs(one.until - (1000.0 + 40 * STEP)) / STEP for one in once])
    assert np.quantile(off, 0.95) <= 3 and np.median(off) == 0


def test_up_and_down_again_are_two_changes_and_gaps_are_skipped() -> None:
    generator = np.random.default_rng(3)
    values = noisy(generator, (30, 5.0), (20, 50.0), (30, 5.0))
    values[28:31] = np.nan
    first, second = found(values)
    assert first.until == 1000.0 + 31 * STEP
    assert second.until == 1000.0 + 50 * STEP
    assert (first.rising, second.rising) == (True, False)


@pytest.mark.parametrize(
    "values",
    [
        np.array([10.0] * 30 + [90.0] * 4 + [10.0] * 30),  # a burst of four readings
        np.linspace(10.0, 60.0, 80),  # a slope
        np.tile([10.0, 10.0, 10.0, 80.0, 80.0, 10.0], 15),  # bursts that come and go
        np.array([10.0] * 30 + [11.5] * 30),  # 15 %: too little to speak of
        np.full(60, 7.0),
        np.full(60, np.nan),
        np.empty(0),
        np.array([1.0, 9.0, 1.0]),
    ],
)
def test_what_is_no_lasting_step_is_none(values: FloatArray) -> None:
    assert found(values) == ()


def test_a_difference_below_what_matters_is_none() -> None:
    values = np.array([100.0] * 20 + [180.0] * 20)
    assert len(found(values)) == 1
    assert found(values, least=100.0) == ()
    assert len(found(np.array([0.0] * 20 + [3.0] * 20))) == 1


def test_what_was_done_just_before_is_named_the_nearest_first() -> None:
    point = ChangePoint(1000.0, 1010.0, 10.0, 30.0, 9.0)
    done = [
        Done(at, "a", "m", "load", text)
        for at, text in ((700.0, "long before"), (850.0, "before"), (1004.0, "right then"), (1011.0, "after"))
    ]
    assert [one.text for one in just_before(point, done)] == ["right then", "before"]
    assert just_before(point, done, lead_seconds=400.0)[-1].text == "long before"


def replicas(*levels: tuple[float, float]) -> dict[str, FloatArray]:
    return {f"r{n}": np.array([before] * 10 + [now] * 10) for n, (before, now) in enumerate(levels)}


@pytest.mark.parametrize(
    ("levels", "apart"),
    [
        (((10.0, 30.0), (10.0, 10.5), (10.0, 9.0)), True),
        (((10.0, 30.0), (10.0, 31.0), (10.0, 29.0)), False),
        (((10.0, 10.2), (10.0, 10.0)), None),
        (((10.0, 30.0),), None),
        (((10.0, 30.0), (np.nan, np.nan)), None),
        (((10.0, 30.0), (10.0, 18.0)), None),
    ],
)
def test_replicas_with_and_without_the_change_are_told_apart(
    levels: tuple[tuple[float, float], ...], apart: bool | None
) -> None:
    grid = times(20)
    seen = sides(grid, replicas(*levels), float(grid[9]), ["r0"])
    assert (seen[0].server, seen[0].touched, seen[0].before, seen[0].now) == ("r0", True, *levels[0])
    assert told_apart(seen) is apart
