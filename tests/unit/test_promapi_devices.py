"""GPU figures of a DCGM exporter, given to the servers whose models run on the GPU."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from history.promapi import PromAnswer, PrometheusApi, PromSeries
from history.promapi_devices import DeviceFeed, gpus_of, is_of_devices
from history.promapi_fetch import Fetcher
from history.promapi_history import PromHistory
from history.promapi_targets import Targets, targets_of
from history.protocol import Grid
from telemetry.prometheus_endpoint import PrometheusEndpoint
from telemetry.scrape import Source

A, B = {"instance": "a:8002"}, {"instance": "b:8002"}
ONE, TWO = "GPU-1", "GPU-2"
BY = ("server", "UUID", "GPU_I_ID", "namespace", "pod", "container")
NOW = 1000.0


def row(labels: dict[str, str], *values: float, times: tuple[float, ...] = ()) -> PromSeries:
    at = np.array(times or [NOW - 15.0 * step for step in range(len(values) - 1, -1, -1)])
    return PromSeries(labels, at, tuple(f"{value:g}" for value in values))


class Api(PrometheusApi):
    """Answers a query with the rows of the first pattern it holds; keeps the queries."""

    def __init__(self, **rows: list[PromSeries]) -> None:
        super().__init__(PrometheusEndpoint("http://prom", matchers=('cluster="prod"',)))
        self.rows = rows
        self.asked: list[str] = []

    def instant(self, query: str, at: float, *, timeout_seconds: float | None = None) -> PromAnswer:
        self.asked.append(query)
        return PromAnswer(tuple(next((rows for key, rows in self.rows.items() if key in query), [])))

    def range(self, query: str, grid: Grid, *, timeout_seconds: float | None = None) -> PromAnswer:
        return self.instant(query, grid.end)


def targets(api: PrometheusApi, **gpus: frozenset[str]) -> Targets:
    found = targets_of(api.endpoint, (), [{**A, "job": "t"}, {**B, "job": "t"}])
    return replace(found, gpus={f"{name}:8002": uuids for name, uuids in gpus.items()})


def dcgm(name: str, uuid: str, *values: float, **more: str) -> PromSeries:
    labels = {"__name__": f"DCGM_FI_DEV_{name}", "UUID": uuid, "instance": "node:9400", "job": "dcgm", **more}
    return row(labels, *values)


def test_the_families_of_the_catalogue() -> None:
    assert is_of_devices("DCGM_FI_DEV_FB_USED")
    assert not is_of_devices("nv_gpu_memory_used_bytes")


def test_a_gpu_belongs_to_the_servers_whose_series_name_it() -> None:
    api = Api(
        DCGM_FI_DEV_GPU_UTIL=[row({"UUID": ONE}, 1.0), row({"UUID": TWO}, 1.0)],
        nv_inference=[
            row({**A, "gpu_uuid": ONE}, 1.0),
            row({**A, "gpu_uuid": TWO}, 1.0),
            row({**B, "gpu_uuid": ONE}, 1.0),
            # A card of which no DCGM exporter tells.
            row({**B, "gpu_uuid": "GPU-3"}, 1.0),
        ],
    )
    assert gpus_of(api, targets(api), NOW) == {"a:8002": {ONE, TWO}, "b:8002": {ONE}}
    assert all('cluster="prod"' in query for query in api.asked)
    assert "count by (instance, gpu_uuid)" in api.asked[1]


def test_without_a_dcgm_exporter_one_question_is_enough() -> None:
    api = Api()
    assert gpus_of(api, targets(api), NOW) == {}
    assert len(api.asked) == 1


def test_what_is_new_becomes_readings_of_each_server() -> None:
    api = Api(
        DCGM=[
            dcgm("FB_USED", ONE, 10.0, 11.0, pod="x", Hostname="n"),
            dcgm("FB_USED", TWO, 20.0, 21.0),
        ]
    )
    known = targets(api, a=frozenset({ONE, TWO}), b=frozenset({ONE}))
    feed = DeviceFeed(api, lambda: known)
    found = feed.scrapes(NOW, 3600.0, ["a:8002", "b:8002", "c:8002"])
    assert [(one.server, one.at, one.source) for one in found] == [
        ("a:8002", NOW - 15, Source.DEVICES),
        ("b:8002", NOW - 15, Source.DEVICES),
        ("a:8002", NOW, Source.DEVICES),
        ("b:8002", NOW, Source.DEVICES),
    ]
    newest = {one.server: one.samples for one in found}
    assert newest["a:8002"].values.tolist() == [11.0, 21.0]
    assert newest["b:8002"].values.tolist() == [11.0]
    assert newest["b:8002"].series[0].labels == (("UUID", ONE), ("pod", "x"))
    assert re.search(r'UUID=~"GPU\\\\-1\|GPU\\\\-2".*\[3600000ms\]', api.asked[0])
    assert feed.scrapes(NOW + 5, 3600.0, ["a:8002", "b:8002"]) == []
    assert "[6000ms]" in api.asked[1]


def test_copies_of_one_gpu_count_once() -> None:
    api = Api(
        DCGM=[
            dcgm("FB_USED", ONE, 10.0, prometheus_replica="1"),
            dcgm("FB_USED", ONE, 12.0, prometheus_replica="0"),
        ]
    )
    known = targets(api, a=frozenset({ONE}))
    (scrape,) = DeviceFeed(api, lambda: known).scrapes(NOW, 60.0, ["a:8002"])
    assert scrape.samples.values.tolist() == [12.0]


def history(api: Api, known: Targets, only: frozenset[str] | None = None) -> PromHistory:
    return PromHistory(Fetcher(api), lambda: known, only=None if only is None else lambda: only, api=api)


def test_a_range_of_a_gpu_is_asked_by_uuid_and_is_everybodys_who_uses_it() -> None:
    api = Api(DCGM=[row({"UUID": ONE, "pod": "x"}, 1.0, 2.0), row({"UUID": TWO}, 3.0, 4.0)])
    known = targets(api, a=frozenset({ONE, TWO}), b=frozenset({ONE}))
    grid = Grid(NOW - 15.0, NOW, 15.0)
    frame = history(api, known).gauge_range("DCGM_FI_DEV_FB_USED", BY, grid)
    (query,) = api.asked
    assert query == (
        "max by (UUID, GPU_I_ID, namespace, pod, container) "
        '(DCGM_FI_DEV_FB_USED{UUID=~"GPU\\\\-1|GPU\\\\-2", cluster="prod"})'
    )
    assert dict(zip(frame.keys, frame.values.T.tolist(), strict=True)) == {
        ("a:8002", ONE, "", "", "x", ""): [1.0, 2.0],
        ("b:8002", ONE, "", "", "x", ""): [1.0, 2.0],
        ("a:8002", TWO, "", "", "", ""): [3.0, 4.0],
    }


def test_one_server_is_asked_for_its_gpus_only() -> None:
    api = Api(DCGM=[row({"UUID": ONE}, 1.0)])
    known = targets(api, a=frozenset({ONE, TWO}), b=frozenset({ONE}))
    grid = Grid(NOW, NOW, 1.0)
    where = (("server", "b:8002"),)
    frame = history(api, known).increase_range(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", BY, 60.0, grid, where=where
    )
    assert frame.keys == (("b:8002", ONE, "", "", "", ""),)
    assert 'UUID=~"GPU\\\\-1"' in api.asked[0] and "increase(DCGM_FI" in api.asked[0]
    nobody = history(api, known, frozenset({"c:8002"})).gauge_range("DCGM_FI_DEV_FB_USED", BY, grid)
    assert nobody.keys == () and len(api.asked) == 1


@pytest.mark.parametrize("family", ["DCGM_FI_DEV_FB_USED", "nv_gpu_memory_used_bytes"])
def test_where_no_uuid_is_known_the_labels_say_whose_it_is(family: str) -> None:
    api = Api(by=[row({**A, "UUID": ONE}, 1.0)])
    frame = history(api, targets(api)).gauge_range(family, ("server", "UUID"), Grid(NOW, NOW, 1.0))
    assert frame.keys == (("a:8002", ONE),)
