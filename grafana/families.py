"""Every family a board may name: the catalogue's, the exporter's, and those of others that it shows."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.exporter_families import HEALTH
from telemetry.catalogue import CATALOGUE, Kind, Metric
from telemetry.units import Unit

_C, _G, _H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_LLM = ("model", "version")
_GPU = ("UUID",)

PROMETHEUS = (
    Metric("up", _G, Unit.NONE, ("job", "instance"), "1 if Prometheus' last scrape of the target succeeded"),
    Metric(
        "ALERTS", _G, Unit.NONE, ("alertname", "alertstate", "severity"), "1 for a pending or firing alert"
    ),
)
"""What Prometheus itself writes."""

DCGM = (
    Metric("DCGM_FI_DEV_MEM_COPY_UTIL", _G, Unit.RATIO, _GPU, "Use of the memory interface, percent"),
    Metric("DCGM_FI_DEV_GPU_TEMP", _G, Unit.COUNT, _GPU, "GPU temperature, degrees Celsius"),
    Metric("DCGM_FI_DEV_SM_CLOCK", _G, Unit.COUNT, _GPU, "Clock of the multiprocessors, MHz"),
    Metric("DCGM_FI_DEV_XID_ERRORS", _G, Unit.NONE, _GPU, "Number of the last XID error"),
    Metric("DCGM_FI_PROF_GR_ENGINE_ACTIVE", _G, Unit.RATIO, _GPU, "Share of time the GPU was active, 0..1"),
)
"""Families of the dcgm-exporter that no signal uses; those that one does are in the catalogue."""

VLLM = (
    Metric("vllm:num_requests_running", _G, Unit.REQUESTS, _LLM, "Requests being generated"),
    Metric("vllm:num_requests_waiting", _G, Unit.REQUESTS, _LLM, "Requests waiting inside vLLM"),
    Metric(
        "vllm:gpu_cache_usage_perc", _G, Unit.RATIO, _LLM, "KV cache in use, 0..1 (Triton's vLLM backend)"
    ),
    Metric("vllm:kv_cache_usage_perc", _G, Unit.RATIO, _LLM, "KV cache in use, 0..1 (vLLM 0.10 or newer)"),
    Metric("vllm:num_preemptions_total", _C, Unit.REQUESTS, _LLM, "Requests set back for lack of KV cache"),
    Metric("vllm:prompt_tokens_total", _C, Unit.COUNT, _LLM, "Tokens of prompts read"),
    Metric("vllm:generation_tokens_total", _C, Unit.COUNT, _LLM, "Tokens generated"),
    Metric("vllm:time_to_first_token_seconds", _H, Unit.SECONDS, _LLM, "Time to the first token"),
    Metric("vllm:time_per_output_token_seconds", _H, Unit.SECONDS, _LLM, "Time between tokens (until 0.10)"),
    Metric("vllm:inter_token_latency_seconds", _H, Unit.SECONDS, _LLM, "Time between tokens (since 0.11)"),
    Metric("vllm:e2e_request_latency_seconds", _H, Unit.SECONDS, _LLM, "Time of whole requests"),
    Metric("vllm:request_queue_time_seconds", _H, Unit.SECONDS, _LLM, "Time waiting inside vLLM"),
)

TRT_LLM = (
    Metric("nv_trt_llm_request_metrics", _G, Unit.REQUESTS, (*_LLM, "request_type"), "Requests by state"),
    Metric(
        "nv_trt_llm_kv_cache_block_metrics", _G, Unit.COUNT, (*_LLM, "kv_cache_block_type"), "KV cache blocks"
    ),
    Metric(
        "nv_trt_llm_runtime_memory_metrics", _G, Unit.BYTES, (*_LLM, "memory_type"), "Memory of the runtime"
    ),
    Metric(
        "nv_trt_llm_inflight_batcher_metrics",
        _G,
        Unit.COUNT,
        (*_LLM, "inflight_batcher_specific_metric"),
        "What the batch in flight holds",
    ),
    Metric("nv_llm_input_token_len", _H, Unit.COUNT, (*_LLM, "response_metric_type"), "Tokens of a prompt"),
    Metric("nv_llm_output_token_len", _H, Unit.COUNT, (*_LLM, "response_metric_type"), "Tokens of an answer"),
)

KNOWN: dict[str, Metric] = {
    **CATALOGUE,
    **{row.family: row for row in (*HEALTH, *PROMETHEUS, *DCGM, *VLLM, *TRT_LLM)},
}
"""Every family a board may name."""

_SUFFIXES = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count"), Kind.SUMMARY: ("_sum", "_count")}


def _series() -> Iterator[tuple[str, Metric]]:
    for row in KNOWN.values():
        yield row.family, row
        for suffix in _SUFFIXES.get(row.kind, ()):
            yield row.family + suffix, row


SERIES: dict[str, Metric] = dict(_series())
"""Name of a series (`..._bucket` too) -> its family's row."""


def labels_of(series: str) -> tuple[str, ...]:
    """The family's own labels; KeyError, with the name, for a family that is not known."""
    return SERIES[series].labels
