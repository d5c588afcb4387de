"""A real Prometheus for tests, and the page of facts that an exporter beside Triton would publish for it."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import requests

from sandbox import free_ports
from sandbox.processes import end_group, start_bound

ROOT = Path(__file__).parents[1]
BINARY = ROOT / ".tools" / "prometheus" / "usr" / "bin" / "prometheus"
PROMTOOL = BINARY.with_name("promtool")


class PrometheusServer:
    """Debian's Prometheus on a free port, scraping some pages: a context manager. Ends with us."""

    def __init__(
        self,
        folder: Path,
        pages: Mapping[str, str],
        *,
        every_seconds: float = 1.0,
        rules: Sequence[Path] = (),
        rules_every_seconds: float = 5.0,
    ) -> None:
        """`pages`: job -> address of its page; every series gets instance="sandbox". `rules`: rule files."""
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self._folder = folder
        self._port = port
        self._config = folder / "prometheus.yml"
        config = _config(pages, every_seconds)
        config["global"]["evaluation_interval"] = f"{rules_every_seconds:g}s"
        config["rule_files"] = [str(file) for file in rules]
        self._config.write_text(json.dumps(config), encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        assert BINARY.exists(), f"{BINARY.relative_to(ROOT)} is missing: run bash tools/prometheus.sh"
        log = (self._folder / "prometheus.log").open("wb")
        command = [
            str(BINARY),
            f"--config.file={self._config}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--log.level=warn",
        ]
        with log:
            self._process = start_bound(command, output=log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            end_group(self._process, 20.0)
        shutil.rmtree(self._folder / "data", ignore_errors=True)

    def ready(self) -> bool:
        """True once it answers queries."""
        try:
            return requests.get(f"{self.url}/-/ready", timeout=2).status_code == 200
        except requests.RequestException:
            return False

    def query(self, text: str, at: float) -> list[dict[str, Any]]:
        """The result of an instant query."""
        return self._ask("query", {"query": text, "time": f"{at:.3f}"})

    def query_range(self, text: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """The result of a range query."""
        return self._ask(
            "query_range", {"query": text, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        )

    def rules(self) -> list[dict[str, Any]]:
        """Every rule that is loaded, with its health and the alerts it has raised."""
        answer = requests.get(f"{self.url}/api/v1/rules", timeout=20).json()
        return [rule for group in answer["data"]["groups"] for rule in group["rules"]]

    def _ask(self, what: str, parameters: dict[str, str]) -> list[dict[str, Any]]:
        answer = requests.get(f"{self.url}/api/v1/{what}", params=parameters, timeout=20).json()
        assert answer["status"] == "success", f"{parameters['query']}: {answer.get('error')}"
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result


def _config(pages: Mapping[str, str], every_seconds: float) -> dict[str, Any]:
    interval = f"{round(every_seconds * 1000)}ms"
    jobs = []
    for job, address in pages.items():
        parts = urlsplit(address)
        target = {"targets": [parts.netloc], "labels": {"instance": "sandbox"}}
        jobs.append({"job_name": job, "metrics_path": parts.path, "static_configs": [target]})
    return {"global": {"scrape_interval": interval, "scrape_timeout": interval}, "scrape_configs": jobs}


class TextPage:
    """Serves what a function returns as a metrics page on 127.0.0.1, as a context manager."""

    def __init__(self, text: Callable[[], str]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = text().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Prometheus asks every second: not worth a line each."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self._server.server_port}/metrics"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
