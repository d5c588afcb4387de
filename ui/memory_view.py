"""Who holds the memory of each device of the servers looked at: gathers what `signals.memory` needs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import runtime
from history.memory_changes import MODEL_FAMILY, MemoryChange, ReloadGrowth, reload_growth
from history.protocol import Frame, GroupKey, Matchers, Reduce
from signals.memory import DeviceMemory, ModelHolding
from signals.memory_sources import ServerMemoryInputs, devices_of
from telemetry.identity import ModelKey
from telemetry.memory import CPU, MemorySource, ServerProcesses
from telemetry.scrape import Source
from ui.view import View

GROWTH_SHOWN_SECONDS = 86400.0
EXPORTED_SECONDS = 30.0
"""What an exporter tells is asked for so often at most, for all viewers."""
_TRT_LLM = "nv_trt_llm_runtime_memory_metrics"
_KEPT = (MemorySource.REPORTED, MemorySource.PROCESS)
"""Sources whose figures are kept over time."""


def devices(view: View) -> tuple[DeviceMemory, ...]:
    """Every GPU and every machine's own memory."""
    servers = dict.fromkeys(
        [one.server for one in view.report.servers] + [one.key.server for one in view.inventory.models]
    )
    return tuple(device for server in servers for device in devices_of(_inputs(view, server)))


def processes_of(server: str) -> tuple[ServerProcesses | None, float | None]:
    """The server's processes as last read and when (unix seconds); None while they are not looked at."""
    scrape = runtime.current().ring.last(server, Source.PROCESSES)
    payload = scrape.payload if scrape is not None else None
    if scrape is None or not isinstance(payload, ServerProcesses):
        return None, None
    return payload, scrape.at


def changes(server: str | None = None, model: str | None = None) -> tuple[MemoryChange, ...]:
    """What loads and unloads did to memory, oldest first."""
    return runtime.current().memory.changes(server, model)


def growths(view: View) -> tuple[ReloadGrowth, ...]:
    """Models of the servers looked at that hold more after every load, the last of them within a day."""
    seen = (one for one in changes() if view.sees(one.mark.server))
    return tuple(one for one in reload_growth(seen) if view.now - one.until <= GROWTH_SHOWN_SECONDS)


def _inputs(view: View, server: str) -> ServerMemoryInputs:
    processes, at = processes_of(server)
    backend = runtime.current().history.gauge(
        _TRT_LLM, ("server", "model", "version"), view.now, where=(("server", server), ("memory_type", "gpu"))
    )
    exported, exported_at = (
        _exported(view, server) if processes is None or processes.pid is None else ({}, None)
    )
    hosts = [row.signals for row in view.report.host if row.server == server]
    return ServerMemoryInputs(
        server,
        models=view.inventory.of_server(server),
        gpus={
            row.key.uuid: (
                view.gpu_figure(row, "memory_used_bytes"),
                view.gpu_figure(row, "memory_total_bytes"),
            )
            for row in view.report.gpus
            if row.key.server == server
        },
        host=(hosts[0].number("memory_used_bytes"), hosts[0].number("memory_total_bytes"))
        if hosts
        else (None, None),
        processes=processes,
        processes_at=at,
        backend={ModelKey(*key): value for key, value in backend.items()},
        backend_at=view.now,
        exported=exported,
        exported_at=exported_at,
        changes=changes(server),
    )


def _exported(view: View, server: str) -> tuple[dict[tuple[ModelKey, str], float], float | None]:
    """What the exporter beside a server told Prometheus of its processes, by model and device, and when."""
    process = runtime.current()
    distant = process.distant if process.replayed is None else None
    if distant is None:
        return {}, None
    at = view.now // EXPORTED_SECONDS * EXPORTED_SECONDS
    where: Matchers = (("server", server), ("source", MemorySource.PROCESS.value))
    # Two exporters may tell of the same processes.
    found = distant.gauge(
        MODEL_FAMILY, ("model", "version", "kind", "device"), at, where=where, reduce=Reduce.MAX
    )
    return {
        (ModelKey(server, model, version), CPU if kind == CPU else device): size
        for (model, version, kind, device), size in found.items()
    }, at


def holdings_of(view: View, key: ModelKey) -> tuple[ModelHolding, ...]:
    """What one model holds, by device."""
    return tuple(
        model
        for device in devices_of(_inputs(view, key.server))
        for model in device.models
        if model.key == key
    )


def course(view: View, device: DeviceMemory, models: Iterable[ModelHolding]) -> Frame:
    """Memory of these models on one device over the time shown, by (server, model, version).

    Each by the source that counts for it now, as far as that source is kept over time.
    """
    wanted = {model.key: model.shown.source for model in models if model.shown.source in _KEPT}
    columns: dict[GroupKey, object] = {}
    times = view.grid.times()
    for source in dict.fromkeys(wanted.values()):
        where: Matchers = (("server", device.server), ("source", source.value))
        frame = runtime.current().history.gauge_range(
            MODEL_FAMILY, ("server", "model", "version", "kind", "device"), view.grid, where=where
        )
        times = frame.times
        for column, (server, model, version, kind, name) in enumerate(frame.keys):
            key = ModelKey(server, model, version)
            here = kind == CPU if device.device == CPU else kind == "GPU"
            # Backends name a GPU by its number; they are put on one only where there is no other.
            exact = source is not MemorySource.PROCESS or device.device == CPU or name == device.device
            if wanted.get(key) is source and here and exact:
                columns[server, model, version] = frame.values[:, column]
    if not columns:
        return Frame(times, (), np.empty((len(times), 0)))
    return Frame(times, tuple(columns), np.stack(list(columns.values()), axis=1))
