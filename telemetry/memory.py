"""Who holds memory: processes of a server, what NVML sees on its cards, and where a figure comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

CPU = "CPU"
"""Device name of the machine's own memory, beside the uuids of GPUs."""


class MemorySource(StrEnum):
    """Where a model's memory figure comes from, the most trustworthy first; the label `source`."""

    REPORTED = "reported"
    """Its backend counted its own allocations at load: a lower bound."""
    PROCESS = "process"
    """Whole memory of the processes that run the model alone."""
    BACKEND = "backend"
    """The backend's own metrics (TensorRT-LLM)."""
    DELTA = "delta"
    """Growth of the device's memory in use over a load done through us."""
    ESTIMATE = "estimate"
    """Size of its weights times its instances."""


class Confidence(StrEnum):
    """How far a figure can be trusted."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class StubProcess:
    """One instance of a Python model: its stub and the processes the stub started.

    `private_bytes` are pages no other process shares, swapped ones included; None where the system does not
    let us read them. `gpu_bytes` by GPU uuid as NVML gives it, a CUDA context included.
    """

    pid: int
    model: str
    version: str
    instance: str
    private_bytes: int | None
    gpu_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuTenant:
    """One process on a card. `bytes` None: NVML does not tell. `model` "" for what is no Python model.

    `name` is the program's name, "" for a process this machine does not show us.
    """

    pid: int
    name: str
    bytes: int | None
    ours: bool = False
    """Of the server in question: its own process or one of its stubs."""
    model: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class GpuCard:
    """One card as NVML sees it, bytes, with the processes on it.

    `reserved_bytes` is what the driver keeps for itself, in neither used nor free; None: not told.
    `why` says why its processes are not known, "" if they are.
    """

    uuid: str
    index: int
    name: str
    total_bytes: int
    used_bytes: int
    tenants: tuple[GpuTenant, ...] = ()
    reserved_bytes: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class ServerProcesses:
    """The processes of one server on this machine.

    `pid` None: no process of it can be seen here, `why` says why. `server_private_bytes` is tritonserver's
    own process, None where it may not be read. `gpu_why` says why `cards` is empty.
    """

    pid: int | None
    why: str = ""
    server_private_bytes: int | None = None
    stubs: tuple[StubProcess, ...] = ()
    cards: tuple[GpuCard, ...] = ()
    gpu_why: str = ""
    weights: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Bytes of the weight files of (model, version), as far as its repository can be read here."""
    before: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """How many stubs each (model, version) had in the reading before this one."""
    fewer_since: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Unix seconds of the first reading with fewer stubs of (model, version) than before; without those that
    got one again since."""

    def living(self, model: str, version: str) -> int:
        """Stubs of one model, of this reading or the one before, the larger number: while a model is loaded
        anew it has none for a moment, and the repository index may not show that.
        """  # fmt: skip
        return max(self.counts().get((model, version), 0), self.before.get((model, version), 0))

    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many stubs each (model, version) has."""
        return Counter((stub.model, stub.version) for stub in self.stubs)

    def smallest_stub(self) -> StubProcess | None:
        """The stub with the least private memory: no more than so much is the interpreter's own."""
        known = [stub for stub in self.stubs if stub.private_bytes is not None]
        return min(known, key=lambda stub: stub.private_bytes or 0, default=None)


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Memory of a server at `at` (unix seconds), bytes by device: "CPU" or a GPU's uuid.

    `used` is what everybody holds on the device; `models` what is known of each (name, version). `sampled`
    names the devices whose figure is as old as the server's last look at them (--metrics-interval-ms).
    """

    at: float
    used: Mapping[str, int]
    models: Mapping[tuple[str, str], Mapping[str, int]]
    sampled: frozenset[str] = frozenset()
