"""One kept connection with at most one request under way."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Any

from experiments.load_generator.answers import Answer

READ_BYTES = 262_144
_CONNECT_SECONDS = 2.0


class Target:
    """Where requests go: address and TLS, from the order."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self._address = (order["host"], int(order["port"]))
        self._connect_seconds = min(_CONNECT_SECONDS, float(order["timeout_seconds"]))
        self._context: ssl.SSLContext | None = None
        if order["tls"]:
            self._context = ssl.create_default_context(cafile=order["ca_file"] or None)

    def connect(self) -> socket.socket:
        """An open socket that does not block; raises OSError."""
        raw = socket.create_connection(self._address, timeout=self._connect_seconds)
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                raw = self._context.wrap_socket(raw, server_hostname=self._address[0])
            raw.setblocking(False)
        except BaseException:
            raw.close()
            raise
        return raw


def not_connected(error: OSError) -> str:
    """Why there is no connection, as one word."""
    kinds = {
        ConnectionRefusedError: "refused",
        ssl.SSLError: "tls",
        socket.gaierror: "name",
        TimeoutError: "timeout",
    }
    return next((word for kind, word in kinds.items() if isinstance(error, kind)), "connect")


class Connection:
    """A socket, the request on it, and the answer so far. Times are of `time.perf_counter`, seconds."""

    __slots__ = ("_unsent", "answer", "began", "busy", "intended", "message", "retry_at", "sock")

    def __init__(self, message: bytes) -> None:
        self.message = message
        self.sock: socket.socket | None = None
        self.answer = Answer()
        self.busy = False
        self.intended = 0.0
        self.began = 0.0
        self.retry_at = 0.0
        self._unsent: memoryview | None = None

    def send(self, sock: socket.socket) -> bool:
        """Begin the request; True if it left at once, False if `send_more` must go on. Raises OSError."""
        self.answer.reset()
        self.busy = True
        self._unsent = memoryview(self.message)
        return self.send_more(sock)

    def send_more(self, sock: socket.socket) -> bool:
        """Send what the socket takes; True once all of it has left."""
        while self._unsent:
            try:
                count = sock.send(self._unsent)
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return False
            self._unsent = self._unsent[count:]
        self._unsent = None
        return True

    def receive(self, sock: socket.socket) -> bool | None:
        """Read what is there: True if the answer is complete, None if the server closed the connection.

        Raises OSError and BadAnswer.
        """
        while True:
            try:
                data = sock.recv(READ_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError):
                return False
            if not data:
                return None
            if not self.busy:
                # Bytes nobody asked for: this connection cannot be trusted any more.
                return None
            if self.answer.feed(data):
                return True
            if len(data) < READ_BYTES and not isinstance(sock, ssl.SSLSocket):
                return False

    def close(self) -> None:
        """Give up the socket and what is on it."""
        if self.sock is not None:
            self.sock.close()
        self.sock = None
        self.busy = False
        self._unsent = None
