"""The exporter's list of servers changes while it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest
from starlette.requests import Request
from starlette.responses import Response

from collectors.exporter_http import Exporter
from telemetry.identity import Server

# Ports that refuse at once.
A = Server("a", "http://127.0.0.1:9", "http://127.0.0.1:9")
B = Server("b", "http://127.0.0.1:9", "http://127.0.0.1:10")


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    exporter = Exporter((A,))
    yield exporter
    exporter.close()


def asked(exporter: Exporter, path: str, query: str = "") -> tuple[int, str]:
    request = Request(
        {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": query.encode()}
    )
    answer = {"/probe": exporter._probe, "/healthz": exporter._healthz, "/": exporter._index}[path]
    response: Response = asyncio.run(answer(request))
    return response.status_code, bytes(response.body).decode()


def test_a_server_that_comes_can_be_probed_and_one_that_went_cannot(exporter: Exporter) -> None:
    assert asked(exporter, "/probe", "target=b")[0] == 404
    exporter.watch((A, B))
    status, page = asked(exporter, "/probe", "target=b")
    assert status == 200
    assert 'tritonscope_exporter_source_success{instance="127.0.0.1:10",source="index"} 0.0' in page
    exporter.watch((B,))
    status, why = asked(exporter, "/probe", "target=a")
    assert (status, why) == (404, "no server 'a' is configured here. Configured: b.\n")
    assert asked(exporter, "/healthz")[1] == '{"status":"ok","servers":["b"]}'


def test_a_server_is_also_known_by_the_instance_of_its_series_while_that_is_its_alone(
    exporter: Exporter,
) -> None:
    exporter.watch((A, B))
    status, page = asked(exporter, "/probe", "target=127.0.0.1:10")
    assert status == 200
    assert 'source_success{instance="127.0.0.1:10",source="index"} 0.0' in page
    exporter.watch((A, B, replace(B, id="c")))
    status, why = asked(exporter, "/probe", "target=127.0.0.1:10")
    assert (status, why) == (404, "no server '127.0.0.1:10' is configured here. Configured: a, b, c.\n")
    # An id wins over another server's instance.
    exporter.watch((A, replace(B, id="127.0.0.1:9")))
    assert 'instance="127.0.0.1:10"' in asked(exporter, "/probe", "target=127.0.0.1:9")[1]


def test_what_is_kept_about_a_server_stays_while_it_is_written_the_same(exporter: Exporter) -> None:
    before = exporter._probed["a"]
    exporter.watch((replace(A), B))
    assert exporter._probed["a"] is before
    exporter.watch((replace(A, workload="other"), B))
    assert exporter._probed["a"] is not before


def test_with_nobody_listed_it_says_so(exporter: Exporter) -> None:
    exporter.watch(())
    assert asked(exporter, "/probe") == (
        400,
        "name one server, for example /probe?target=ID. No server is listed now.\n",
    )
    assert asked(exporter, "/")[1].splitlines() == ["Tritonscope exporter", "/metrics", "/healthz"]
