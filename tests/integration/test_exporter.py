"""The exporter as its command: on a real tritonserver, beside one that hangs, joined by a real Prometheus."""

from __future__ import annotations

import contextlib
import copy
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import pytest
import requests
import yaml
from prometheus_client.parser import text_string_to_metric_families

from sandbox import Sandbox
from sandbox.ports import free_ports
from signals.definition import Level
from signals.definitions import definition
from signals.evaluation import Dialect
from tests.misbehaving import serving, silent
from tests.prometheus_server import PrometheusServer

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
MODEL = "batch_add_model"
JOINED = (
    "sum without (gpu_uuid) (rate(nv_inference_exec_count[10s]))"
    ' * on (instance, model, version) group_left () (tritonscope_model_state{state="READY"} == 1)'
)
SAME_COUNT = (
    "sum without (gpu_uuid) (nv_inference_exec_count)"
    " == on (instance, model, version) tritonscope_batch_size_count > 0"
)
Samples = dict[str, list[tuple[dict[str, str], float]]]


class Exporter:
    """`python -m collectors.exporter` on a free port with some servers, ended by its pid."""

    def __init__(self, folder: Path, servers: list[dict[str, Any]], *options: str) -> None:
        config = folder / "tritonscope.yml"
        config.write_text(yaml.safe_dump({"servers": servers}))
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("TRITONSCOPE_")
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "collectors.exporter", "--port", "0", *options],
            cwd=ROOT,
            env=environment | {"TRITONSCOPE_CONFIG": str(config)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        if not self.line:
            pytest.fail(f"the exporter ended with status {self.process.wait(15)} before it said its address")
        parts = urlsplit(self.line.split()[2])
        self.address, self.url = parts.netloc, f"http://{parts.netloc}"

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> requests.Response:
        return requests.get(self.url + path, timeout=15, headers=headers)

    def page(self, path: str, timeout: float = 10.0) -> Samples:
        """Sample name -> labels and value, as an independent reader reads the page."""
        answer = self.get(path, {"X-Prometheus-Scrape-Timeout-Seconds": f"{timeout:g}"})
        assert answer.status_code == 200, answer.text
        found: Samples = {}
        for family in text_string_to_metric_families(answer.text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        self.process.wait(15)
        if self.process.stdout is not None:
            self.process.stdout.close()


def entry(triton: Sandbox, server_id: str = "triton") -> dict[str, Any]:
    return {"id": server_id, "url": triton.http_url, "metrics_url": triton.metrics_url}


def values(found: Samples, name: str, /, **labels: str) -> list[float]:
    return [value for own, value in found.get(name, []) if labels.items() <= own.items()]


def infer(triton: Sandbox, rows: int = 1) -> None:
    tensors = [
        {"name": name, "datatype": "FP32", "shape": [rows, 1], "data": [1.0] * rows}
        for name in ("INPUT_A", "INPUT_B")
    ]
    answer = requests.post(f"{triton.http_url}/v2/models/{MODEL}/infer", json={"inputs": tensors}, timeout=10)
    answer.raise_for_status()


def act(triton: Sandbox, verb: str) -> None:
    url = f"{triton.http_url}/v2/repository/models/{MODEL}/{verb}"
    requests.post(url, json={}, timeout=60).raise_for_status()


@pytest.fixture(scope="module")
def exporter(triton: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exporter]:
    with Exporter(tmp_path_factory.mktemp("exporter"), [entry(triton)], "--raw-batch-sizes") as command:
        yield command


# ---- on the real server


def test_the_page_says_of_a_real_server_what_its_own_page_lacks(
    triton: Sandbox, exporter: Exporter, until: Any
) -> None:
    def row_with_three() -> dict[str, Any] | None:
        """Triton counts a request after it has answered it."""
        [row] = requests.get(f"{triton.http_url}/v2/models/{MODEL}/stats", timeout=5).json()["model_stats"]
        sizes = {batch["batch_size"] for batch in row["batch_stats"]}
        return row if 3 in sizes else None

    infer(triton, rows=3)
    row = until(row_with_three)
    found = exporter.page("/probe?target=triton")
    model = {"model": MODEL, "version": "1"}
    assert values(found, "tritonscope_model_state", **model, state="READY") == [1]
    assert values(found, "tritonscope_model_state", **model, state="UNAVAILABLE") == [0]
    assert values(found, "tritonscope_model_executions_total", **model) == [row["execution_count"]]
    assert values(found, "tritonscope_batch_size_sum", **model) == [row["inference_count"]]
    [third] = [batch for batch in row["batch_stats"] if batch["batch_size"] == 3]
    raw = values(found, "tritonscope_batch_executions_total", **model, batch_size="3")
    assert raw == [third["compute_infer"]["count"]]
    assert values(found, "tritonscope_model_max_batch_size", **model) == [4]
    assert values(found, "tritonscope_model_max_queue_delay_us", **model) == [500]
    assert values(found, "tritonscope_model_instances", **model) == [1]
    assert values(found, "tritonscope_model_preferred_batch_size", **model, batch_size="4") == [1]
    assert values(found, "tritonscope_server_info", server="triton", name=triton.server_id) == [1]
    assert values(found, "tritonscope_ensemble_step", model="ensemble_pipeline", step="resnet18") == [1]
    for source in ("index", "statistics", "config", "metadata"):
        assert values(found, "tritonscope_exporter_source_success", source=source) == [1], source
    instance = urlsplit(triton.metrics_url).netloc
    assert {own["instance"] for rows in found.values() for own, _ in rows} == {instance}
    assert not [name for name in found if not name.startswith("tritonscope_")]


def test_an_unloaded_model_keeps_its_state_and_loses_its_numbers(
    triton: Sandbox, exporter: Exporter, until: Any
) -> None:
    model = {"model": MODEL, "version": "1"}
    act(triton, "unload")
    try:

        def unloaded() -> Samples | None:
            found = exporter.page("/probe?target=triton")
            state = values(found, "tritonscope_model_state", **model, state="UNAVAILABLE")
            return found if state == [1] else None

        found = until(unloaded)
        assert values(found, "tritonscope_model_load_failed", **model) == []
        for name in ("tritonscope_model_executions_total", "tritonscope_model_instances"):
            assert values(found, name, **model) == [], name
    finally:
        act(triton, "load")
    assert values(exporter.page("/probe?target=triton"), "tritonscope_model_instances", **model) == [1]


def test_one_configured_server_is_served_as_a_sidecar(exporter: Exporter) -> None:
    found = exporter.page("/metrics")
    assert values(found, "tritonscope_model_state", model=MODEL, state="READY") == [1]
    assert found["tritonscope_exporter_servers"] == [({}, 1)]
    assert found["process_resident_memory_bytes"][0][1] > 1e6


def test_health_and_a_compressed_page(exporter: Exporter) -> None:
    assert exporter.get("/healthz").json() == {"status": "ok", "servers": ["triton"]}
    answer = exporter.get("/probe?target=triton", {"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "tritonscope_model_state{" in answer.text


# ---- several servers


@contextlib.contextmanager
def counting() -> Iterator[tuple[str, list[str]]]:
    """An address and the connections made to it."""
    connections: list[str] = []
    with serving(lambda connection: connections.append(str(connection.getpeername()))) as url:
        yield url, connections


def test_only_configured_servers_are_asked(triton: Sandbox, tmp_path: Path) -> None:
    servers = [entry(triton, "one"), entry(triton, "two")]
    with counting() as (address, connections), Exporter(tmp_path, servers) as command:
        for target in (address, urlsplit(address).netloc, f"{address}/v2", "three"):
            answer = command.get(f"/probe?target={target}")
            assert answer.status_code == 404
            assert answer.text == f"no server {target!r} is configured here. Configured: one, two.\n"
        for path in ("/probe", "/probe?target=", "/probe?target=one&target=two"):
            assert command.get(path).status_code in (400, 404)
        assert command.page("/probe?target=two")["tritonscope_model_state"]
        assert connections == []


def test_several_servers_have_a_metrics_page_that_points_to_probe(triton: Sandbox, tmp_path: Path) -> None:
    with Exporter(tmp_path, [entry(triton, "one"), entry(triton, "two")]) as command:
        text = command.get("/metrics").text
        assert text.startswith("# Configured: one, two. Read each at /probe?target=ID:")
        found = command.page("/metrics")
        assert found["tritonscope_exporter_servers"] == [({}, 2)]
        assert "tritonscope_model_state" not in found


def test_a_server_that_hangs_delays_nobody_and_is_said_to_hang(triton: Sandbox, tmp_path: Path) -> None:
    with serving(silent) as hanging:
        bad = {"id": "bad", "url": hanging, "metrics_url": "none"}
        [dead_port] = free_ports(1)
        dead = {"id": "dead", "url": f"http://127.0.0.1:{dead_port}", "metrics_url": "none"}
        with Exporter(tmp_path, [entry(triton, "good"), bad, dead]) as command:
            command.page("/probe?target=good")
            with ThreadPoolExecutor(4) as threads:
                begin = time.monotonic()
                slow = [threads.submit(command.page, "/probe?target=bad", 3.0) for _ in range(3)]
                good = []
                while not slow[0].done():
                    start = time.monotonic()
                    assert command.page("/probe?target=good", 3.0)["tritonscope_model_state"]
                    good.append(time.monotonic() - start)
                pages = [one.result() for one in slow]
                elapsed = time.monotonic() - begin
            assert elapsed < 3.0, "the page must come before the scrape's time-out"
            assert len(good) >= 3
            assert min(good) < 1.0
            for found in pages:
                for source in ("index", "statistics", "metadata"):
                    assert values(found, "tritonscope_exporter_source_success", source=source) == [0]
                assert values(found, "tritonscope_exporter_source_duration_seconds", source="index")[0] > 1.5
            start = time.monotonic()
            found = command.page("/probe?target=dead", 3.0)
            assert time.monotonic() - start < 1.5
            assert values(found, "tritonscope_exporter_source_success", source="index") == [0]
            assert "tritonscope_model_state" not in found


# ---- joined by Prometheus


def shipped_configuration(triton: Sandbox, exporter: Exporter) -> dict[str, Any]:
    """prometheus/prometheus.yml with the addresses of this test: its two jobs, scraped every second."""
    text = (ROOT / "prometheus/prometheus.yml").read_text()
    for name, address in {
        "triton:8002": urlsplit(triton.metrics_url).netloc,
        "exporter:9105": exporter.address,
    }.items():
        text = text.replace(f" {name}", f" {address}").replace(f"[{name}]", f'["{address}"]')
    config: dict[str, Any] = yaml.safe_load(text)
    jobs = {job["job_name"]: copy.deepcopy(job) for job in config["scrape_configs"]}
    kept = [jobs["triton"], jobs["tritonscope-exporter"]]
    for job in kept:
        del job["file_sd_configs"]
    return {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": kept}


@contextlib.contextmanager
def traffic(triton: Sandbox) -> Iterator[None]:
    """Requests of mixed batch sizes until the block ends."""
    ended = threading.Event()

    def send() -> None:
        while not ended.wait(0.02):
            for rows in (1, 2, 4):
                infer(triton, rows)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        ended.set()
        sender.join()


def ask(prometheus: PrometheusServer, text: str, at: float | None = None) -> dict[str, float]:
    """Model -> value at a time, else now; every result must be of one model only."""
    found = prometheus.query(text, at or time.time())
    numbers = {one["metric"].get("model", ""): float(one["value"][1]) for one in found}
    assert len(numbers) == len(found), f"several series of one model: {text}"
    return numbers


def test_its_series_join_tritons_in_a_real_prometheus(
    triton: Sandbox, exporter: Exporter, tmp_path: Path, until: Any
) -> None:
    prometheus = PrometheusServer(tmp_path, {})
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(shipped_configuration(triton, exporter)))
    instance = urlsplit(triton.metrics_url).netloc
    dialect = Dialect(window="10s")
    busy = definition("instance_busy_ratio", Level.MODEL).promql(dialect)
    by_size = definition("executions_per_second_by_batch_size", Level.MODEL).promql(dialect)
    with prometheus:
        until(prometheus.ready, 60)
        with traffic(triton):
            until(lambda: ask(prometheus, busy).get(MODEL), 60)
            until(lambda: ask(prometheus, JOINED).get(MODEL), 60)
        at = time.time()
        joined = ask(prometheus, JOINED, at)
        ready = ask(prometheus, 'tritonscope_model_state{state="READY"} == 1', at)
        sizes = {
            one["metric"]["batch_size"]: float(one["value"][1])
            for one in prometheus.query(by_size, at)
            if one["metric"]["model"] == MODEL
        }
        ratio = ask(prometheus, busy)[MODEL]
        up: Mapping[str, str] = {
            one["metric"]["job"]: one["metric"]["instance"] for one in prometheus.query("up", time.time())
        }
        strangers = prometheus.query(f'{{__name__=~"tritonscope_.*", instance!="{instance}"}}', time.time())
        doubled = prometheus.query('{exported_instance!=""}', time.time())
        # Without traffic both pages count the same executions.
        until(lambda: ask(prometheus, SAME_COUNT).get(MODEL), 60)
    assert joined[MODEL] > 1
    assert set(joined) == set(ready)
    assert 0 < ratio < 1
    assert {"1", "2", "4"} <= set(sizes)
    assert up == {"triton": instance, "tritonscope-exporter": instance}
    assert strangers == []
    assert doubled == []


# ---- the command


def test_a_taken_port_is_one_sentence_and_exit_status_2(exporter: Exporter) -> None:
    port = exporter.address.rsplit(":", 1)[1]
    answer = subprocess.run(
        [sys.executable, "-m", "collectors.exporter", "--port", port],
        cwd=ROOT,
        env={**os.environ, "TRITONSCOPE_CONFIG": os.devnull},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answer.returncode == 2
    assert answer.stderr == (
        f"Nothing can listen on 127.0.0.1:{port} (Address already in use): "
        "choose another with --address and --port.\n"
    )


def test_it_says_where_it_listens_and_ends_quietly_on_sigterm(triton: Sandbox, tmp_path: Path) -> None:
    with Exporter(tmp_path, [entry(triton)]) as command:
        assert command.line == f"exporter on {command.url}/probe?target=ID for triton\n"
        command.page("/probe?target=triton")
    assert command.process.returncode in (0, -15)
