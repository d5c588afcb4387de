"""Fresh readings outside the polling: what an action must know at the moment it acts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from collectors.config import read_config
from collectors.metrics_page import read_metrics
from collectors.repository import read_index
from collectors.statistics import read_statistics
from experiments.server_side import GpuReading
from telemetry.errors import SourceError
from telemetry.facts import IndexEntry, ModelConfig, ModelStatistics
from telemetry.identity import Server
from telemetry.transport import Transport

_GPU_FAMILIES = {
    "nv_gpu_utilization": "utilization_ratio",
    "nv_gpu_memory_used_bytes": "memory_used_bytes",
    "nv_gpu_power_usage": "power_watts",
}
SHORT_TIMEOUT_SECONDS = 2.0
"""Loads hold workers of Triton's HTTP server: what is asked meanwhile must not wait long."""


class FreshReader:
    """The `control.ports.ServerReader` on the collectors; usable from any thread. Raises SourceError.

    `servers` gives the configured servers at every call.
    """

    def __init__(
        self, servers: Callable[[], Sequence[Server]], *, timeout_seconds: float = SHORT_TIMEOUT_SECONDS
    ) -> None:
        self._servers = servers
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Server, Transport]] = {}

    def index(self, server_id: str) -> tuple[IndexEntry, ...]:
        """All rows of the repository index."""
        return read_index(*self._of(server_id), self._timeout_seconds)[0]

    def statistics(self, server_id: str) -> tuple[ModelStatistics, ...]:
        """Statistics of every model that is ready."""
        return read_statistics(*self._of(server_id), self._timeout_seconds)[0]

    def config(self, server_id: str, model: str, version: str = "") -> ModelConfig:
        """The effective configuration of the version (the newest ready one for "")."""
        return read_config(*self._of(server_id), self._timeout_seconds, model, version)

    def gpus(self, server_id: str) -> tuple[GpuReading, ...]:
        """The GPUs on the server's metrics page, () where it reports none."""
        server, transport = self._of(server_id)
        samples = read_metrics(server, transport, self._timeout_seconds).samples
        found: dict[str, dict[str, float]] = {}
        for series, value in zip(samples.series, samples.values.tolist(), strict=True):
            if series.name in _GPU_FAMILIES and (uuid := series.label("gpu_uuid") or series.label("uuid")):
                found.setdefault(uuid, {})[_GPU_FAMILIES[series.name]] = value
        return tuple(GpuReading(uuid, **figures) for uuid, figures in sorted(found.items()))

    def _of(self, server_id: str) -> tuple[Server, Transport]:
        server = next((server for server in self._servers() if server.id == server_id), None)
        if server is None:
            raise SourceError(f"No server {server_id!r} is configured.")
        with self._lock:
            known = self._known.get(server_id)
            # The same id may have got another address or other headers.
            if known is None or known[0] != server:
                known = (server, Transport(server, timeout_seconds=self._timeout_seconds))
                self._known[server_id] = known
        return known
