"""A card made of main memory, so that tests/gpu/check.py can be walked through on a machine without a GPU."""

from __future__ import annotations

import os

from collectors.processes import STUB_PROGRAM, ProcessTable
from telemetry.memory import GpuCard, GpuTenant

TOTAL_BYTES = 8 * 2**30


class OpenTable(ProcessTable):
    """Every process counts as one that has a GPU open: here none has."""

    def uses_gpu(self, pid: int) -> bool | None:
        """True for all."""
        return True


def made_up_cards() -> tuple[tuple[GpuCard, ...], str]:
    """One card: on it the stubs and the holder.py that this process started, by their private memory."""
    table = ProcessTable()
    found = []
    for pid in table.tree(os.getpid()):
        arguments = table.arguments(pid)
        program = arguments[0].rpartition("/")[2] if arguments else ""
        if program == STUB_PROGRAM or any(one.endswith("/holder.py") for one in arguments[1:2]):
            found.append(GpuTenant(pid, "", table.private_bytes([pid])))
    used = sum(one.bytes or 0 for one in found)
    return (GpuCard("GPU-rehearsal", 0, "main memory", TOTAL_BYTES, used, tuple(found), 0),), ""
