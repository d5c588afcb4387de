"""How more of a device's memory could be attributed, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from history.inventory import ModelFacts
from signals.memory import ModelHolding
from telemetry.facts import ModelState
from telemetry.memory import GpuCard, GpuTenant
from telemetry.units import Unit, human

if TYPE_CHECKING:
    from signals.memory_sources import ServerMemoryInputs

TRACKING_BACKENDS = ("onnxruntime", "tensorrt")
OWN_PROCESSES = ("python", "vllm", "tensorrtllm")
"""Backends whose models run in processes of their own, or have metrics of their own."""
_NAMED = 3


def listed(names: Sequence[str]) -> str:
    """`a, b, c and 2 more`."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def gpu_notes(
    inputs: ServerMemoryInputs, gpus: int, card: GpuCard | None, models: Sequence[ModelHolding]
) -> Iterator[str]:
    """What would tell more of a GPU. `card` as NVML sees it, None if unseen; `models` as known on it."""
    on_gpus = [facts for facts in inputs.models if _may_be_on_gpu(facts)]
    tracking = [facts for facts in on_gpus if facts.config and facts.config.backend in TRACKING_BACKENDS]
    silent = {
        facts.config.backend
        for facts in tracking
        if facts.config and facts.statistics is not None and not facts.statistics.memory
    }
    for backend in sorted(silent):
        yield (
            f"Start Triton with --backend-config={backend},triton-backend-memory-tracker=true: "
            f"then {backend} reports what its models take at load."
        )
    measured = {model.key for model in models if not model.estimated}
    mute = [facts for facts in on_gpus if _in_server(facts) and facts.key not in measured and gpus == 1]
    if mute:
        names = listed([facts.key.label() for facts in mute])
        backends = ", ".join(sorted({facts.config.backend for facts in mute if facts.config}))
        yield (
            f"{names}: {backends} reports nothing, and lives in tritonserver's own process. Loaded through "
            "this app while nothing else happens on the card, its growth is taken as theirs (delta)."
        )
    if gpus > 1:
        yield (
            "Backends report by device number and the server its GPUs by uuid; which is which is not "
            "reported, so such models stand by themselves and not on one of several GPUs."
        )
    why = inputs.processes.gpu_why if inputs.processes is not None and inputs.processes.pid else ""
    why = why or (card.why if card is not None else "")
    if why:
        yield f"Processes on the card are not seen: {why}."
    elif card is None:
        yield from process_notes(inputs)
    yield from _hidden(card.tenants if card is not None else ())


def _hidden(tenants: Sequence[GpuTenant]) -> Iterator[str]:
    """What NVML tells of processes that nobody here can name, and those whose memory it hides."""
    nameless = [tenant for tenant in tenants if not tenant.name and tenant.bytes]
    if nameless:
        size = human(float(sum(tenant.bytes or 0 for tenant in nameless)), Unit.BYTES)
        ids = listed([str(tenant.pid) for tenant in nameless])
        yield (
            f"Processes that cannot be seen from here hold {size} (ids by NVML: {ids}); the server's "
            "own may be among them."
        )
    if any(tenant.bytes is None for tenant in tenants):
        yield "NVML hides the memory of some processes on this card (virtual GPU or Windows driver model)."


def _may_be_on_gpu(facts: ModelFacts) -> bool:
    """READY, no ensemble, and not on the CPU alone."""
    config = facts.config
    if config is None or facts.ensemble or facts.state not in (None, ModelState.READY):
        return False
    return any(group.kind != "KIND_CPU" for group in config.instance_groups)


def _in_server(facts: ModelFacts) -> bool:
    """Its backend lives in tritonserver's process and does not report."""
    return facts.config is not None and facts.config.backend not in (*TRACKING_BACKENDS, *OWN_PROCESSES)


def process_notes(inputs: ServerMemoryInputs) -> Iterator[str]:
    """Why the processes of a server are not seen; nothing if they are."""
    processes = inputs.processes
    if (processes is None or processes.pid is None) and not inputs.exported:
        why = processes.why if processes is not None and processes.why else "not looked at yet"
        yield (
            f"The server's processes are not seen from here ({why}): on its host, in its process namespace, "
            "the app or its exporter can tell each Python model's memory."
        )
