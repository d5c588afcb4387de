"""Marks before the process watched: from what Prometheus says at the steps of a chart."""

from __future__ import annotations

import math

import numpy as np
import pytest

from history.events import EventKind
from history.promapi import PromAnswer, PrometheusApi, PromSeries
from history.promapi_fetch import Fetcher
from history.promapi_history import PromHistory
from history.promapi_marks import MAX_EVENTS, events_of
from history.promapi_targets import targets_of
from history.protocol import Grid
from telemetry.identity import ModelKey
from telemetry.prometheus_endpoint import PrometheusEndpoint

A = {"instance": "a:8002"}
KEY = ModelKey("a:8002", "m", "1")
NAN = math.nan
UP, THERE = "min_over_time(up", "version) (nv_inference_request_success"
FALLS, RESTARTS = "resets(nv_inference_request_success", "resets(nv_inference_request_failure"


class Api(PrometheusApi):
    """Answers a range query with the values of the first text it holds; nothing for any other."""

    def __init__(self, **_: object) -> None:
        super().__init__(PrometheusEndpoint("http://prom"))
        self.values: dict[str, list[float]] = {}
        self.asked: list[str] = []

    def range(self, query: str, grid: Grid, *, timeout_seconds: float | None = None) -> PromAnswer:
        self.asked.append(query)
        values = next((row for text, row in self.values.items() if text in query), [])
        labels = A | ({"model": "m", "version": "1"} if "model" in query else {})
        there = [
            (at, f"{value:g}") for at, value in zip(grid.times(), values, strict=False) if value == value
        ]
        times = np.array([at for at, _ in there])
        return PromAnswer((PromSeries(labels, times, tuple(text for _, text in there)),) if there else ())


@pytest.fixture
def api() -> Api:
    return Api()


def told(
    api: Api, up: list[float], *, model: ModelKey | None = KEY, **values: list[float]
) -> list[tuple[float, str]]:
    """(step, kind) of every event; `there` the success counter, `falls` and `restarts` counts of resets."""
    texts = {"there": THERE, "falls": FALLS, "restarts": RESTARTS}
    api.values = {UP: up} | {
        texts[name]: values[name] for name in ("falls", "restarts", "there") if name in values
    }
    targets = targets_of(api.endpoint, (), [{**A, "job": "t"}], interval_seconds=15.0)
    history = PromHistory(Fetcher(api), lambda: targets, api=api)
    grid = Grid(0.0, 60.0 * (len(up) - 1), 60.0)
    return [
        (event.at / 60.0, event.kind.value) for event in events_of(history, targets, "a:8002", model, grid)
    ]


def test_a_model_that_comes_and_goes(api: Api) -> None:
    there = [NAN, NAN, 0.0, 5.0, NAN, NAN]
    assert told(api, [1.0] * 6, there=there) == [(2.0, "load"), (4.0, "unload")]
    assert 'min_over_time(up{instance="a:8002", job="t"}[60000ms])' in api.asked[0]


def test_a_counter_that_falls_is_one_reset_however_many_steps_show_it(api: Api) -> None:
    assert told(api, [1.0] * 6, there=[9.0] * 6, falls=[0.0, 0.0, 1.0, 1.0, 0.0, 0.0]) == [(2.0, "reset")]


def test_what_a_load_explains_is_not_told_twice(api: Api) -> None:
    there = [9.0, NAN, 0.0, 1.0]
    falls = [0.0, NAN, 1.0, 0.0]
    assert told(api, [1.0] * 4, there=there, falls=falls) == [(1.0, "unload"), (2.0, "load")]


def test_a_restart_is_the_servers_and_its_models_resets_are_not_told(api: Api) -> None:
    falls = [0.0, 0.0, 1.0, 0.0]
    assert told(api, [1.0] * 4, there=[9.0] * 4, falls=falls, restarts=falls) == [(2.0, "restart")]


def test_an_outage_is_down_and_up_and_no_unload(api: Api) -> None:
    there = [9.0, NAN, NAN, 1.0, 2.0]
    assert told(api, [1.0, 0.0, 0.0, 1.0, 1.0], there=there) == [(1.0, "down"), (3.0, "up")]


def test_where_prometheus_itself_knew_nothing_nothing_is_concluded(api: Api) -> None:
    there = [9.0, NAN, NAN, 1.0, 2.0]
    assert told(api, [1.0, NAN, NAN, 1.0, 1.0], there=there) == []


def test_of_a_server_alone_its_models_are_not_asked_for(api: Api) -> None:
    assert told(api, [1.0, 0.0, 1.0], model=None, there=[1.0, NAN, 1.0]) == [(1.0, "down"), (2.0, "up")]
    assert not any("request_success" in query for query in api.asked)


def test_what_began_before_the_chart_is_not_told_at_its_edge(api: Api) -> None:
    assert told(api, [1.0] * 3, there=[9.0] * 3, falls=[1.0, 1.0, 0.0], restarts=[2.0, 2.0, 0.0]) == []


def test_of_very_many_the_newest_are_told(api: Api) -> None:
    up = [float(place % 2) for place in range(3 * MAX_EVENTS)]
    found = told(api, up)
    assert len(found) == MAX_EVENTS
    assert found[-1] == (3 * MAX_EVENTS - 1, "up")


def test_the_text_says_how_exactly_the_time_is_known(api: Api) -> None:
    api.values = {UP: [1.0, 1.0], THERE: [NAN, 1.0]}
    targets = targets_of(api.endpoint, (), [{**A, "job": "t"}], interval_seconds=15.0)
    history = PromHistory(Fetcher(api), lambda: targets, api=api)
    (event,) = events_of(history, targets, "a:8002", KEY, Grid(0.0, 7200.0, 7200.0))
    assert (event.kind, event.model) == (EventKind.LOAD, KEY)
    assert event.text == "m v1 was loaded, within the 2 h before"
