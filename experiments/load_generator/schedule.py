"""When requests may leave: the arrivals of an open loop, and the cap that nothing may exceed."""

from __future__ import annotations

import random
from collections import deque


class Arrivals:
    """Intended send times of an open loop, seconds from its start, one after the other.

    "constant" leaves equal gaps; "poisson" leaves exponential ones: independent senders look like that.
    """

    def __init__(self, rate_per_second: float, kind: str, seed: int) -> None:
        self._rate = rate_per_second
        self._random = random.Random(seed) if kind == "poisson" else None
        self._count = 0
        self.next = 0.0
        if self._random is not None:
            self.step()

    def step(self) -> None:
        """Go to the next arrival."""
        self._count += 1
        if self._random is not None:
            self.next += self._random.expovariate(self._rate)
        else:
            # Counted, not summed up: gaps that are no binary fractions would drift.
            self.next = self._count / self._rate


class Gate:
    """A hard cap: never more than `cap_per_second` sends within any second (any 1 / cap seconds under 1).

    `spaced` also keeps gaps of 1 / cap, so that a closed loop does not send its second's share at once.
    """

    def __init__(self, cap_per_second: float | None, *, spaced: bool) -> None:
        self._cap = cap_per_second
        self._gap = 1.0 / cap_per_second if cap_per_second and spaced else 0.0
        self._next = 0.0
        count = max(1, int(cap_per_second)) if cap_per_second else 0
        self._window = count / cap_per_second if cap_per_second else 0.0
        self._sent: deque[float] = deque(maxlen=count)
        self._blocked = False
        self.held = 0
        """Requests that had to wait here."""

    @property
    def capped(self) -> bool:
        """True if there is a cap."""
        return self._cap is not None

    def opens_at(self) -> float:
        """The time from which on the next request may leave, 0 if at once."""
        if self._cap is None:
            return 0.0
        full = self._sent[0] + self._window if len(self._sent) == self._sent.maxlen else 0.0
        return max(self._next, full)

    def closed(self, now: float) -> bool:
        """True if nothing may leave now."""
        if self._cap is None or now >= self.opens_at():
            return False
        if not self._blocked:
            self._blocked = True
            self.held += 1
        return True

    def passed(self, now: float) -> None:
        """A request leaves now."""
        self._blocked = False
        if self._cap is not None:
            self._sent.append(now)
            self._next = now + self._gap
