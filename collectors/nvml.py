"""What NVIDIA's management library says about the cards of this machine and the processes on them.

Without a driver or without permission there are no figures and a sentence says why. Unverified on a GPU until
tests/gpu/check.py has run on one.
"""

from __future__ import annotations

import importlib
import threading
from typing import Any

from telemetry.memory import GpuCard, GpuTenant

_lock = threading.Lock()


def read_cards(library: Any = None) -> tuple[tuple[GpuCard, ...], str]:
    """All cards with their processes (names are not NVML's to give), and why there are none, "" if there are.

    `library` replaces the module `pynvml`.
    """
    if library is None:
        # Only where cards are looked for: it takes a twentieth of a second of every start.
        library = importlib.import_module("pynvml")
    with _lock:
        try:
            library.nvmlInit()
        except library.NVMLError as error:
            return (), f"NVML cannot be used here: {error}"
        try:
            count = library.nvmlDeviceGetCount()
            return tuple(_card(library, number) for number in range(count)), "" if count else "no GPU"
        except library.NVMLError as error:
            return (), f"NVML could not read the cards: {error}"
        finally:
            library.nvmlShutdown()


def _card(library: Any, number: int) -> GpuCard:
    handle = library.nvmlDeviceGetHandleByIndex(number)
    memory = library.nvmlDeviceGetMemoryInfo(handle)
    rows = [*library.nvmlDeviceGetComputeRunningProcesses(handle), *_graphics(library, handle)]
    sizes: dict[int, int | None] = {}
    for row in rows:
        # One process may have a compute and a graphics context; NVML counts its memory in both rows.
        sizes[row.pid] = max(filter(None, (sizes.get(row.pid), row.usedGpuMemory)), default=None)
    return GpuCard(
        uuid=_text(library.nvmlDeviceGetUUID(handle)),
        index=number,
        name=_text(library.nvmlDeviceGetName(handle)),
        total_bytes=int(memory.total),
        used_bytes=int(memory.used),
        tenants=tuple(GpuTenant(pid, "", size) for pid, size in sizes.items()),
    )


def _graphics(library: Any, handle: Any) -> list[Any]:
    """Processes that draw; cards without a display refuse to tell, which means there are none."""
    try:
        return list(library.nvmlDeviceGetGraphicsRunningProcesses(handle))
    except library.NVMLError:
        return []


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
