"""Through a real Prometheus alone: an odd replica of a fleet, a server that is down, facts of an exporter."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from history.inventory import ModelFacts
from sandbox import Sandbox
from signals.fleet import Fleet
from telemetry.facts import ModelState
from telemetry.identity import ModelKey
from tests.integration.conftest import Until
from tests.integration.test_exporter import Exporter
from tests.parity import traffic
from tests.prometheus_jobs import configured, job, runtime_with
from tests.prometheus_server import TextPage

pytestmark = pytest.mark.integration

STEADY = "batch_cost_model"
RATES = {STEADY: 20.0, "batch_add_model": 10.0, "ensemble_pipeline": 1.0, "resnet18": 1.0}


def page_of(slow: float) -> Callable[[], str]:
    """A Triton that answers 50 requests a second since its start, in 1 ms each times `slow`."""
    began = time.monotonic()

    def text() -> str:
        count = 1000 + 50 * (time.monotonic() - began)
        rows = {
            "request_success": count,
            "request_failure": 0,
            "count": count,
            "exec_count": count,
            "request_duration_us": count * 1000 * slow,
            "queue_duration_us": count * 100,
        }
        labels = '{model="m",version="1"}'
        return "".join(f"nv_inference_{name}{labels} {value:.3f}\n" for name, value in rows.items())

    return text


def test_the_odd_one_of_a_fleet_is_found_through_prometheus(tmp_path: Path, until: Until) -> None:
    pages = [TextPage(page_of(slow)) for slow in (1.0, 1.02, 0.99, 3.0)]
    jobs = []
    for page in pages:
        page.__enter__()
    try:
        for number, page in enumerate(pages):
            target = job("triton", page.url, instance=f"t{number}:8002", workload="search")
            jobs.append(target["static_configs"][0])
        with configured(tmp_path, [{**job("triton", pages[0].url), "static_configs": jobs}]) as prometheus:
            until(prometheus.ready, 30.0)
            process = runtime_with(prometheus.url)
            until(lambda: len(prometheus.query("nv_inference_count", time.time())) == 4, 60.0)
            process.start()
            try:
                assert [server.id for server in process.servers] == [f"t{number}:8002" for number in range(4)]

                def found() -> Fleet | None:
                    fleet = process.fleet(deadline=time.monotonic() + 3)
                    return fleet if fleet.odd else None

                process_fleet = until(found, 90.0)
            finally:
                process.stop()
    finally:
        for page in pages:
            page.__exit__(None, None, None)
    assert process_fleet is not None
    assert process_fleet.workloads == {"search": tuple(f"t{number}:8002" for number in range(4))}
    (odd,) = process_fleet.odd
    assert (odd.key.server, odd.signal, odd.siblings) == ("t3:8002", "request_us_mean", 3)
    assert odd.value == pytest.approx(3000, rel=0.01) and odd.median == pytest.approx(1000, rel=0.01)


def test_a_server_that_prometheus_cannot_scrape_is_down_and_only_then(tmp_path: Path, until: Until) -> None:
    with TextPage(page_of(1.0)) as page:
        prometheus = configured(tmp_path, [job("triton", page.url, instance="t0:8002")])
        with prometheus:
            until(prometheus.ready, 30.0)
            until(lambda: len(prometheus.query("nv_inference_count", time.time())) == 1, 60.0)
            process = runtime_with(prometheus.url)
            process.start()
            try:
                assert process.coverage()[0].answering
                stopped = threading.Thread(target=page.__exit__, args=(None, None, None))
                stopped.start()
                stopped.join()
                down = until(lambda: one if not (one := process.coverage()[0]).answering else None, 30.0)
                assert down is not None
                assert "could not scrape t0:8002" in down.sentence
            finally:
                process.stop()


def test_states_and_facts_come_from_the_exporter_where_there_is_one(
    triton: Sandbox, tmp_path: Path, until: Until
) -> None:
    exporter = Exporter(
        tmp_path,
        [{"id": "s", "url": triton.http_url, "metrics_url": triton.metrics_url}],
        "--raw-batch-sizes",
    )
    instance = urlsplit(triton.metrics_url).netloc
    try:
        probe = {
            **job("exporter", f"{exporter.url}/probe"),
            "honor_labels": True,
            "params": {"target": ["s"]},
        }
        jobs = [job("triton", triton.metrics_url), probe]
        with configured(tmp_path, jobs, "2s") as prometheus, traffic(triton.http_url, RATES):
            until(prometheus.ready, 30.0)
            until(lambda: len(prometheus.query("tritonscope_model_instances", time.time())) > 3, 60.0)
            process = runtime_with(prometheus.url)
            process.start()
            try:
                until(lambda: process.servers, 60.0)
                assert [server.id for server in process.servers] == [instance]

                def told(name: str) -> ModelFacts | None:
                    """Numbers, states and facts of configurations come by queries of their own."""
                    facts = process.inventory().get(ModelKey(instance, name, "1"))
                    return facts if facts and facts.state and facts.config is not None else None

                facts, ensemble = (until(lambda n=n: told(n), 30.0) for n in (STEADY, "ensemble_pipeline"))
                assert facts is not None and facts.state is ModelState.READY
                assert facts.config is not None and facts.config.max_batch_size == 16
                assert facts.config.raw == {} and facts.instance_count == 1
                assert ensemble is not None and ensemble.ensemble and ensemble.config is not None
                assert set(ensemble.config.step_uses) == {"resnet18", "label_head"}

                def busy() -> bool:
                    rows = [row for row in process.report().models if row.key.name == STEADY]
                    value = rows[0].signals.number("instance_busy_ratio") if rows else None
                    return value is not None and value > 0

                until(busy, 30.0)
                (coverage,) = process.coverage()
                assert coverage.version == "2.51.0"
            finally:
                process.stop()
    finally:
        exporter.process.terminate()
        exporter.process.wait(10)
