"""How fast passwords may be tried: after failures one must wait, longer each time, then one is refused."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

FREE_FAILURES = 2
"""Failures without a delay: people mistype."""
MAX_FAILURES = 10
REFUSED_SECONDS = 900.0
"""How long an address is refused after so many failures; failures are forgotten after the same time."""
MAX_DELAY_SECONDS = 60.0
GLOBAL_FREE_FAILURES = 30
GLOBAL_DELAY_SECONDS = 2.0
"""With so many failures from everywhere, tries are at least so far apart, from wherever they come."""
KEEP_ADDRESSES = 10_000


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last: float = 0.0


class Throttle:
    """Counts failures by address and in all; safe to use from many threads. Times are seconds of `clock`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_address: OrderedDict[str, _Failures] = OrderedDict()
        self._all = _Failures()

    def admit(self, address: str) -> float:
        """0.0 if a password may be tried now, else the seconds to wait.

        The try counts as failed until `forget`, so that tries at the same time do not share one admission.
        """
        with self._lock:
            now, key = self._clock(), _network(address)
            mine = self._fresh(self._by_address.get(key, _Failures()), now)
            everybody = self._all = self._fresh(self._all, now)
            wait = max(_delay(mine) - (now - mine.last), _global_delay(everybody) - (now - everybody.last))
            if wait > 0:
                return wait
            for one in (mine, everybody):
                one.count, one.last = one.count + 1, now
            self._by_address[key] = mine
            self._by_address.move_to_end(key)
            while len(self._by_address) > KEEP_ADDRESSES:
                self._by_address.popitem(last=False)
            return 0.0

    def forget(self, address: str) -> None:
        """The password was right: the failures of this address count no more."""
        with self._lock:
            known = self._by_address.pop(_network(address), None)
            if known is not None:
                self._all.count = max(0, self._all.count - known.count)

    def failures(self, address: str) -> int:
        """Failures that count against this address now."""
        with self._lock:
            return self._fresh(self._by_address.get(_network(address), _Failures()), self._clock()).count

    def _fresh(self, failures: _Failures, now: float) -> _Failures:
        return _Failures() if now - failures.last >= REFUSED_SECONDS else failures


def _delay(failures: _Failures) -> float:
    if failures.count >= MAX_FAILURES:
        return REFUSED_SECONDS
    over = failures.count - FREE_FAILURES
    return min(MAX_DELAY_SECONDS, 2.0**over) if over > 0 else 0.0


def _global_delay(failures: _Failures) -> float:
    return GLOBAL_DELAY_SECONDS if failures.count >= GLOBAL_FREE_FAILURES else 0.0


def _network(address: str) -> str:
    """An IPv6 address counts as its /64: whoever has one has them all."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
