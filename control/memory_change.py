"""Memory before and after an action: what stood in use on each device, and what is known of the model."""

from __future__ import annotations

import time
from collections.abc import Mapping

from control.ports import MemoryReader
from telemetry.actions import MemoryChange
from telemetry.memory import CPU, MemoryReading

NEXT_LOOK_SECONDS = 2.5
"""Triton looks at its GPUs every 2 s (--metrics-interval-ms): so long a figure of its page may be old."""
_ASK_AGAIN_SECONDS = 0.25


def reading_after(
    memory: MemoryReader, server_id: str, *, next_look_seconds: float = NEXT_LOOK_SECONDS
) -> MemoryReading | None:
    """The memory after an action, once the server has looked at its GPUs again; None if nothing tells.

    Until then its page shows what was in use before the end of the action. Devices that are read directly
    need no waiting, and the machine's own memory is not waited for: there processes are counted themselves.
    """
    first = reading = memory.memory(server_id)
    until = time.monotonic() + next_look_seconds
    while reading is not None and first is not None and (gpus := reading.sampled - {CPU}):
        if any(reading.used[gpu] != first.used.get(gpu) for gpu in gpus) or time.monotonic() > until:
            break
        time.sleep(_ASK_AGAIN_SECONDS)
        reading = memory.memory(server_id)
    return reading


def memory_changes(
    model: str, before: MemoryReading, after: MemoryReading | None
) -> tuple[MemoryChange, ...]:
    """One row per device for everything in use there, one for what is known of the model's own part, bytes.

    What only one of the two readings has is None in the other: not reported, never 0.
    """
    used_before, used_after = before.used, after.used if after is not None else {}
    mine_before = _of_model(model, before)
    mine_after = _of_model(model, after) if after is not None else {}
    return (
        *_rows("all in use on {device}", used_before, used_after),
        *_rows(f"{model} itself on {{device}}", mine_before, mine_after),
    )


def _rows(where: str, before: Mapping[str, int], after: Mapping[str, int]) -> list[MemoryChange]:
    return [
        MemoryChange(where.format(device=device), before.get(device), after.get(device))
        for device in sorted({*before, *after})
    ]


def _of_model(model: str, reading: MemoryReading) -> dict[str, int]:
    """The model's memory by device over all its versions."""
    sums: dict[str, int] = {}
    for (name, _version), devices in reading.models.items():
        if name == model:
            for device, size in devices.items():
                sums[device] = sums.get(device, 0) + size
    return sums
