"""From what was read to who holds the memory of each device: `devices_of`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from history.inventory import ModelFacts
from history.memory_changes import MemoryChange
from signals.memory import DeviceMemory, Figure, ModelHolding, Part, holdings, in_order
from telemetry.facts import MemoryUse, ModelState
from telemetry.identity import ModelKey
from telemetry.memory import CPU, Confidence, GpuCard, MemorySource, ServerProcesses
from telemetry.units import Unit, human

TRACKING_BACKENDS = ("onnxruntime", "tensorrt")
RESERVING_BACKENDS = ("vllm", "tensorrtllm")
"""They take a share of the card at start, whatever their model needs."""
HEADROOM_RATIO = 0.20
"""Weights alone are not what a model needs: activations and workspaces come on top."""
_REPEATED_RATIO = 0.20
_LEAST_DELTA_BYTES = 2**20
_IN_SERVER = (MemorySource.REPORTED, MemorySource.BACKEND, MemorySource.DELTA)
_Found = dict[str, dict[ModelKey, list[Figure]]]


@dataclass(frozen=True, slots=True)
class ServerMemoryInputs:
    """What is known of one server's memory. Bytes; times unix seconds.

    `gpus`: (used, total) by uuid as the server reports them; `host` the same of the machine. `backend`: by
    model what the backend's own families say it holds on GPUs.
    """

    server: str
    models: Sequence[ModelFacts] = ()
    gpus: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    host: tuple[float | None, float | None] = (None, None)
    processes: ServerProcesses | None = None
    processes_at: float | None = None
    backend: Mapping[ModelKey, float] = field(default_factory=dict)
    backend_at: float | None = None
    changes: Sequence[MemoryChange] = ()


def devices_of(inputs: ServerMemoryInputs) -> tuple[DeviceMemory, ...]:
    """The GPUs of a server and the machine's own memory, each with who holds it."""
    gpus = _gpus(inputs)
    found: _Found = {device: {} for device in (*gpus, CPU)}
    alone = next(iter(gpus)) if len(gpus) == 1 else None
    for facts in inputs.models:
        for device, figure in _figures(inputs, facts, alone):
            found.setdefault(device, {}).setdefault(facts.key, []).append(figure)
    cards = {card.uuid: card for card in inputs.processes.cards} if inputs.processes else {}
    devices = []
    for uuid, (used, total) in gpus.items():
        models = holdings(uuid, found[uuid])
        others = tuple(_tenants(cards[uuid], models)) if uuid in cards else ()
        notes = tuple(_gpu_notes(inputs, len(gpus), cards.get(uuid)))
        devices.append(DeviceMemory(inputs.server, uuid, total, used, models, others, notes))
    # Known by their number alone: no figure of such a card says what is in use or free.
    devices += [
        DeviceMemory(inputs.server, device, None, None, holdings(device, figures))
        for device, figures in found.items()
        if device != CPU and device not in gpus and figures
    ]
    devices += _host(inputs, holdings(CPU, found[CPU]))
    return in_order(devices)


def _gpus(inputs: ServerMemoryInputs) -> dict[str, tuple[float | None, float | None]]:
    """As the server reports them; what only NVML sees is added where the server's processes are on it."""
    found = dict(inputs.gpus)
    for card in inputs.processes.cards if inputs.processes is not None else ():
        if card.uuid in found or any(tenant.ours for tenant in card.tenants):
            used, total = found.get(card.uuid, (None, None))
            found[card.uuid] = (
                card.used_bytes if used is None else used,
                card.total_bytes if total is None else total,
            )
    return found


def _host(inputs: ServerMemoryInputs, models: tuple[ModelHolding, ...]) -> list[DeviceMemory]:
    used, total = inputs.host
    processes = inputs.processes
    own = processes.server_private_bytes if processes is not None else None
    if used is None and not models and own is None:
        return []
    parts = (
        (Part("tritonserver", own, "its own process: core, C++ backends, caches"),) if own is not None else ()
    )
    return [DeviceMemory(inputs.server, CPU, total, used, models, parts, tuple(_process_notes(inputs)))]


# ---- figures of one model


def _figures(
    inputs: ServerMemoryInputs, facts: ModelFacts, alone: str | None
) -> Iterator[tuple[str, Figure]]:
    """(device, figure) from every source."""
    if facts.ensemble or facts.state not in (None, ModelState.READY, ModelState.UNLOADING):
        return
    yield from _reported(facts, alone)
    yield from _process(inputs, facts)
    if facts.key in inputs.backend and alone is not None:
        words = "its backend's own metrics (runtime memory on the GPU)"
        size = inputs.backend[facts.key]
        yield (
            alone,
            Figure(
                MemorySource.BACKEND, size, Confidence.MEDIUM, inputs.backend_at, words + _reserves(facts)
            ),
        )
    yield from _deltas(inputs, facts)
    yield from _estimate(inputs, facts, alone)


def _reported(facts: ModelFacts, alone: str | None) -> Iterator[tuple[str, Figure]]:
    rows: Sequence[MemoryUse] = (facts.statistics.memory if facts.statistics is not None else None) or ()
    sizes: dict[str, int] = {}
    for row in rows:
        device = (alone or f"GPU {row.device_id}") if row.kind == "GPU" else CPU
        sizes[device] = sizes.get(device, 0) + row.byte_size
    for device, size in sizes.items():
        words = "measured by its backend at load: contexts and later growth are not in it"
        yield (
            device,
            Figure(MemorySource.REPORTED, size, Confidence.HIGH, facts.since, words, lower_bound=True),
        )


def _process(inputs: ServerMemoryInputs, facts: ModelFacts) -> Iterator[tuple[str, Figure]]:
    processes, at = inputs.processes, inputs.processes_at
    if processes is None or (at is not None and facts.since is not None and at < facts.since):
        # Read while it was still being loaded: its memory was still growing.
        return
    stubs = [
        stub for stub in processes.stubs if (stub.model, stub.version) == (facts.key.name, facts.key.version)
    ]
    private = [stub.private_bytes for stub in stubs if stub.private_bytes is not None]
    if stubs and len(private) == len(stubs):
        words, detail = _processes(len(stubs)), "Pages no other process shares, the interpreter included."
        smallest = processes.smallest_stub()
        if smallest is not None and smallest.private_bytes and smallest.model != facts.key.name:
            own = sum(private) - len(private) * smallest.private_bytes
            words += f", {human(own, Unit.BYTES)} more than the smallest"
            detail += (
                f"\nThe smallest Python model of this server is {smallest.model} with "
                f"{human(smallest.private_bytes, Unit.BYTES)} a process: little more than an interpreter."
            )
        figure = Figure(
            MemorySource.PROCESS, sum(private), Confidence.HIGH, inputs.processes_at, words, detail
        )
        yield CPU, figure
    for uuid in dict.fromkeys(uuid for stub in stubs for uuid in stub.gpu_bytes):
        size = sum(stub.gpu_bytes.get(uuid, 0) for stub in stubs)
        words = f"{_processes(len(stubs))}, each with its CUDA context" + _reserves(facts)
        detail = "NVML's figure of the processes that run this model."
        yield uuid, Figure(MemorySource.PROCESS, size, Confidence.HIGH, inputs.processes_at, words, detail)


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _reserves(facts: ModelFacts) -> str:
    if facts.config is None or facts.config.backend not in RESERVING_BACKENDS:
        return ""
    return "; a reservation: this backend takes a share of the card for its cache, needed or not"


def _deltas(inputs: ServerMemoryInputs, facts: ModelFacts) -> Iterator[tuple[str, Figure]]:
    """Growth of a GPU over loads done through us, of models with one version only."""
    if not any(change.mark.model == facts.key.name for change in inputs.changes):
        return
    versions = [one for one in inputs.models if one.key.name == facts.key.name and one.state is facts.state]
    if len(versions) > 1:
        return
    grown: dict[str, list[tuple[float, MemoryChange]]] = {}
    for change in inputs.changes:
        if change.mark.model != facts.key.name or not change.mark.ours:
            continue
        if change.mark.what not in ("load", "unload"):
            continue
        for device, sides in change.used.items():
            size = sides.grown_bytes
            size = None if size is None else -size if change.mark.unload else size
            if device != CPU and size is not None and size >= _LEAST_DELTA_BYTES:
                grown.setdefault(device, []).append((size, change))
    for device, known in grown.items():
        yield device, _delta(known)


def _delta(known: Sequence[tuple[float, MemoryChange]]) -> Figure:
    """The newest undisturbed one; medium confidence once two of them agree."""
    quiet = [one for one in known if not one[1].disturbed]
    size, change = (quiet or list(known))[-1]
    agreeing = [one for one, _ in quiet if abs(one - size) <= _REPEATED_RATIO * size]
    confidence = Confidence.MEDIUM if len(agreeing) > 1 else Confidence.LOW
    verb = "fell" if change.mark.unload else "grew"
    words = f"the card's memory in use {verb} by it over its {change.mark.what}"
    words += f", {len(agreeing)} times alike" if len(agreeing) > 1 else ", seen once"
    if change.disturbed:
        words += f"; not sure: {change.disturbed}"
    return Figure(MemorySource.DELTA, size, confidence, change.mark.ended, words)


def _estimate(
    inputs: ServerMemoryInputs, facts: ModelFacts, alone: str | None
) -> Iterator[tuple[str, Figure]]:
    weights = inputs.processes.weights.get((facts.key.name, facts.key.version)) if inputs.processes else None
    if not weights or facts.config is None or facts.config.ensemble:
        return
    for on_gpu in (True, False):
        count = sum(
            group.instances for group in facts.config.instance_groups if (group.kind == "KIND_GPU") is on_gpu
        )
        device = alone if on_gpu else CPU
        if count and device is not None:
            size = float(weights * count)
            times = f" × {count} instances" if count > 1 else ""
            words = f"weight files of {human(weights, Unit.BYTES)}{times}; activations come on top"
            yield (
                device,
                Figure(
                    MemorySource.ESTIMATE,
                    size,
                    Confidence.LOW,
                    inputs.processes_at,
                    words,
                    low_bytes=size,
                    high_bytes=size * (1 + HEADROOM_RATIO),
                ),
            )


# ---- what is no model


def _tenants(card: GpuCard, models: tuple[ModelHolding, ...]) -> Iterator[Part]:
    """tritonserver's own process, without the models that live in it, and programs of others."""
    inside = sum(
        model.shown.bytes
        for model in models
        if model.shown.source in _IN_SERVER
        and MemorySource.PROCESS not in {one.source for one in model.figures}
    )
    for tenant in card.tenants:
        if tenant.bytes is None or tenant.model:
            continue
        if tenant.ours:
            rest = max(0.0, tenant.bytes - inside)
            yield Part("tritonserver", rest, "its context, its pools, and models nobody reports")
        else:
            name = tenant.name or f"process {tenant.pid}"
            yield Part(name, tenant.bytes, f"another program on this card (process {tenant.pid})")


def _gpu_notes(inputs: ServerMemoryInputs, gpus: int, card: GpuCard | None) -> Iterator[str]:
    silent = sorted(
        {
            facts.config.backend
            for facts in inputs.models
            if facts.config is not None
            and facts.config.backend in TRACKING_BACKENDS
            and facts.statistics is not None
            and not facts.statistics.memory
        }
    )
    for backend in silent:
        yield (
            f"Start Triton with --backend-config={backend},triton-backend-memory-tracker=true: "
            f"then {backend} reports what its models take at load."
        )
    if gpus > 1:
        yield (
            "Backends report by device number and the server its GPUs by uuid; which is which is not "
            "reported, so such models stand by themselves and not on one of several GPUs."
        )
    if card is None:
        why = inputs.processes.gpu_why if inputs.processes is not None and inputs.processes.pid else ""
        if why:
            yield f"Processes on the card are not seen: {why}."
        else:
            yield from _process_notes(inputs)
    elif any(tenant.bytes is None for tenant in card.tenants):
        yield "NVML hides the memory of some processes on this card (virtual GPU or Windows driver model)."


def _process_notes(inputs: ServerMemoryInputs) -> Iterator[str]:
    processes = inputs.processes
    if processes is None or processes.pid is None:
        why = processes.why if processes is not None and processes.why else "not looked at yet"
        yield (
            f"The server's processes are not seen from here ({why}): on its host, in its process namespace, "
            "the app or its exporter can tell each Python model's memory."
        )
