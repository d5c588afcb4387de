"""A small HTTP proxy: one address for several servers, or a metrics page that is changed on its way."""

from __future__ import annotations

import http.client
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from sandbox.laboratory.clients import address_of
from sandbox.options import HOST

_SECONDS = 10.0
_NOT_PASSED_ON = frozenset({"host", "connection", "content-length", "accept-encoding", "transfer-encoding"})

Rewrite = Callable[[str], str]


class Proxy:
    """Listens on a free port of this machine; every request goes to the next of `urls` in turn.

    `rewrite` may be set at any time: what it makes of a page is what is answered.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self.lead_to(urls)
        self.rewrite: Rewrite | None = None
        self._server = ThreadingHTTPServer((HOST, 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{HOST}:{self._server.server_address[1]}"

    def lead_to(self, urls: Sequence[str]) -> None:
        """From now on to these, in turn."""
        self._turn = itertools.cycle([address_of(url) for url in urls])

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()

    def _passed_on(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of the answer; binary tensors need a header of their own both ways."""
        connection = http.client.HTTPConnection(*next(self._turn), timeout=_SECONDS)
        try:
            connection.request(method, path, body, _kept(headers))
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if self.rewrite is not None and path.startswith("/metrics"):
            data = self.rewrite(data.decode("utf-8")).encode("utf-8")
        return answer.status, _kept(dict(answer.headers)), data

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._pass_on("GET")

            def do_POST(self) -> None:
                self._pass_on("POST")

            def _pass_on(self, method: str) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                try:
                    status, headers, data = proxy._passed_on(method, self.path, body, dict(self.headers))
                except (OSError, http.client.HTTPException):
                    status, headers = 502, {"Content-Type": "text/plain"}
                    data = b"the server behind the proxy does not answer"
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing is told."""

        return Handler


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _NOT_PASSED_ON}
