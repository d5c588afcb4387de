"""How a model answered its golden request: a test request with a known answer, sent every few minutes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

OK = "ok"
"""The label of a probe that went well."""


class ProbeCause(StrEnum):
    """Why a golden request failed; the value is the label `cause`, of which there are no others."""

    WRONG_ANSWER = "wrong_answer"
    NOT_FINITE = "not_finite"
    """NaN or infinity where a number was expected."""
    SLOW = "slow"
    """The right answer, later than its bound."""
    ERROR = "error"
    """The model or the server failed on it."""
    PROCESS_DEAD = "process_dead"
    """The process of a Python model is gone."""
    QUEUE_FULL = "queue_full"
    REFUSED = "refused"
    """It does not fit the model as it is now: shape, datatype, names."""
    TIMEOUT = "timeout"
    NOT_READY = "not_ready"
    """The index says READY, and the server says it has no such model."""
    UNREACHABLE = "unreachable"
    """The server did not answer at all: that is no fault of the model."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """How the newest golden request to a model went, at `at` (unix seconds).

    `cause` is a `ProbeCause`, "" if it went well; `sentence` says it to a person. `since` is when it began
    to go so (unix seconds), None = with this one. `latency_us` is what the client waited, None without an
    answer; `version` the one that answered or was to answer.
    """

    server: str
    model: str
    at: float
    ok: bool
    cause: str = ""
    sentence: str = ""
    version: str = ""
    latency_us: float | None = None
    since: float | None = None

    @property
    def label(self) -> str:
        """The label `cause` of `tritonscope_probe_success`: "ok" or a `ProbeCause`."""
        return self.cause or OK
