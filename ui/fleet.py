"""The tiles of the overview: the servers looked at as one, and their fullest GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from history.protocol import Frame
from signals.definition import Level
from signals.report import GpuSignals
from telemetry.scrape import FloatArray, Source
from telemetry.units import Unit, human, human_duration
from ui.format import COLLECTING, formula
from ui.tiles import Better, Tile
from ui.view import View

_IDLE = "no request finished in the window"
_SILENT = "the metrics page did not answer the last time"
_NO_GPU = "Triton reports no GPU metrics: no GPU, no driver, MIG mode, another DCGM agent, or switched off"


@dataclass(frozen=True, slots=True)
class _Figure:
    """One figure of all servers looked at: its value now and its course."""

    value: float | None
    course: FloatArray


def overview_tiles(view: View) -> list[Tile]:
    """Requests, failures, latency, queue share; then utilization and memory of the fullest GPU."""
    requests = _total(view, "requests_per_second")
    failed = _mean(view, "failed_ratio")
    latency = _mean(view, "request_us_mean")
    queue = _mean(view, "queue_ratio")
    down = not any(one.answering for one in view.coverage)
    collecting = any(view.collecting(one.server) for one in view.coverage)
    nothing = "no server answers" if down else COLLECTING if collecting else "not reported"
    idle = nothing if requests.value is None else _IDLE
    return [
        _tile(view, "Requests", requests, Unit.PER_SECOND, "requests_per_second", nothing),
        _tile(view, "Failed", failed, Unit.RATIO, "failed_ratio", idle, Better.LOWER),
        _tile(view, "Mean latency", latency, Unit.US, "request_us_mean", idle, Better.LOWER),
        _tile(view, "Queue share of latency", queue, Unit.RATIO, "queue_ratio", idle, Better.LOWER, top=1.0),
        *_gpu_tiles(view),
    ]


def _tile(
    view: View, label: str, figure: _Figure, unit: Unit, signal: str, why: str,
    better: Better = Better.NEITHER, top: float | None = None,
) -> Tile:  # fmt: skip
    return Tile(
        label=label,
        value=figure.value,
        unit=unit,
        course=figure.course,
        range_seconds=view.shown_seconds,
        formula=formula(signal, Level.SERVER),
        why=why,
        better=better,
        top=top,
        stale=_stale(view),
    )


def _stale(view: View) -> str:
    ages = [age for one in view.coverage if (age := view.stale_seconds(one.server)) is not None]
    return f"{human_duration(max(ages))} old" if ages else ""


def _total(view: View, signal: str) -> _Figure:
    values = [row.signals.number(signal) for row in view.report.servers]
    known = [value for value in values if value is not None]
    return _Figure(sum(known) if known else None, _summed(view.courses(signal, Level.SERVER)))


def _mean(view: View, signal: str) -> _Figure:
    """The servers' means weighted by their requests: a mean over all requests, as for one server."""
    weights = {row.server: row.signals.number("requests_per_second") or 0.0 for row in view.report.servers}
    known = [
        (value, weights[row.server])
        for row in view.report.servers
        if (value := row.signals.number(signal)) is not None
    ]
    total = sum(weight for _, weight in known)
    value = sum(value * weight for value, weight in known) / total if total > 0 else None
    if value is None and len(known) == 1:
        value = known[0][0]
    frame = view.courses(signal, Level.SERVER)
    if len(frame.keys) <= 1:
        return _Figure(value, _summed(frame))
    return _Figure(value, _weighted(frame, view.courses("requests_per_second", Level.SERVER)))


def _summed(frame: Frame) -> FloatArray:
    if not frame.keys:
        return np.full(len(frame.times), np.nan)
    nothing = np.isnan(frame.values).all(axis=1)
    return np.where(nothing, np.nan, np.nansum(frame.values, axis=1))


def _weighted(frame: Frame, weights: Frame) -> FloatArray:
    by = np.column_stack([
        column if (column := weights.column(key)) is not None else np.full(len(frame.times), np.nan)
        for key in frame.keys
    ])  # fmt: skip
    there = np.isfinite(frame.values) & np.isfinite(by) & (by > 0)
    above = np.where(there, frame.values * by, 0.0).sum(axis=1)
    below = np.where(there, by, 0.0).sum(axis=1)
    return np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)


def _gpu_tiles(view: View) -> list[Tile]:
    gpu = max(view.report.gpus, key=_fill, default=None)
    times = view.grid.times()
    if gpu is None:
        return [_without_gpu(view, "GPU utilization", times), _without_gpu(view, "GPU memory", times)]
    number = {row.key: place for place, row in enumerate(view.report.gpus)}[gpu.key]
    name = f"GPU {number}" + (f" of {len(view.report.gpus)}" if len(view.report.gpus) > 1 else "")
    if gpu.key.simulated:
        name += " (simulated)"
    total = view.gpu_figure(gpu, "memory_total_bytes")
    return [
        _gpu_tile(view, gpu, name, Unit.RATIO, "utilization_ratio", top=1.0),
        _gpu_tile(
            view, gpu, f"VRAM {name}", Unit.BYTES, "memory_used_bytes", top=total,
            suffix=f"of {human(total, Unit.BYTES)}" if total else ""
        ),
    ]  # fmt: skip


def _page_failed(view: View, server: str) -> bool:
    return any(Source.METRICS in one.failed_sources for one in view.coverage if one.server == server)


def _fill(gpu: GpuSignals) -> float:
    return gpu.signals.number("memory_used_ratio") or 0.0


def _gpu_tile(
    view: View, gpu: GpuSignals, label: str, unit: Unit, signal: str,
    *, top: float | None, suffix: str = "",
) -> Tile:  # fmt: skip
    course = view.courses(signal, Level.GPU).column((gpu.key.server, gpu.key.uuid))
    return Tile(
        label=label,
        value=view.gpu_figure(gpu, signal),
        unit=unit,
        course=course if course is not None else np.empty(0),
        range_seconds=view.shown_seconds,
        formula=f"{formula(signal, Level.GPU)}\n{gpu.key.uuid} on {gpu.key.server}",
        why=_SILENT if _page_failed(view, gpu.key.server) else "not reported for this GPU",
        top=top,
        suffix=suffix,
        stale=_stale(view),
    )


def _without_gpu(view: View, label: str, times: FloatArray) -> Tile:
    return Tile(
        label,
        None,
        Unit.NONE,
        np.full(len(times), np.nan),
        view.shown_seconds,
        formula="",
        why=_NO_GPU,
    )
