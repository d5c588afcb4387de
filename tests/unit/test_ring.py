"""The ring: what it keeps, what it drops, and that absent, failed and printed NaN stay different things."""

from __future__ import annotations

import math

import numpy as np
import pytest

from history.protocol import Grid, Reduce
from history.ring import Ring
from telemetry.errors import Unreachable
from telemetry.scrape import Samples, Scrape, Series, Source

T0 = 1_700_000_000.0
MODEL = ("server", "model", "version")
SUCCESS = "nv_inference_request_success"
PENDING = "nv_inference_pending_request_count"


def series(name: str, **labels: str) -> Series:
    return Series(name, tuple(sorted(labels.items())))


def scrape(
    at: float, values: dict[Series, float], server: str = "a", source: Source = Source.METRICS
) -> Scrape:
    samples = Samples(tuple(values), np.array(list(values.values()), dtype=np.float64))
    return Scrape(server, source, at, 0.01, samples)


def failed(at: float, server: str = "a") -> Scrape:
    return Scrape(server, Source.METRICS, at, 0.01, error=Unreachable("refused"))


def counter_at(value: float, model: str = "alpha") -> dict[Series, float]:
    return {series(SUCCESS, model=model, version="1"): value}


def pending(value: float, model: str = "alpha", **more: str) -> dict[Series, float]:
    return {series(PENDING, model=model, version="1", **more): value}


def filled(values: list[float | None], step: float = 10.0) -> Ring:
    ring = Ring()
    for index, value in enumerate(values):
        ring.accept(scrape(T0 + index * step, {} if value is None else counter_at(value)))
    return ring


def test_increase_over_a_window_whose_edges_are_samples_is_the_plain_difference() -> None:
    ring = filled([100, 130, 145])
    key = ("a", "alpha", "1")
    assert ring.increase(SUCCESS, MODEL, 20, T0 + 20) == {key: 45.0}
    assert ring.increase(SUCCESS, MODEL, 20, T0 + 20, plain=True) == {key: 45.0}


def test_increase_is_extended_to_edges_under_eleven_tenths_of_an_interval_and_half_an_interval_else() -> None:
    ring = filled([1000, 1010, 1020, 1030])
    key = ("a", "alpha", "1")
    # 5 s before and 5 s after the samples are both under 11 s: (30 + 5 + 5) / 30 of 30.
    assert ring.increase(SUCCESS, MODEL, 40, T0 + 35)[key] == pytest.approx(40.0)
    # 60 s lie before the first sample: half an interval is added there, nothing at the end.
    assert ring.increase(SUCCESS, MODEL, 90, T0 + 30)[key] == pytest.approx(35.0)
    assert ring.increase(SUCCESS, MODEL, 90, T0 + 30, plain=True)[key] == 30.0


def test_increase_is_never_extended_back_past_the_zero_of_the_counter() -> None:
    ring = filled([2, 12, 22])
    # 10 per 10 s: the counter was zero 2 s before the first sample, not the 8 s the window leaves.
    assert ring.increase(SUCCESS, MODEL, 28, T0 + 20)[("a", "alpha", "1")] == pytest.approx(22.0)


def test_a_fall_of_a_counter_is_a_reset() -> None:
    ring = filled([100, 130, 4, 24])
    key = ("a", "alpha", "1")
    assert ring.increase(SUCCESS, MODEL, 30, T0 + 30, plain=True)[key] == 54.0
    assert ring.increase(SUCCESS, MODEL, 10, T0 + 20, plain=True)[key] == 4.0


def test_fewer_than_two_samples_give_nothing() -> None:
    ring = filled([100, 130])
    assert ring.increase(SUCCESS, MODEL, 9, T0 + 10) == {}
    assert ring.increase(SUCCESS, MODEL, 60, T0 - 1) == {}
    assert ring.increase("nv_inference_count", MODEL, 60, T0 + 10) == {}


def test_a_gap_leaves_the_increase_and_takes_the_gauge_away() -> None:
    ring = Ring()
    for index, has in enumerate([True, True, False, True]):
        values = {**counter_at(10.0 * index), **pending(3)} if has else counter_at(1, model="bravo")
        ring.accept(scrape(T0 + 10 * index, values))
    key = ("a", "alpha", "1")
    assert ring.gauge(PENDING, MODEL, T0 + 10) == {key: 3.0}
    assert ring.gauge(PENDING, MODEL, T0 + 20) == {}
    assert ring.gauge(PENDING, MODEL, T0 + 29.9) == {}
    assert ring.gauge(PENDING, MODEL, T0 + 30) == {key: 3.0}
    assert ring.increase(SUCCESS, MODEL, 30, T0 + 30, plain=True)[key] == 30.0


def test_a_failed_reading_ends_gauges_until_the_next_answer_and_is_an_attempt() -> None:
    ring = Ring()
    ring.accept(scrape(T0, pending(2)))
    ring.accept(failed(T0 + 2))
    assert ring.gauge(PENDING, MODEL, T0 + 1) == {("a", "alpha", "1"): 2.0}
    assert ring.gauge(PENDING, MODEL, T0 + 2) == {}
    last, latest = ring.last("a", Source.METRICS), ring.latest("a", Source.METRICS)
    assert last is not None and last.at == T0
    assert latest is not None and latest.at == T0 + 2 and not latest.ok


def test_a_gauge_is_too_old_after_the_lookback() -> None:
    ring = Ring(lookback_seconds=300)
    ring.accept(scrape(T0, pending(2)))
    assert ring.gauge(PENDING, MODEL, T0 + 299.9) != {}
    assert ring.gauge(PENDING, MODEL, T0 + 300) == {}
    assert ring.gauge(PENDING, MODEL, T0 - 0.1) == {}


def test_printed_nan_is_not_absence() -> None:
    name = "nv_inference_request_summary_us"
    ring = Ring()
    printed = series(name, model="alpha", version="1", quantile="0.5")
    ring.accept(scrape(T0, {printed: math.nan, **counter_at(0)}))
    vector = ring.gauge(name, MODEL, T0, where=(("quantile", "0.5"),))
    assert list(vector) == [("a", "alpha", "1")] and math.isnan(vector[("a", "alpha", "1")])
    assert ring.gauge(name, MODEL, T0, where=(("quantile", "0.9"),)) == {}
    ring.accept(scrape(T0 + 1, counter_at(0)))
    assert ring.gauge(name, MODEL, T0 + 1, where=(("quantile", "0.5"),)) == {}


def test_groups_sum_and_maximum_and_match_absent_labels() -> None:
    ring = Ring()
    ring.accept(scrape(T0, {**pending(1), **pending(4, gpu_uuid="GPU-a"), **pending(2, gpu_uuid="GPU-b")}))
    key = ("a", "alpha", "1")
    assert ring.gauge(PENDING, MODEL, T0) == {key: 7.0}
    assert ring.gauge(PENDING, MODEL, T0, reduce=Reduce.MAX) == {key: 4.0}
    assert ring.gauge(PENDING, MODEL, T0, where=(("gpu_uuid", ""),)) == {key: 1.0}
    assert ring.gauge(PENDING, ("gpu_uuid",), T0) == {("",): 1.0, ("GPU-a",): 4.0, ("GPU-b",): 2.0}


def test_maximum_prefers_numbers_to_printed_nan() -> None:
    ring = Ring()
    ring.accept(scrape(T0, {**pending(math.nan), **pending(5, model="bravo")}))
    assert ring.gauge(PENDING, ("server",), T0, reduce=Reduce.MAX) == {("a",): 5.0}


def test_several_servers_are_told_apart_or_joined_as_asked() -> None:
    ring = Ring()
    for server, value in (("a", 2.0), ("b", 3.0)):
        ring.accept(scrape(T0, pending(value), server=server))
    assert ring.gauge(PENDING, ("server",), T0) == {("a",): 2.0, ("b",): 3.0}
    assert ring.gauge(PENDING, ("model",), T0) == {("alpha",): 5.0}
    assert ring.gauge(PENDING, ("model",), T0, where=(("server", "b"),)) == {("alpha",): 3.0}
    frame = ring.gauge_range(PENDING, ("model",), Grid(T0, T0 + 1, 1.0))
    assert frame.keys == (("alpha",),) and frame.values.tolist() == [[5.0], [5.0]]
    assert ring.servers() == ("a", "b")


def test_ranges_are_the_instant_answers_at_each_time() -> None:
    ring = Ring()
    for index in range(40):
        values: dict[Series, float] = {}
        if index % 7 != 3:
            values |= counter_at(float((index * 13) % 50))
        if index % 5 != 4:
            values |= pending(float(index))
        ring.accept(failed(T0 + index * 2) if index == 20 else scrape(T0 + index * 2, values))
    grid = Grid(T0 - 4, T0 + 90, 3.0)
    rates = ring.increase_range(SUCCESS, MODEL, 15, grid)
    gauges = ring.gauge_range(PENDING, MODEL, grid)
    key = ("a", "alpha", "1")
    for row, at in enumerate(grid.times()):
        one = ring.increase(SUCCESS, MODEL, 15, at).get(key, math.nan)
        assert rates.values[row, 0] == pytest.approx(one, nan_ok=True)
        assert gauges.values[row, 0] == pytest.approx(
            ring.gauge(PENDING, MODEL, at).get(key, math.nan), nan_ok=True
        )
    assert np.isnan(rates.values).any() and not np.isnan(rates.values).all()


def test_an_empty_ring_and_an_empty_grid_answer_with_nothing() -> None:
    ring = Ring()
    assert ring.span() is None
    assert ring.increase_range(SUCCESS, MODEL, 60, Grid(T0, T0 + 2, 1.0)).values.shape == (3, 0)
    ring.accept(scrape(T0, counter_at(1)))
    assert ring.increase_range(SUCCESS, MODEL, 60, Grid(T0, T0 - 5, 1.0)).values.shape == (0, 1)
    assert ring.span() == (T0, T0)


def test_a_reading_that_is_not_newer_is_dropped_with_a_notice() -> None:
    ring = filled([1, 2])
    revision = ring.revision
    ring.accept(scrape(T0 + 10, counter_at(99)))
    ring.accept(scrape(T0 + 5, counter_at(99)))
    assert ring.revision == revision
    assert [notice.text for notice in ring.notices("a")] == [
        "a reading 0 s older than the one before was dropped",
        "a reading 5 s older than the one before was dropped",
    ]
    assert ring.increase(SUCCESS, MODEL, 10, T0 + 10, plain=True) == {("a", "alpha", "1"): 1.0}
    assert ring.notices("b") == () and len(ring.notices("a", since=T0 + 6)) == 1


def test_a_negative_counter_is_left_out_and_named() -> None:
    ring = Ring()
    ring.accept(scrape(T0, {**counter_at(-5), **counter_at(3, model="bravo"), **pending(-1)}))
    values = ring.gauge(SUCCESS, ("model",), T0)
    assert values[("bravo",)] == 3.0 and math.isnan(values[("alpha",)])
    assert ring.gauge(PENDING, ("model",), T0) == {("alpha",): -1.0}
    (notice,) = ring.notices()
    assert 'model="alpha"' in notice.text and "reads -5" in notice.text


def test_series_that_appear_twice_keep_the_first_value() -> None:
    one = series(PENDING, model="alpha", version="1")
    ring = Ring()
    ring.accept(Scrape("a", Source.METRICS, T0, 0.0, Samples((one, one), np.array([1.0, 2.0]))))
    assert ring.gauge(PENDING, MODEL, T0) == {("a", "alpha", "1"): 1.0}
    assert "appear twice" in ring.notices()[0].text


def test_an_hour_of_readings_is_ten_minutes_in_full_and_ten_second_steps() -> None:
    ring = Ring()
    for index in range(4000):
        ring.accept(scrape(T0 + index, counter_at(float(index))))
    newest = T0 + 3999
    times = ring.sample_times("a", Source.METRICS, T0, newest)
    fine = times[times > newest - 600]
    coarse = times[times <= newest - 700]
    assert len(fine) == 600 and set(np.diff(fine)) == {1.0}
    assert set(np.diff(coarse)) == {10.0}
    assert newest - 3600 - 64 <= times[0] <= newest - 3590
    assert len(times) < 600 + 64 + 310
    key = ("a", "alpha", "1")
    assert ring.increase(SUCCESS, MODEL, 1800, newest)[key] == pytest.approx(1800.0, rel=1e-3)


def test_a_step_of_the_old_part_keeps_an_answer_rather_than_a_failure() -> None:
    ring = Ring(full_rate_seconds=10, step_seconds=10)
    for index in range(200):
        at = T0 + index
        # Every tenth second fails: were the failure kept, the step would hold nothing.
        ring.accept(failed(at) if index % 10 == 9 else scrape(at, counter_at(float(index))))
    frame = ring.gauge_range(SUCCESS, MODEL, Grid(T0 + 10, T0 + 100, 10.0))
    assert not np.isnan(frame.values).any()


def test_memory_stays_bounded_when_models_come_and_go() -> None:
    ring = Ring(full_rate_seconds=20, step_seconds=10, retention_seconds=60)
    for index in range(1500):
        ring.accept(scrape(T0 + index, counter_at(1.0, model=f"model{index}")))
    assert len(ring.labels(SUCCESS)) < 200
    assert ring.nbytes() < 1_000_000
    assert ring.gauge(SUCCESS, ("model",), T0 + 1499) == {("model1499",): 1.0}
    assert ring.labels(SUCCESS)[-1] == ("a", series(SUCCESS, model="model1499", version="1"))


def test_values_survive_thinning_beside_series_that_are_dropped() -> None:
    ring = Ring(full_rate_seconds=20, step_seconds=10, retention_seconds=60)
    for index in range(300):
        short = {} if index > 100 else counter_at(5.0, model="short")
        ring.accept(scrape(T0 + index, {**short, **counter_at(float(index)), **pending(float(-index))}))
    at = T0 + 299
    assert ring.gauge(SUCCESS, ("model",), at) == {("alpha",): 299.0}
    assert ring.gauge(PENDING, ("model",), at) == {("alpha",): -299.0}
    assert ring.increase(SUCCESS, ("model",), 15, at)[("alpha",)] == pytest.approx(15.0)


def test_sightings_say_since_when_a_series_is_there() -> None:
    ring = Ring()
    for index in range(6):
        values = counter_at(1.0)
        if index in (1, 3, 4, 5):
            values |= counter_at(2.0, model="bravo")
        if index < 2:
            values |= counter_at(3.0, model="charlie")
        ring.accept(scrape(T0 + index, values))
    seen = ring.sightings("a", Source.METRICS, (SUCCESS, PENDING), ("model",))
    assert seen[("alpha",)].since is None and seen[("alpha",)].present
    assert seen[("bravo",)].since == T0 + 3 and seen[("bravo",)].last == T0 + 5
    assert not seen[("charlie",)].present and seen[("charlie",)].last == T0 + 1


def test_a_forgotten_server_is_gone() -> None:
    ring = filled([1, 2])
    ring.accept(scrape(T0, counter_at(7), server="b"))
    ring.forget("a")
    assert ring.servers() == ("b",)
    assert ring.last("a", Source.METRICS) is None
    assert ring.gauge(SUCCESS, ("server",), T0) == {("b",): 7.0}
