"""What production says of one model: time per batch size, arrivals and queue, over a stated window."""

from __future__ import annotations

import math

import runtime
from history.protocol import Grid
from signals.advice import Observed
from signals.batch_time import BatchTime, SizeTime, fit_batch_time, size_times
from signals.definition import Level
from telemetry.identity import ModelKey
from ui.view import View

FIT_SECONDS = 3600.0
"""Executions of so long ago still tell how long an execution takes."""
TRAFFIC_SECONDS = 300.0
"""Arrivals and queue are those of the last five minutes, or since the configuration changed."""
LEAST_TRAFFIC_SECONDS = 30.0


def batch_time(view: View, key: ModelKey) -> tuple[BatchTime | None, tuple[SizeTime, ...]]:
    """T(b) of the last hour, else since the load; None if it cannot be fitted. And the sizes there were.

    Right after the start of this process its last hour is short; what the server counted is not.
    """
    executions = _mapping(view, "executions_by_batch_size", key, FIT_SECONDS)
    times = _mapping(view, "compute_us_by_batch_size", key, FIT_SECONDS)
    sizes = tuple(
        SizeTime(int(size), count, times[size])
        for size, count in sorted(executions.items(), key=lambda one: int(one[0]))
        if count > 0 and size in times
    )
    fitted = fit_batch_time(sizes)
    if fitted is not None:
        return fitted, sizes
    facts = view.facts(key)
    counted = facts.statistics.batches if facts is not None and facts.statistics is not None else ()
    since_load = size_times(counted)
    return fit_batch_time(since_load), since_load or sizes


def observed(view: View, key: ModelKey, seconds: float = TRAFFIC_SECONDS) -> Observed | None:
    """Arrivals and queue of the window; None without a request or a queue time in it."""
    rate = _number(view, "requests_per_second", key, seconds)
    queue, request = (_number(view, name, key, seconds) for name in ("queue_us_mean", "request_us_mean"))
    if not rate or queue is None or request is None:
        return None
    executions, size = (
        _number(view, name, key, seconds) for name in ("executions_per_second", "batch_size_mean")
    )
    return Observed(
        rate,
        executions * size / rate if executions and size else 1.0,
        queue,
        request,
        _number(view, "instance_busy_ratio", key, seconds),
        size,
    )


def _number(view: View, signal: str, key: ModelKey, seconds: float) -> float | None:
    values = _values(view, signal, key, seconds)
    return values[0][1] if values else None


def _mapping(view: View, signal: str, key: ModelKey, seconds: float) -> dict[str, float]:
    return dict(_values(view, signal, key, seconds))


def _values(view: View, signal: str, key: ModelKey, seconds: float) -> list[tuple[str, float]]:
    """A signal over the last `seconds` as one window, by its own label.

    A window that began before anything was recorded would make rates too low.
    """
    if view.oldest is not None:
        seconds = min(seconds, view.now - view.oldest)
    if seconds <= 0:
        return []
    frame = runtime.current().signal_range(
        signal,
        Grid(view.now, view.now, seconds),
        level=Level.MODEL,
        server=key.server,
        model=key.name,
        version=key.version,
        deadline=view.deadline,
    )
    values = frame.values[-1].tolist() if frame.keys else []
    return [(labels[-1], one) for labels, one in zip(frame.keys, values, strict=True) if math.isfinite(one)]
