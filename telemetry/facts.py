"""What Triton says about its models besides numbers over time: state, configuration, statistics.

Plain frozen data without I/O. Collectors fill it; every other layer reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

SELF_QUEUEING_BACKENDS = ("vllm", "tensorrtllm")
"""Backends that queue and batch inside themselves, so that Triton's queue and latency figures mean little."""


class ModelState(StrEnum):
    """States of the repository index. NEVER_LOADED is ours for an entry without version and state."""

    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"
    NEVER_LOADED = "NEVER_LOADED"
    GONE = "GONE"
    """Ours: was seen before, is in no source's last answer."""
    UNKNOWN = "UNKNOWN"
    """Ours: a state name this version of the product does not know."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One row of `POST /v2/repository/index`; version and reason are "" where the server sent none."""

    name: str
    version: str
    state: ModelState
    reason: str = ""

    @property
    def failed(self) -> bool:
        """UNAVAILABLE for a reason other than a wanted unload."""
        return self.state is ModelState.UNAVAILABLE and self.reason not in ("", "unloaded")

    @property
    def update_failed(self) -> bool:
        """READY with a reason: an update failed, and what was loaded before still serves."""
        return self.state is ModelState.READY and self.reason not in ("", "unloaded")


@dataclass(frozen=True, slots=True)
class BatchSizeStatistics:
    """Executions of one batch size since the model was loaded; durations in ns, summed per execution."""

    batch_size: int
    executions: int
    compute_input_ns: int
    compute_infer_ns: int
    compute_output_ns: int


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """One row of `memory_usage`: bytes allocated at load on one device; `kind` GPU, CPU or CPU_PINNED."""

    kind: str
    device_id: int
    byte_size: int


@dataclass(frozen=True, slots=True)
class DurationTotals:
    """Sums of `inference_stats` since the load, in ns, over successes; compute without cache hits."""

    request_ns: int
    queue_ns: int
    compute_input_ns: int
    compute_infer_ns: int
    compute_output_ns: int


@dataclass(frozen=True, slots=True)
class ModelStatistics:
    """One model version in `GET /v2/models/stats`. Counts since its load, durations in ns.

    A count is None when the server does not send it; `last_inference_ms` 0 means never. `memory` is None
    when the server does not send the field, () when its backend reported nothing: both mean unknown,
    never 0 bytes. `durations` is None when the answer has no complete `inference_stats`.
    """

    name: str
    version: str
    last_inference_ms: int | None
    inference_count: int | None
    execution_count: int | None
    success_count: int | None
    fail_count: int | None
    batches: tuple[BatchSizeStatistics, ...] = ()
    memory: tuple[MemoryUse, ...] | None = None
    durations: DurationTotals | None = None


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output: `dims` without the batch dimension; `datatype` as on the wire (FP32, BYTES)."""

    name: str
    datatype: str
    dims: tuple[int, ...]
    optional: bool = False
    ragged: bool = False
    """Requests of different shapes may share a batch."""


@dataclass(frozen=True, slots=True)
class InstanceGroup:
    """Instances of one group: `count` per listed GPU for KIND_GPU, in all otherwise."""

    name: str
    kind: str
    count: int
    gpus: tuple[int, ...] = ()

    @property
    def instances(self) -> int:
        """Instances this group really has: count is per GPU."""
        return self.count * max(1, len(self.gpus)) if self.kind == "KIND_GPU" else self.count


@dataclass(frozen=True, slots=True)
class EnsembleStep:
    """One step of an ensemble; version -1 means the latest."""

    model_name: str
    model_version: int


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The effective configuration of one model, as `GET /v2/models/M/config` gives it.

    `raw` is the whole answer. `dynamic_batching` is False when the key is absent: then Triton forms
    no batches. `max_queue_delay_us` and `preferred_batch_sizes` are of the dynamic batcher.
    """

    name: str
    backend: str
    platform: str
    max_batch_size: int
    dynamic_batching: bool
    preferred_batch_sizes: tuple[int, ...]
    max_queue_delay_us: int | None
    max_queue_size: int | None
    queue_timeout_us: int | None
    instance_groups: tuple[InstanceGroup, ...]
    ensemble_steps: tuple[EnsembleStep, ...]
    sequence_batching: bool
    decoupled: bool
    response_cache: bool
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    raw: Mapping[str, Any] = field(repr=False, hash=False, compare=False, default_factory=dict)
    queue_policy: bool = False
    """Its queue has a limit, a timeout or priorities: Triton forms no batch ahead of an idle instance."""

    @property
    def ensemble(self) -> bool:
        """True for a pipeline of other models."""
        return self.platform == "ensemble" or bool(self.ensemble_steps)

    @property
    def queues_itself(self) -> bool:
        """Its backend queues and batches inside itself: decoupled models, vLLM, TensorRT-LLM."""
        return self.decoupled or self.backend in SELF_QUEUEING_BACKENDS

    @property
    def step_uses(self) -> dict[str, int]:
        """How often an ensemble calls each of its steps for one request; empty for any other model."""
        uses: dict[str, int] = {}
        for step in self.ensemble_steps:
            uses[step.model_name] = uses.get(step.model_name, 0) + 1
        return uses

    @property
    def instance_count(self) -> int | None:
        """Instances over all groups; None for an ensemble, which has none."""
        if self.ensemble or not self.instance_groups:
            return None
        return sum(group.instances for group in self.instance_groups)


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """`GET /v2`: the server's own name (its --id), version and extensions."""

    name: str
    version: str
    extensions: tuple[str, ...] = ()
