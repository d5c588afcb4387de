"""From a fault to the pager: real Triton, exporter, Prometheus and Alertmanager with the shipped files.

Only addresses are changed, and Alertmanager's receivers get a webhook. Then the alert's link is opened.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from playwright.sync_api import Page, expect

from sandbox import FAULT_MODELS, Sandbox, SandboxOptions
from sandbox.ports import free_ports
from sandbox.processes import end_group, start_bound
from tests.compose_stack import ROOT, load_yaml
from tests.integration.test_compose_prometheus import alertmanager_command, program
from tools.browser import ARGUMENTS, browser_path

pytestmark = [pytest.mark.integration, pytest.mark.timeout(480)]

WITHIN_SECONDS = 120.0
"""From the fault to the alert in Alertmanager."""
START_SECONDS = 90.0


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """The machine's own Chromium where there is one; Playwright's otherwise."""
    path = browser_path()
    return {**browser_type_launch_args, "args": [*ARGUMENTS], **({"executable_path": path} if path else {})}


@dataclass
class Pager:
    """Takes notifications, as somebody's webhook would."""

    received: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def __enter__(self) -> Pager:
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                received.append((time.monotonic(), {"path": self.path, **body}))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing on the terminal."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def url(self, receiver: str) -> str:
        """Address for one receiver."""
        return f"http://127.0.0.1:{self._server.server_port}/{receiver}"

    def first(self, name: str) -> tuple[float, str] | None:
        """When the first notification of an alert came (monotonic seconds), and at which receiver."""
        for at, told in list(self.received):
            firing = [alert for alert in told["alerts"] if alert["status"] == "firing"]
            if any(alert["labels"]["alertname"] == name for alert in firing):
                return at, told["path"].strip("/")
        return None


@dataclass
class Chain:
    """Everything from Triton to the pager, running."""

    triton: Sandbox
    pager: Pager
    app_url: str
    prometheus_url: str
    alertmanager_url: str

    def query(self, text: str) -> list[dict[str, Any]]:
        """The result of an instant query; none while Prometheus starts."""
        try:
            answer = requests.get(f"{self.prometheus_url}/api/v1/query", params={"query": text}, timeout=5)
            result: list[dict[str, Any]] = answer.json()["data"]["result"]
        except (requests.RequestException, ValueError, KeyError):
            return []
        return result

    def alert(self, name: str, severity: str) -> dict[str, Any] | None:
        """The alert as Alertmanager has it."""
        answer = requests.get(f"{self.alertmanager_url}/api/v2/alerts", timeout=5).json()
        for one in answer:
            if (one["labels"]["alertname"], one["labels"]["severity"]) == (name, severity):
                found: dict[str, Any] = one
                return found
        return None

    def ask(self, model: str) -> int:
        """One request to a fault model; its status."""
        body = {"inputs": [{"name": "INPUT", "shape": [1], "datatype": "FP32", "data": [1.0]}]}
        address = f"{self.triton.http_url}/v2/models/{model}/infer"
        return requests.post(address, json=body, timeout=300).status_code


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory, until: Any) -> Iterator[Chain]:
    """Triton with one good model; the programs on free ports, ended by their own group."""
    folder = tmp_path_factory.mktemp("chain")
    options = SandboxOptions(
        http_port=0, grpc_port=0, metrics_port=0, models=("batch_add_model",), simulated_gpu=False
    )
    processes: list[subprocess.Popen[bytes]] = []
    with Sandbox(options) as triton, Pager() as pager:
        try:
            running = _started(folder, triton, pager, processes)
            until(lambda: _answers(running.app_url), START_SECONDS)
            until(lambda: running.query('up{job="triton"} == 1'), START_SECONDS)
            until(lambda: running.query("tritonscope_model_state == 1"), START_SECONDS)
            yield running
        finally:
            for process in reversed(processes):
                end_group(process, 10.0)


def _started(folder: Path, triton: Sandbox, pager: Pager, processes: list[subprocess.Popen[bytes]]) -> Chain:
    app, exporter, prometheus, alertmanager = free_ports(4)
    chain = Chain(triton, pager, *(f"http://127.0.0.1:{port}" for port in (app, prometheus, alertmanager)))
    metrics = triton.metrics_url.removeprefix("http://").removesuffix("/metrics")
    settings = {
        "servers": [
            {"id": "box", "url": triton.http_url, "metrics_url": f"http://{metrics}", "workload": "examples"}
        ]
    }
    (folder / "tritonscope.yml").write_text(yaml.safe_dump(settings))
    (folder / "prometheus.yml").write_text(
        yaml.safe_dump(_prometheus(metrics, f"127.0.0.1:{exporter}", f"127.0.0.1:{alertmanager}", chain))
    )
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(_alertmanager(pager)))
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("TRITONSCOPE_")
    } | {"TRITONSCOPE_CONFIG": str(folder / "tritonscope.yml"), "TRITONSCOPE_APP_PORT": str(app)}
    commands = {
        "exporter": [sys.executable, "-m", "collectors.exporter", "--port", str(exporter)],
        "alertmanager": [
            *alertmanager_command(),
            f"--config.file={folder / 'alertmanager.yml'}",
            f"--storage.path={folder / 'alerts'}",
            f"--web.listen-address=127.0.0.1:{alertmanager}",
            "--cluster.listen-address=",
        ],
        "prometheus": [
            program("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{prometheus}",
        ],
        "app": [
            *(sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless", "true"),
            *("--server.address", "127.0.0.1", "--server.port", str(app)),
        ],
    }
    for name, command in commands.items():
        with (folder / f"{name}.log").open("wb") as log:
            processes.append(start_bound(command, environment=environment, output=log, folder=ROOT))
    return chain


def _prometheus(metrics: str, exporter: str, alertmanager: str, chain: Chain) -> dict[str, Any]:
    """The shipped prometheus.yml: its intervals, jobs and labels, at other addresses."""
    text = (ROOT / "prometheus/prometheus.yml").read_text()
    text = text.replace("[triton:8002]", f'["{metrics}"]').replace("exporter:9105", exporter)
    text = text.replace("alertmanager:9093", f'"{alertmanager}"').replace("__server: triton", "__server: box")
    config: dict[str, Any] = yaml.safe_load(text.replace("${TRITONSCOPE_PUBLIC_URL}", chain.app_url))
    config["rule_files"] = [str(ROOT / "prometheus/rules/*.yml")]
    kept = ("triton", "tritonscope-exporter")
    config["scrape_configs"] = [job for job in config["scrape_configs"] if job["job_name"] in kept]
    for job in config["scrape_configs"]:
        del job["file_sd_configs"]
    return config


def _alertmanager(pager: Pager) -> dict[str, Any]:
    """The shipped alertmanager.yml, with somewhere to send to."""
    config = load_yaml("prometheus/alertmanager.yml")
    for receiver in config["receivers"]:
        receiver["webhook_configs"] = [{"url": pager.url(receiver["name"])}]
    return config


def _answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/healthz", timeout=5).status_code == 200
    except requests.RequestException:
        return False


def _arrives(chain: Chain, until: Any, figure: Any, name: str, since: float) -> dict[str, Any]:
    """The page in Alertmanager and at the pager, in time."""
    alert: dict[str, Any] = until(lambda: chain.alert(name, "page"), WITHIN_SECONDS)
    seen = time.monotonic() - since
    paged_at, receiver = until(lambda: chain.pager.first(name), WITHIN_SECONDS)
    figure(f"{name}: in Alertmanager after {seen:.0f} s, at the pager after {paged_at - since:.0f} s")
    assert seen < WITHIN_SECONDS
    assert paged_at - since < WITHIN_SECONDS
    assert receiver == "page"
    return alert


def test_a_hung_model_is_paged_within_two_minutes_and_its_link_opens_the_model(
    chain: Chain, until: Any, figure: Any, tmp_path: Path, page: Page
) -> None:
    blocker = tmp_path / "block"
    name = chain.triton.add_model(FAULT_MODELS["hang"], parameters={"while_file_exists": str(blocker)})
    assert requests.post(f"{chain.triton.http_url}/v2/repository/models/{name}/load", timeout=30).ok
    assert chain.ask(name) == 200
    until(lambda: chain.query(f'model:tritonscope_pending:now{{model="{name}"}}'), 60)
    blocker.touch()
    with ThreadPoolExecutor(3) as pool:
        hung_at = time.monotonic()
        answers: list[Future[int]] = [pool.submit(chain.ask, name) for _ in range(3)]
        try:
            alert = _arrives(chain, until, figure, "ModelHung", hung_at)
            labels, annotations = alert["labels"], alert["annotations"]
            assert (labels["model"], labels["workload"], labels["severity"]) == (name, "examples", "page")
            assert annotations["summary"].startswith(f"{name} v1 on 127.0.0.1:")
            assert annotations["value"] == "Waiting requests: 2 requests"
            assert annotations["action"].startswith("Send one test request")
            page.set_default_timeout(30_000)
            page.goto(annotations["dashboard_url"])
            assert page.url.startswith(f"{chain.app_url}/model?")
            expect(page.locator(".ts-verdict").first).to_contain_text(
                f"{name} has 2 waiting requests and finished none for", timeout=30_000
            )
            assert "server=127" not in page.url, "the server is named as the app names it"
        finally:
            blocker.unlink()
        assert [answer.result() for answer in answers] == [200, 200, 200]


def test_a_killed_server_is_paged_within_two_minutes_and_its_link_opens_overview(
    chain: Chain, until: Any, figure: Any, page: Page
) -> None:
    chain.triton.kill(signal.SIGKILL)
    alert = _arrives(chain, until, figure, "ServerDown", time.monotonic())
    labels, annotations = alert["labels"], alert["annotations"]
    assert labels["workload"] == "examples" and "model" not in labels
    assert annotations["action"].startswith("See whether the tritonserver process still runs")
    page.set_default_timeout(30_000)
    page.goto(annotations["dashboard_url"])
    assert re.match(rf"{chain.app_url}/overview\b", page.url)
    verdict = page.locator(".ts-verdict").first
    expect(verdict).to_contain_text("box does not answer (connection refused)", timeout=30_000)
    others = [told for _, told in chain.pager.received if told["path"] == "/page"]
    names = {alert["labels"]["alertname"] for told in others for alert in told["alerts"]}
    assert names <= {"ServerDown", "ModelHung"}
