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
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from control.inference import InferenceRequest
from experiments.figures import Asked, LoadFigures, figures
from experiments.plan import LoadPlan, Loop
from experiments.wire import host_and_port, messages
from telemetry.errors import ActionFailed
from telemetry.facts import ModelConfig
from telemetry.identity import Server

_ROOT = Path(__file__).resolve().parents[1]
_SLACK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load is. `seconds` since the phase began; the recent figures are of about the last 0.2 s."""

    phase: str
    done: int
    failed: int
    seconds: float
    under_way: int = 0
    recent_done: int = 0
    recent_failed: int = 0
    p50_us: float | None = None
    p99_us: float | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Whom a load is sent to, and what: the same request again and again."""

    server: Server
    config: ModelConfig
    request: InferenceRequest


@dataclass(frozen=True, slots=True)
class Watch:
    """Who looks on: `progress` about five times a second, `measuring` once when the warm-up has ended.

    `stopping` is asked at every progress.
    """

    progress: Callable[[LoadProgress], None]
    measuring: Callable[[], None]
    stopping: Callable[[], bool]


RunLoad = Callable[[Target, LoadPlan, Watch], LoadFigures]


def run_load(target: Target, plan: LoadPlan, watch: Watch) -> LoadFigures:
    """Run one load in its own process and wait; raises ActionFailed if the generator itself breaks.

    After a stop what was measured until then is returned, without the requests that were still unanswered 2 s
    later. Between warm-up and measured load nothing is under way: what the server counts in between
    `measuring` and the end is the measured load.
    """
    plan.check()
    command = [sys.executable, "-m", "experiments.load_generator"]
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints,
        subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=complaints, text=True, cwd=_ROOT
        ) as process,
    ):
        limit = plan.bound_seconds + 3 * target.request.timeout_seconds + _SLACK_SECONDS
        watchdog = threading.Timer(limit, process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            result = _follow(process, json.dumps(order_json(target, plan)), watch)
        finally:
            watchdog.cancel()
            process.kill()
        if result is None:
            process.wait()
            complaints.seek(0)
            raise ActionFailed(
                "The load generator ended without a result", detail=complaints.read()[-4000:] or None
            )
    request = target.request
    asked = Asked(target.server.http_url or "", request.model, request.timeout_seconds)
    return figures(plan.concurrency, plan.loop is Loop.OPEN, result, asked)


def order_json(target: Target, plan: LoadPlan) -> dict[str, Any]:
    """The order as the generator reads it. It goes over a pipe: headers may hold credentials."""
    host, port, tls = host_and_port(target.server)
    encoded = messages(target.server, target.config, target.request, plan.concurrency)
    return {
        "host": host,
        "port": port,
        "tls": tls,
        "ca_file": target.server.ca_file,
        "messages": [base64.b64encode(message).decode() for message in encoded],
        "timeout_seconds": target.request.timeout_seconds,
        "mode": plan.loop.value,
        "connections": plan.concurrency,
        "rate_per_second": plan.rate_per_second,
        "arrivals": plan.arrivals.value,
        "seed": plan.seed,
        "cap_per_second": plan.cap_per_second,
        "warmup_seconds": plan.warmup_seconds,
        "seconds": plan.seconds,
        "count": plan.requests,
        "limits": {"failed_ratio": plan.max_failed_ratio, "p99_us": plan.max_p99_us},
    }


def _follow(process: subprocess.Popen[str], order: str, watch: Watch) -> Mapping[str, Any] | None:
    orders, lines = _pipes(process)
    _write(orders, order)
    for line in lines:
        row = json.loads(line)
        if "result" in row:
            result: Mapping[str, Any] = row["result"]
            return result
        if "ready" in row:
            watch.measuring()
            _write(orders, "go")
            continue
        watch.progress(LoadProgress(**row["progress"]))
        if watch.stopping():
            _write(orders, "stop")
    return None


def _write(orders: IO[str], line: str) -> None:
    # A generator that ended at once has closed its end; the missing result tells it.
    with contextlib.suppress(BrokenPipeError):
        orders.write(line + "\n")
        orders.flush()


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the generator was started without pipes")
    return process.stdin, process.stdout
