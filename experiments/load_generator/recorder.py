"""What a load measured: the times of every success, failures by kind, and the figures of the last moment."""

from __future__ import annotations

import base64
from array import array
from typing import Any

MAX_SUCCESSES = 3_000_000
"""Times kept; a load ends there."""
MAX_KINDS = 40
RECENT_SECONDS = 1.0
MIN_RECENT = 20
"""Requests that must have ended within the last second before a limit is judged by them."""


class Recorder:
    """Times in seconds since the start of the phase, as float64; failures by (kind, status, text)."""

    def __init__(self) -> None:
        self.zero = 0.0
        self.intended = array("d")
        self.began = array("d")
        self.ended = array("d")
        self.failures: dict[tuple[str, int, str], int] = {}
        self.failed = 0
        self.last_end = 0.0
        self._failed_at = array("d")
        self._shown = 0
        self._shown_failed = 0

    def start(self, zero: float) -> None:
        """The phase begins at this `perf_counter`."""
        self.__init__()  # type: ignore[misc]  # every field begins anew
        self.zero = zero

    def success(self, intended: float, began: float, ended: float) -> None:
        """One answered request, by `perf_counter`."""
        zero = self.zero
        self.intended.append(intended - zero)
        self.began.append(began - zero)
        self.ended.append(ended - zero)

    def failure(self, kind: str, status: int, text: str, ended: float) -> None:
        """One failed request."""
        key = (kind, status, text)
        if key not in self.failures and len(self.failures) >= MAX_KINDS:
            key = ("other", 0, "")
        self.failures[key] = self.failures.get(key, 0) + 1
        self.failed += 1
        self.last_end = max(self.last_end, ended - self.zero)
        self._failed_at.append(ended - self.zero)

    @property
    def seconds(self) -> float:
        """From the start to the last end."""
        return max(self.last_end, self.ended[-1] if self.ended else 0.0)

    def latest(self, now: float) -> dict[str, Any]:
        """The figures since the last call: count, failures and quantiles of the latency, us."""
        waits = self._waits(self._shown)
        row = {
            "done": len(self.ended),
            "failed": self.failed,
            "seconds": now - self.zero,
            "recent_done": len(waits),
            "recent_failed": self.failed - self._shown_failed,
            "p50_us": quantile(waits, 0.50),
            "p99_us": quantile(waits, 0.99),
        }
        self._shown, self._shown_failed = len(self.ended), self.failed
        return row

    def beyond(self, limits: dict[str, Any], now: float, overdue_us: list[float]) -> str:
        """Which of its limits the load is beyond; "" while it may go on.

        Judged over what ended within the last second, and over the last 20 requests where those were fewer;
        `overdue_us` are the ages of requests that still wait.
        """
        since = now - self.zero - RECENT_SECONDS
        first, first_failed = len(self.ended), len(self._failed_at)
        while first or first_failed:
            end = self.ended[first - 1] if first else -1.0
            failed_at = self._failed_at[first_failed - 1] if first_failed else -1.0
            counted = len(self.ended) - first + len(self._failed_at) - first_failed
            if max(end, failed_at) < since and counted >= MIN_RECENT:
                break
            if end >= failed_at:
                first -= 1
            else:
                first_failed -= 1
        failed = len(self._failed_at) - first_failed
        waits = sorted([*self._waits(first), *overdue_us])
        if len(waits) + failed < MIN_RECENT:
            return ""
        ratio, most_us = limits["failed_ratio"], limits["p99_us"]
        if ratio is not None and failed / (len(waits) + failed) > ratio:
            return "failed_ratio"
        p99_us = quantile(waits, 0.99)
        return "p99_us" if most_us is not None and p99_us is not None and p99_us > most_us else ""

    def result(self) -> dict[str, Any]:
        """Everything, the times as base64 of little-endian float64."""
        return {
            "intended": _packed(self.intended),
            "began": _packed(self.began),
            "ended": _packed(self.ended),
            "failed_at": _packed(self._failed_at),
            "failures": [[*key, count] for key, count in self.failures.items()],
            "seconds": self.seconds,
        }

    def _waits(self, first: int) -> list[float]:
        """Latencies from the intended time, us, of the successes from `first` on, sorted."""
        pairs = zip(self.ended[first:], self.intended[first:], strict=True)
        return sorted((end - intended) * 1e6 for end, intended in pairs)


def quantile(ordered: list[float], share: float) -> float | None:
    """The smallest value that at least `share` of them do not exceed; None without values."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


def _packed(values: array[float]) -> str:
    return base64.b64encode(values.tobytes()).decode()
