"""From what was read to who holds the memory of each device: `devices_of`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from history.inventory import ModelFacts
from history.memory_changes import MemoryChange
from signals.capacity import CONTEXT_HIGH_BYTES, HEADROOM_RATIO
from signals.memory import DeviceMemory, Figure, ModelHolding, Part, holdings, in_order
from signals.memory_notes import gpu_notes, listed, process_notes
from telemetry.facts import MemoryUse, ModelState
from telemetry.identity import GpuKey, ModelKey
from telemetry.memory import CPU, Confidence, GpuCard, MemorySource, ServerProcesses, StubProcess
from telemetry.units import Unit, human

RESERVING_BACKENDS = ("vllm", "tensorrtllm")
"""They take a share of the card at start, whatever their model needs."""
_REPEATED_RATIO = 0.20
_LEAST_DELTA_BYTES = 2**20
_SAME_LOAD_SECONDS = 60.0
"""A model is seen READY at most so long after a load done through us has ended."""
_IN_SERVER = (MemorySource.REPORTED, MemorySource.BACKEND, MemorySource.DELTA)
_Found = dict[str, dict[ModelKey, list[Figure]]]


@dataclass(frozen=True, slots=True)
class ServerMemoryInputs:
    """What is known of one server's memory. Bytes; times unix seconds.

    `gpus`: (used, total) by uuid as the server reports them; `host` the same of the machine. `backend`: by
    model what the backend's own families say it holds on GPUs. `exported`: by model and device what the
    exporter beside the server says its processes hold, where they are not seen from here.
    """

    server: str
    models: Sequence[ModelFacts] = ()
    gpus: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    host: tuple[float | None, float | None] = (None, None)
    processes: ServerProcesses | None = None
    processes_at: float | None = None
    backend: Mapping[ModelKey, float] = field(default_factory=dict)
    backend_at: float | None = None
    exported: Mapping[tuple[ModelKey, str], float] = field(default_factory=dict)
    exported_at: float | None = None
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

    def held(device: str) -> tuple[ModelHolding, ...]:
        counts = {facts.key: instances_on(inputs, facts, device, alone) for facts in inputs.models}
        return holdings(device, found[device], counts)

    devices = []
    for uuid, (used, total) in gpus.items():
        models, card = held(uuid), cards.get(uuid)
        others = tuple(_tenants(card, models, inputs)) if card is not None else ()
        notes = tuple(gpu_notes(inputs, len(gpus), card, models))
        if GpuKey(inputs.server, uuid).simulated:
            notes = ("This GPU is made up: its memory follows the sandbox's models, and nothing is on it.",)
        reserved = 0.0 if card is None else card.reserved_bytes or 0.0
        devices.append(DeviceMemory(inputs.server, uuid, total, used, models, others, notes, reserved))
    # Known by their number alone: no figure of such a card says what is in use or free.
    devices += [
        DeviceMemory(inputs.server, device, None, None, held(device))
        for device, figures in found.items()
        if device != CPU and device not in gpus and figures
    ]
    devices += _host(inputs, held(CPU))
    return in_order(devices)


def instances_on(inputs: ServerMemoryInputs, facts: ModelFacts, device: str, alone: str | None) -> int | None:
    """How many instances of a model are on a device; None where nothing tells.

    `alone` is the only GPU of the server, None if there are several.
    """
    stubs = _stubs(inputs, facts)
    if stubs and device == CPU:
        return len(stubs)
    here = [stub for stub in stubs if device in stub.gpu_bytes]
    if here:
        return len(here)
    if facts.config is None or facts.config.ensemble:
        return facts.instance_count
    groups = facts.config.instance_groups
    if device in (CPU, alone):
        mine = [group.instances for group in groups if (group.kind == "KIND_CPU") is (device == CPU)]
        # What a GPU instance keeps on the machine is its instances' too.
        return sum(mine) or facts.instance_count
    number = device.removeprefix("GPU ")
    counts = [group.count for group in groups if number in map(str, group.gpus)]
    return sum(counts) or None


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
        (_server_part(own, "its own process: core, C++ backends, caches", models, inputs),)
        if own is not None
        else ()
    )
    return [DeviceMemory(inputs.server, CPU, total, used, models, parts, tuple(process_notes(inputs)))]


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
        words = "its backend's own metrics (runtime memory on the GPU)" + _reserves(facts)
        size = inputs.backend[facts.key]
        yield alone, Figure(MemorySource.BACKEND, size, Confidence.MEDIUM, inputs.backend_at, words)
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


def _stubs(inputs: ServerMemoryInputs, facts: ModelFacts) -> list[StubProcess]:
    processes = inputs.processes
    wanted = (facts.key.name, facts.key.version)
    return [one for one in processes.stubs if (one.model, one.version) == wanted] if processes else []


def _process(inputs: ServerMemoryInputs, facts: ModelFacts) -> Iterator[tuple[str, Figure]]:
    processes, at = inputs.processes, inputs.processes_at
    if processes is None or processes.pid is None:
        for (key, device), size in inputs.exported.items():
            if key == facts.key:
                words = "its processes, as the exporter beside the server sees them" + _reserves(facts)
                yield device, Figure(MemorySource.PROCESS, size, Confidence.HIGH, inputs.exported_at, words)
    if processes is None or (at is not None and facts.since is not None and at < facts.since):
        # Read while it was still being loaded: its memory was still growing.
        return
    stubs = _stubs(inputs, facts)
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
        sizes = [stub.gpu_bytes[uuid] for stub in stubs if uuid in stub.gpu_bytes]
        each = "each " if len(sizes) > 1 else ""
        words = f"{_processes(len(sizes))}, {each}with its CUDA context" + _reserves(facts)
        detail = "NVML's figure of the processes that run this model."
        yield uuid, Figure(MemorySource.PROCESS, sum(sizes), Confidence.HIGH, at, words, detail)


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
        yield device, _delta(known, facts)


def _delta(known: Sequence[tuple[float, MemoryChange]], facts: ModelFacts) -> Figure:
    """The newest undisturbed one; medium confidence once two agree and it is the load that is in force."""
    quiet = [one for one in known if not one[1].disturbed]
    size, change = (quiet or list(known))[-1]
    agreeing = [one for one, _ in quiet if abs(one - size) <= _REPEATED_RATIO * size]
    verb = "fell" if change.mark.unload else "grew"
    words = f"the card's memory in use {verb} by it over its {change.mark.what}"
    words += f", {len(agreeing)} times alike" if len(agreeing) > 1 else ", seen once"
    doubts = [change.disturbed, _another_load(change, facts)]
    if any(doubts):
        words += f"; not sure: {', '.join(filter(None, doubts))}"
    sure = len(agreeing) > 1 and not any(doubts)
    confidence = Confidence.MEDIUM if sure else Confidence.LOW
    return Figure(MemorySource.DELTA, size, confidence, change.mark.ended, words + _reserves(facts))


def _another_load(change: MemoryChange, facts: ModelFacts) -> str:
    """Why the model that runs now may be another one than the one measured; "" if it is that one."""
    if facts.since is None:
        return "it runs since before this app was started"
    if facts.since > change.mark.ended + _SAME_LOAD_SECONDS:
        return "it was loaded again since"
    return ""


def _estimate(
    inputs: ServerMemoryInputs, facts: ModelFacts, alone: str | None
) -> Iterator[tuple[str, Figure]]:
    weights = inputs.processes.weights.get((facts.key.name, facts.key.version)) if inputs.processes else None
    if not weights or facts.config is None or facts.config.ensemble:
        return
    # Where KIND_MODEL and KIND_AUTO put their weights nothing tells.
    for kind, device in (("KIND_GPU", alone), ("KIND_CPU", CPU)):
        count = sum(group.instances for group in facts.config.instance_groups if group.kind == kind)
        if not count or device is None:
            continue
        size = float(weights * count)
        times = f" × {count} instances" if count > 1 else ""
        words = f"weight files of {human(weights, Unit.BYTES)}{times}; activations come on top"
        high = size * (1 + HEADROOM_RATIO)
        if device != CPU and facts.config.backend == "python":
            words += ", and a CUDA context for each instance"
            high += count * CONTEXT_HIGH_BYTES
        yield (
            device,
            Figure(
                MemorySource.ESTIMATE,
                size,
                Confidence.LOW,
                inputs.processes_at,
                words + _reserves(facts),
                low_bytes=size,
                high_bytes=high,
            ),
        )


# ---- what is no model


def _tenants(card: GpuCard, models: tuple[ModelHolding, ...], inputs: ServerMemoryInputs) -> Iterator[Part]:
    """tritonserver's own process, without the models that live in it, and programs of others."""
    inside = sum(
        model.shown.bytes
        for model in models
        if model.shown.source in _IN_SERVER
        and MemorySource.PROCESS not in {one.source for one in model.figures}
    )
    for tenant in card.tenants:
        # Whose a process is that nobody here can see is not known: it stays unattributed.
        if tenant.bytes is None or tenant.model or not tenant.name:
            continue
        if tenant.ours:
            rest = max(0.0, tenant.bytes - inside)
            yield _server_part(rest, "its context, its pools, and models nobody reports", models, inputs)
        else:
            yield Part(tenant.name, tenant.bytes, f"another program on this card (process {tenant.pid})")


def _server_part(
    size: float, words: str, models: tuple[ModelHolding, ...], inputs: ServerMemoryInputs
) -> Part:
    """tritonserver's own process; models of C++ backends that are only estimated live in it."""
    python = {
        facts.key for facts in inputs.models if facts.config is None or facts.config.backend == "python"
    }
    inside = [model for model in models if model.estimated and model.key not in python]
    estimated = min(size, sum(model.shown.bytes for model in inside))
    if inside:
        names = listed([model.key.label() for model in inside])
        words += f"; about {human(estimated, Unit.BYTES)} of it by estimate: {names}"
    return Part("tritonserver", size, words, estimated)
