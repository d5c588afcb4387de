"""The HTTP client against servers that misbehave, on real sockets of this machine."""

from __future__ import annotations

import gzip
import socket
import time

import pytest

from telemetry.errors import (
    NoAnswer,
    NotFound,
    NotHttp,
    Restricted,
    ServerRefused,
    SourceError,
    TlsFailed,
    Unreachable,
    WrongContent,
)
from telemetry.identity import Server
from telemetry.transport import Transport
from tests.misbehaving import (
    Behaviour,
    answering,
    closing,
    cut_short,
    not_http,
    request_of,
    serving,
    silent,
    trickling,
)


def get(url: str, timeout_seconds: float = 0.4, **server: object) -> str:
    transport = Transport(Server("s", url, None, **server), timeout_seconds=timeout_seconds)  # type: ignore[arg-type]
    return transport.get(url).text


@pytest.mark.parametrize(
    ("behave", "kind", "words"),
    [
        (silent, NoAnswer, "gave no answer within 0.4 s"),
        (trickling, NoAnswer, "had not finished its answer after 0.4 s"),
        (not_http, NotHttp, "does not speak HTTP: is it the gRPC port?"),
        (closing, Unreachable, "closed the connection without an answer"),
        (cut_short, Unreachable, "the connection broke"),
        (answering("403 Forbidden", b'{"error":"restricted"}'), Restricted, "restricts this API (HTTP 403)"),
        (answering("404 Not Found", b"{}"), NotFound, "(HTTP 404)"),
        (
            answering("400 Bad Request", b'{"error":"requested model \'x\' is not available"}'),
            NotFound,
            "not available (HTTP 400)",
        ),
        (answering("500 Oops", b'{"error":"why"}'), ServerRefused, "answered with HTTP 500"),
        (
            answering("302 Found", b"", "Location: http://127.0.0.1:9/login"),
            WrongContent,
            "redirects elsewhere (HTTP 302)",
        ),
        (
            answering("200 OK", b"not gzip at all", "Content-Encoding: gzip"),
            WrongContent,
            "cannot be unpacked",
        ),
    ],
)
def test_every_misbehaviour_is_one_sentence(behave: Behaviour, kind: type[SourceError], words: str) -> None:
    with serving(behave) as url, pytest.raises(SourceError) as raised:
        get(url)
    assert type(raised.value) is kind
    assert words in raised.value.sentence


def test_an_answer_that_trickles_holds_the_reader_no_longer_than_its_time_limit() -> None:
    began = time.monotonic()
    with serving(trickling) as url, pytest.raises(NoAnswer):
        get(url)
    assert time.monotonic() - began < 2


def test_a_closed_port_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable, match="connection refused"):
        get(f"http://127.0.0.1:{port}")


def test_tls_to_a_plain_port() -> None:
    def behave(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    with serving(behave) as url, pytest.raises(TlsFailed, match="wrong scheme"):
        get(url.replace("http:", "https:"))


def test_a_ca_file_that_is_missing() -> None:
    with pytest.raises(TlsFailed, match="the CA file cannot be read"):
        get("https://127.0.0.1:9/", ca_file="nowhere.pem")


def test_a_detail_is_kept_and_packed_answers_are_unpacked() -> None:
    with serving(answering("500 Oops", b'{"error":"why"}')) as url, pytest.raises(ServerRefused) as raised:
        get(url)
    assert (raised.value.detail, raised.value.status) == ('{"error":"why"}', 500)
    packed = answering("200 OK", gzip.compress("é 1\n".encode()), "Content-Encoding: gzip")
    with serving(packed) as url:
        assert get(url) == "é 1\n"


def test_d13_the_headers_go_with_every_request() -> None:
    seen: list[bytes] = []

    def behave(connection: socket.socket) -> None:
        seen.append(request_of(connection))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with serving(behave) as url:
        transport = Transport(Server("s", url, None, headers={"Authorization": "Bearer x"}))
        transport.get(f"{url}/metrics")
        transport.post(f"{url}/v2/repository/index")
    assert [request.split(b" ")[0] for request in seen] == [b"GET", b"POST"]
    assert all(b"Authorization: Bearer x\r\n" in request for request in seen)
