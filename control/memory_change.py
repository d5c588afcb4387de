"""Memory before and after an action: what stood in use on each device, and what is known of the model."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry.actions import MemoryChange
from telemetry.memory import MemoryReading


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
