"""The HTTP client against servers that misbehave, on real sockets of this machine."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

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

Behaviour = Callable[[socket.socket], None]


@contextmanager
def serving(behave: Behaviour) -> Iterator[str]:
    """A server on a free port that does one thing with every connection; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

        def handle(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                behave(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def request_of(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65536)
        if not part:
            break
        received += part
    return received


def answering(status: str, body: bytes, headers: str = "Content-Type: text/plain") -> Behaviour:
    def behave(connection: socket.socket) -> None:
        request_of(connection)
        head = f"HTTP/1.1 {status}\r\n{headers}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode() + body)

    return behave


def silent(connection: socket.socket) -> None:
    request_of(connection)
    connection.recv(1)


def trickling(connection: socket.socket) -> None:
    request_of(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        connection.sendall(b"x")
        time.sleep(0.02)


def not_http(connection: socket.socket) -> None:
    connection.sendall(b"\x00\x00\x18\x04\x00\x00\x00\x00\x00\x00\x04\x00\x3f\xff\xff\x00\x05\r\n")
    request_of(connection)


def closing(connection: socket.socket) -> None:
    request_of(connection)


def cut_short(connection: socket.socket) -> None:
    request_of(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nff\r\nonly this")


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
