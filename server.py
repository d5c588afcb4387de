"""The ASGI edge: what happens at start and end, and the addresses that are not pages.

GET /healthz        `{status, poller_age_seconds, servers: {id: last_success_age_seconds}}`; 503 when dead
GET /metrics        the app's own metrics for Prometheus
GET /plotly.min.js  the script that live charts are drawn with, from the plotly package
"""

from __future__ import annotations

import asyncio
import gc
import importlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

import runtime

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_WARM = ("numpy", "pandas", "pyarrow", "streamlit.dataframe_util", "tritonclient.http")
"""Imported before the first visitor comes, who would wait for them, and before the freeze."""


@asynccontextmanager
async def lifespan(_app: object) -> AsyncIterator[None]:
    """Start the runtime with the process and stop it with the process."""
    await asyncio.to_thread(runtime.current)
    for module in _WARM:
        importlib.import_module(module)
    # Streamlit collects garbage after every run of a page. Frozen, what was imported is not gone through
    # each time: that halves the processor time of an open page.
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        await asyncio.to_thread(runtime.shut_down)


def routes() -> list[Route]:
    """The addresses beside Streamlit's."""
    return [
        Route("/healthz", _healthz),
        Route("/metrics", _metrics),
        Route("/plotly.min.js", _plotly),
    ]


async def _healthz(_request: Request) -> JSONResponse:
    health = runtime.current().health()
    return JSONResponse(health, status_code=200 if health["status"] == "ok" else 503)


def _metrics(_request: Request) -> Response:
    return Response(own_metrics(runtime.current()), media_type=METRICS_CONTENT_TYPE)


def plotly_script() -> Path:
    """The script inside the installed plotly package."""
    return Path(str(resources.files("plotly") / "package_data" / "plotly.min.js"))


async def _plotly(_request: Request) -> FileResponse:
    headers = {"Cache-Control": "public, max-age=86400"}
    return FileResponse(plotly_script(), media_type="text/javascript", headers=headers)


def own_metrics(process: runtime.Runtime) -> bytes:
    """The app's own metrics page."""
    registry = CollectorRegistry()
    registry.register(_OwnMetrics(process))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _OwnMetrics(Collector):
    """Reads the runtime when Prometheus asks; keeps nothing."""

    def __init__(self, process: runtime.Runtime) -> None:
        self._process = process

    def collect(self) -> Iterator[Metric]:
        """All families."""
        yield from self._polling()
        yield from self._memory()
        yield from self._derived()
        yield from self._actions()

    def _polling(self) -> Iterator[Metric]:
        labels = ["server", "source"]
        rounds = CounterMetricFamily("tritonscope_poller_rounds", "Readings of a source", labels=labels)
        failures = CounterMetricFamily(
            "tritonscope_poller_failures", "Readings of a source that failed", labels=labels
        )
        age = GaugeMetricFamily(
            "tritonscope_source_success_age_seconds",
            "Time since a source was last read successfully; absent if it never was",
            labels=labels,
        )
        duration = GaugeMetricFamily(
            "tritonscope_source_duration_seconds", "Time the last reading of a source took", labels=labels
        )
        for (server, source), job in self._process.poller.health().items():
            values = [server, str(source)]
            rounds.add_metric(values, job.rounds)
            failures.add_metric(values, job.failures)
            if job.success_age_seconds is not None:
                age.add_metric(values, job.success_age_seconds)
            if job.last_duration_seconds is not None:
                duration.add_metric(values, job.last_duration_seconds)
        yield from (rounds, failures, age, duration)

    def _memory(self) -> Iterator[Metric]:
        samples = GaugeMetricFamily(
            "tritonscope_source_samples",
            "Samples in a source's last successful reading",
            labels=["server", "source"],
        )
        ring = self._process.ring
        for server, source in self._process.poller.health():
            scrape = ring.last(server, source)
            if scrape is not None:
                samples.add_metric([server, str(source)], len(scrape.samples.series))
        yield samples
        yield GaugeMetricFamily(
            "tritonscope_history_bytes", "Memory of the numbers kept in this process", value=ring.nbytes()
        )

    def _derived(self) -> Iterator[Metric]:
        findings = GaugeMetricFamily(
            "tritonscope_findings", "Present findings of triage", labels=["server", "rule", "severity"]
        )
        judgement = self._process.judgement()
        counts = Counter((one.server, one.rule, str(one.severity)) for one in judgement.findings)
        for labels, count in sorted(counts.items()):
            findings.add_metric(labels, count)
        yield findings
        effort = self._process.effort
        yield CounterMetricFamily(
            "tritonscope_reports", "Times the signals of all models were computed", value=effort.reports
        )
        if effort.last_report_seconds is not None:
            yield GaugeMetricFamily(
                "tritonscope_report_duration_seconds",
                "Time the last computation of all signals took",
                value=effort.last_report_seconds,
            )

    def _actions(self) -> Iterator[Metric]:
        control = self._process.control
        if control is None:
            return
        actions = GaugeMetricFamily(
            "tritonscope_journal_records",
            "Actions the journal holds (the newest 500), by kind and outcome",
            labels=["server", "kind", "outcome"],
        )
        counts: Counter[tuple[str, str, str]] = Counter()
        for record in control.records():
            outcome = "running" if record.outcome is None else str(record.outcome)
            counts[record.action.server, str(record.action.kind), outcome] += 1
        for labels, count in sorted(counts.items()):
            actions.add_metric(labels, count)
        yield actions


def serve(app: str) -> None:
    """Run the ASGI app `module:name` on the host and port of the settings until it is ended."""
    uvicorn: Any = importlib.import_module("uvicorn")
    settings = runtime.current().settings
    uvicorn.run(app, host=settings.app_host, port=settings.app_port, log_level="warning")
