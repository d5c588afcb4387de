"""The metric catalogue: one row for each family we know, Triton's own and those we derive from its API.

Adding a Triton metric is adding a row here. Sources: Triton's documentation and the server's own page;
`since` is the first server version that has the family ("" = 2.21 or older).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from telemetry.scrape import Source
from telemetry.units import Unit


class Kind(StrEnum):
    """Prometheus type of a family."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    HISTOGRAM = "histogram"
    UNTYPED = "untyped"


@dataclass(frozen=True, slots=True)
class Metric:
    """One family: name as printed, type, base unit, identifying labels, meaning, where it comes from."""

    family: str
    kind: Kind
    unit: Unit
    labels: tuple[str, ...]
    help: str
    source: Source = Source.METRICS
    since: str = ""
    enabled_by: str = ""


MEMORY_REPORTED = "reported"
"""Label `source` of memory that Triton's statistics report, as against memory seen from outside."""

_MODEL = ("model", "version")
_GPU = ("gpu_uuid",)
_C, _G, _S, _H = Kind.COUNTER, Kind.GAUGE, Kind.SUMMARY, Kind.HISTOGRAM


def _summary(name: str, what: str) -> Metric:
    return Metric(
        f"nv_inference_{name}_summary_us",
        _S,
        Unit.US,
        (*_MODEL, "quantile"),
        f"Quantiles of {what} over about the last 60 s",
        since="2.32",
        enabled_by="--metrics-config summary_latencies=true",
    )


def _statistics(name: str, unit: Unit, labels: tuple[str, ...], text: str, kind: Kind = _C) -> Metric:
    return Metric(f"tritonscope_{name}", kind, unit, labels, text, source=Source.STATISTICS)


def _fact(
    name: str, unit: Unit, labels: tuple[str, ...], text: str, source: Source = Source.CONFIG
) -> Metric:
    return Metric(f"tritonscope_{name}", _G, unit, labels, text, source=source)


_ROWS: tuple[Metric, ...] = (
    Metric(
        "nv_inference_request_success", _C, Unit.REQUESTS, _MODEL, "Successful requests, cache hits included"
    ),
    Metric(
        "nv_inference_request_failure",
        _C,
        Unit.REQUESTS,
        (*_MODEL, "reason"),
        "Failed requests; refusals for a full queue and requests refused before the queue are not counted",
        since="label reason: 2.48",
    ),
    Metric("nv_inference_count", _C, Unit.INFERENCES, _MODEL, "Inferences (rows of batches), no cache hits"),
    Metric("nv_inference_exec_count", _C, Unit.EXECUTIONS, _MODEL, "Executions of the model, no cache hits"),
    Metric("nv_inference_request_duration_us", _C, Unit.US, _MODEL, "Time from arrival to answer, summed"),
    Metric("nv_inference_queue_duration_us", _C, Unit.US, _MODEL, "Time waiting in the queue, summed"),
    Metric("nv_inference_compute_input_duration_us", _C, Unit.US, _MODEL, "Time preparing inputs, summed"),
    Metric("nv_inference_compute_infer_duration_us", _C, Unit.US, _MODEL, "Time executing the model, summed"),
    Metric("nv_inference_compute_output_duration_us", _C, Unit.US, _MODEL, "Time preparing outputs, summed"),
    Metric(
        "nv_inference_pending_request_count",
        _G,
        Unit.REQUESTS,
        _MODEL,
        "Requests waiting to execute",
        since="2.38",
    ),
    Metric("nv_model_load_duration_secs", _G, Unit.SECONDS, _MODEL, "Time the last load took", since="2.52"),
    Metric(
        "nv_inference_first_response_histogram_ms",
        _H,
        Unit.MS,
        _MODEL,
        "Time to the first response",
        since="2.52 (decoupled), 2.65 (all)",
        enabled_by="--metrics-config histogram_latencies=true",
    ),
    _summary("request", "request time"),
    _summary("queue", "queue time"),
    _summary("compute_input", "input time"),
    _summary("compute_infer", "infer time"),
    _summary("compute_output", "output time"),
    Metric("nv_cache_num_hits_per_model", _C, Unit.COUNT, _MODEL, "Response cache hits of the model"),
    Metric("nv_cache_num_misses_per_model", _C, Unit.COUNT, _MODEL, "Response cache misses of the model"),
    Metric("nv_cache_hit_duration_per_model", _C, Unit.US, _MODEL, "Time answering from the cache, summed"),
    Metric("nv_cache_miss_duration_per_model", _C, Unit.US, _MODEL, "Time looking up and inserting, summed"),
    Metric(
        "nv_cache_hit_summary_per_model", _S, Unit.US, (*_MODEL, "quantile"), "Quantiles of cache hit time"
    ),
    Metric(
        "nv_cache_miss_summary_per_model", _S, Unit.US, (*_MODEL, "quantile"), "Quantiles of cache miss time"
    ),
    Metric("nv_cache_util", _G, Unit.RATIO, (), "Fill of the local response cache"),
    Metric("nv_cache_num_entries", _G, Unit.COUNT, (), "Entries in the local response cache"),
    Metric("nv_cache_num_evictions", _G, Unit.COUNT, (), "Evictions since start (a gauge that only grows)"),
    Metric("nv_cache_num_hits", _G, Unit.COUNT, (), "Cache hits since start (a gauge that only grows)"),
    Metric("nv_cache_num_misses", _G, Unit.COUNT, (), "Cache misses since start (a gauge that only grows)"),
    Metric(
        "nv_cache_num_lookups", _G, Unit.COUNT, (), "Cache look-ups since start (a gauge that only grows)"
    ),
    Metric("nv_cache_lookup_duration", _G, Unit.US, (), "Cache look-up time since start (only grows)"),
    Metric("nv_cache_insertion_duration", _G, Unit.US, (), "Cache insertion time since start (only grows)"),
    Metric("nv_pinned_memory_pool_total_bytes", _G, Unit.BYTES, (), "Pinned memory pool size", since="2.42"),
    Metric("nv_pinned_memory_pool_used_bytes", _G, Unit.BYTES, (), "Pinned memory pool in use", since="2.42"),
    Metric("nv_cpu_utilization", _G, Unit.RATIO, (), "CPU use of the whole machine as Triton sees it, 0..1"),
    Metric("nv_cpu_memory_total_bytes", _G, Unit.BYTES, (), "Memory of the whole machine"),
    Metric("nv_cpu_memory_used_bytes", _G, Unit.BYTES, (), "Memory in use on the whole machine"),
    Metric("nv_gpu_utilization", _G, Unit.RATIO, _GPU, "GPU utilization, 0..1"),
    Metric("nv_gpu_memory_total_bytes", _G, Unit.BYTES, _GPU, "GPU memory"),
    Metric("nv_gpu_memory_used_bytes", _G, Unit.BYTES, _GPU, "GPU memory in use by everybody on the device"),
    Metric("nv_gpu_power_usage", _G, Unit.WATTS, _GPU, "GPU power"),
    Metric("nv_gpu_power_limit", _G, Unit.WATTS, _GPU, "GPU power limit"),
    Metric("nv_energy_consumption", _C, Unit.JOULES, _GPU, "Energy since the server started"),
    _statistics(
        "batch_executions_total",
        Unit.EXECUTIONS,
        (*_MODEL, "batch_size"),
        "Executions by batch size since the load",
    ),
    _statistics(
        "batch_compute_us_total",
        Unit.US,
        (*_MODEL, "batch_size"),
        "Compute time (input, infer, output) by batch size, counted once per execution, since the load",
    ),
    _statistics(
        "batch_compute_infer_us_total",
        Unit.US,
        (*_MODEL, "batch_size"),
        "Infer time by batch size, counted once per execution, since the load",
    ),
    _statistics("model_executions_total", Unit.EXECUTIONS, _MODEL, "Executions since the load"),
    _statistics("model_last_inference_seconds", Unit.SECONDS, _MODEL, "Unix time of the last execution", _G),
    _statistics(
        "model_memory_bytes",
        Unit.BYTES,
        (*_MODEL, "kind", "device", "source"),
        "Memory of a model. source: reported = what its backend says it allocated at load (a lower bound); "
        "process = whole memory of the processes that run it alone (Python models; device is a GPU's uuid). "
        "Absent where nobody tells",
        _G,
    ),
    _statistics("batch_size", Unit.INFERENCES, _MODEL, "Executions by batch size since the load", _H),
    _fact(
        "model_state",
        Unit.NONE,
        (*_MODEL, "state"),
        "1 for the state the repository index gives the model",
        Source.INDEX,
    ),
    _fact(
        "model_load_failed",
        Unit.NONE,
        (*_MODEL, "reason_class"),
        "1 for a model that could not be loaded, or not be updated while what was loaded before still "
        "serves, with the kind of the failure",
        Source.INDEX,
    ),
    _fact("model_instances", Unit.COUNT, _MODEL, "Instances of a ready model; none for an ensemble"),
    _fact(
        "model_queues_itself",
        Unit.NONE,
        ("model",),
        "1 for a ready model whose backend queues and batches inside itself",
    ),
    _fact(
        "ensemble_step",
        Unit.COUNT,
        ("model", "step"),
        "How often the ensemble `model` calls the model `step` for one request",
    ),
    _fact(
        "model_max_batch_size",
        Unit.INFERENCES,
        _MODEL,
        "Largest batch a ready model takes; 0: it has no batches",
    ),
    _fact(
        "model_dynamic_batching",
        Unit.NONE,
        _MODEL,
        "1 if Triton forms batches for the ready model, 0 if it does not",
    ),
    _fact(
        "model_max_queue_delay_us",
        Unit.US,
        _MODEL,
        "How long the batcher holds a request back for a larger batch; absent without one",
    ),
    _fact(
        "model_max_queue_size",
        Unit.REQUESTS,
        _MODEL,
        "Requests the queue of the ready model takes, further ones are refused; absent without a limit",
    ),
    _fact(
        "model_preferred_batch_size",
        Unit.NONE,
        (*_MODEL, "batch_size"),
        "1 for each batch size the batcher prefers",
    ),
    _fact(
        "server_info",
        Unit.NONE,
        ("server", "name", "version"),
        "1; the server's id in the configuration, its own name and its version",
        Source.METADATA,
    ),
    Metric("DCGM_FI_DEV_GPU_UTIL", _G, Unit.RATIO, ("UUID",), "GPU utilization in percent (dcgm-exporter)"),
    Metric("DCGM_FI_DEV_FB_USED", _G, Unit.BYTES, ("UUID",), "GPU memory in use in MiB (dcgm-exporter)"),
    Metric("DCGM_FI_DEV_FB_FREE", _G, Unit.BYTES, ("UUID",), "GPU memory free in MiB (dcgm-exporter)"),
    Metric("DCGM_FI_DEV_POWER_USAGE", _G, Unit.WATTS, ("UUID",), "GPU power (dcgm-exporter)"),
    Metric(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        _C,
        Unit.JOULES,
        ("UUID",),
        "Energy in mJ since boot (dcgm-exporter)",
    ),
)

CATALOGUE: dict[str, Metric] = {row.family: row for row in _ROWS}
"""Every known family by its name as printed."""

MODEL_FAMILIES = tuple(row.family for row in _ROWS if "model" in row.labels and row.source is Source.METRICS)
"""Triton's own per-model families: only these name a model that Triton really has."""


def known(family: str) -> bool:
    """True if the family has a row; custom and unknown families are listed as "other"."""
    return family in CATALOGUE
