"""Range queries from memory: nothing is asked twice, nobody waits for a Prometheus that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from history.promapi import PromAnswer, PrometheusApi, PromSeries
from history.promapi_fetch import RETRY_SECONDS, Fetcher
from history.protocol import Grid
from telemetry.errors import NoAnswer, ServerRefused, SourceError
from telemetry.prometheus_endpoint import PrometheusEndpoint

KEY = (("instance", "a"),)


class Api(PrometheusApi):
    """Answers every time with the time itself; `hold` keeps answers back, `error` fails them."""

    def __init__(self) -> None:
        super().__init__(PrometheusEndpoint("http://prom"))
        self.asked: list[tuple[str, Grid]] = []
        self.hold = threading.Event()
        self.hold.set()
        self.error: SourceError | None = None
        self.warnings: tuple[str, ...] = ()

    def range(self, query: str, grid: Grid, *, timeout_seconds: float | None = None) -> PromAnswer:
        self.asked.append((query, grid))
        assert self.hold.wait(10)
        if self.error is not None:
            raise self.error
        times = grid.times()
        series = PromSeries({"instance": "a"}, times, tuple(f"{at:g}" for at in times))
        return PromAnswer((series,), self.warnings)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fetcher(api: Api, clock: Clock) -> Fetcher:
    return Fetcher(api, clock=clock)


def settled(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_grid_is_asked_once_and_what_moved_on_costs_its_new_points(api: Api, fetcher: Fetcher) -> None:
    first = fetcher.range("q", Grid(0.0, 100.0, 10.0))
    assert first[KEY].tolist() == Grid(0.0, 100.0, 10.0).times().tolist()
    fetcher.range("q", Grid(20.0, 100.0, 10.0))
    moved = fetcher.range("q", Grid(20.0, 120.0, 10.0))
    assert moved[KEY].tolist() == Grid(20.0, 120.0, 10.0).times().tolist()
    assert [(grid.start, grid.end) for _, grid in api.asked] == [(0.0, 100.0), (90.0, 120.0)]


def test_an_earlier_time_is_asked_for_together_with_what_is_known(api: Api, fetcher: Fetcher) -> None:
    fetcher.range("q", Grid(100.0, 200.0, 10.0))
    fetcher.range("q", Grid(0.0, 50.0, 10.0))
    fetcher.range("q", Grid(100.0, 200.0, 10.0))
    assert [(grid.start, grid.end) for _, grid in api.asked] == [(100.0, 200.0), (0.0, 200.0)]


def test_other_steps_and_queries_are_other_answers(api: Api, fetcher: Fetcher) -> None:
    for query, step in (("q", 10.0), ("q", 20.0), ("r", 10.0)):
        fetcher.range(query, Grid(0.0, 100.0, step))
    assert len(api.asked) == 3


def test_a_reader_waits_as_long_as_it_wants_and_then_has_what_was_known(api: Api, fetcher: Fetcher) -> None:
    fetcher.range("q", Grid(0.0, 100.0, 10.0))
    api.hold.clear()
    start = time.monotonic()
    grid = Grid(0.0, 130.0, 10.0)
    columns = fetcher.patiently(lambda: fetcher.range("q", grid), start + 0.2)
    assert 0.15 < time.monotonic() - start < 1.0
    assert columns[KEY][:11].tolist() == Grid(0.0, 100.0, 10.0).times().tolist()
    assert np.isnan(columns[KEY][11:]).all()
    assert fetcher.status().pending == 1
    api.hold.set()
    settled(lambda: fetcher.status().pending == 0)
    assert fetcher.patiently(lambda: fetcher.range("q", grid), 0.0)[KEY].tolist() == grid.times().tolist()
    assert len(api.asked) == 2


def test_while_one_is_under_way_it_is_not_asked_again(api: Api, fetcher: Fetcher) -> None:
    api.hold.clear()
    for _ in range(5):
        fetcher.patiently(lambda: fetcher.range("q", Grid(0.0, 100.0, 10.0)), 0.0)
    assert len(api.asked) <= 1
    api.hold.set()
    settled(lambda: fetcher.status().pending == 0)
    assert len(api.asked) == 1


def test_several_queries_of_one_reader_run_side_by_side(api: Api, fetcher: Fetcher) -> None:
    api.hold.clear()

    def compute() -> int:
        return sum(len(fetcher.range(f"q{number}", Grid(0.0, 10.0, 1.0))) for number in range(4))

    threading.Timer(0.1, api.hold.set).start()
    assert fetcher.patiently(compute, time.monotonic() + 5) == 4
    assert len(api.asked) == 4


def test_slightly_other_times_show_the_answer_before_while_theirs_is_under_way(
    api: Api, fetcher: Fetcher
) -> None:
    fetcher.range("q", Grid(0.0, 100.0, 10.0))
    api.hold.clear()
    shifted = Grid(3.0, 103.0, 10.0)
    columns = fetcher.patiently(lambda: fetcher.range("q", shifted), 0.0)
    assert columns[KEY].tolist() == Grid(0.0, 100.0, 10.0).times().tolist()
    api.hold.set()
    settled(lambda: fetcher.status().pending == 0)
    assert fetcher.range("q", shifted)[KEY].tolist() == shifted.times().tolist()


def test_one_moment_does_not_blink_while_it_moves(api: Api, fetcher: Fetcher) -> None:
    fetcher.range("q", Grid(100.0, 100.0, 60.0))
    api.hold.clear()
    later = fetcher.patiently(lambda: fetcher.range("q", Grid(160.0, 160.0, 60.0)), 0.0)
    assert later[KEY].tolist() == [100.0]
    assert fetcher.patiently(lambda: fetcher.range("q", Grid(9000.0, 9000.0, 60.0)), 0.0) == {}
    api.hold.set()


def test_a_prometheus_that_fails_is_left_alone_for_a_while_and_the_old_answer_stays(
    api: Api, fetcher: Fetcher, clock: Clock
) -> None:
    fetcher.range("q", Grid(0.0, 100.0, 10.0))
    api.error = NoAnswer("Prometheus at prom did not answer within 10 s")
    moved = Grid(0.0, 200.0, 10.0)
    assert np.isfinite(fetcher.range("q", moved)[KEY][:11]).all()
    status = fetcher.status()
    assert (status.error, status.answered_at) == ("Prometheus at prom did not answer within 10 s", 1000.0)
    fetcher.range("q", moved)
    fetcher.range("other", moved)
    assert len(api.asked) == 2
    clock.now += RETRY_SECONDS + 0.1
    api.error = None
    assert fetcher.range("q", moved)[KEY].tolist() == moved.times().tolist()
    assert (fetcher.status().error, fetcher.status().answered_at) == ("", clock.now)


def test_one_refused_query_is_a_warning_and_the_others_go_on(
    api: Api, fetcher: Fetcher, clock: Clock
) -> None:
    api.error = ServerRefused("Prometheus at prom refuses the query: too many samples", status=422)
    fetcher.range("heavy", Grid(0.0, 100.0, 10.0))
    api.error = None
    assert fetcher.range("light", Grid(0.0, 100.0, 10.0))
    status = fetcher.status()
    assert status.error == "" and status.warnings == (
        "Prometheus at prom refuses the query: too many samples",
    )
    clock.now += 121
    assert fetcher.status().warnings == ()


def test_warnings_of_answers_are_told_for_a_while(api: Api, fetcher: Fetcher) -> None:
    api.warnings = ("partial response",)
    fetcher.range("q", Grid(0.0, 10.0, 1.0))
    assert fetcher.status().warnings == ("partial response",)


def test_the_revision_grows_with_answers_only(api: Api, fetcher: Fetcher) -> None:
    before = fetcher.revision
    fetcher.range("q", Grid(0.0, 10.0, 1.0))
    fetcher.range("q", Grid(0.0, 10.0, 1.0))
    assert fetcher.revision == before + 1


def test_who_must_not_wait_gets_what_is_known_and_the_rest_is_asked_for(api: Api, fetcher: Fetcher) -> None:
    api.hold.clear()
    assert fetcher.at_once(lambda: fetcher.range("up", Grid(900.0, 900.0, 60.0))) == {}
    assert fetcher.status().pending == 1
    api.hold.set()
    settled(lambda: fetcher.status().pending == 0)
    columns = fetcher.at_once(lambda: fetcher.range("up", Grid(900.0, 900.0, 60.0)))
    assert columns[KEY].tolist() == [900.0]
    # A minute later the figure of a minute ago stands until the next one is there.
    api.hold.clear()
    columns = fetcher.at_once(lambda: fetcher.range("up", Grid(960.0, 960.0, 60.0)))
    assert columns[KEY].tolist() == [900.0]
    api.hold.set()
    settled(lambda: fetcher.status().pending == 0)
    columns = fetcher.at_once(lambda: fetcher.range("up", Grid(960.0, 960.0, 60.0)))
    assert columns[KEY].tolist() == [960.0]
