"""Pages with a Prometheus behind them: longer ranges, servers that only it knows, and what is said of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from fake_runtime import CASES, SMALL, runtime_of, text
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from runtime import Runtime
from settings import load_settings

MOMENTS = ("1_idle", "2_under_load", "3_after_load")


class Prometheus:
    """Knows two servers of an HA pair; every family of one model grows by 2 a second, for ever."""

    def __init__(self, httpserver: HTTPServer) -> None:
        self.url = httpserver.url_for("").rstrip("/")
        self.silent = False
        httpserver.expect_request("/api/v1/query").respond_with_handler(self._instant)
        httpserver.expect_request("/api/v1/query_range").respond_with_handler(self._range)

    def _instant(self, request: Request) -> Response:
        query, now = request.form["query"], float(request.form["time"])
        copies = [
            {
                "instance": f"far-{number}:8002",
                "job": "triton",
                "workload": "search",
                "prometheus_replica": one,
            }
            for number in (1, 2)
            for one in "ab"
        ]
        if query.startswith("count without"):
            return self._answered("vector", [{"metric": one, "value": [now, "1"]} for one in copies])
        if query.startswith(("count(", "count by (UUID)")):
            return self._answered("vector", [])
        times = np.arange(now - 120, now, 15.0).tolist()
        if query.startswith("up{"):
            return self._answered("matrix", [{"metric": copies[0], "values": [[at, "1"] for at in times]}])
        return self._answered("matrix", self._page(query, copies, times))

    def _page(self, query: str, copies: list[dict[str, str]], times: list[float]) -> list[dict[str, object]]:
        if "tritonscope_" in query:
            return []
        (copy,) = [one for one in copies if all(f'{name}="{value}"' in query for name, value in one.items())]
        model = {"model": "far_model", "version": "3"}
        rows = []
        for name, scale in (("request_success", 2.0), ("request_duration_us", 8000.0), ("exec_count", 1.0)):
            metric = {"__name__": f"nv_inference_{name}", **copy, **model}
            rows.append({"metric": metric, "values": [[at, str(scale * at)] for at in times]})
        return rows

    def _range(self, request: Request) -> Response:
        if self.silent:
            return Response("gone", status=502)
        form = request.form
        if "tritonscope_" in form["query"] or "_summary_" in form["query"]:
            return self._answered("matrix", [])
        times = np.arange(float(form["start"]), float(form["end"]) + 1e-3, float(form["step"])).tolist()
        metric = {"instance": "far-1:8002", "model": "far_model", "version": "3"}
        value = "1" if "(up{" in form["query"] else "0" if "resets(" in form["query"] else "120"
        if (
            "(nv_inference_request_success{" in form["query"]
            and value == "120"
            and "increase" not in form["query"]
        ):
            # It was loaded in the middle of the time that is asked about.
            times = times[len(times) // 2 :]
        return self._answered("matrix", [{"metric": metric, "values": [[at, value] for at in times]}])

    def _answered(self, kind: str, result: list[dict[str, object]]) -> Response:
        body = {"status": "success", "data": {"resultType": kind, "result": result}}
        return Response(json.dumps(body), content_type="application/json")


@pytest.fixture
def prometheus(httpserver: HTTPServer) -> Prometheus:
    return Prometheus(httpserver)


@pytest.fixture
def far(prometheus: Prometheus) -> Iterator[Runtime]:
    """Nothing is configured but Prometheus."""
    process = Runtime(load_settings({"TRITONSCOPE_PROMETHEUS_URL": prometheus.url}, None))
    process.start()
    yield process
    process.stop()


def ranges(page) -> list[str]:
    (control,) = [one for one in page.app.get("button_group") if one.label == "Range"]
    return [option.content for option in control.proto.options]


def test_without_prometheus_ranges_end_with_what_the_process_remembers(
    open_page: Callable[..., object],
) -> None:
    page = open_page(runtime_of([text(CASES / "a02_counter_suffix.prom")]))
    assert ranges(page) == ["5m", "15m", "1h"]
    assert "Prometheus" not in page.words("header")


def test_a_start_with_prometheus_alone_shows_its_servers(
    far: Runtime, open_page: Callable[..., object]
) -> None:
    page = open_page(far)
    assert ranges(page) == ["5m", "15m", "1h", "6h", "24h", "7d", "30d"]
    assert page.words("header").startswith("Nothing is wrong")
    assert "history from Prometheus" in page.words("header")
    assert "they are counted once" in page.panels["header"] and "prometheus_replica" in page.panels["header"]
    rows = {row[0]: row[1:] for row in page.rows("models") if len(row) > 3}
    assert rows["far_modelv3 on far-1:8002"][1] == "2"
    assert rows["far_modelv3 on far-1:8002"][4] == "4 ms"


def test_what_only_the_server_could_tell_is_not_reported_with_its_reason(
    far: Runtime, open_page: Callable[..., object]
) -> None:
    page = open_page(far, "model", model="far_model", version="3", server="far-1:8002")
    assert page.words("header").startswith("far_model v3 answers 2 req/s in 4 ms on average")
    assert "only the server itself or its exporter tells it" in page.words("configuration")


def test_a_long_range_is_drawn_from_prometheus(far: Runtime, open_page: Callable[..., object]) -> None:
    page = open_page(far, "model", model="far_model", version="3", server="far-1:8002", range="7d")
    header = page.charts["Throughput and failures"]
    assert b'"empty":""' in header
    start, end = json.loads(header[4 : 4 + int.from_bytes(header[:4], "little")])["range"]
    assert b"Prometheus has no batch sizes of this time" in page.charts["histogram"]
    assert 7 * 86400 <= end - start <= 7 * 86400 + 3600
    # A week moves on every 300 s, and what Prometheus fed last may be a minute old by then.
    assert 0 <= time.time() - end < 300 + 60


def test_what_happened_before_the_process_watched_is_marked(
    far: Runtime, open_page: Callable[..., object]
) -> None:
    page = open_page(far, "model", model="far_model", version="3", server="far-1:8002", range="7d")
    chart = page.charts["Throughput and failures"]
    assert chart.count(b"far_model v3 was loaded, within the 60 min before") == 1


def test_a_server_that_is_not_configured_opens_by_its_instance(
    prometheus: Prometheus, open_page: Callable[..., object]
) -> None:
    environ = {"TRITONSCOPE_URL": "http://127.0.0.1:1", "TRITONSCOPE_PROMETHEUS_URL": prometheus.url}
    process = Runtime(load_settings(environ, None))
    assert process.remote is not None
    process.remote.start()
    try:
        page = open_page(process, "model", server="far-2:8002", model="far_model", version="3")
        assert page.words("header").startswith("far_model v3 answers 2 req/s")
        assert "on far-2:8002" in page.words("header")
        assert [server.id for server in process.servers] == ["127.0.0.1:1", "far-2:8002"]
    finally:
        process.remote.stop()


def test_with_prometheus_gone_the_page_says_so_and_shows_what_it_remembers(
    open_page: Callable[..., object],
) -> None:
    pages = [text(SMALL / f"summary_{moment}_metrics.txt") for moment in MOMENTS]
    environ = {"TRITONSCOPE_PROMETHEUS_URL": "http://127.0.0.1:1"}
    process = runtime_of(pages, environ=environ)
    page = open_page(process, "model", model="fast_add", range="6h")
    # The first drawing asks and is refused; the next one knows.
    page = open_page(process, "model", model="fast_add", range="6h")
    words = page.words("header")
    assert "fast_add v1 answers 287 req/s" in words
    assert "Prometheus is silent: only what this app remembers is shown" in words
    assert "connection refused" in page.panels["header"]
    assert b"Prometheus is silent" in page.charts["histogram"]
