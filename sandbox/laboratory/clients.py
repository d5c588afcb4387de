"""Clients of the laboratory's models: threads that send real requests, closed loop or at a rate."""

from __future__ import annotations

import collections
import http.client
import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

JOIN_SECONDS = 5.0


def infer(
    address: tuple[str, int], model: str, *, batched: bool, seconds: float = 20.0
) -> tuple[int | None, str]:
    """One request on a connection of its own: (status, body), None without an answer."""
    connection = http.client.HTTPConnection(*address, timeout=seconds)
    try:
        return _sent(connection, model, batched)
    finally:
        connection.close()


def _sent(connection: http.client.HTTPConnection, model: str, batched: bool) -> tuple[int | None, str]:
    shape = [1, 1] if batched else [1]
    tensor = {"name": "INPUT", "shape": shape, "datatype": "FP32", "data": [1.0]}
    try:
        connection.request("POST", f"/v2/models/{model}/infer", json.dumps({"inputs": [tensor]}))
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", errors="replace")
    except (OSError, http.client.HTTPException):
        connection.close()
        return None, ""


class Clients:
    """`count` clients of one model; each sends its next request when it has the answer to the last.

    With `per_second` requests are sent at that mean rate at random moments instead, as far as the clients
    can take them. `urls` are taken in turn. `alive` leaves an address out for now. `hang_up_seconds`: each
    request is given up after that time.
    """

    def __init__(
        self,
        urls: Iterable[str],
        model: str,
        count: int,
        *,
        per_second: float | None = None,
        batched: bool = False,
        pause_seconds: float = 0.0,
        alive: Callable[[str], bool] = lambda url: True,
        hang_up_seconds: float = 20.0,
    ) -> None:
        self._urls = tuple(urls)
        self._model, self._batched, self._pause = model, batched, pause_seconds
        self._rate, self._alive, self._patience = per_second, alive, hang_up_seconds
        self._turn = itertools.count()
        self._ended = threading.Event()
        self._tickets = threading.Semaphore(0)
        self._lock = threading.Lock()
        self.answers: collections.Counter[int | None] = collections.Counter()
        """Answers by HTTP status; None: no answer."""
        self._threads = [threading.Thread(target=self._client, daemon=True) for _ in range(count)]
        if per_second is not None:
            self._threads.append(threading.Thread(target=self._pace, daemon=True))

    def __enter__(self) -> Self:
        """Begin to send."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""
        self.stop()

    def start(self) -> None:
        """Begin to send."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End; requests that hang are left behind, their threads end with the process."""
        self._ended.set()
        deadline = time.monotonic() + JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _pace(self) -> None:
        chance = random.Random(1)
        while not self._ended.wait(chance.expovariate(self._rate or 1.0)):
            self._tickets.release()

    def _client(self) -> None:
        connections: dict[str, http.client.HTTPConnection] = {}
        try:
            while not self._ended.is_set():
                if self._rate is not None and not self._tickets.acquire(timeout=0.2):
                    continue
                self._once(connections)
                if self._pause:
                    self._ended.wait(self._pause)
        finally:
            for connection in connections.values():
                connection.close()

    def _once(self, connections: dict[str, http.client.HTTPConnection]) -> None:
        url = next((one for one in self._in_turn() if self._alive(one)), None)
        if url is None:
            self._ended.wait(0.2)
            return
        connection = connections.get(url)
        if connection is None:
            connection = http.client.HTTPConnection(*address_of(url), timeout=self._patience)
            connections[url] = connection
        status, _ = _sent(connection, self._model, self._batched)
        with self._lock:
            self.answers[status] += 1
        if status != http.HTTPStatus.OK:
            # Failing clients back off a little, as real ones do.
            self._ended.wait(0.05)

    def _in_turn(self) -> Iterable[str]:
        first = next(self._turn)
        return (self._urls[(first + step) % len(self._urls)] for step in range(len(self._urls)))


def address_of(url: str) -> tuple[str, int]:
    """Host and port of an address."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 80
