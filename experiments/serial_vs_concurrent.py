"""The same N requests one after another, then concurrently: what batching gives, to clients and server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from control.performer import Work
from experiments.measure import Measurement
from experiments.plan import LoadPlan
from experiments.report import RunKind
from experiments.session import Session, Wanted, work_of
from telemetry.actions import Conclusion
from telemetry.errors import InvalidRequest
from telemetry.facts import ModelConfig
from telemetry.units import significant

DEFAULT_REQUESTS = 200
DEFAULT_CONCURRENCY = 16
MAX_REQUESTS = 20_000

SERIAL, CONCURRENT = "serial", "concurrent"
_A_BATCH = 1.05
"""Mean rows per execution from which on batches are said to have formed."""


def serial_vs_concurrent_work(
    wanted: Wanted, requests: int = DEFAULT_REQUESTS, concurrency: int = DEFAULT_CONCURRENCY
) -> Work:
    """The work of `Control.perform`; raises InvalidRequest before anything is begun.

    One request goes ahead, unmeasured: it warms the model, and a request that fails is told at once. The
    result is a `RunReport` with the measurements "serial" and "concurrent".
    """
    if not 1 <= requests <= MAX_REQUESTS:
        raise InvalidRequest(f"1 to {MAX_REQUESTS:,} requests (got {requests})")
    plan = LoadPlan(concurrency=concurrency, seconds=None, requests=requests, warmup_seconds=0.0)
    serial = replace(plan, concurrency=1)

    def run(session: Session) -> Conclusion:
        session.measure(SERIAL, serial)
        if not session.stopping:
            session.measure(CONCURRENT, plan)
        model = wanted.request.model
        return session.conclude(sentence(model, session.measured), config_notes(wanted.config))

    return work_of(RunKind.SERIAL, wanted, (serial, plan), run)


def speedup(measurements: Sequence[Measurement]) -> float | None:
    """Throughput of the concurrent half / of the serial half; None without both."""
    if len(measurements) < 2:
        return None
    serial, concurrent = (one.clients.throughput_per_second for one in measurements[:2])
    return concurrent / serial if serial and concurrent else None


def sentence(model: str, measurements: Sequence[Measurement]) -> str:
    """The comparison in words."""
    if len(measurements) < 2:
        return f"{model}: stopped before the concurrent half"
    factor = speedup(measurements)
    if factor is None:
        return f"{model}: no comparison, since requests of one half all failed"
    slow, fast = measurements[0].clients, measurements[1].clients
    rates = " to ".join(significant(half.throughput_per_second or 0) for half in (slow, fast))
    return (
        f"{model}: {fast.concurrency} at a time give {significant(factor)} times the throughput "
        f"of one ({rates} requests/s){_batches(measurements[1])}"
    )


def config_notes(config: ModelConfig) -> tuple[str, ...]:
    """What of the model's configuration a reader must know to read the figures rightly."""
    found = []
    if config.response_cache:
        found.append("The response cache is on: equal requests are answered from it and not executed.")
    if config.max_batch_size > 0 and not (config.dynamic_batching or config.ensemble):
        found.append(
            "The model has no dynamic batching: Triton never merges requests of it. "
            "Write dynamic_batching { } into its config.pbtxt."
        )
    if config.max_batch_size == 0:
        found.append("max_batch_size is 0: this model takes one request per execution.")
    return tuple(found)


def _batches(one: Measurement) -> str:
    """The batches that formed: of the model, or of the step of an ensemble that batched most."""
    executed = [row for row in (one.server.rows if one.server is not None else ()) if row.executions]
    if not executed:
        return ""
    fullest = max(executed, key=lambda row: row.batch_size_mean or 0.0)
    mean = fullest.batch_size_mean or 0.0
    if mean < _A_BATCH:
        return "; no batches formed"
    where = "" if fullest.model == one.model else f"{fullest.model}: "
    return f"; {where}{fullest.inferences} rows in {fullest.executions} executions, {significant(mean)} each"
