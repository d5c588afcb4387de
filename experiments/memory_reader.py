"""The memory of a server, read freshly: `control.ports.MemoryReader` on the collectors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from collectors.gpu_processes import process_sizes, read_processes
from collectors.metrics_page import read_metrics
from telemetry.errors import SourceError
from telemetry.identity import Server
from telemetry.memory import CPU, MemoryReading, ServerProcesses
from telemetry.transport import Transport

SHORT_TIMEOUT_SECONDS = 2.0
_GPU, _HOST = "nv_gpu_memory_used_bytes", "nv_cpu_memory_used_bytes"


class FreshMemoryReader:
    """Usable from any thread; `servers` gives the configured servers at every call. Never raises."""

    def __init__(
        self, servers: Callable[[], Sequence[Server]], *, timeout_seconds: float = SHORT_TIMEOUT_SECONDS
    ) -> None:
        self._servers = servers
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()

    def memory(self, server_id: str) -> MemoryReading | None:
        """What is in use now by device, and what each Python model's processes hold; None if nothing tells.

        What NVML tells of a card is of this moment, what the server's metrics page tells of its last look.
        """
        server = next((one for one in self._servers() if one.id == server_id), None)
        if server is None:
            return None
        at = time.time()
        processes = read_processes(server)
        used = self._used(server)
        fresh = {card.uuid: card.used_bytes for card in processes.cards}
        models = model_sizes(processes)
        sampled = frozenset(used.keys() - fresh.keys())
        used |= fresh
        return MemoryReading(at, used, models, sampled) if used or models else None

    def _used(self, server: Server) -> dict[str, int]:
        # One at a time: several loads may end at once, and the page costs the server time.
        with self._lock:
            try:
                page = read_metrics(
                    server, Transport(server, timeout_seconds=self._timeout_seconds), self._timeout_seconds
                )
            except SourceError:
                return {}
        found: dict[str, int] = {}
        for series, value in zip(page.samples.series, page.samples.values.tolist(), strict=True):
            device = {_GPU: series.label("gpu_uuid"), _HOST: CPU}.get(series.name)
            if device and value == value:
                found[device] = int(value)
        return found


def model_sizes(processes: ServerProcesses) -> Mapping[tuple[str, str], Mapping[str, int]]:
    """Bytes of each (model, version) by device, over all its instances."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for (model, version, kind, device), size in process_sizes(processes).items():
        found.setdefault((model, version), {})[CPU if kind == CPU else device] = size
    return found
