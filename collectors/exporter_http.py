"""The exporter's addresses: /probe reads one listed server, /metrics the only one, /healthz the process.

A server is named by its id in the configuration, or as it was found, or by the `instance` of its series; an
address in a request is never asked.
"""

from __future__ import annotations

import asyncio
import gzip
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from collectors.exporter_families import Options, families, instance_of
from collectors.exporter_reading import Target
from telemetry.identity import Server

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TIMEOUT_HEADER = "X-Prometheus-Scrape-Timeout-Seconds"
DEFAULT_TIMEOUT_SECONDS = 10.0
"""Prometheus' own default, for a request that does not say its time-out."""
_LEAST_TIMEOUT_SECONDS, _MOST_TIMEOUT_SECONDS = 0.2, 120.0
_READING_SHARE = 0.8
"""Of the scrape's time-out; the rest is for writing the page and sending it."""
_ANSWER_SHARE = 0.95
_COMPRESSION_LEVEL = 3
_SHOWN_IDS = 20


def scrape_timeout_seconds(header: str | None) -> float:
    """The time-out Prometheus says it has, within sensible bounds; its default if it says nothing usable."""
    try:
        seconds = float(header or "")
    except ValueError:
        return DEFAULT_TIMEOUT_SECONDS
    if not math.isfinite(seconds) or seconds <= 0:
        return DEFAULT_TIMEOUT_SECONDS
    return min(max(seconds, _LEAST_TIMEOUT_SECONDS), _MOST_TIMEOUT_SECONDS)


class Exporter:
    """The listed servers and the pages about them.

    Each server has threads of its own and one reading at a time, so that one that hangs delays no other;
    a second request for it meanwhile gets the same page.
    """

    def __init__(self, servers: Sequence[Server], options: Options | None = None) -> None:
        self._options = options or Options()
        self._probed: Mapping[str, _Probed] = {}
        self._probes: Counter[tuple[str, str]] = Counter()
        self.watch(servers)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the listed servers, in their order."""
        return tuple(self._probed)

    def watch(self, servers: Sequence[Server]) -> None:
        """These are the servers from now on; any thread may say so.

        What is kept about one that is listed as before stays.
        """
        before = self._probed
        now = {server.id: _same(before.get(server.id), server) or _Probed(server) for server in servers}
        self._probed = now
        for one in before.values():
            if one is not now.get(one.target.server.id):
                one.close()

    def app(self) -> Starlette:
        """The ASGI application."""
        return Starlette(
            routes=[
                Route("/", self._index),
                Route("/probe", self._probe),
                Route("/metrics", self._metrics),
                Route("/healthz", self._healthz),
            ]
        )

    def close(self) -> None:
        """Let all threads go; readings under way end by their own time-outs."""
        self.watch(())

    # ---- addresses

    async def _index(self, _request: Request) -> Response:
        paths = [f"/probe?target={server_id}" for server_id in self.ids]
        return PlainTextResponse("\n".join(("Tritonscope exporter", *paths, "/metrics", "/healthz", "")))

    async def _healthz(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok", "servers": list(self.ids)})

    async def _probe(self, request: Request) -> Response:
        wanted = request.query_params.getlist("target")
        if len(wanted) != 1:
            example = next(iter(self.ids), "ID")
            return _refusal(400, f"name one server, for example /probe?target={example}. {self._known()}")
        probed = self._named(wanted[0])
        if probed is None:
            return _refusal(404, f"no server {wanted[0][:80]!r} is configured here. {self._known()}")
        found = await self._read(probed, request)
        return found if isinstance(found, Response) else await _page(found, request)

    async def _metrics(self, request: Request) -> Response:
        listed = tuple(self._probed.values())
        if len(listed) != 1:
            text = f"{self._known()} Read each at /probe?target=ID: this page is about the exporter only."
            return await _page(self._own(), request, comment=text)
        found = await self._read(listed[0], request)
        return found if isinstance(found, Response) else await _page([*found, *self._own()], request)

    # ---- one server

    async def _read(self, probed: _Probed, request: Request) -> Sequence[Metric] | Response:
        """The families of one server, or the refusal when a reading begun earlier takes all the time."""
        timeout = scrape_timeout_seconds(request.headers.get(TIMEOUT_HEADER))
        server_id = probed.target.server.id
        reading = probed.under_way
        if reading is None or reading.done():
            try:
                reading = probed.under_way = asyncio.get_running_loop().run_in_executor(
                    probed.threads, self._families, probed.target, _READING_SHARE * timeout
                )
            except RuntimeError:
                # Its threads were let go between the request and now.
                return _refusal(404, f"server {server_id} is not listed any more. {self._known()}")
        try:
            # Shielded: others may wait for the same reading.
            found = await asyncio.wait_for(asyncio.shield(reading), _ANSWER_SHARE * timeout)
        except TimeoutError:
            self._probes[server_id, "timeout"] += 1
            return _refusal(503, f"server {server_id} is still being read after {timeout:g} s")
        self._probes[server_id, "answered"] += 1
        return found

    def _families(self, target: Target, limit_seconds: float) -> Sequence[Metric]:
        return families(target.read(limit_seconds), self._options)

    def _named(self, name: str) -> _Probed | None:
        """The listed server of this id, or the only one whose series carry this `instance`.

        So Prometheus may name a server by the address it scrapes, without knowing ids.
        """
        by_id = self._probed.get(name)
        if by_id is not None:
            return by_id
        found = [one for one in self._probed.values() if instance_of(one.target.server) == name]
        return found[0] if len(found) == 1 else None

    def _known(self) -> str:
        more = len(self.ids) - _SHOWN_IDS
        names = ", ".join(self.ids[:_SHOWN_IDS]) + (f" and {more} more" if more > 0 else "")
        return f"Configured: {names}." if self.ids else "No server is listed now."

    def _own(self) -> Sequence[Metric]:
        """The exporter about itself."""
        probes = CounterMetricFamily(
            "tritonscope_exporter_probes_total", "Requests for a server's page", labels=["target", "outcome"]
        )
        for labels, count in sorted(self._probes.items()):
            probes.add_metric(labels, count)
        servers = GaugeMetricFamily(
            "tritonscope_exporter_servers", "Servers in the configuration", value=len(self._probed)
        )
        return [servers, probes, *ProcessCollector(registry=None).collect()]


class _Probed:
    """One listed server with its thread: one reading at a time."""

    def __init__(self, server: Server) -> None:
        self.target = Target(server)
        self.threads = ThreadPoolExecutor(1, thread_name_prefix=f"probe-{server.id}")
        self.under_way: asyncio.Future[Sequence[Metric]] | None = None

    def close(self) -> None:
        """Let its threads go; a reading under way ends by its own time-outs."""
        self.target.close()
        self.threads.shutdown(wait=False)


def _same(before: _Probed | None, server: Server) -> _Probed | None:
    return before if before is not None and before.target.server == server else None


class _Given(Collector):
    """Families that are there already, for prometheus_client's writer."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = tuple(metrics)

    def collect(self) -> Iterator[Metric]:
        """All of them."""
        return iter(self._metrics)


def page_text(metrics: Iterable[Metric]) -> bytes:
    """Families in the text format 0.0.4."""
    return generate_latest(_Given(metrics))


async def _page(metrics: Sequence[Metric], request: Request, comment: str = "") -> Response:
    packed = "gzip" in request.headers.get("Accept-Encoding", "")
    body = await asyncio.to_thread(_body, metrics, comment, packed)
    headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"} if packed else {}
    return Response(body, media_type=CONTENT_TYPE, headers=headers)


def _body(metrics: Sequence[Metric], comment: str, packed: bool) -> bytes:
    body = page_text(metrics)
    if comment:
        body = f"# {comment}\n".encode() + body
    return gzip.compress(body, _COMPRESSION_LEVEL) if packed else body


def _refusal(status: int, sentence: str) -> Response:
    return PlainTextResponse(f"{sentence}\n", status_code=status)
