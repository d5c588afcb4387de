"""Actions to an address that leads to two servers are refused: asked over new connections beforehand."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from control.facade import Control
from control.one_address import difference
from experiments.fresh_reader import FreshReader
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Outcome
from telemetry.identity import Server

pytestmark = pytest.mark.integration


class Balancer(ThreadingHTTPServer):
    """Sends every new connection to the next of its servers; each is what it answers to a path."""

    daemon_threads = True

    def __init__(self, servers: Sequence[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.turn = itertools.cycle(servers)
        self.lock = threading.Lock()
        self.loads: list[str] = []


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Balancer

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.answers = next(self.server.turn)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.path.endswith("/index"):
            self.server.loads.append(self.path)
        self._answer()

    def _answer(self) -> None:
        body = json.dumps(self.answers.get(self.path, {})).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


def triton(name: str, executions: int) -> dict[str, Any]:
    row = {"name": "m", "version": "1", "execution_count": executions}
    return {
        "/v2": {"name": name, "version": "2.51.0"},
        "/v2/models/stats": {"model_stats": [row]},
        "/v2/repository/index": [{"name": "m", "version": "1", "state": "READY"}],
    }


@contextmanager
def balanced(*servers: dict[str, Any]) -> Iterator[tuple[Balancer, Control]]:
    with Balancer(servers) as balancer:
        threading.Thread(target=balancer.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{balancer.server_address[1]}"
        mine = (Server("a", url, None, control=True),)
        yield balancer, Control(lambda: mine, FreshReader(lambda: mine), lambda _: False)
        balancer.shutdown()


@pytest.mark.parametrize(
    ("servers", "why"),
    [
        ((triton("one", 5), triton("two", 5)), "it calls itself one 2.51.0 and two 2.51.0"),
        ((triton("triton", 900), triton("triton", 5)), "the requests it counted for m fall and rise"),
        ((triton("triton", 5), triton("triton", 5), triton("triton", 900)), "for m fall and rise"),
    ],
)
def test_two_servers_in_turn_get_nothing(servers: tuple[dict[str, Any], ...], why: str) -> None:
    with balanced(*servers) as (balancer, control):
        record = control.perform(Action(ActionKind.LOAD, "a", "m"), by=LOCAL).wait(20.0)
        assert (record.outcome, record.sent, balancer.loads) == (Outcome.REFUSED, False, [])
        assert why in record.sentence
        assert record.sentence.endswith("Nothing was sent.")
        # From then on the buttons know it.
        assert why in control.decide("a", ActionKind.UNLOAD, "m", by=LOCAL).reason
        assert control.decide("a", ActionKind.TEST_REQUEST, "m", by=LOCAL).allowed


def test_one_server_gets_the_action() -> None:
    with balanced(triton("triton", 5)) as (balancer, control):
        record = control.perform(Action(ActionKind.LOAD, "a", "m"), by=LOCAL).wait(20.0)
        assert record.outcome is Outcome.DONE, record
        assert balancer.loads == ["/v2/repository/models/m/load"]


def test_growing_counters_and_a_reload_are_one_server() -> None:
    key = ("m", "1")
    assert difference(["a"] * 3, [{key: 1}, {key: 4}, {key: 4}]) == ""
    assert difference(["a"] * 4, [{key: 9}, {key: 0}, {key: 2}, {key: 3}]) == ""
    assert difference([], [{}, {key: 3}, {}, {key: 5}]) == ""
    assert difference([], [{key: 9}, {key: 0}, {key: 9}]) != ""
