"""Servers on real sockets of this machine that answer, hang, trickle or speak something else."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Behaviour = Callable[[socket.socket], None]


@contextmanager
def serving(behave: Behaviour, port: int = 0) -> Iterator[str]:
    """A server on a port (0: a free one) that does one thing with every connection; gives its address."""
    with socket.create_server(("127.0.0.1", port)) as listener:

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
