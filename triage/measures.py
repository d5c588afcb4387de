"""Numbers that only rules need, in the algebra of signals: evaluated, and written as PromQL, like those."""

from __future__ import annotations

from signals.definition import Definition, Level
from signals.definitions import definition
from signals.evaluation import SERVER, Expression
from signals.expression import Difference, Gauge, Increase, OrElse, Rate, Ratio, Sum
from signals.parts import FAILURE, MODEL_EXECUTIONS, executions, halved, own_work, successes
from telemetry.units import Unit
from triage.nodes import Growth, OfItsGpus, OverGpus, Resets

_CANCELED = (("reason", "CANCELED"),)


def _errors(read: type[Increase] | type[Rate]) -> Expression:
    """Failures without those the client cancelled; before Triton 2.48 there is no reason: then all count."""
    failures = read(FAILURE)
    return halved(OrElse(Difference(failures, read(FAILURE, where=_CANCELED)), failures))


def _of_gpu(name: str) -> Expression:
    return definition(name, Level.GPU).expression


_ERRORS = _errors(Increase)

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
        "successes / executions",
        Ratio(own_work(successes()), own_work(executions())),
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
        "gpu_memory_total_bytes",
        Level.SERVER,
        Unit.BYTES,
        "Memory of all GPUs the server reports",
        "sum over its GPUs",
        Gauge("nv_gpu_memory_total_bytes", SERVER),
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
