"""The event loop: all connections in one thread, woken by what arrives and by what is due."""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from experiments.load_generator.answers import BadAnswer
from experiments.load_generator.connection import Connection, Target, not_connected
from experiments.load_generator.recorder import MAX_SUCCESSES, Recorder
from experiments.load_generator.schedule import Arrivals, Gate

PROGRESS_SECONDS = 0.2
WARM_UP, MEASURE = "warm-up", "measure"
_TICK_SECONDS = 0.05
_RETRY_SECONDS = 0.1
_AFTER_STOP_SECONDS = 2.0
_OK = 200
_READ = select.EPOLLIN
_READ_WRITE = select.EPOLLIN | select.EPOLLOUT

Tell = Callable[[dict[str, Any]], None]
_clock = time.perf_counter


class Loop:
    """One phase after the other over the same connections: the warm-up, then the measured load.

    In a closed loop every connection sends its next request when it has its answer. In an open loop requests
    are due at times of their own; one that finds no free connection waits here, and its latency counts from
    the time it was due.
    """

    def __init__(self, order: Mapping[str, Any], tell: Tell, stopped: Callable[[], bool]) -> None:
        self._order = order
        self._tell = tell
        self._stopped = stopped
        self._open = order["mode"] == "open"
        self._timeout = float(order["timeout_seconds"])
        self._limits: dict[str, Any] = dict(order["limits"])
        self._target = Target(order)
        messages = order["messages"]
        self._all = [Connection(messages[at % len(messages)]) for at in range(order["connections"])]
        self._by_fd: dict[int, Connection] = {}
        self._idle: deque[Connection] = deque()
        self._waiting: deque[float] = deque()
        self._epoll = select.epoll()
        self._gate = Gate(order["cap_per_second"], spaced=not self._open)
        self._arrivals: Arrivals | None = None
        self.recorder = Recorder()
        self.reason = ""
        self._phase = ""
        self._ends_at = float("inf")
        self._left = 0
        self._under_way = 0
        self._max_under_way = 0
        self._sending = False
        self._tick_at = self._report_at = 0.0

    # ---- phases

    def connect(self) -> None:
        """Open all connections, so that connecting is not measured."""
        for connection in self._all:
            self._connect(connection, _clock())

    def run(self, phase: str, seconds: float | None, count: int | None) -> dict[str, Any]:
        """Load for so long, or so many requests; returns when the last answer has come or was given up."""
        self._begin(phase, seconds, count)
        give_up_at = float("inf")
        while self._sending or self._under_way:
            now = _clock()
            if self._sending and self._over(now):
                self._sending = False
                give_up_at = now + self._timeout
            if self._stopped() or self.reason:
                give_up_at = min(give_up_at, now + _AFTER_STOP_SECONDS)
            if now >= give_up_at:
                break
            self._start_due(now)
            self._wait(_clock())
            if _clock() >= self._tick_at:
                self._tick(_clock())
        return self._ended()

    def _begin(self, phase: str, seconds: float | None, count: int | None) -> None:
        self._phase, self._waiting, self._max_under_way = phase, deque(), 0
        self._gate.held = 0
        now = _clock()
        for connection in self._all:
            if connection.sock is None:
                self._connect(connection, now)
        zero = _clock()
        self.recorder.start(zero)
        self._arrivals = None
        if self._open:
            order = self._order
            self._arrivals = Arrivals(float(order["rate_per_second"]), order["arrivals"], int(order["seed"]))
        self._ends_at = zero + seconds if seconds is not None else float("inf")
        self._left = count if count is not None else MAX_SUCCESSES
        self._sending = True
        self._tick_at, self._report_at = zero, zero

    def _over(self, now: float) -> bool:
        if self._stopped() or self.reason:
            return True
        if self._waiting:
            # They were due: left out, the figures would be better than what a client would have seen.
            return now >= self._ends_at + self._timeout
        return self._left <= 0 or now >= self._ends_at

    def _ended(self) -> dict[str, Any]:
        unanswered = self._under_way
        for connection in self._all:
            if connection.busy:
                # Its answer may still come: it must not be taken for the answer of a later request.
                self._drop(connection)
        self._under_way = 0
        result = self.recorder.result()
        self._report(_clock())
        return result | {
            "stopped": self._stopped(),
            "reason": self.reason,
            "unanswered": unanswered,
            "unsent": len(self._waiting),
            "max_under_way": self._max_under_way,
            "held_by_cap": self._gate.held,
        }

    # ---- sending

    def _start_due(self, now: float) -> None:
        """Send what is due and finds a free connection and an open gate."""
        if not self._sending:
            return
        if self._arrivals is not None:
            self._take_arrivals(self._arrivals, now)
        while self._idle and (self._waiting if self._open else self._left > 0):
            now = _clock()
            if self._gate.closed(now):
                return
            connection = self._idle.popleft()
            if connection.sock is None or connection.busy:
                continue
            intended = self._waiting.popleft() if self._open else now
            self._start(connection, intended, now)

    def _take_arrivals(self, arrivals: Arrivals, now: float) -> None:
        zero = self.recorder.zero
        while self._left > 0 and zero + arrivals.next <= now and zero + arrivals.next < self._ends_at:
            self._waiting.append(zero + arrivals.next)
            self._left -= 1
            arrivals.step()

    def _start(self, connection: Connection, intended: float, now: float) -> None:
        sock = connection.sock
        if sock is None:
            return
        connection.intended, connection.began = intended, now
        if not self._open:
            self._left -= 1
        self._gate.passed(now)
        self._under_way += 1
        self._max_under_way = max(self._max_under_way, self._under_way)
        try:
            if not connection.send(sock):
                self._epoll.modify(sock.fileno(), _READ_WRITE)
        except OSError as error:
            self._fail(connection, "connection", str(error))

    # ---- what arrives

    def _wait(self, now: float) -> None:
        """Sleep until something arrives or is due, and take it."""
        timeout = max(0.0, min(self._tick_at, self._due_at()) - now)
        if timeout > 0 and (self._open or self._gate.capped):
            # epoll counts whole milliseconds: too coarse for times of sending.
            select.select([self._epoll.fileno()], [], [], timeout)
            timeout = 0.0
        for fd, mask in self._epoll.poll(timeout):
            connection = self._by_fd.get(fd)
            if connection is not None:
                self._take(connection, mask)

    def _due_at(self) -> float:
        """When the next request is due and may leave; far away if that depends on an answer."""
        if not self._sending:
            return float("inf")
        due = self._ends_at if not self._waiting else float("inf")
        if self._arrivals is not None and self._left > 0:
            arrival = self.recorder.zero + self._arrivals.next
            due = min(due, arrival) if arrival < self._ends_at else due
        if self._idle and (self._waiting if self._open else self._left > 0):
            due = min(due, self._gate.opens_at())
        return due

    def _take(self, connection: Connection, mask: int) -> None:
        sock = connection.sock
        if sock is None:
            return
        try:
            if mask & select.EPOLLOUT and connection.send_more(sock):
                self._epoll.modify(sock.fileno(), _READ)
            if not mask & ~select.EPOLLOUT:
                return
            complete = connection.receive(sock)
        except BadAnswer as error:
            self._fail(connection, "protocol", str(error))
        except OSError as error:
            self._fail(connection, "connection", str(error))
        else:
            if complete is None:
                self._fail(connection, "closed", "")
            elif complete:
                self._complete(connection)

    def _complete(self, connection: Connection) -> None:
        ended, answer = _clock(), connection.answer
        connection.busy = False
        self._under_way -= 1
        if answer.status == _OK:
            self.recorder.success(connection.intended, connection.began, ended)
        else:
            text = answer.text.decode("utf-8", "replace")
            self.recorder.failure("status", answer.status, text, ended)
        if answer.close:
            self._drop(connection)
            self._connect(connection, ended)
        elif self._sending and not self._open and not self._gate.capped and self._left > 0:
            # The common case of a closed loop, without a turn through the queue.
            if ended < self._ends_at and not self._stopped():
                self._start(connection, ended, ended)
            else:
                self._idle.append(connection)
        else:
            self._idle.append(connection)

    def _fail(self, connection: Connection, kind: str, text: str) -> None:
        now = _clock()
        if connection.busy:
            self._under_way -= 1
            self.recorder.failure(kind, 0, text, now)
        self._drop(connection)
        connection.retry_at = now + _RETRY_SECONDS

    # ---- connections

    def _connect(self, connection: Connection, now: float) -> None:
        """Open it; what fails is counted as a failed request: nothing could be sent."""
        try:
            sock = self._target.connect()
        except OSError as error:
            connection.retry_at = now + _RETRY_SECONDS
            if self._sending and self._left > 0:
                self._left -= 0 if self._open else 1
                self.recorder.failure(not_connected(error), 0, str(error), _clock())
            return
        connection.sock = sock
        self._by_fd[sock.fileno()] = connection
        self._epoll.register(sock.fileno(), _READ)
        self._idle.append(connection)

    def _drop(self, connection: Connection) -> None:
        if connection.sock is not None:
            self._epoll.unregister(connection.sock.fileno())
            del self._by_fd[connection.sock.fileno()]
        connection.close()

    # ---- from time to time

    def _tick(self, now: float) -> None:
        self._tick_at = now + _TICK_SECONDS
        most_us, overdue_us = self._limits["p99_us"], []
        for connection in self._all:
            if connection.sock is None and now >= connection.retry_at and self._sending:
                self._connect(connection, now)
            elif connection.busy and now - connection.began > self._timeout:
                self._fail(connection, "timeout", "")
            elif connection.busy and most_us is not None and (now - connection.intended) * 1e6 > most_us:
                overdue_us.append((now - connection.intended) * 1e6)
        if now >= self._report_at:
            self._report_at = now + PROGRESS_SECONDS
            self._report(now)
            if not self.reason:
                # A model that warms up may be slow; one that fails is not asked any longer.
                limits = self._limits if self._phase == MEASURE else self._limits | {"p99_us": None}
                self.reason = self.recorder.beyond(limits, now, overdue_us)

    def _report(self, now: float) -> None:
        row = self.recorder.latest(now)
        self._tell({"progress": row | {"phase": self._phase, "under_way": self._under_way}})
