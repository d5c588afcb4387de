"""What load is wanted: a closed or an open loop, for how long, after which warm-up, and when to break off."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from telemetry.errors import InvalidRequest
from telemetry.units import Unit, human, significant

MAX_CONNECTIONS = 256
MAX_REQUESTS = 1_000_000
MAX_SECONDS = 600.0
MAX_WARMUP_SECONDS = 60.0
MAX_RATE_PER_SECOND = 20_000.0
DEFAULT_SECONDS = 10.0
DEFAULT_WARMUP_SECONDS = 1.0
DEFAULT_FAILED_RATIO = 0.5


class Loop(StrEnum):
    """Who decides when the next request is sent: the answer before it, or the clock."""

    CLOSED = "closed"
    OPEN = "open"


class Arrivals(StrEnum):
    """The gaps of an open loop: exponential as of independent senders, or all the same."""

    POISSON = "poisson"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """One load. `concurrency` are the senders of a closed loop, and the connections of an open one at most.

    It ends after `seconds` or after `requests`, whichever is given; earlier once more than `max_failed_ratio`
    of the requests of the last second failed, or their p99 is above `max_p99_us`. `cap_per_second` is the
    limit the settings put on this server: it is kept whatever else is asked for.
    """

    loop: Loop = Loop.CLOSED
    concurrency: int = 8
    rate_per_second: float | None = None
    arrivals: Arrivals = Arrivals.POISSON
    seconds: float | None = DEFAULT_SECONDS
    requests: int | None = None
    warmup_seconds: float = DEFAULT_WARMUP_SECONDS
    max_failed_ratio: float | None = DEFAULT_FAILED_RATIO
    max_p99_us: float | None = None
    cap_per_second: float | None = None
    seed: int = 1

    def check(self) -> None:
        """Raise InvalidRequest for what cannot be meant, or goes beyond the bounds of a load run."""
        _within("at the same time", self.concurrency, 1, MAX_CONNECTIONS)
        if (self.seconds is None) == (self.requests is None):
            raise InvalidRequest("A load run ends after a time or after so many requests: give one of them")
        if self.seconds is not None:
            _within("s", self.seconds, 0.1, MAX_SECONDS)
        if self.requests is not None:
            _within("requests", self.requests, 1, MAX_REQUESTS)
        _within("s of warm-up", self.warmup_seconds, 0, MAX_WARMUP_SECONDS)
        if self.max_failed_ratio is not None:
            _within("as the share of failures to stop at", self.max_failed_ratio, 0, 1)
        self._check_rate()

    def _check_rate(self) -> None:
        if self.loop is Loop.CLOSED:
            return
        if self.rate_per_second is None:
            raise InvalidRequest("An open loop needs an arrival rate, in requests/s")
        _within("requests/s", self.rate_per_second, 0.1, MAX_RATE_PER_SECOND)
        cap = self.cap_per_second
        if cap is not None and self.rate_per_second > cap:
            raise InvalidRequest(
                f"The settings allow {significant(cap)} requests/s on this server, not "
                f"{significant(self.rate_per_second)}: see load_runs in tritonscope.yml"
            )

    @property
    def words(self) -> str:
        """The load as a person reads it: `16 at a time for 10 s`."""
        if self.loop is Loop.OPEN:
            what = f"{significant(self.rate_per_second or 0)} requests/s, {self.arrivals.value} arrivals"
        else:
            what = f"{self.concurrency} at a time"
        if self.seconds is not None:
            return f"{what} for {human(self.seconds, Unit.SECONDS)}"
        return f"{what}, {self.requests:,} requests"

    @property
    def bound_seconds(self) -> float:
        """Time after which it is ended whatever the server does, without the waits for answers."""
        return (self.seconds if self.seconds is not None else MAX_SECONDS) + self.warmup_seconds

    def to_json(self) -> dict[str, Any]:
        """For the state folder and the journal: plain values under the names of the fields."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> LoadPlan:
        """The plan written by `to_json`; raises TypeError and ValueError for anything else."""
        return cls(**row | {"loop": Loop(row["loop"]), "arrivals": Arrivals(row["arrivals"])})


def _within(what: str, given: float, least: float, most: float) -> None:
    if not least <= given <= most:
        raise InvalidRequest(f"{least:,.10g} to {most:,.10g} {what} (got {given:,.10g})")
