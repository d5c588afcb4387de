"""What NVIDIA's management library says about the cards of this machine and the processes on them.

Without a driver or without permission there are no figures and a sentence says why. Unverified on a GPU until
tests/gpu/check.py has run on one.
"""

from __future__ import annotations

import importlib
import logging
import threading
from typing import Any

from telemetry.memory import GpuCard, GpuTenant

_log = logging.getLogger(__name__)
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
            return _cards(library, library.nvmlDeviceGetCount())
        except library.NVMLError as error:
            return (), f"NVML could not read the cards: {error}"
        finally:
            library.nvmlShutdown()


def _cards(library: Any, count: int) -> tuple[tuple[GpuCard, ...], str]:
    """A card that fell off the bus must not hide the others."""
    cards, whys = [], []
    for number in range(count):
        try:
            cards.append(_card(library, number))
        except library.NVMLError as error:
            whys.append(f"NVML could not read card {number}: {error}")
    if not cards:
        return (), "; ".join(whys) or "no GPU"
    return tuple(cards), ""


def _card(library: Any, number: int) -> GpuCard:
    handle = library.nvmlDeviceGetHandleByIndex(number)
    total, used, reserved = _memory(library, handle)
    tenants, why = _tenants(library, handle)
    return GpuCard(
        uuid=_text(library.nvmlDeviceGetUUID(handle)),
        index=number,
        name=_text(library.nvmlDeviceGetName(handle)),
        total_bytes=total,
        used_bytes=used,
        tenants=tenants,
        reserved_bytes=reserved,
        why=why,
    )


def _memory(library: Any, handle: Any) -> tuple[int, int, int | None]:
    """Total, used and reserved bytes. The older call counts what the driver keeps as used."""
    version = getattr(library, "nvmlMemory_v2", None)
    if version is not None:
        try:
            memory = library.nvmlDeviceGetMemoryInfo(handle, version=version)
            return int(memory.total), int(memory.used), int(memory.reserved)
        except (library.NVMLError, AttributeError) as error:
            _log.debug("the driver does not tell what it reserves: %s", error)
    memory = library.nvmlDeviceGetMemoryInfo(handle)
    return int(memory.total), int(memory.used), None


def _tenants(library: Any, handle: Any) -> tuple[tuple[GpuTenant, ...], str]:
    """The processes on a card, and why they are not known, "" if they are."""
    try:
        rows = list(library.nvmlDeviceGetComputeRunningProcesses(handle))
    except library.NVMLError as error:
        return (), f"NVML does not tell which processes are on it: {error}"
    sizes: dict[int, int | None] = {}
    for row in [*rows, *_graphics(library, handle)]:
        # One process may have a compute and a graphics context; NVML counts its memory in both rows.
        known = [one for one in (sizes.get(row.pid), row.usedGpuMemory) if one is not None]
        sizes[row.pid] = max(known, default=None)
    return tuple(GpuTenant(pid, "", size) for pid, size in sizes.items()), ""


def _graphics(library: Any, handle: Any) -> list[Any]:
    """Processes that draw; cards without a display refuse to tell, which means there are none."""
    try:
        return list(library.nvmlDeviceGetGraphicsRunningProcesses(handle))
    except library.NVMLError:
        return []


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
