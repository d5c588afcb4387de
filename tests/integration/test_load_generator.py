"""The load generator's process against servers that misbehave: every failure counted, none hangs it."""

from __future__ import annotations

import itertools
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from control.inference import InferenceRequest, Tensor
from experiments.figures import LoadFigures
from experiments.load_process import Target, Watch, order_json, run_load
from experiments.plan import LoadPlan
from telemetry.facts import ModelConfig, TensorSpec
from telemetry.identity import Server
from tests.integration.certificates import certificate

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
Talk = Callable[[socket.socket, int], None]
"""What the server does with a connection; the number counts its connections."""


def read_request(connection: socket.socket) -> bytes:
    """One whole request, b"" at the end of the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r")[0])
    while len(body) < length:
        part = connection.recv(1 << 20)
        if not part:
            return b""
        body += part
    return head + b"\r\n\r\n" + body


def answering(answer: bytes) -> Talk:
    def talk(connection: socket.socket, number: int) -> None:
        while read_request(connection):
            connection.sendall(answer)

    return talk


@contextmanager
def serving(talk: Talk, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server on a free port whose every connection is one thread of `talk`."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=300)
    numbers = iter(range(10**9))

    def one(connection: socket.socket, number: int) -> None:
        try:
            if context is not None:
                connection = context.wrap_socket(connection, server_side=True)
            with connection:
                talk(connection, number)
        except OSError:
            # The generator went away: what tests of failures are about.
            return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection, next(numbers)), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def target(port: int, *, scheme: str = "http", ca_file: str | None = None, floats: int = 1,
           timeout_seconds: float = 5.0) -> Target:  # fmt: skip
    config = ModelConfig(
        name="m", backend="python", platform="", max_batch_size=0, dynamic_batching=False,
        preferred_batch_sizes=(), max_queue_delay_us=None, max_queue_size=None, queue_timeout_us=None,
        instance_groups=(), ensemble_steps=(), sequence_batching=False, decoupled=False, response_cache=False,
        inputs=(TensorSpec("A", "FP32", (-1,)),), outputs=(),
    )  # fmt: skip
    server = Server("lab", f"{scheme}://127.0.0.1:{port}", None, ca_file=ca_file)
    tensor = Tensor("A", "FP32", np.zeros(floats, dtype=np.float32))
    return Target(server, config, InferenceRequest("lab", "m", "", (tensor,), timeout_seconds))


def load(whom: Target, **plan: object) -> LoadFigures:
    wanted = LoadPlan(**{"concurrency": 4, "seconds": None, "requests": 40, "warmup_seconds": 0.0, **plan})  # type: ignore[arg-type]
    return run_load(whom, wanted, Watch(lambda progress: None, lambda: None, lambda: False))


def test_every_request_is_answered_once_and_counted_once() -> None:
    with serving(answering(OK)) as port:
        found = load(target(port), requests=500)
    assert (found.succeeded, found.failed, found.unanswered) == (500, 0, 0)
    assert found.max_under_way <= 4


def test_large_requests_and_large_answers_pass() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 8000000\r\n\r\n" + b"x" * 8_000_000
    with serving(answering(answer)) as port:
        found = load(target(port, floats=2_000_000), requests=6, concurrency=2)
    assert (found.succeeded, found.failed) == (6, 0)


def test_a_server_that_closes_after_each_answer_is_connected_anew() -> None:
    closing = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")

    def talk(connection: socket.socket, number: int) -> None:
        if read_request(connection):
            connection.sendall(closing)

    with serving(talk) as port:
        found = load(target(port))
    assert (found.succeeded, found.failed) == (40, 0)


def test_a_connection_lost_in_the_middle_costs_its_request() -> None:
    def talk(connection: socket.socket, number: int) -> None:
        if number < 4:
            read_request(connection)
            connection.sendall(OK[:20])
            return
        answering(OK)(connection, number)

    with serving(talk) as port:
        found = load(target(port), max_failed_ratio=None)
    assert (found.succeeded, found.failed) == (36, 4)
    ((sentence, count),) = found.errors.items()
    assert "closed the connection before it answered" in sentence and count == 4


def test_a_server_that_never_answers_costs_the_time_out_and_no_more() -> None:
    def talk(connection: socket.socket, number: int) -> None:
        while read_request(connection):
            pass

    began = time.monotonic()
    with serving(talk) as port:
        found = load(target(port, timeout_seconds=0.4), requests=8, concurrency=8)
    assert time.monotonic() - began < 10.0
    ((sentence, count),) = found.errors.items()
    assert sentence.startswith(f"No answer from 127.0.0.1:{port} within 0.4 s") and count == 8
    assert found.throughput_per_second is None


def test_a_closed_port_ends_the_load_by_its_failures() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    began = time.monotonic()
    found = load(target(port), seconds=30.0, requests=None)
    assert time.monotonic() - began < 15.0
    assert found.ended_by == "failed_ratio"
    ((sentence, _),) = found.errors.items()
    assert sentence.startswith(f"127.0.0.1:{port} is not reachable (refused)")


def test_a_port_that_speaks_something_else_is_named() -> None:
    with serving(answering(b"\x00\x00\x06\x04\x00\x00\x00\x00\x00")) as port:
        found = load(target(port), requests=4, max_failed_ratio=None)
    ((sentence, count),) = found.errors.items()
    assert "does not speak HTTP" in sentence and count == 4


def test_refusals_are_counted_by_what_they_say() -> None:
    body = json.dumps({"error": "Exceeds maximum queue size"}).encode()
    turns = itertools.count()
    answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    def talk(connection: socket.socket, number: int) -> None:
        while read_request(connection):
            connection.sendall(answer if next(turns) % 2 else OK)

    with serving(talk) as port:
        found = load(target(port), max_failed_ratio=None)
    assert (found.succeeded, found.failed) == (20, 20)
    assert next(iter(found.errors)).startswith("Queue full: m has as many waiting requests as it accepts")


def test_tls_with_a_trusted_certificate_and_without(tmp_path: Path) -> None:
    authority, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority, key)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000
    with serving(answering(answer), context) as port:
        trusted = load(target(port, scheme="https", ca_file=str(authority), floats=100_000))
        stranger = load(target(port, scheme="https"), requests=4, max_failed_ratio=None)
    assert (trusted.succeeded, trusted.failed) == (40, 0)
    assert stranger.succeeded == 0
    assert any("TLS" in sentence for sentence in stranger.errors), stranger.errors


def test_it_ends_with_its_starter() -> None:
    with serving(answering(OK)) as port:
        order = order_json(target(port), LoadPlan(seconds=60.0, warmup_seconds=0.0))
        command = [sys.executable, "-m", "experiments.load_generator"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps(order) + "\ngo\n")
            process.stdin.flush()
            rows = (json.loads(line) for line in process.stdout)
            next(row for row in rows if row.get("progress", {}).get("done", 0) > 0)
            process.stdin.close()
            result = next(row["result"] for row in rows if "result" in row)
            assert process.wait(10.0) == 0
    assert result["stopped"]
