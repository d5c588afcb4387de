"""Numbers that only rules need, in the algebra of signals: evaluated, and written as PromQL, like those."""

from __future__ import annotations

from history.protocol import Reduce
from signals.definition import Definition, Level
from signals.definitions import definition
from signals.evaluation import MODEL, SERVER, Expression
from signals.expression import (
    Difference,
    Fact,
    Gauge,
    Increase,
    OrElse,
    OverModels,
    Rate,
    Ratio,
    Scale,
    Sum,
)
from signals.facts import FactFamily
from signals.parts import (
    EXECUTIONS,
    FAILURE,
    MODEL_EXECUTIONS,
    SUMMARY,
    executed_requests,
    executions,
    halved,
    own_work,
    queued_by_triton,
    successes,
)
from telemetry.units import Unit
from triage.nodes import AsPrinted, AtMost, Growth, Largest, OfItsGpus, OverGpus, Resets

_CANCELED = (("reason", "CANCELED"),)


def _errors(read: type[Increase] | type[Rate]) -> Expression:
    """Failures without those the client cancelled; before Triton 2.48 there is no reason: then all count."""
    failures = read(FAILURE)
    return halved(OrElse(Difference(failures, read(FAILURE, where=_CANCELED)), failures))


def _of_gpu(name: str) -> Expression:
    return definition(name, Level.GPU).expression


def _under_way(part: str) -> Expression:
    """Little's law: time that requests spend, per second of wall clock."""
    return Scale(Rate(f"nv_inference_{part}_duration_us"), 1e-6)


_ERRORS = _errors(Increase)
_IN_SUMMARIES = Increase(f"{SUMMARY}_count")
_INFER = Rate("nv_inference_compute_infer_duration_us")
_INPUT, _OUTPUT = (Rate(f"nv_inference_compute_{part}_duration_us") for part in ("input", "output"))
_PER_EXECUTION = Ratio(own_work(executed_requests()), own_work(executions()))
# Each request of a batch is charged with the whole execution.
_EXECUTING = Ratio(
    Scale(own_work(OrElse(Sum(Sum(_INPUT, _INFER), _OUTPUT), _INFER)), 1e-6),
    _PER_EXECUTION,
)

MEASURES: tuple[Definition, ...] = (
    Definition(
        "errors_total",
        Level.MODEL,
        Unit.REQUESTS,
        "Failed requests, cancelled ones left out",
        "failures - CANCELED",
        _ERRORS,
    ),
    Definition(
        "errors_ratio",
        Level.MODEL,
        Unit.RATIO,
        "Share of requests that failed, cancelled ones left out",
        "errors / (successes + errors)",
        Ratio(_ERRORS, Sum(successes(), _ERRORS)),
    ),
    Definition(
        "errors_per_second",
        Level.MODEL,
        Unit.PER_SECOND,
        "Failed requests per second, cancelled ones left out",
        "errors / window",
        _errors(Rate),
    ),
    Definition(
        "requests_per_execution",
        Level.MODEL,
        Unit.NONE,
        "Requests that one execution serves",
        "(successes - cache hits) / executions",
        _PER_EXECUTION,
    ),
    Definition(
        "executions_under_way",
        Level.MODEL,
        Unit.NONE,
        "Executions under way on average",
        "compute time / window / requests that one execution serves",
        _EXECUTING,
    ),
    Definition(
        "busy_ratio",
        Level.MODEL,
        Unit.RATIO,
        "Busy share of the instances, by the metrics page where the statistics do not tell",
        "compute time of executions / (instances x window), at most 1",
        AtMost(
            OrElse(
                definition("instance_busy_ratio", Level.MODEL).expression,
                Ratio(_EXECUTING, Fact(FactFamily.INSTANCES), on=MODEL),
                on=MODEL,
            ),
            1.0,
        ),
    ),
    Definition(
        "reloads",
        Level.MODEL,
        Unit.COUNT,
        "Times the model was loaded anew",
        "resets of the executions since the load",
        Resets(MODEL_EXECUTIONS),
    ),
    Definition(
        "gpu_utilization_ratio",
        Level.MODEL,
        Unit.RATIO,
        "Utilization of the model's GPUs",
        "the largest of the GPUs it has instances on",
        OfItsGpus(_of_gpu("utilization_ratio")),
    ),
    Definition(
        "gpu_memory_growth_bytes",
        Level.MODEL,
        Unit.BYTES,
        "Growth of the memory in use on the model's GPUs",
        "memory in use now - one window ago",
        Growth(OfItsGpus(_of_gpu("memory_used_bytes"))),
    ),
    Definition(
        "process_memory_growth_bytes",
        Level.MODEL,
        Unit.BYTES,
        "Growth of the memory of the model's own processes",
        "memory of its processes now - one window ago, on all devices together",
        Growth(Gauge("tritonscope_model_memory_bytes", MODEL, where=(("source", "process"),))),
    ),
    Definition(
        "gpu_memory_used_ratio",
        Level.MODEL,
        Unit.RATIO,
        "GPU memory in use of total, on the model's GPUs",
        "the largest of the GPUs it has instances on",
        OfItsGpus(_of_gpu("memory_used_ratio")),
    ),
    Definition(
        "requests_under_way",
        Level.MODEL,
        Unit.REQUESTS,
        "Requests under way on average",
        "request time / window",
        queued_by_triton(_under_way("request")),
    ),
    Definition(
        "requests_queued",
        Level.MODEL,
        Unit.REQUESTS,
        "Requests in the queue on average",
        "queue time / window",
        own_work(_under_way("queue")),
    ),
    Definition(
        "executions_in_statistics",
        Level.MODEL,
        Unit.EXECUTIONS,
        "Executions by the statistics",
        "increase of the statistics' execution count",
        Increase(MODEL_EXECUTIONS),
    ),
    Definition(
        "requests_in_summaries",
        Level.MODEL,
        Unit.REQUESTS,
        "Requests by the summaries of the metrics page",
        "increase of the count of nv_inference_request_summary_us",
        _IN_SUMMARIES,
    ),
    Definition(
        "counted_elsewhere",
        Level.MODEL,
        Unit.COUNT,
        "Executions by the statistics, else requests by the summaries",
        "what the page's counters should have counted",
        OrElse(Increase(MODEL_EXECUTIONS), _IN_SUMMARIES, on=MODEL),
    ),
    Definition(
        "executions_on_page",
        Level.MODEL,
        Unit.EXECUTIONS,
        "Executions by the metrics page",
        "increase of nv_inference_exec_count",
        AsPrinted(Increase(EXECUTIONS)),
    ),
    Definition(
        "counter_falls",
        Level.SERVER,
        Unit.COUNT,
        "Times the counters of a model fell",
        "resets of nv_inference_exec_count, the largest of its models",
        OverModels(Resets(EXECUTIONS), Reduce.MAX),
    ),
    Definition(
        "gpu_memory_most_bytes",
        Level.SERVER,
        Unit.BYTES,
        "The most memory of GPUs the server reported within the window",
        "largest sum over its GPUs",
        Largest(Gauge("nv_gpu_memory_total_bytes", SERVER)),
    ),
    Definition(
        "gpu_memory_total_bytes",
        Level.SERVER,
        Unit.BYTES,
        "Memory of all GPUs the server reports",
        "sum over its GPUs",
        Gauge("nv_gpu_memory_total_bytes", SERVER),
    ),
    Definition(
        "gpu_utilization_ratio",
        Level.SERVER,
        Unit.RATIO,
        "Utilization of the busiest GPU",
        "the largest of its GPUs",
        OverGpus(_of_gpu("utilization_ratio")),
    ),
    Definition(
        "gpu_memory_used_ratio",
        Level.SERVER,
        Unit.RATIO,
        "GPU memory in use of total, of the fullest GPU",
        "the largest of its GPUs",
        OverGpus(_of_gpu("memory_used_ratio")),
    ),
)
"""Measures that rules name like signals."""
