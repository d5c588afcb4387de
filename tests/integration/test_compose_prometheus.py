"""The stack's Prometheus and Alertmanager files in the real programs: valid, labels and silences as meant."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from sandbox.ports import free_ports
from sandbox.processes import end_group, start_bound
from tests.compose_stack import ROOT, load_stack, load_yaml

pytestmark = pytest.mark.integration

PAGE = 'nv_inference_count{{model="m",version="1",gpu_uuid="GPU-1"}} 5\n'
PROBE = (
    'tritonscope_model_state{{instance="{address}",model="m",version="1",state="READY"}} 1\n'
    'tritonscope_model_memory_bytes{{instance="{address}",model="m",version="1",source="process"}} 7\n'
)
POD = {
    "__meta_kubernetes_namespace": "prod",
    "__meta_kubernetes_pod_name": "triton-5b",
    "__meta_kubernetes_pod_container_name": "triton",
    "__meta_kubernetes_pod_node_name": "node-1",
    "__meta_kubernetes_pod_phase": "Running",
    "__meta_kubernetes_pod_label_app": "resnets",
}
WHOLESALE = {"version": "1.4", "model": "from-a-pod-label", "gpu_uuid": "from-a-pod-label"}


def program(name: str) -> str:
    """Debian's binary in .tools, where make test puts it, or on the PATH."""
    unpacked = (ROOT / ".tools/prometheus").glob(f"**/bin/{name}")
    found = next(unpacked, None) or shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not unpacked (make test does it)")
    return str(found)


def alertmanager_command() -> list[str]:
    """Debian's build looks for its templates under /usr/share: unpacked elsewhere, it is shown them there."""
    binary = Path(program("prometheus-alertmanager"))
    share = binary.parents[1] / "share"
    if share == Path("/usr/share") or not (share / "prometheus/alertmanager/default.tmpl").exists():
        return [str(binary)]
    view = 'mount --bind "$0" /usr/share && exec "$@"'
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", view, str(share), str(binary)]


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        address = f"127.0.0.1:{self.server.server_port}"
        page = PROBE if self.path.startswith(("/probe", "/sidecar")) else PAGE
        if self.path.startswith("/sidecar"):
            address = "127.0.0.1:8002"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(page.format(address=address).encode())

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


@pytest.fixture(scope="module")
def pages() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def pods(address: str, **more: str) -> list[dict[str, Any]]:
    """A target with the labels that Kubernetes service discovery gives it before relabelling."""
    return [{"targets": [address], "labels": POD | WHOLESALE | more}]


def kubernetes_without_discovery(address: str) -> dict[str, Any]:
    # Debian's build knows no kubernetes_sd_configs; what comes out of it is written down instead.
    config = copy.deepcopy(load_yaml("prometheus/kubernetes.yml"))
    config["rule_files"] = []
    config["alerting"]["alertmanagers"] = []
    ports = {"triton": "8002", "tritonscope-exporter": "9105", "dcgm-exporter": "9400"}
    for job in config["scrape_configs"]:
        del job["kubernetes_sd_configs"]
        more = {
            "__meta_kubernetes_pod_container_port_number": ports[job["job_name"]],
            "__meta_kubernetes_pod_ip": "10.0.0.7",
        }
        job["static_configs"] = pods(address, **more)
        job["static_configs"] += pods(address, **more | {"__meta_kubernetes_pod_phase": "Failed"})
        job["static_configs"] += pods(address, **more | {"__meta_kubernetes_pod_container_port_number": "80"})
        if job["job_name"] == "tritonscope-exporter":
            job["metrics_path"] = "/sidecar"
    return config


def operator_without_discovery(address: str) -> dict[str, Any]:
    """What the Operator makes of the PodMonitor: its own labels first, then the relabelings written there."""
    jobs = []
    for endpoint in load_yaml("prometheus/operator.yml")["spec"]["podMetricsEndpoints"]:
        own = [
            {"source_labels": [f"__meta_kubernetes_pod_{name}"], "target_label": label}
            for name, label in (("container_name", "container"), ("name", "pod"))
        ]
        own.append({"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"})
        own += [
            {"target_label": "job", "replacement": "monitoring/triton"},
            {"target_label": "endpoint", "replacement": endpoint["port"]},
        ]
        jobs.append(
            {
                "job_name": f"podMonitor/{endpoint['port']}",
                "metrics_path": "/sidecar" if endpoint["port"] == "exporter" else "/metrics",
                "static_configs": pods(address, __meta_kubernetes_pod_ip="10.0.0.7"),
                "relabel_configs": own + [snake(step) for step in endpoint["relabelings"]],
                "metric_relabel_configs": [snake(step) for step in endpoint.get("metricRelabelings", ())],
            }
        )
    return {"global": {}, "scrape_configs": jobs}


def snake(step: dict[str, Any]) -> dict[str, Any]:
    names = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    return {names.get(name, name): value for name, value in step.items()}


def compose_on(address: str) -> dict[str, Any]:
    text = (ROOT / "prometheus/prometheus.yml").read_text()
    for name in ("triton:8002", "exporter:9105"):
        text = text.replace(f" {name}", f" {address}").replace(f"[{name}]", f'["{address}"]')
    config = yaml.safe_load(text)
    config["rule_files"] = []
    del config["alerting"]
    kept = ("triton", "tritonscope-exporter")
    config["scrape_configs"] = [job for job in config["scrape_configs"] if job["job_name"] in kept]
    for job in config["scrape_configs"]:
        del job["file_sd_configs"]
    return config


class Prometheus:
    """A real one on a configuration, asked over its API."""

    def __init__(self, config: dict[str, Any], folder: Path) -> None:
        config["global"] |= {"scrape_interval": "1s", "scrape_timeout": "1s"}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        [port] = free_ports(1)
        self.url = f"http://127.0.0.1:{port}/api/v1"
        options = [part for part in load_stack()["services"]["prometheus"]["command"] if "retention" in part]
        self.log = (folder / "log").open("wb")
        self.process = start_bound(
            [
                program("prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                *options,
            ],
            environment=dict(os.environ),
            output=self.log,
        )

    def query(self, text: str) -> list[dict[str, str]]:
        """The labels of the series that answer; none also while it starts."""
        try:
            answer = requests.get(f"{self.url}/query", params={"query": text}, timeout=5).json()
        except (requests.ConnectionError, json.JSONDecodeError):
            return []
        return [series["metric"] for series in answer.get("data", {}).get("result", [])]

    def close(self) -> None:
        end_group(self.process, 10.0)
        self.log.close()


def checked(config: dict[str, Any], folder: Path) -> str:
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    answer = subprocess.run(
        [program("promtool"), "check", "config", str(folder / "prometheus.yml")],
        capture_output=True,
        text=True,
        timeout=30,
    )
    return answer.stdout + answer.stderr


def test_promtool_accepts_both_configurations(tmp_path: Path) -> None:
    compose = load_yaml("prometheus/prometheus.yml")
    del compose["rule_files"]
    assert "SUCCESS" in checked(compose, tmp_path)
    assert "SUCCESS" in checked(kubernetes_without_discovery("127.0.0.1:1"), tmp_path)
    compose["scrape_configs"][0]["honour_labels"] = True
    assert "FAILED" in checked(compose, tmp_path)


def test_in_the_stack_the_exporters_series_join_tritons(pages: str, tmp_path: Path, until: Any) -> None:
    join = "nv_inference_count * on (instance, model, version) group_left (state) tritonscope_model_state"
    prometheus = Prometheus(compose_on(pages), tmp_path)
    try:
        until(lambda: prometheus.query('up{job="triton"} == 1'), 60)
        joined = until(lambda: prometheus.query(join), 60)
        [triton] = prometheus.query("nv_inference_count")
        [exporter] = prometheus.query("tritonscope_model_state")
        [up] = prometheus.query('up{job="tritonscope-exporter"}')
    finally:
        prometheus.close()
    own = {"instance": pages, "model": "m", "version": "1", "workload": "examples"}
    assert len(joined) == 1
    assert triton == own | {"__name__": "nv_inference_count", "gpu_uuid": "GPU-1", "job": "triton"}
    named = {"__name__": "tritonscope_model_state", "job": "tritonscope-exporter", "state": "READY"}
    assert exporter == own | named
    assert up["instance"] == pages


@pytest.mark.parametrize(
    ("configured", "particular"),
    [(kubernetes_without_discovery, ("node", "node-1")), (operator_without_discovery, ("endpoint", None))],
    ids=["kubernetes", "operator"],
)
def test_in_kubernetes_tritons_labels_keep_their_names(
    pages: str, tmp_path: Path, until: Any, configured: Any, particular: tuple[str, str | None]
) -> None:
    prometheus = Prometheus(configured(pages), tmp_path)
    try:
        until(lambda: prometheus.query("tritonscope_model_state"), 60)
        [triton] = until(lambda: prometheus.query('nv_inference_count{job="triton"}'), 60)
        [exporter] = prometheus.query("tritonscope_model_state")
    finally:
        prometheus.close()
    pod = {
        "namespace": "prod",
        "pod": "triton-5b",
        "container": "triton",
        "workload": "resnets",
    }
    own = pod | {"model": "m", "version": "1"}
    label, value = particular
    assert triton == own | {
        label: value or "metrics",
        "__name__": "nv_inference_count",
        "gpu_uuid": "GPU-1",
        "job": "triton",
        "instance": pages,
    }
    assert exporter == own | {
        label: value or "exporter",
        "__name__": "tritonscope_model_state",
        "job": "tritonscope-exporter",
        "instance": "10.0.0.7:8002",
        "state": "READY",
    }


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("alertmanager")
    [port] = free_ports(1)
    command = [part for part in load_stack()["services"]["alertmanager"]["command"] if "cluster" in part]
    with (folder / "log").open("wb") as log:
        process = start_bound(
            [
                *alertmanager_command(),
                f"--config.file={ROOT / 'prometheus/alertmanager.yml'}",
                f"--storage.path={folder}",
                f"--web.listen-address=127.0.0.1:{port}",
                *command,
            ],
            environment=dict(os.environ),
            output=log,
        )
    yield f"http://127.0.0.1:{port}/api/v2"
    end_group(process, 10.0)


def test_a_page_silences_what_follows_from_it_and_nothing_else(alertmanager: str, until: Any) -> None:
    shop, other = {"workload": "shop"}, {"workload": "other"}
    page, ticket = {"severity": "page"}, {"severity": "ticket"}
    alerts = {
        "workload page": shop | page,
        "model page": shop | page | {"model": "m"},
        "model ticket": shop | ticket | {"model": "m"},
        "server ticket": shop | ticket,
        "elsewhere": other | ticket | {"model": "m"},
        "page of a model": other | page | {"model": "n"},
        "its ticket": other | ticket | {"model": "n"},
        "no workload, page": page,
        "no workload, ticket": ticket | {"model": "m"},
        "busy": other | ticket | {"model": "y"},
        "replica ticket": other | ticket | {"model": "x", "instance": "a:8002"},
        "ServerDown": other | ticket | {"instance": "a:8002"},
    }
    body = [{"labels": labels | {"alertname": name}} for name, labels in alerts.items()]
    body.append({"labels": other | {"model": "y", "severity": "info", "alertname": "busy"}})

    def posted() -> bool:
        try:
            return requests.post(f"{alertmanager}/alerts", json=body, timeout=5).ok
        except requests.RequestException:
            return False

    def silenced() -> set[str]:
        answer = requests.get(f"{alertmanager}/alerts", params={"inhibited": "true"}, timeout=5).json()
        held = [alert["labels"] for alert in answer if alert["status"]["inhibitedBy"]]
        return {
            f"{one['alertname']}, info" if one["severity"] == "info" else one["alertname"] for one in held
        }

    until(posted, 60)
    expected = {"model page", "model ticket", "server ticket", "its ticket", "replica ticket", "busy, info"}
    until(lambda: silenced() >= expected, 60)
    assert silenced() == expected


def test_amtool_accepts_the_configuration() -> None:
    answer = subprocess.run(
        [program("amtool"), "check-config", str(ROOT / "prometheus/alertmanager.yml")],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert answer.returncode == 0, answer.stdout
    assert "5 inhibit rules" in answer.stdout
