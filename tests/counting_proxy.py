"""A proxy in front of a server that counts what passes: the proof of what was sent, and how often."""

from __future__ import annotations

import http.client
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Passed:
    """One request that passed: method, path and monotonic time in seconds."""

    method: str
    path: str
    at: float


class CountingProxy:
    """Forwards every request on 127.0.0.1 to `target` and remembers it, as a context manager."""

    def __init__(self, target: str) -> None:
        """`target` is a base address such as http://127.0.0.1:8002."""
        self._target = urlsplit(target).netloc
        self._passed: list[Passed] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """The proxy's own base address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def passed(self, method: str = "", path: str = "") -> list[Passed]:
        """What passed so far, of one method and with a path that ends so."""
        with self._lock:
            seen = list(self._passed)
        return [one for one in seen if method in ("", one.method) and one.path.endswith(path)]

    def __enter__(self) -> Self:
        """Start listening."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _forward(self) -> None:
                with proxy._lock:
                    proxy._passed.append(Passed(self.command, urlsplit(self.path).path, time.monotonic()))
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                upstream = http.client.HTTPConnection(proxy._target, timeout=60)
                try:
                    headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                    upstream.request(self.command, self.path, body, headers)
                    answer = upstream.getresponse()
                    content = answer.read()
                    self.send_response(answer.status)
                    for name, value in answer.getheaders():
                        if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                            self.send_header(name, value)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    self.close_connection = True
                finally:
                    upstream.close()

            do_GET = do_POST = _forward

            def log_message(self, format: str, *arguments: object) -> None:
                """Say nothing: the tests read `passed`."""

        return Handler
