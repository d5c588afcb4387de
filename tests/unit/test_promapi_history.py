"""The history protocol as PromQL, and two histories as one; Prometheus is a server that keeps the queries."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from history.combined import CombinedHistory
from history.promapi import PrometheusApi
from history.promapi_fetch import Fetcher
from history.promapi_history import PromHistory
from history.promapi_targets import Targets, targets_of
from history.protocol import By, Frame, Grid, Matchers, Reduce
from history.ring import Ring
from telemetry.identity import Server
from telemetry.prometheus_endpoint import PrometheusEndpoint
from telemetry.scrape import Samples, Scrape, Series, Source

MODEL: By = ("server", "model", "version")
SUCCESS = "nv_inference_request_success"
A, B = {"instance": "a:8002"}, {"instance": "b:8002"}


class Prometheus:
    """Answers `query_range` with `rows` (labels, value at every time) and keeps the queries."""

    def __init__(self, httpserver: HTTPServer) -> None:
        self.queries: list[str] = []
        self.rows: list[tuple[dict[str, str], float]] = []
        self.url = httpserver.url_for("").rstrip("/")
        httpserver.expect_request("/api/v1/query_range").respond_with_handler(self._answer)

    def _answer(self, request: Request) -> Response:
        form = request.form
        self.queries.append(form["query"])
        times = np.arange(float(form["start"]), float(form["end"]) + 1e-3, float(form["step"])).tolist()
        result = [
            {"metric": labels, "values": [[at, str(value)] for at in times]} for labels, value in self.rows
        ]
        body = {"status": "success", "data": {"resultType": "matrix", "result": result}}
        return Response(json.dumps(body), content_type="application/json")


@pytest.fixture
def prometheus(httpserver: HTTPServer) -> Iterator[Prometheus]:
    yield Prometheus(httpserver)


def history(
    prometheus: Prometheus, *live: dict[str, str], only: frozenset[str] | None = None, **more: Any
) -> PromHistory:
    servers: tuple[Server, ...] = more.pop("servers", ())
    matchers: tuple[str, ...] = more.pop("matchers", ())
    api = PrometheusApi(PrometheusEndpoint(prometheus.url, matchers=matchers))
    targets: Targets = targets_of(api.endpoint, servers, live or (A, B), interval_seconds=15.0, **more)
    return PromHistory(Fetcher(api), lambda: targets, only=None if only is None else lambda: only)


def test_an_increase_is_one_query_with_the_labels_that_are_asked_for(prometheus: Prometheus) -> None:
    prometheus.rows = [
        ({**A, "model": "m", "version": "1"}, 30.0),
        ({**B, "model": "m", "version": "1"}, 6.0),
    ]
    frame = history(prometheus).increase_range(SUCCESS, MODEL, 60.0, Grid(0.0, 120.0, 60.0))
    assert prometheus.queries == [f"sum by (instance, model, version) (increase({SUCCESS}{{}}[60000ms]))"]
    assert frame.keys == (("a:8002", "m", "1"), ("b:8002", "m", "1"))
    assert frame.values.tolist() == [[30.0, 6.0]] * 3


def test_a_window_shorter_than_four_scrapes_is_the_mean_rate_of_four(prometheus: Prometheus) -> None:
    prometheus.rows = [({**A, "model": "m", "version": "1"}, 60.0)]
    frame = history(prometheus).increase_range(SUCCESS, MODEL, 20.0, Grid(0.0, 0.0, 1.0))
    assert "[60000ms]" in prometheus.queries[0]
    assert frame.values.tolist() == [[20.0]]


def test_copies_are_reduced_to_the_largest_before_anything_is_added(prometheus: Prometheus) -> None:
    pair = [{**A, "prometheus_replica": one} for one in "ab"]
    history(prometheus, *pair).increase(SUCCESS, MODEL, 60.0, 100.0)
    assert prometheus.queries == [
        "sum by (instance, model, version) "
        f"(max without (prometheus_replica) (increase({SUCCESS}{{}}[60000ms])))"
    ]


def test_servers_models_and_the_matchers_of_the_settings_stand_in_the_selector(
    prometheus: Prometheus,
) -> None:
    server = Server("s", None, None, match=(("namespace", 'm"l'), ("pod", "t-0")))
    found = history(
        prometheus, servers=(server,), matchers=('cluster="eu"',), version_label="exported_version"
    )
    where: Matchers = (("server", "s"), ("model", "m"), ("version", "2"))
    found.gauge_range("nv_inference_pending_request_count", MODEL, Grid(0.0, 60.0, 60.0), where=where)
    found.gauge("tritonscope_model_instances", MODEL, 0.0, where=where, reduce=Reduce.MAX)
    chosen = 'namespace="m\\"l", pod="t-0", model="m"'
    assert prometheus.queries == [
        "sum by (instance, namespace, pod, model, exported_version) "
        f'(nv_inference_pending_request_count{{{chosen}, exported_version="2", cluster="eu"}})',
        "max by (instance, namespace, pod, model, version) "
        f'(tritonscope_model_instances{{{chosen}, version="2", cluster="eu"}})',
    ]


def test_renamed_labels_come_back_under_their_names(prometheus: Prometheus) -> None:
    prometheus.rows = [({**A, "exported_model": "m", "exported_version": "3"}, 1.0)]
    found = history(prometheus, model_label="exported_model", version_label="exported_version")
    assert found.gauge(SUCCESS, MODEL, 0.0) == {("a:8002", "m", "3"): 1.0}


def test_only_servers_that_are_looked_at_are_answered_and_asked_for(prometheus: Prometheus) -> None:
    prometheus.rows = [({**A, "model": "m", "version": "1"}, 1.0), ({**B, "model": "m", "version": "1"}, 2.0)]
    found = history(prometheus, only=frozenset({"b:8002"}))
    assert found.gauge(SUCCESS, MODEL, 0.0) == {("b:8002", "m", "1"): 2.0}
    assert 'instance=~"b:8002"' in prometheus.queries[0]


def test_without_the_server_in_the_groups_servers_are_added_up_or_the_largest_taken(
    prometheus: Prometheus,
) -> None:
    prometheus.rows = [({**A, "gpu_uuid": "g"}, 3.0), ({**B, "gpu_uuid": "g"}, 5.0)]
    found = history(prometheus)
    assert found.gauge("nv_gpu_memory_used_bytes", ("gpu_uuid",), 0.0) == {("g",): 8.0}
    assert found.gauge("nv_gpu_memory_used_bytes", ("gpu_uuid",), 0.0, reduce=Reduce.MAX) == {("g",): 5.0}


def test_a_printed_nan_is_no_value_in_a_vector_and_nan_in_a_frame(prometheus: Prometheus) -> None:
    prometheus.rows = [({**A, "model": "m", "version": "1"}, math.nan)]
    found = history(prometheus)
    assert found.gauge(SUCCESS, MODEL, 0.0) == {}
    assert np.isnan(found.gauge_range(SUCCESS, MODEL, Grid(0.0, 60.0, 60.0)).values).all()


# ---- ring and Prometheus together


class Asked(Ring):
    """Stands for Prometheus: answers 7 at every time and keeps what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.grids: list[Grid] = []

    def gauge_range(
        self, family: str, by: By, grid: Grid, *, where: Matchers = (), reduce: Reduce = Reduce.SUM
    ) -> Frame:
        self.grids.append(grid)
        times = grid.times()
        return Frame(times, (("s", "old", "1"), ("s", "m", "1")), np.full((len(times), 2), 7.0))

    def increase_range(
        self, family: str, by: By, window_seconds: float, grid: Grid, *, where: Matchers = ()
    ) -> Frame:
        return self.gauge_range(family, by, grid)


def live_ring(start: float, end: float) -> Ring:
    ring = Ring()
    series = (Series(SUCCESS, (("model", "m"), ("version", "1"))),)
    for at in np.arange(start, end + 1, 10.0).tolist():
        ring.accept(Scrape("s", Source.METRICS, at, 0.0, Samples(series, np.array([at]))))
    return ring


def test_the_ring_answers_for_as_long_as_it_looked_and_prometheus_for_the_time_before() -> None:
    remote = Asked()
    combined = CombinedHistory(live_ring(2000.0, 2300.0), remote)
    frame = combined.gauge_range(SUCCESS, MODEL, Grid(0.0, 2300.0, 100.0))
    assert [(grid.start, grid.end) for grid in remote.grids] == [(0.0, 1900.0)]
    assert frame.keys == (("s", "old", "1"), ("s", "m", "1"))
    mine = frame.column(("s", "m", "1"))
    assert mine is not None
    assert mine.tolist() == [7.0] * 20 + [2000.0, 2100.0, 2200.0, 2300.0]
    old = frame.column(("s", "old", "1"))
    assert old is not None and np.isnan(old[20:]).all()


def test_what_the_ring_holds_wholly_is_not_asked_for() -> None:
    remote = Asked()
    combined = CombinedHistory(live_ring(2000.0, 2300.0), remote)
    combined.gauge_range(SUCCESS, MODEL, Grid(2000.0, 2300.0, 10.0))
    combined.increase(SUCCESS, MODEL, 60.0, 2300.0)
    assert remote.grids == []


def test_an_increase_is_the_rings_only_over_whole_windows() -> None:
    remote = Asked()
    combined = CombinedHistory(live_ring(2000.0, 2300.0), remote)
    frame = combined.increase_range(SUCCESS, MODEL, 200.0, Grid(1000.0, 2300.0, 100.0))
    assert [(grid.start, grid.end) for grid in remote.grids] == [(1000.0, 2100.0)]
    mine = frame.column(("s", "m", "1"))
    assert mine is not None
    assert mine[:12].tolist() == [7.0] * 12 and mine[12:] == pytest.approx([200.0, 200.0])


def test_one_moment_whose_window_the_ring_holds_in_part_is_prometheus_alone() -> None:
    remote = Asked()
    combined = CombinedHistory(live_ring(2000.0, 2300.0), remote)
    frame = combined.increase_range(SUCCESS, MODEL, 3600.0, Grid(2300.0, 2300.0, 3600.0))
    assert frame.values.tolist() == [[7.0, 7.0]]


def test_of_a_family_that_only_prometheus_has_everything_is_asked_for() -> None:
    remote = Asked()
    combined = CombinedHistory(live_ring(2000.0, 2300.0), remote)
    combined.gauge_range("tritonscope_model_executions_total", MODEL, Grid(2200.0, 2300.0, 10.0))
    assert [(grid.start, grid.end) for grid in remote.grids] == [(2200.0, 2300.0)]
