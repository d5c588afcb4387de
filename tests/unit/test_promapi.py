"""The client of the query API against a server that answers as Prometheus, proxies and broken things do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import parse_qs

import numpy as np
import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from history.promapi import MAX_POINTS, PrometheusApi
from history.protocol import Grid
from telemetry.errors import NoAnswer, Restricted, ServerRefused, Unreachable, WrongContent
from telemetry.prometheus_endpoint import PrometheusEndpoint


def matrix(*rows: tuple[dict[str, str], list[tuple[float, str]]], **more: object) -> dict[str, object]:
    result = [{"metric": labels, "values": [list(one) for one in values]} for labels, values in rows]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}, **more}


@pytest.fixture
def api(httpserver: HTTPServer) -> Iterator[PrometheusApi]:
    headers = {"X-Scope-OrgID": "team-a", "Authorization": "Bearer t"}
    yield PrometheusApi(PrometheusEndpoint(httpserver.url_for("").rstrip("/"), headers, timeout_seconds=2.0))


def forms(httpserver: HTTPServer) -> list[dict[str, list[str]]]:
    return [parse_qs(request.get_data(as_text=True)) for request, _ in httpserver.log]


def test_an_instant_query_carries_tenant_time_and_timeout(httpserver: HTTPServer, api: PrometheusApi) -> None:
    answer = {"resultType": "vector", "result": [{"metric": {"model": "m"}, "value": [1.5, "NaN"]}]}
    httpserver.expect_request("/api/v1/query", method="POST").respond_with_json(
        {"status": "success", "data": answer}
    )
    (series,) = api.instant("up", 12.3456).series
    assert dict(series.labels) == {"model": "m"} and np.isnan(series.values).all()
    assert series.texts == ("NaN",) and series.times.tolist() == [1.5]
    assert forms(httpserver) == [{"query": ["up"], "time": ["12.346"], "timeout": ["2000ms"]}]
    headers = httpserver.log[0][0].headers
    assert headers["X-Scope-OrgID"] == "team-a" and headers["Authorization"] == "Bearer t"
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"


def test_a_long_range_is_asked_in_pieces_and_joined(httpserver: HTTPServer, api: PrometheusApi) -> None:
    def answered(request: Request) -> Response:
        form = request.form
        start, end, step = (float(form[name]) for name in ("start", "end", "step"))
        times = np.arange(start, end + step / 2, step)
        assert len(times) <= MAX_POINTS
        values = [(float(at), str(int(at))) for at in times]
        return Response(json.dumps(matrix(({"model": "m"}, values))), content_type="application/json")

    httpserver.expect_request("/api/v1/query_range").respond_with_handler(answered)
    grid = Grid(0.0, 2.0 * (2 * MAX_POINTS + 4), 2.0)
    (series,) = api.range("up", grid).series
    assert series.times.tolist() == grid.times().tolist() == series.values.tolist()
    assert len(httpserver.log) == 3


def test_a_piece_that_fails_costs_itself_and_is_told(httpserver: HTTPServer, api: PrometheusApi) -> None:
    asked: list[float] = []

    def answered(request: Request) -> Response:
        asked.append(float(request.form["start"]))
        if len(asked) == 2:
            return Response(json.dumps({"error": "query timed out in expression evaluation"}), status=503)
        return Response(json.dumps(matrix(({"a": "b"}, [(asked[-1], "1")]))), content_type="application/json")

    httpserver.expect_request("/api/v1/query_range").respond_with_handler(answered)
    answer = api.range("up", Grid(0.0, 3.0 * MAX_POINTS - 1, 1.0))
    assert answer.series[0].times.tolist() == [0.0, 2.0 * MAX_POINTS]
    (warning,) = answer.warnings
    assert warning.startswith("a part of the time is missing: Prometheus at ")
    assert warning.endswith("gave up the query: query timed out in expression evaluation")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"warnings": ["store gateway down", "store gateway down"]}, ("store gateway down",)),
        ({"isPartial": True}, ("the answer is partial: some of the storage did not answer",)),
        ({}, ()),
    ],
)
def test_warnings_and_partial_answers_are_told(
    httpserver: HTTPServer, api: PrometheusApi, more: dict[str, object], expected: tuple[str, ...]
) -> None:
    httpserver.expect_request("/api/v1/query").respond_with_json(matrix(**more))
    assert api.instant("up", 1.0).warnings == expected


def test_a_refused_query_says_why_in_prometheus_words(httpserver: HTTPServer, api: PrometheusApi) -> None:
    said = {"status": "error", "errorType": "bad_data", "error": "1:1: parse error: unexpected end"}
    httpserver.expect_request("/api/v1/query").respond_with_json(said, status=400)
    with pytest.raises(ServerRefused) as caught:
        api.instant("(", 1.0)
    host = api.host
    assert (
        caught.value.sentence == f"Prometheus at {host} refuses the query: 1:1: parse error: unexpected end"
    )
    assert caught.value.status == 400


def test_a_proxy_that_refuses_post_is_asked_with_get_from_then_on(
    httpserver: HTTPServer, api: PrometheusApi
) -> None:
    httpserver.expect_request("/api/v1/query", method="POST").respond_with_data("no", status=405)
    httpserver.expect_request("/api/v1/query", method="GET").respond_with_json(matrix())
    api.instant("up", 1.0)
    api.instant("up", 2.0)
    assert [request.method for request, _ in httpserver.log] == ["POST", "GET", "GET"]
    assert httpserver.log[-1][0].args["query"] == "up"


def test_a_missing_credential_is_named_as_such(httpserver: HTTPServer, api: PrometheusApi) -> None:
    httpserver.expect_request("/api/v1/query").respond_with_data("who are you", status=401)
    with pytest.raises(Restricted, match="restricts this API"):
        api.instant("up", 1.0)


@pytest.mark.parametrize(
    "body", ["<html>sign in</html>", "{}", '{"data": {"result": 3, "resultType": "matrix"}}']
)
def test_what_is_not_prometheus_is_said_so(httpserver: HTTPServer, api: PrometheusApi, body: str) -> None:
    httpserver.expect_request("/api/v1/query").respond_with_data(body, content_type="application/json")
    with pytest.raises(WrongContent, match="is it the right address"):
        api.instant("up", 1.0)


def test_an_answer_that_does_not_come_in_time(httpserver: HTTPServer, api: PrometheusApi) -> None:
    import threading

    over = threading.Event()

    def answered(_request: Request) -> Response:
        over.wait(5)
        return Response("{}")

    httpserver.expect_request("/api/v1/query").respond_with_handler(answered)
    with pytest.raises(NoAnswer) as caught:
        api.instant("up", 1.0, timeout_seconds=0.3)
    over.set()
    assert caught.value.sentence == f"Prometheus at {api.host} did not answer within 0.3 s"


def test_nobody_there() -> None:
    with pytest.raises(Unreachable, match="connection refused"):
        PrometheusApi(PrometheusEndpoint("http://127.0.0.1:1")).instant("up", 1.0)
