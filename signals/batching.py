"""Signals of batching: executions, batch sizes, busy instances, waiting requests, memory."""

from __future__ import annotations

from signals.definition import Definition, Level, both, ratio_of
from signals.evaluation import MODEL
from signals.expression import (
    Fact,
    Gauge,
    Increase,
    Matching,
    OrElse,
    OverModels,
    Rate,
    Ratio,
    Scale,
    Sum,
)
from signals.facts import FactFamily
from signals.parts import (
    BATCHES,
    BUSY_US,
    DEVICED,
    EXECUTIONS,
    HITS,
    INFERENCES,
    MISSES,
    MODEL_EXECUTIONS,
    PENDING,
    SIZED,
    executions,
    own_work,
    queued_by_triton,
    without_ensembles,
)
from telemetry.catalogue import MEMORY_REPORTED
from telemetry.units import Unit


def _batching() -> tuple[Definition, ...]:
    sizes = Increase(BATCHES, SIZED, plain=True)
    size_rates = Rate(BATCHES, SIZED)
    inferences = Increase(INFERENCES, plain=True)
    executions_rate = OrElse(Rate(EXECUTIONS), Rate(MODEL_EXECUTIONS), on=MODEL)
    instances = Fact(FactFamily.INSTANCES)
    busy = Scale(queued_by_triton(BUSY_US), 1e-6)
    memory = Gauge("tritonscope_model_memory_bytes", DEVICED, where=(("source", MEMORY_REPORTED),))
    return (
        *both(
            "inferences_total",
            Unit.INFERENCES,
            "Inferences",
            "rows of batches computed; of a server: ensembles left out",
            inferences,
            OverModels(without_ensembles(inferences)),
        ),
        *both(
            "executions_total",
            Unit.EXECUTIONS,
            "Executions",
            "executions of the model; of a server: ensembles left out",
            executions(plain=True),
            OverModels(without_ensembles(executions(plain=True))),
        ),
        *both(
            "executions_per_second",
            Unit.PER_SECOND,
            "Executions per second",
            "executions / window",
            executions_rate,
            OverModels(without_ensembles(executions_rate)),
        ),
        *ratio_of(
            "batch_size_mean",
            Unit.BATCH,
            "Mean batch size",
            "inferences / executions",
            Increase(INFERENCES),
            Increase(EXECUTIONS),
        ),
        *both(
            "executions_by_batch_size",
            Unit.EXECUTIONS,
            "Executions by batch size",
            "executions of each batch size, from the statistics; of a server: ensembles left out",
            queued_by_triton(sizes),
            OverModels(own_work(sizes)),
            keys=("batch_size",),
            self_queueing=True,
        ),
        Definition(
            "executions_per_second_by_batch_size",
            Level.MODEL,
            Unit.PER_SECOND,
            "Executions per second by batch size",
            "executions of each batch size / window",
            queued_by_triton(size_rates),
            keys=("batch_size",),
            printed=False,
            self_queueing=True,
        ),
        Definition(
            "compute_us_by_batch_size",
            Level.MODEL,
            Unit.US,
            "Mean time of an execution by batch size",
            "compute time (input, infer, output) / executions, of each batch size",
            queued_by_triton(
                Ratio(Increase("tritonscope_batch_compute_us_total", SIZED), Increase(BATCHES, SIZED))
            ),
            keys=("batch_size",),
            printed=False,
            self_queueing=True,
        ),
        *both(
            "instance_busy_ratio",
            Unit.RATIO,
            "Busy share of the instances",
            "compute time of executions / (instances x window)",
            Ratio(busy, instances),
            Ratio(OverModels(Matching(busy, instances)), OverModels(Matching(instances, busy))),
            self_queueing=True,
        ),
        *both(
            "pending",
            Unit.REQUESTS,
            "Waiting requests",
            "requests waiting to execute now; of a server: ensembles left out",
            queued_by_triton(PENDING),
            OverModels(own_work(PENDING)),
            self_queueing=True,
        ),
        *both(
            "cache_hit_ratio",
            Unit.RATIO,
            "Response cache hits",
            "hits / (hits + misses)",
            Ratio(HITS, Sum(HITS, MISSES)),
            Ratio(OverModels(HITS), OverModels(Sum(HITS, MISSES))),
        ),
        *both(
            "memory_bytes_by_device",
            Unit.BYTES,
            "Memory by device",
            "memory the backend allocated at load, as it reports it",
            memory,
            OverModels(memory),
            keys=("kind", "device"),
        ),
    )


BATCHING = _batching()
