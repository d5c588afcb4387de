"""A real Prometheus with scrape jobs of one's own, and a process that has it as its history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runtime import Runtime
from settings import load_settings
from telemetry.identity import Server
from tests.prometheus_server import PrometheusServer


def configured(folder: Path, jobs: list[dict[str, Any]], every: str = "1s") -> PrometheusServer:
    """A Prometheus with these scrape jobs."""
    server = PrometheusServer(folder, {})
    settings = {"global": {"scrape_interval": every, "scrape_timeout": every}, "scrape_configs": jobs}
    (folder / "prometheus.yml").write_text(json.dumps(settings), encoding="utf-8")
    return server


def job(name: str, address: str, **labels: str) -> dict[str, Any]:
    parts = urlsplit(address)
    return {
        "job_name": name,
        "metrics_path": parts.path,
        "static_configs": [{"targets": [parts.netloc], "labels": labels}],
    }


def runtime_with(
    prometheus: str | None, *, servers: tuple[Server, ...] = (), window_seconds: float = 60.0
) -> Runtime:
    environ = {} if prometheus is None else {"TRITONSCOPE_PROMETHEUS_URL": prometheus}
    wanted = {"servers": servers, "live_window_seconds": window_seconds}
    return Runtime(load_settings(environ, None).model_copy(update=wanted))
