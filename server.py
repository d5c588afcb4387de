"""The ASGI edge: what happens at start and end, and the addresses that are not pages.

GET /healthz        `{status, poller_age_seconds, servers: {id: last_success_age_seconds}}`; 503 when dead
GET /metrics        the app's own metrics for Prometheus
GET /incident.zip   an incident file: of `?minutes=` (default: all that is held), of one `?server=`
GET /incident.html  its summary for a ticket
GET /plotly.min.js  the script that live charts are drawn with, from the plotly package
/sign-in, /sign-out who one is and what one may do; before everything stands `signin.gate.Gate`
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import secrets
import shutil
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

import runtime
from settings import load_settings
from signin.connection import Connection
from signin.forms import Forms
from signin.gate import Gate
from signin.throttle import Throttle
from signin.tickets import PROCESS_TICKETS
from signin.visitors import Claims, Visitors
from telemetry import own_families as own
from telemetry.catalogue import Kind
from telemetry.errors import TritonscopeError

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
        Route("/incident.zip", _incident),
        Route("/incident.html", _incident),
        *_FORMS.routes(),
    ]


def middleware() -> list[Middleware]:
    """What stands before every address, Streamlit's included."""
    return [Middleware(Gate, visitors=_visitors, tickets=PROCESS_TICKETS)]


def sign_in_secrets() -> dict[str, Any]:
    """What Streamlit's sign-in must know, from the settings; empty without single sign-on."""
    oidc = load_settings().access.oidc
    if oidc is None:
        return {}
    found = {
        "redirect_uri": oidc.redirect_uri,
        "cookie_secret": oidc.cookie_secret or secrets.token_urlsafe(48),
        "client_id": oidc.client_id,
        "client_secret": oidc.client_secret,
        "server_metadata_url": oidc.metadata_url,
    }
    return {"auth": found}


def _visitors() -> Visitors:
    return Visitors(runtime.current().settings.access, PROCESS_TICKETS, _claims)


def _claims(cookies: Mapping[str, str]) -> Claims | None:
    """What Streamlit's signed cookie says of a person, None without a valid one made for this address."""
    auth: Any = importlib.import_module("streamlit.auth_util")
    websocket: Any = importlib.import_module("streamlit.web.server.starlette.starlette_websocket")
    raw = websocket._get_signed_cookie_with_chunks(dict(cookies), websocket.USER_COOKIE_NAME)
    claims = json.loads(raw) if raw else None
    if not isinstance(claims, dict) or claims.get("origin") != auth.get_origin_from_redirect_uri():
        return None
    return claims if claims.get("is_logged_in") is True else None


def _issuer_link() -> str:
    auth: Any = importlib.import_module("streamlit.auth_util")
    return f"/auth/login?provider={auth.encode_provider_token('default')}"


_FORMS = Forms(
    _visitors,
    PROCESS_TICKETS,
    Throttle(),
    _issuer_link,
    lambda: [server.id for server in runtime.current().servers],
)


def _sees(request: Request) -> frozenset[str]:
    """Ids of the servers that exist for whoever asks."""
    process = runtime.current()
    me = _visitors().of(Connection.of(request.scope)).identity(process.settings.access)
    return frozenset(server.id for server in process.servers if me.sees(server.id))


async def _healthz(request: Request) -> JSONResponse:
    health = runtime.current().health()
    seen = _sees(request)
    health["servers"] = {server: age for server, age in health["servers"].items() if server in seen}
    return JSONResponse(health, status_code=200 if health["status"] == "ok" else 503)


def _metrics(request: Request) -> Response:
    process = runtime.current()
    if not process.settings.access.metrics_open and len(_sees(request)) < len(process.servers):
        return Response("These figures are for people who may view every server.\n", status_code=403)
    return Response(own_metrics(runtime.current()), media_type=METRICS_CONTENT_TYPE)


_capturing = threading.Lock()


def _incident(request: Request) -> Response:
    """An incident file, or its summary, of the servers that whoever asks may view."""
    minutes, wanted = _minutes(request.query_params.get("minutes")), request.query_params.get("server")
    if minutes is None and "minutes" in request.query_params:
        return Response("minutes must be a number above 0.\n", status_code=400)
    process = runtime.current()
    person = _visitors().of(Connection.of(request.scope)).identity(process.settings.access)
    folder = Path(tempfile.mkdtemp(prefix="tritonscope-incident-"))
    ended = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    if not _capturing.acquire(blocking=False):
        return Response("Another incident file is being written: try again.\n", 503, background=ended)
    try:
        process.capture(
            folder / "incident.zip",
            minutes=minutes,
            sees=lambda server: wanted in (None, "", server) and person.sees(server),
            details=person.sees_details,
        )
    except TritonscopeError as error:
        return Response(f"{error.sentence}\n", 409, background=ended)
    finally:
        _capturing.release()
    at = time.strftime("%Y%m%d-%H%M%S", time.gmtime(process.clock()))
    headers = {"Cache-Control": "no-store"}
    if request.url.path.endswith(".html"):
        with zipfile.ZipFile(folder / "incident.zip") as archive:
            page = archive.read("summary.html")
        headers["Content-Disposition"] = f'attachment; filename="tritonscope-incident-{at}.html"'
        return Response(page, 200, headers, "text/html; charset=utf-8", ended)
    name = f"tritonscope-incident-{at}.zip"
    path = folder / "incident.zip"
    return FileResponse(path, 200, headers, "application/zip", ended, filename=name)


def _minutes(text: str | None) -> float | None:
    try:
        minutes = float(text or "")
    except ValueError:
        return None
    return minutes if 0 < minutes < 1e6 else None


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
        yield from self._probes()

    def _polling(self) -> Iterator[Metric]:
        rounds, failures = _family(own.ROUNDS), _family(own.FAILURES)
        age, duration = _family(own.SUCCESS_AGE), _family(own.DURATION)
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
        samples = _family(own.SAMPLES)
        ring = self._process.ring
        for server, source in self._process.poller.health():
            scrape = ring.last(server, source)
            if scrape is not None:
                samples.add_metric([server, str(source)], len(scrape.samples.series))
        yield samples
        yield _single(own.HISTORY_BYTES, ring.nbytes())

    def _derived(self) -> Iterator[Metric]:
        judgement = self._process.judgement()
        yield _counted(
            own.FINDINGS, ((one.server, one.rule, str(one.severity)) for one in judgement.findings)
        )
        effort = self._process.effort
        yield _single(own.REPORTS, effort.reports)
        if effort.last_report_seconds is not None:
            yield _single(own.REPORT_DURATION, effort.last_report_seconds)

    def _actions(self) -> Iterator[Metric]:
        control = self._process.control
        if control is None:
            return
        actions = _family(own.ACTIONS)
        for labels, count in sorted(control.journal.counts().items()):
            actions.add_metric(labels, count)
        yield actions
        running = (record.action for record in control.records() if record.running)
        yield _counted(own.ACTIONS_RUNNING, ((one.server, str(one.kind)) for one in running))
        yield _single(own.JOURNAL_WRITABLE, 0.0 if control.journal.refusal() else 1.0)
        pending = control.journal.open_restorations()
        yield _counted(own.RESTORATIONS_OPEN, ((one.restoration.server,) for one in pending))

    def _probes(self) -> Iterator[Metric]:
        success, at = _family(own.PROBE_SUCCESS), _family(own.PROBE_TIME)
        for (server, model), one in sorted(self._process.probes.results().items()):
            success.add_metric([server, model, one.version, one.label], float(one.ok))
            at.add_metric([server, model, one.version], one.at)
        yield from (success, at)


def _family(of: own.OwnFamily) -> CounterMetricFamily | GaugeMetricFamily:
    made = CounterMetricFamily if of.kind is Kind.COUNTER else GaugeMetricFamily
    return made(of.name, of.help, labels=of.labels)


def _single(of: own.OwnFamily, value: float) -> Metric:
    family = _family(of)
    family.add_metric([], value)
    return family


def _counted(of: own.OwnFamily, rows: Iterable[tuple[str, ...]]) -> Metric:
    family = _family(of)
    for labels, count in sorted(Counter(rows).items()):
        family.add_metric(labels, count)
    return family


def serve(app: str) -> None:
    """Run the ASGI app `module:name` on the host and port of the settings until it is ended."""
    uvicorn: Any = importlib.import_module("uvicorn")
    try:
        settings = runtime.current().settings
    except TritonscopeError as error:
        raise SystemExit(error.sentence) from error
    # Who connects must stay known: with proxy headers, an address is whatever a header says.
    # The access log is Streamlit's handler's; uvicorn's own would print every line a second time.
    uvicorn.run(
        app,
        host=settings.app_host,
        port=settings.app_port,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
    )
