"""Starts the load generator's process, follows it, and turns what it wrote into figures."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from control.inference import InferenceRequest, Tensor
from telemetry.errors import ActionFailed, InvalidRequest
from telemetry.identity import Server

MAX_REQUESTS = 2000
MAX_CONCURRENCY = 64
MAX_SECONDS = 300.0
"""One phase is ended after this, whatever its server does."""

_ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class LoadOrder:
    """`requests` equal requests by `concurrency` clients that each wait for their answer (a closed loop)."""

    request: InferenceRequest
    requests: int
    concurrency: int
    sequence: bool = False

    def check(self) -> None:
        """Raise InvalidRequest outside the bounds of an experiment."""
        if not 1 <= self.requests <= MAX_REQUESTS:
            raise InvalidRequest(f"1 to {MAX_REQUESTS} requests (got {self.requests})")
        if not 1 <= self.concurrency <= MAX_CONCURRENCY:
            raise InvalidRequest(f"1 to {MAX_CONCURRENCY} at the same time (got {self.concurrency})")


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load is; `seconds` since its start."""

    done: int
    failed: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """What the clients saw. Latencies are of successful requests, in us, None without any.

    `seconds` is from the start to the last answer; `spans` are (begin, end) seconds of each success.
    """

    concurrency: int
    succeeded: int
    errors: Mapping[str, int]
    seconds: float
    mean_us: float | None
    p50_us: float | None
    p95_us: float | None
    max_us: float | None
    stopped: bool = False
    spans: tuple[tuple[float, float], ...] = field(default=(), repr=False)

    @property
    def failed(self) -> int:
        """Requests that failed, of all kinds."""
        return sum(self.errors.values())

    @property
    def throughput_per_second(self) -> float | None:
        """Successes / time, None without a success."""
        return self.succeeded / self.seconds if self.succeeded and self.seconds > 0 else None

    @property
    def expected_per_second(self) -> float | None:
        """QPS = concurrency / mean response time, the rule of the closed loop; None without a success."""
        return self.concurrency / (self.mean_us / 1e6) if self.mean_us else None


def figures(concurrency: int, result: Mapping[str, Any]) -> LoadFigures:
    """Figures from the generator's result."""
    spans = tuple((float(begin), float(end)) for begin, end in result["spans"])
    waits_us = np.array([end - begin for begin, end in spans]) * 1e6
    return LoadFigures(
        concurrency=concurrency,
        succeeded=len(spans),
        errors=dict(result["errors"]),
        seconds=float(result["seconds"]),
        mean_us=float(waits_us.mean()) if spans else None,
        p50_us=float(np.percentile(waits_us, 50)) if spans else None,
        p95_us=float(np.percentile(waits_us, 95)) if spans else None,
        max_us=float(waits_us.max()) if spans else None,
        stopped=bool(result["stopped"]),
        spans=spans,
    )


def run_load(
    server: Server, order: LoadOrder, progress: Callable[[LoadProgress], None], stopping: Callable[[], bool]
) -> LoadFigures:
    """Run one load in its own process and wait; raises ActionFailed if the generator itself breaks.

    `stopping` is asked about five times a second; what was measured until then is returned, without the
    requests that were still unanswered 2 s later.
    """
    order.check()
    command = [sys.executable, "-m", "experiments.generator"]
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints,
        subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=complaints, text=True, cwd=_ROOT
        ) as process,
    ):
        watchdog = threading.Timer(MAX_SECONDS + order.request.timeout_seconds, process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            result = _follow(process, json.dumps(order_json(server, order)), progress, stopping)
        finally:
            watchdog.cancel()
            process.kill()
        if result is None:
            process.wait()
            complaints.seek(0)
            said = complaints.read()[-4000:]
            raise ActionFailed("The load generator ended without a result", detail=said or None)
    return figures(order.concurrency, result)


def order_json(server: Server, order: LoadOrder) -> dict[str, Any]:
    """The order as the generator reads it. It goes over a pipe: headers may hold credentials."""
    request = order.request
    return {
        "url": server.http_url,
        "headers": dict(server.headers),
        "ca_file": server.ca_file,
        "model": request.model,
        "version": request.version,
        "timeout_seconds": request.timeout_seconds,
        "requests": order.requests,
        "concurrency": order.concurrency,
        "sequence": order.sequence,
        "inputs": [_encoded(tensor) for tensor in request.tensors],
    }


def _follow(
    process: subprocess.Popen[str],
    order: str,
    progress: Callable[[LoadProgress], None],
    stopping: Callable[[], bool],
) -> Mapping[str, Any] | None:
    orders, lines = _pipes(process)
    # A generator that ended at once has closed its end; the missing result tells it.
    with contextlib.suppress(BrokenPipeError):
        orders.write(order + "\n")
        orders.flush()
    for line in lines:
        row = json.loads(line)
        if "result" in row:
            result: Mapping[str, Any] = row["result"]
            return result
        progress(LoadProgress(row["done"], row["failed"], row["seconds"]))
        if (stopping() or row["seconds"] > MAX_SECONDS) and not orders.closed:
            orders.close()
    return None


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the generator was started without pipes")
    return process.stdin, process.stdout


def _encoded(tensor: Tensor) -> dict[str, Any]:
    row: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
    if tensor.datatype == "BYTES":
        row["elements"] = [base64.b64encode(value).decode() for value in tensor.array.reshape(-1).tolist()]
    else:
        row["data"] = base64.b64encode(np.ascontiguousarray(tensor.array).tobytes()).decode()
    return row
