"""Source PROCESSES: memory of a server's own processes and of each Python model, on the CPU and on GPUs.

A Python model runs in processes of its own (stubs), so what they hold is the model's. Everything else of a
server lives in the one process tritonserver, which cannot be taken apart from outside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from collectors.nvml import read_cards
from collectors.processes import Process, ProcessTable, local_ports, parse_stub
from collectors.reading import Reading, timed
from collectors.weights import WeightReader
from telemetry.identity import Server
from telemetry.memory import CPU, GpuCard, GpuTenant, MemorySource, ServerProcesses, StubProcess
from telemetry.scrape import Samples, Scrape, Series, Source

CardReader = Callable[[], tuple[tuple[GpuCard, ...], str]]
MOST_CPU_SHARE = 0.02
"""Of one core, for one server: page tables of hundreds of large processes take a while to walk."""
FAMILY = "tritonscope_model_memory_bytes"


class ProcessCollector:
    """Reads the processes of one server; the payload is `ServerProcesses`.

    Where no process can be seen it says so once and then has nothing to ask: a server's absence is told by
    its ports, never by this source.
    """

    source = Source.PROCESSES

    def __init__(
        self,
        server: Server,
        *,
        table: Callable[[], ProcessTable] = ProcessTable,
        cards: CardReader = read_cards,
    ) -> None:
        self.server = server
        self._table = table
        self._cards = cards
        self._weights = WeightReader()
        self._known: Process | None = None
        self._why: str | None = None
        self._counts: Mapping[tuple[str, str], int] = {}
        self._fewer_since: dict[tuple[str, str], float] = {}
        self._rest_until = 0.0

    def collect(self) -> Scrape | None:
        """One reading; None while the processes stay out of sight for the same reason, or while looking at
        hundreds of them again would cost more than a fiftieth of the time.
        """  # fmt: skip
        if time.monotonic() < self._rest_until:
            return None
        before = time.thread_time()
        scrape = timed(self.server, self.source, self._read)
        self._rest_until = time.monotonic() + (time.thread_time() - before) / MOST_CPU_SHARE
        payload = scrape.payload
        why = payload.why if isinstance(payload, ServerProcesses) and payload.pid is None else None
        if why is not None and why == self._why:
            return None
        self._why = why
        return scrape

    def _read(self) -> Reading:
        tables: list[ProcessTable] = []

        def table() -> ProcessTable:
            tables.append(self._table())
            return tables[-1]

        found = read_processes(self.server, table, self._cards, self._weights, self._known)
        self._known = tables[-1].processes.get(found.pid) if found.pid is not None else None
        if found.pid is None:
            # Out of sight: they are neither fewer nor others.
            return Reading(found, process_samples(found))
        found = replace(found, before=self._counts, fewer_since=self._fewer(found.counts()))
        self._counts = found.counts()
        return Reading(found, process_samples(found))

    def _fewer(self, counts: Mapping[tuple[str, str], int]) -> Mapping[tuple[str, str], float]:
        """Since when there are fewer than in the reading before; what got one again begins anew."""
        for model in self._counts.keys() | counts.keys():
            now, before = counts.get(model, 0), self._counts.get(model, 0)
            if now > before:
                self._fewer_since.pop(model, None)
            elif now < before:
                self._fewer_since.setdefault(model, time.time())
        return dict(self._fewer_since)


def read_processes(
    server: Server,
    read_table: Callable[[], ProcessTable] = ProcessTable,
    cards: CardReader = read_cards,
    weights: WeightReader | None = None,
    known: Process | None = None,
) -> ServerProcesses:
    """The processes of one server now; never raises: what cannot be seen is said in `why` and `gpu_why`."""
    ports = local_ports(server)
    if not ports:
        return ServerProcesses(None, "it runs on another machine")
    table = read_table()
    pid, why = table.server_of(server, ports, known)
    if pid is None:
        return ServerProcesses(None, why)
    calls = [(child.pid, parse_stub(table.arguments(child.pid))) for child in table.children(pid)]
    trees = {stub: table.tree(stub) for stub, call in calls if call is not None}
    read, gpu_why = cards()
    seen = tuple(
        replace(card, tenants=tuple(_ours_to_see(one, table) for one in card.tenants)) for card in read
    )
    stubs = tuple(
        StubProcess(
            stub,
            call.model,
            call.version,
            call.instance,
            table.private_bytes(trees[stub]),
            _on_gpus(seen, trees[stub]),
        )
        for stub, call in calls
        if call is not None
    )
    named = tuple(_named(card, pid, stubs, trees) for card in seen)
    return ServerProcesses(
        pid,
        server_private_bytes=table.private_bytes([pid]),
        stubs=stubs,
        cards=named,
        gpu_why=gpu_why or _foreign(named),
        weights=weights.read(pid, table.arguments(pid)) if weights is not None else {},
    )


def _on_gpus(cards: tuple[GpuCard, ...], tree: list[int]) -> Mapping[str, int]:
    """Memory of a process tree by GPU; a card on which NVML hides one of its sizes is left out."""
    found = {}
    for card in cards:
        sizes = [tenant.bytes for tenant in card.tenants if tenant.pid in tree and tenant.name]
        known = [size for size in sizes if size is not None]
        if sizes and len(known) == len(sizes):
            found[card.uuid] = sum(known)
    return found


def _named(
    card: GpuCard,
    server_pid: int,
    stubs: tuple[StubProcess, ...],
    trees: Mapping[int, list[int]],
) -> GpuCard:
    owner = {pid: stub for stub in stubs for pid in trees[stub.pid]}
    return replace(card, tenants=tuple(_tenant(one, server_pid, owner) for one in card.tenants))


def _ours_to_see(tenant: GpuTenant, table: ProcessTable) -> GpuTenant:
    """With its name, "" for a process that is not this one here: NVML may count by another namespace's ids.

    Then the process of that id here has no GPU open, and is not the one that NVML means.
    """
    return replace(tenant, name="" if table.uses_gpu(tenant.pid) is False else table.program(tenant.pid))


def _tenant(tenant: GpuTenant, server_pid: int, owner: Mapping[int, StubProcess]) -> GpuTenant:
    if not tenant.name:
        return tenant
    stub = owner.get(tenant.pid)
    return replace(
        tenant,
        ours=stub is not None or tenant.pid == server_pid,
        model=stub.model if stub is not None else "",
        version=stub.version if stub is not None else "",
    )


def _foreign(cards: tuple[GpuCard, ...]) -> str:
    """NVML may count processes by the host's ids; then none of them can be found here."""
    tenants = [tenant for card in cards for tenant in card.tenants]
    if tenants and not any(tenant.name for tenant in tenants):
        return "NVML names process ids that this process cannot see: share the host's process namespace"
    return ""


def process_sizes(found: ServerProcesses) -> dict[tuple[str, str, str, str], int]:
    """Bytes by (model, version, kind, device), all instances together; kind CPU (device 0) or GPU (its uuid).

    A model with an instance that cannot be read has no figure of the CPU rather than a part of one.
    """
    sizes: dict[tuple[str, str, str, str], int] = {}
    hidden = {(stub.model, stub.version) for stub in found.stubs if stub.private_bytes is None}
    for stub in found.stubs:
        devices = {("GPU", uuid): size for uuid, size in stub.gpu_bytes.items()}
        if stub.private_bytes is not None and (stub.model, stub.version) not in hidden:
            devices[CPU, "0"] = stub.private_bytes
        for where, size in devices.items():
            key = (stub.model, stub.version, *where)
            sizes[key] = sizes.get(key, 0) + size
    return sizes


def process_samples(found: ServerProcesses) -> Samples:
    """`tritonscope_model_memory_bytes{source="process"}` of `process_sizes`."""
    sizes = process_sizes(found)
    series = tuple(_series(*key) for key in sizes)
    return Samples(series, np.array(list(sizes.values()), dtype=np.float64))


def _series(model: str, version: str, kind: str, device: str) -> Series:
    labels = (
        ("device", device),
        ("kind", kind),
        ("model", model),
        ("source", MemorySource.PROCESS.value),
        ("version", version),
    )
    return Series(FAMILY, labels)
