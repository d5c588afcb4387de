"""What the clients of a load saw, as figures: exact quantiles over every latency, failures as sentences."""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from tritonclient.utils import InferenceServerException

from control.triton_client import call_error
from telemetry.scrape import FloatArray

KEPT_SPANS = 1000
"""Requests whose begin and end are kept for a timeline."""
MAX_COURSE = 240
_QUANTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class CoursePoint:
    """The load around one moment, `seconds` after its start; rates per second, quantiles in us."""

    seconds: float
    per_second: float
    failed_per_second: float
    p50_us: float | None
    p99_us: float | None


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """What the clients saw. Latencies in us, of successful requests, None without any.

    In an open loop a latency counts from the time the request was due, also if it had to wait for a free
    connection (coordinated omission is not left out); `service_p99_us` counts from the time it was sent.
    `seconds` is from the start to the last answer. `unanswered` requests were still waiting when the load
    was given up, `unsent` were due and never sent. `spans` are (begin, end) seconds of the first successes.
    """

    concurrency: int
    succeeded: int
    errors: Mapping[str, int]
    seconds: float
    mean_us: float | None
    p50_us: float | None
    p90_us: float | None
    p95_us: float | None
    p99_us: float | None
    max_us: float | None
    service_p99_us: float | None
    open_loop: bool = False
    stopped: bool = False
    ended_by: str = ""
    """Which limit ended it: "failed_ratio", "p99_us", or "" for none."""
    unanswered: int = 0
    unsent: int = 0
    max_under_way: int = 0
    held_by_cap: int = 0
    course: tuple[CoursePoint, ...] = ()
    spans: tuple[tuple[float, float], ...] = field(default=(), repr=False)

    @property
    def failed(self) -> int:
        """Requests that failed, of all kinds."""
        return sum(self.errors.values())

    @property
    def failed_ratio(self) -> float | None:
        """Failures / all that ended, None if nothing did."""
        ended = self.succeeded + self.failed
        return self.failed / ended if ended else None

    @property
    def throughput_per_second(self) -> float | None:
        """Successes / time from the start to the last answer, None without a success."""
        return self.succeeded / self.seconds if self.succeeded and self.seconds > 0 else None

    @property
    def expected_per_second(self) -> float | None:
        """QPS = concurrency / mean response time, the rule of the closed loop; None for an open one."""
        return self.concurrency / (self.mean_us / 1e6) if self.mean_us and not self.open_loop else None

    @property
    def under_way_mean(self) -> float | None:
        """Requests under way at a time, by Little's law: throughput x mean latency."""
        rate = self.throughput_per_second
        return rate * self.mean_us / 1e6 if rate and self.mean_us else None

    def to_json(self) -> dict[str, Any]:
        """For the state folder: plain values under the names of the fields."""
        return asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> LoadFigures:
        """The figures written by `to_json`; raises TypeError and KeyError for anything else."""
        course = tuple(CoursePoint(**point) for point in row["course"])
        spans = tuple((begin, end) for begin, end in row["spans"])
        return cls(**{**row, "course": course, "spans": spans})


@dataclass(frozen=True, slots=True)
class Asked:
    """What the sentences about failures name: the address, the model, the time-out in seconds."""

    http_url: str
    model: str
    timeout_seconds: float


def figures(concurrency: int, open_loop: bool, result: Mapping[str, Any], asked: Asked) -> LoadFigures:
    """Figures from the generator's result."""
    intended, began, ended = (_array(result[name]) for name in ("intended", "began", "ended"))
    waits_us = (ended - intended) * 1e6
    quantiles = _quantiles(waits_us)
    return LoadFigures(
        concurrency=concurrency,
        succeeded=len(ended),
        errors=error_counts(result["failures"], asked),
        seconds=float(result["seconds"]),
        mean_us=float(waits_us.mean()) if len(ended) else None,
        p50_us=quantiles[50],
        p90_us=quantiles[90],
        p95_us=quantiles[95],
        p99_us=quantiles[99],
        max_us=float(waits_us.max()) if len(ended) else None,
        service_p99_us=_quantiles((ended - began) * 1e6)[99],
        open_loop=open_loop,
        stopped=bool(result["stopped"]),
        ended_by=str(result["reason"]),
        unanswered=int(result["unanswered"]),
        unsent=int(result["unsent"]),
        max_under_way=int(result["max_under_way"]),
        held_by_cap=int(result["held_by_cap"]),
        course=course(ended, waits_us, _array(result["failed_at"]), float(result["seconds"])),
        spans=tuple(zip(began[:KEPT_SPANS].tolist(), ended[:KEPT_SPANS].tolist(), strict=True)),
    )


def error_counts(failures: Sequence[Sequence[Any]], asked: Asked) -> dict[str, int]:
    """Failures by the sentence a test request would have shown, the most frequent first."""
    counts: dict[str, int] = {}
    for kind, status, text, count in failures:
        sentence = _sentence(kind, int(status), text, asked)
        counts[sentence] = counts.get(sentence, 0) + int(count)
    return dict(sorted(counts.items(), key=lambda row: -row[1]))


def course(
    ended: FloatArray, waits_us: FloatArray, failed_at: FloatArray, seconds: float
) -> tuple[CoursePoint, ...]:
    """Throughput and quantiles over the load, in equal parts of at least 0.25 s; () for a very short one."""
    parts = min(MAX_COURSE, int(seconds / 0.25))
    if parts < 2:
        return ()
    width = seconds / parts
    edges = np.arange(1, parts) * width
    failed, _ = np.histogram(failed_at, bins=parts, range=(0.0, seconds))
    points = []
    # `ended` is in order: every part is a slice of it.
    for at, waits in enumerate(np.split(waits_us, np.searchsorted(ended, edges))):
        found = _quantiles(waits)
        points.append(
            CoursePoint(
                seconds=(at + 0.5) * width,
                per_second=len(waits) / width,
                failed_per_second=float(failed[at]) / width,
                p50_us=found[50],
                p99_us=found[99],
            )
        )
    return tuple(points)


def _sentence(kind: str, status: int, text: str, asked: Asked) -> str:
    """As `control.triton_client` says it: the same failure has the same sentence everywhere."""
    causes: dict[str, Exception] = {
        "status": InferenceServerException(msg=text, status=str(status)),
        "timeout": TimeoutError(),
        "refused": ConnectionRefusedError(text),
        "tls": ssl.SSLError(text),
        "name": socket.gaierror(text),
        "closed": ConnectionResetError(text),
        "connection": ConnectionResetError(text),
        "protocol": http.client.HTTPException(text),
        "connect": OSError(text),
    }
    cause = causes.get(kind)
    if cause is None:
        return "other failures"
    return call_error(cause, asked.http_url, asked.timeout_seconds, asked.model).sentence


def _quantiles(waits_us: FloatArray) -> dict[int, float | None]:
    if not len(waits_us):
        return dict.fromkeys(_QUANTILES)
    return dict(zip(_QUANTILES, np.percentile(waits_us, _QUANTILES).tolist(), strict=True))


def _array(packed: str) -> FloatArray:
    return np.frombuffer(base64.b64decode(packed), dtype="<f8")
