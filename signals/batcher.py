"""Triton's dynamic batcher as a small simulation: what throughput and queue a configuration would give.

Deterministic (seeded) and pure. It follows the rules of Triton's scheduler (dynamic_batch_scheduler.cc,
instance_queue.cc): batches are formed ahead while the instances work (two for each instance at most) and grow
until an instance takes them; a preferred size goes at once, anything else when the oldest request has waited
for the delay; what waits beyond the delay is merged. With a delay the thread that forms batches is not woken
by every arrival, only when the next preferred size has come together, when its time is up or when an instance
has taken a batch: requests that come after a small batch was formed often miss it and wait for the next one.

Assumptions, said wherever a figure of it is shown: requests are alike and of equal priority, there is no
queue policy, an execution takes T(b) give or take 5 %, and instances do not slow each other down. Handing a
batch over to an instance takes the same time always (`handover_us`); requests may still join it meanwhile.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from dataclasses import dataclass, field

from signals.batch_time import BatchTime
from telemetry.units import seconds_from_us, us_from_seconds

_AHEAD = 2
"""Batches formed ahead for each instance."""
_SLEEP_SECONDS = 0.5
"""How long the thread that forms batches sleeps at most."""
_LEAST_SLEEP_SECONDS = 1e-6
EXECUTION_SPREAD_RATIO = 0.05
"""Without a spread groups of clients and instances would keep one step for ever, as no server does. The
statistics tell only means: this is a usual value, not a measured one.
"""  # fmt: skip
MAX_HANDOVER_RATIO = 0.05
_HALVINGS = 6
_WARM_UP_SHARE = 0.2
_SEED = 1


@dataclass(frozen=True, slots=True)
class BatcherConfig:
    """What decides how batches form. `dynamic` False: every request is executed alone.

    `preferred` empty means (max_batch_size,), as Triton fills it in.
    """

    max_batch_size: int
    dynamic: bool
    delay_us: float = 0.0
    preferred: tuple[int, ...] = ()
    instances: int = 1
    every_arrival_wakes: bool = False
    """Inputs of variable shape must be compared as they come; otherwise Triton sleeps on, see above."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The preferred sizes in force, ascending."""
        return tuple(sorted(self.preferred)) or (max(1, self.max_batch_size),)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How requests come: at random with a mean rate (Poisson), or from clients that wait for their answer.

    Exactly one of `rate_per_second` and `clients` is set. `think_us` is the time between an answer and the
    client's next request reaching the queue. `rows` are the inferences of one request.
    """

    rate_per_second: float | None = None
    clients: int | None = None
    think_us: float = 0.0
    rows: int = 1
    group: int = 1
    """Random arrivals come so many at once on average (1 to twice as many, less one)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the simulation gave: requests per second, mean and 95th percentile of queue time (us), mean rows
    per execution, busy share of the instances (0..1). `stable` False: the queue grew without end.
    """  # fmt: skip

    requests_per_second: float
    queue_us_mean: float
    queue_us_p95: float
    batch_size_mean: float
    busy_ratio: float
    stable: bool


@dataclass(slots=True)
class _Payload:
    """A batch being formed or executed; `oldest` is the arrival of its first request, seconds."""

    arrivals: list[float] = field(default_factory=list)
    clients: list[int] = field(default_factory=list)
    queued: bool = False
    closed: bool = False
    full: bool = False


class _Batcher:
    """The thread that forms batches, asleep between two wake-ups; times in seconds."""

    def __init__(self, config: BatcherConfig, rows: int) -> None:
        self.rows = rows
        self.limit = max(1, config.max_batch_size // rows)
        self.preferred = sorted({max(1, size // rows) for size in config.sizes if size // rows >= 1})
        self.preferred = self.preferred or [self.limit]
        self.dynamic = config.dynamic
        self.every_arrival_wakes = config.every_arrival_wakes
        self.delay = seconds_from_us(config.delay_us)
        self.ahead = _AHEAD * config.instances
        self.waiting: deque[tuple[float, int]] = deque()
        self.formed: deque[_Payload] = deque()
        self.current = _Payload()
        self.awaited = 0
        """It sleeps through arrivals until so many wait."""
        self.wakes_at = 0.0

    def arrive(self, at: float, client: int) -> bool:
        """Queue a request; True if that wakes the thread."""
        if not self.dynamic:
            self.formed.append(_Payload([at], [client], queued=True, closed=True))
            return False
        self.waiting.append((at, client))
        if len(self.formed) >= self.ahead:
            return False
        stale = self.current.full or self.current.closed
        return self.every_arrival_wakes or stale or len(self.waiting) >= self.awaited

    def form(self, now: float) -> None:
        """Awake: form what can be formed, then sleep until `wakes_at` or until something wakes it."""
        self.wakes_at = now + _SLEEP_SECONDS
        while self.waiting and len(self.formed) < self.ahead:
            if self.current.full or self.current.closed:
                self.current, self.awaited = _Payload(), 0
            take, wait = self._decide(now)
            if wait is not None:
                self.wakes_at = now + max(wait, _LEAST_SLEEP_SECONDS)
                return
            self._move(take)

    def _move(self, take: int) -> None:
        """Requests join the current batch."""
        for _ in range(take):
            arrived, client = self.waiting.popleft()
            self.current.arrivals.append(arrived)
            self.current.clients.append(client)
        if take and not self.current.queued:
            self.current.queued = True
            self.formed.append(self.current)

    def _decide(self, now: float) -> tuple[int, float | None]:
        """How many requests join the current batch now, or how long to sleep instead (seconds)."""
        has = len(self.current.arrivals)
        pending, best, cannot_grow = self._pending(has)
        late = self.delay > 0 and now - self.waiting[0][0] >= self.delay - 1e-9
        if best and not late:
            self.current.full |= self.delay == 0
            return best, None
        if pending and (cannot_grow or has + pending >= self.preferred[-1]):
            self.current.full = True
        if not pending or self.current.full or late or self.delay == 0:
            return pending, None
        larger = [size for size in self.preferred if size > has + pending]
        self.awaited = (larger or self.preferred)[0] - has
        if has and has not in self.preferred:
            return pending, None
        return 0, self.waiting[0][0] + self.delay - now

    def _pending(self, has: int) -> tuple[int, int, bool]:
        """Of the waiting requests: how many could join, up to where a preferred size is met (0 = none), and
        whether one more would be beyond the largest batch.
        """  # fmt: skip
        pending = best = 0
        for _ in self.waiting:
            size = has + pending + 1
            if size > 1:
                if size > self.preferred[-1] and best == 0:
                    best = pending
                    self.current.full = True
                if size > self.limit:
                    return pending, best, True
            pending += 1
            if size in self.preferred:
                best = pending
        return pending, best, False

    def take(self, now: float) -> _Payload | None:
        """The batch an idle instance executes, joined by those behind it that have waited too long."""
        if not self.formed:
            return None
        batch = self.formed.popleft()
        batch.closed = True
        while self.dynamic and self.delay > 0 and self.formed:
            front = self.formed[0]
            if now - front.arrivals[0] <= self.delay:
                break
            front.closed = True
            if len(batch.arrivals) + len(front.arrivals) > self.limit:
                break
            batch.arrivals += front.arrivals
            batch.clients += front.clients
            self.formed.popleft()
        return batch


def simulate(
    time: BatchTime,
    config: BatcherConfig,
    arrivals: Arrivals,
    *,
    handover_us: float = 0.0,
    requests: int = 4000,
    seed: int = _SEED,
) -> Outcome:
    """Run this many requests through the batcher; the first fifth warms it up and is not counted."""
    return _Run(time, config, arrivals, handover_us, requests, seed).outcome()


def handover_us(
    time: BatchTime, config: BatcherConfig, arrivals: Arrivals, measured_queue_us: float
) -> float:
    """The handover with which the simulation has the queue time that was measured, us.

    At least 0 and at most a twentieth of T(1): beyond that something else keeps requests waiting.
    """
    low, high = 0.0, MAX_HANDOVER_RATIO * time.us(1)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        queue = simulate(time, config, arrivals, handover_us=middle, requests=2000).queue_us_mean
        low, high = (middle, high) if queue < measured_queue_us else (low, middle)
    return (low + high) / 2


class _Run:
    """One simulation: a heap of events (time, order, kind, what)."""

    def __init__(
        self,
        time: BatchTime,
        config: BatcherConfig,
        arrivals: Arrivals,
        handover_us: float,
        requests: int,
        seed: int,
    ) -> None:
        if (arrivals.rate_per_second is None) == (arrivals.clients is None):
            raise ValueError("arrivals are either a rate or a number of clients")
        self._time, self._arrivals, self._wanted = time, arrivals, requests
        self._handover = seconds_from_us(handover_us)
        self._random = random.Random(seed)
        self._batcher = _Batcher(config, arrivals.rows)
        self._instances = config.instances
        self._idle = config.instances
        self._events: list[tuple[float, int, str, object]] = []
        self._order = 0
        self._waits: list[tuple[float, float]] = []
        self._done: list[float] = []
        self._batches: list[tuple[float, float, int]] = []

    def outcome(self) -> Outcome:
        self._begin()
        while self._events and len(self._done) < self._wanted:
            now, _, kind, what = heapq.heappop(self._events)
            if kind == "arrival" and isinstance(what, int):
                if self._batcher.arrive(now, what):
                    self._wake(now)
            elif kind == "start":
                self._start(now)
            elif kind == "end" and isinstance(what, _Payload):
                self._end(now, what)
            elif kind == "look" and self._batcher.wakes_at <= now:
                self._wake(now)
            self._work(now)
        return self._counted()

    def _begin(self) -> None:
        if self._arrivals.rate_per_second is not None:
            self._schedule(self._arrivals.rate_per_second)
        for client in range(self._arrivals.clients or 0):
            # Not all at the same moment: that would be one wave for ever.
            self._send(self._random.random() * seconds_from_us(self._time.us(1)), client)

    def _schedule(self, rate_per_second: float) -> None:
        """All random arrivals, stretched so that they have the wanted rate exactly: a few thousand of them
        would miss it by some percent, and near the capacity that decides about the queue.
        """  # fmt: skip
        times: list[float] = []
        at, group = 0.0, self._arrivals.group
        while len(times) < self._wanted:
            at += self._random.expovariate(1.0)
            times += [at] * (1 + self._random.randrange(2 * group - 1))
        stretch = len(times) / rate_per_second / at
        for time in times:
            self._send(stretch * time, 0)

    def _send(self, at: float, client: int) -> None:
        self._push(at, "arrival", client)

    def _push(self, at: float, kind: str, what: object) -> None:
        self._order += 1
        heapq.heappush(self._events, (at, self._order, kind, what))

    def _wake(self, now: float) -> None:
        self._batcher.form(now)
        if self._batcher.waiting:
            self._push(self._batcher.wakes_at, "look", None)

    def _work(self, now: float) -> None:
        """Let idle instances begin."""
        for _ in range(min(self._idle, len(self._batcher.formed))):
            self._idle -= 1
            self._push(now + self._handover, "start", None)

    def _start(self, now: float) -> None:
        """An instance takes the first batch; another one may have taken what it was woken for."""
        batch = self._batcher.take(now)
        if batch is None:
            self._idle += 1
            return
        # That a batch was taken always wakes the thread that forms them.
        self._wake(now)
        size = len(batch.arrivals) * self._batcher.rows
        ends = now + seconds_from_us(self._time.us(size)) * self._spread()
        self._waits += [(now, now - arrived) for arrived in batch.arrivals]
        self._batches.append((now, ends, size))
        self._push(ends, "end", batch)

    def _spread(self) -> float:
        return max(0.5, 1 + self._random.gauss(0, EXECUTION_SPREAD_RATIO))

    def _end(self, now: float, batch: _Payload) -> None:
        self._idle += 1
        for client in batch.clients:
            self._done.append(now)
            if self._arrivals.clients is not None:
                self._send(now + self._think(), client)

    def _think(self) -> float:
        """Between half and one and a half of the mean: clients are not in step."""
        return seconds_from_us(self._arrivals.think_us) * (0.5 + self._random.random())

    def _counted(self) -> Outcome:
        skip = int(_WARM_UP_SHARE * len(self._done))
        begin, end = self._done[skip], self._done[-1]
        span = max(end - begin, 1e-9)
        waits = sorted(wait for at, wait in self._waits if at >= begin)
        batches = [row for row in self._batches if row[0] >= begin] or self._batches
        busy = sum(max(0.0, min(ends, end) - max(at, begin)) for at, ends, _ in self._batches)
        return Outcome(
            requests_per_second=(len(self._done) - skip - 1) / span,
            queue_us_mean=us_from_seconds(sum(waits) / max(1, len(waits))),
            queue_us_p95=us_from_seconds(waits[math.ceil(0.95 * len(waits)) - 1]) if waits else 0.0,
            batch_size_mean=sum(size for _, _, size in batches) / len(batches),
            busy_ratio=min(1.0, busy / (span * self._instances)),
            stable=self._stable(waits, begin, end),
        )

    def _stable(self, waits: list[float], begin: float, end: float) -> bool:
        """An open stream is beyond capacity if what came late waited much longer than what came early."""
        if self._arrivals.clients is not None or len(waits) < 100:
            return True
        middle = (begin + end) / 2
        early = [wait for at, wait in self._waits if begin <= at < middle]
        late = [wait for at, wait in self._waits if at >= middle]
        slack = seconds_from_us(self._time.us(self._batcher.limit * self._batcher.rows))
        return sum(late) / max(1, len(late)) < 1.5 * sum(early) / max(1, len(early)) + slack
