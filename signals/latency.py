"""Signals of latency: means by part, the share of the queue, quantiles."""

from __future__ import annotations

from history.protocol import Matchers, Reduce
from signals.definition import Definition, both, ratio_of
from signals.evaluation import MODEL, NAME
from signals.expression import (
    Gauge,
    Only,
    OrElse,
    OverModels,
    Ratio,
)
from signals.facts import FactFamily
from signals.parts import (
    QUEUE,
    QUEUE_MEAN,
    STEP_QUEUE,
    executed_requests,
    own_work,
    part_us,
    queued_by_triton,
    request_us,
    successes,
    without_ensembles,
)
from telemetry.units import Unit

QUANTILES = {"p50": "0.5", "p90": "0.9", "p95": "0.95", "p99": "0.99", "p999": "0.999"}
"""Suffix of a quantile signal -> the label `quantile` of Triton's summaries."""


def _latency() -> tuple[Definition, ...]:
    request_mean = Ratio(queued_by_triton(request_us()), queued_by_triton(successes()))
    queue_ratio = OrElse(
        Ratio(without_ensembles(queued_by_triton(QUEUE)), without_ensembles(queued_by_triton(request_us()))),
        Ratio(STEP_QUEUE, Only(Ratio(request_us(), successes()), FactFamily.ENSEMBLE_STEP), on=MODEL),
        on=NAME,
    )
    return (
        *both(
            "request_us_mean",
            Unit.US,
            "Mean request time",
            "request time / requests",
            request_mean,
            Ratio(OverModels(queued_by_triton(request_us())), OverModels(queued_by_triton(successes()))),
            self_queueing=True,
        ),
        *both(
            "queue_us_mean",
            Unit.US,
            "Mean queue time",
            "queue time / requests; of an ensemble: the sum of its steps'",
            queued_by_triton(QUEUE_MEAN),
            Ratio(OverModels(own_work(QUEUE)), OverModels(own_work(successes()))),
            self_queueing=True,
        ),
        *(
            definition
            for part, what in (
                ("input", "preparing inputs"),
                ("infer", "executing"),
                ("output", "preparing outputs"),
            )
            for definition in ratio_of(
                f"compute_{part}_us_mean",
                Unit.US,
                f"Mean time {what}",
                f"compute {part} time / (requests - cache hits)",
                part_us(f"compute_{part}"),
                executed_requests(),
            )
        ),
        *both(
            "queue_ratio",
            Unit.RATIO,
            "Share of queue in request time",
            "queue time / request time; of an ensemble: its steps' mean queue time / its mean request time",
            queue_ratio,
            Ratio(OverModels(own_work(QUEUE)), OverModels(own_work(request_us()))),
            self_queueing=True,
        ),
        *_quantiles("request", "Request time"),
        *_quantiles("queue", "Queue time"),
    )


def _quantiles(part: str, title: str) -> tuple[Definition, ...]:
    rows: list[Definition] = []
    for suffix, quantile in QUANTILES.items():
        where: Matchers = (("quantile", quantile),)
        value = queued_by_triton(Gauge(f"nv_inference_{part}_summary_us", where=where, reduce=Reduce.MAX))
        rows += both(
            f"{part}_us_{suffix}",
            Unit.US,
            f"{title}, {suffix}",
            f"{quantile} quantile of about the last 60 s as Triton has it; of a server: its models' largest",
            value,
            OverModels(value, Reduce.MAX),
            self_queueing=True,
        )
    return tuple(rows)


LATENCY = _latency()
