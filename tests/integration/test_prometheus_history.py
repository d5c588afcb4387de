"""History from a real Prometheus: the ring's numbers, after a restart, without a path, and with it dead."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from history.promapi import PrometheusApi
from history.promapi_feed import Feed
from history.promapi_fetch import Fetcher
from history.promapi_history import PromHistory
from history.promapi_targets import Targets, discover
from history.protocol import Grid
from history.ring import Ring
from runtime import Runtime
from sandbox import Sandbox
from signals.definition import Definition, Level
from signals.definitions import DEFINITIONS
from signals.facts import SignalFacts
from telemetry.identity import ModelKey, Server
from telemetry.prometheus_endpoint import PrometheusEndpoint
from telemetry.scrape import Source
from tests.integration.conftest import Until
from tests.parity import differences, of_history, traffic
from tests.prometheus_jobs import configured, job, runtime_with
from tests.prometheus_server import PrometheusServer

pytestmark = pytest.mark.integration

STEADY = "batch_cost_model"
RATES = {STEADY: 20.0, "batch_add_model": 10.0, "ensemble_pipeline": 1.0, "resnet18": 1.0}
FACTS = SignalFacts(
    steps={("sandbox", "ensemble_pipeline"): {"resnet18": 1, "label_head": 1}},
    ensemble_version={("sandbox", "ensemble_pipeline"): "1"},
)
RAW_ONLY = [row for row in DEFINITIONS if "tritonscope_" not in repr(row.expression)]


@pytest.fixture(scope="module")
def observed(
    triton: Sandbox, tmp_path_factory: pytest.TempPathFactory, until: Until
) -> Iterator[PrometheusServer]:
    """A Prometheus of an HA pair: every page is read twice, apart in prometheus_replica only."""
    folder = tmp_path_factory.mktemp("prometheus")
    jobs = []
    for replica in ("a", "b"):
        one = job("triton", triton.metrics_url, instance="sandbox", prometheus_replica=replica, cluster="lab")
        jobs.append(one["static_configs"][0])
    both = {**job("triton", triton.metrics_url), "static_configs": jobs}
    with configured(folder, [both]) as prometheus, traffic(triton.http_url, RATES):
        until(prometheus.ready, 30.0)
        count = "sum(count_over_time(up[5m]))"

        def watched() -> bool:
            rows = prometheus.query(count, time.time())
            return bool(rows) and float(rows[0]["value"][1]) >= 90

        until(watched, 120.0)
        yield prometheus


@pytest.fixture(scope="module")
def api(observed: PrometheusServer) -> PrometheusApi:
    return PrometheusApi(PrometheusEndpoint(observed.url))


@pytest.fixture(scope="module")
def targets(api: PrometheusApi) -> Targets:
    return discover(api, (), time.time())


def test_the_pair_is_one_server_and_its_copies_are_told(targets: Targets) -> None:
    (target,) = targets.targets
    assert (target.server, target.alive, target.workload) == ("sandbox", True, "triton")
    assert len(target.copies) == 2
    assert targets.duplicates == ("prometheus_replica",)
    assert targets.group == ("instance",)
    assert (targets.model_label, targets.version_label) == ("model", "version")
    assert targets.interval_seconds == pytest.approx(1.0, abs=0.05)


@pytest.fixture(scope="module")
def samples_of_one(api: PrometheusApi, targets: Targets) -> tuple[Ring, PromHistory, Grid]:
    """A ring with the raw samples of the first copy, and Prometheus asked about that copy alone."""
    now = time.time()
    ring = Ring()
    for scrape in Feed(api, lambda: targets, "sandbox").scrapes(now, 120.0):
        ring.accept(scrape)
    only_one = PrometheusEndpoint(api.endpoint.url, matchers=('prometheus_replica="a"',))
    one = PrometheusApi(only_one)
    alone = discover(one, (), now)
    span = ring.span()
    assert span is not None and span[1] - span[0] > 30
    end = math.floor(span[1])
    grid = Grid(float(end - 20), float(end), 1.0)
    return ring, PromHistory(Fetcher(one), lambda: alone, api=one), grid


@pytest.mark.parametrize("row", RAW_ONLY, ids=lambda row: f"{row.level}-{row.name}")
def test_on_identical_samples_ring_and_prometheus_agree(
    row: Definition, samples_of_one: tuple[Ring, PromHistory, Grid]
) -> None:
    ring, remote, grid = samples_of_one
    ours = of_history(ring, FACTS, row, grid, 20.0)
    theirs = of_history(remote, FACTS, row, grid, 20.0)
    expected = row.name not in {"cache_hit_ratio"}
    assert bool(ours) == expected
    found = differences(ours, theirs, 1e-3)
    assert not found, "\n".join(found[:10])


def test_plain_totals_come_from_the_raw_samples(samples_of_one: tuple[Ring, PromHistory, Grid]) -> None:
    ring, remote, grid = samples_of_one
    by = ("server", "model", "version")
    family = "nv_inference_request_success"
    ours = ring.increase(family, by, 20.0, grid.end, plain=True)
    assert ours == remote.increase(family, by, 20.0, grid.end, plain=True)
    assert ours["sandbox", STEADY, "1"] > 100


def test_copies_are_never_added_up(api: PrometheusApi, targets: Targets) -> None:
    now = math.floor(time.time())
    rate = f"sum(rate(nv_inference_request_success{{model='{STEADY}'}}[20s]))"
    summed = float(api.instant(rate, now).series[0].values[0])
    history = PromHistory(Fetcher(api), lambda: targets, api=api)
    grown = history.increase("nv_inference_request_success", ("server", "model"), 20.0, now)
    assert grown["sandbox", STEADY] / 20.0 == pytest.approx(summed / 2, rel=0.05)


# ---- the app


def test_after_a_restart_of_the_app_the_model_shows_the_same(
    triton: Sandbox, observed: PrometheusServer, until: Until
) -> None:
    """A process without Prometheus has watched for a while; a new one takes over from Prometheus' samples."""
    server = Server(
        "sandbox-1", triton.http_url, triton.metrics_url, match=(("instance", "sandbox"), ("cluster", "lab"))
    )
    before = runtime_with(None, servers=(server,), window_seconds=20.0)
    before.start()
    began = time.time()
    until(lambda: before.ring.span() is not None and time.time() - began > 40, 120.0)
    end = math.floor(before.now())
    before.stop()
    after = runtime_with(observed.url, servers=(server,), window_seconds=20.0)
    start = time.monotonic()
    after.start()
    try:
        assert time.monotonic() - start < 4.5
        assert after.ring.latest("sandbox-1", Source.METRICS) is not None, "nothing was taken over"
        grid = Grid(end - 15.0, float(end), 1.0)
        for name in ("requests_per_second", "request_us_mean", "compute_infer_us_mean", "batch_size_mean"):
            old, new = (
                one.signal_range(name, grid, level=Level.MODEL, server="sandbox-1", model=STEADY, version="1")
                for one in (before, after)
            )
            mine, theirs = old.values[:, 0], new.values[:, 0]
            apart = np.abs(mine - theirs) / theirs
            assert np.isfinite(apart).all() and statistics.median(apart) < 0.05, f"{name}: {mine} {theirs}"
        report = until(lambda: _figure(after, "requests_per_second"), 30.0)
        assert report == pytest.approx(RATES[STEADY], rel=0.25)
    finally:
        after.stop()


def _figure(process: Runtime, name: str) -> float | None:
    rows = [row for row in process.report().models if row.key.name == STEADY]
    return rows[0].signals.number(name) if rows else None


def test_without_any_path_to_triton_the_report_comes_from_prometheus(
    observed: PrometheusServer, until: Until
) -> None:
    process = runtime_with(observed.url)
    process.start()
    try:
        assert [server.id for server in process.servers] == ["sandbox"]
        assert (process.servers[0].http_url, process.servers[0].metrics_url) == (None, None)
        assert _figure(process, "requests_per_second") == pytest.approx(RATES[STEADY], rel=0.25)
        key = ModelKey("sandbox", STEADY, "1")
        facts = process.inventory().get(key)
        assert facts is not None and facts.state is None and facts.config is None
        (coverage,) = process.coverage()
        assert coverage.answering and coverage.age_seconds is not None and coverage.age_seconds < 10
        # Nothing can be written to: there is no write side at all.
        assert process.control is None
        page = process.ring.last("sandbox", Source.METRICS)
        assert page is not None and page.payload is not None
        at = process.now()
        until(lambda: process.now() > at, 60.0)
    finally:
        process.stop()


def test_a_server_opens_by_its_instance_beside_a_configured_one(
    triton: Sandbox, observed: PrometheusServer
) -> None:
    process = runtime_with(observed.url, servers=(Server("mine", triton.http_url, triton.metrics_url),))
    process.start()
    try:
        assert [server.id for server in process.servers] == ["mine"]
        assert process.remote is not None
        assert process.remote.open("nobody:1") is None
        assert process.remote.open("sandbox") == "sandbox"
        assert [server.id for server in process.servers] == ["mine", "sandbox"]
        assert any(row.key.server == "sandbox" for row in process.report().models)
    finally:
        process.stop()


def test_with_prometheus_gone_the_app_goes_on_live(triton: Sandbox, tmp_path: Path, until: Until) -> None:
    server = Server("sandbox", triton.http_url, triton.metrics_url, match=(("instance", "sandbox"),))
    prometheus = configured(tmp_path, [job("triton", triton.metrics_url, instance="sandbox")])
    with prometheus, traffic(triton.http_url, {STEADY: 10.0}):
        until(prometheus.ready, 30.0)
        until(lambda: len(prometheus.query("nv_inference_request_success", time.time())), 60.0)
        process = runtime_with(prometheus.url, servers=(server,))
        process.start()
        remote = process.remote
        assert remote is not None and remote.status().error == ""
        now = math.floor(time.time())
        day = Grid(now - 86400.0, float(now), 300.0)
        process.signal_range("pending", day, deadline=time.monotonic() + 5)
    try:
        # Prometheus has ended with the block above.
        longer = Grid(now - 7 * 86400.0, float(now), 3600.0)
        start = time.monotonic()
        process.signal_range("pending", longer, deadline=start + 1.5)
        assert time.monotonic() - start < 2.0
        status = until(lambda: remote.status() if remote.status().error else None, 60.0)
        assert status is not None and "not reachable" in status.error and status.answered_at is not None
        began = process.now()
        until(lambda: process.now() > began + 2, 60.0)
        assert _figure(process, "requests_per_second") is not None
        live = Grid(math.floor(process.now()) - 20.0, math.floor(process.now()), 2.0)
        assert np.isfinite(process.signal_range("pending", live, server="sandbox").values).any()
        assert process.health()["status"] == "ok"
        assert process.verdict(process.judgement()).level.value != "unknown"
    finally:
        process.stop()
