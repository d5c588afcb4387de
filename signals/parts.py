"""Expressions that several signals share."""

from __future__ import annotations

from history.protocol import By
from signals.ensembles import OverSteps, TimesSteps, UnderOneVersion
from signals.evaluation import MODEL, NAME, SERVER, Expression
from signals.expression import (
    Difference,
    Gauge,
    Increase,
    Only,
    OrElse,
    OverModels,
    Rate,
    Ratio,
    Scale,
    Smaller,
    WhereZero,
)
from signals.facts import FactFamily

SUCCESS = "nv_inference_request_success"
FAILURE = "nv_inference_request_failure"
SUMMARY = "nv_inference_request_summary_us"


def without_ensembles(expression: Expression) -> Expression:
    """Without ensembles: their work is counted at their steps."""
    return Only(expression, FactFamily.ENSEMBLE_STEP, without=True)


def queued_by_triton(expression: Expression) -> Expression:
    """Without backends that queue inside themselves: Triton's figures do not show their work."""
    return Only(expression, FactFamily.QUEUES_ITSELF, without=True)


def own_work(expression: Expression) -> Expression:
    """Without ensembles and without backends that queue inside themselves."""
    return without_ensembles(queued_by_triton(expression))


def successes(by: By = MODEL, plain: bool = False) -> Expression:
    """Successful requests; where the counters are switched off, the summary counts them."""
    return OrElse(Increase(SUCCESS, by, plain=plain), Increase(f"{SUMMARY}_count", by, plain=plain))


def halved(counted: Expression, by: By = MODEL) -> Expression:
    """Failures as they are, an ensemble's halved: Triton counts each failed ensemble request twice.

    Twice under one version, or once each under the ensemble's version and under the one of its other series.
    """
    of_ensembles: Expression = Scale(Only(counted, FactFamily.ENSEMBLE_STEP), 0.5)
    if "version" in by:
        of_ensembles = UnderOneVersion(of_ensembles)
    return OrElse(of_ensembles, without_ensembles(counted))


def failures(by: By = MODEL, plain: bool = False) -> Expression:
    """Failed requests."""
    return halved(Increase(FAILURE, by, plain=plain), by)


def part_us(part: str, by: By = MODEL) -> Expression:
    """Summed time of one part (request, queue, compute_infer, ...), in us; else what the summary sums up."""
    counter, summary = f"nv_inference_{part}_duration_us", f"nv_inference_{part}_summary_us_sum"
    return OrElse(Increase(counter, by), Increase(summary, by))


def request_us(by: By = MODEL) -> Expression:
    """Time from arrival to answer of successful requests, in us."""
    return part_us("request", by)


def executed_requests(by: By = MODEL) -> Expression:
    """Requests that were computed: successes without those answered from the response cache."""
    hits = Increase("nv_cache_num_hits_per_model", by)
    return OrElse(Difference(Increase(SUCCESS, by), hits), successes(by))


EXECUTIONS = "nv_inference_exec_count"
INFERENCES = "nv_inference_count"
BATCHES = "tritonscope_batch_executions_total"
MODEL_EXECUTIONS = "tritonscope_model_executions_total"
SIZED: By = (*MODEL, "batch_size")
REASONED: By = (*MODEL, "reason")
DEVICED: By = (*MODEL, "kind", "device")


def executions(plain: bool = False) -> Expression:
    """Executions of the model; where the counters are switched off, the statistics count them."""
    return OrElse(Increase(EXECUTIONS, plain=plain), Increase(MODEL_EXECUTIONS, plain=plain), on=MODEL)


def of_clients(successes: Expression) -> Expression:
    """Each client's request once: all successes without those that ensembles asked of their steps."""
    everything = OverModels(successes)
    return OrElse(Difference(everything, OverModels(TimesSteps(successes)), on=SERVER), everything)


def client_failures(plain: bool = False) -> Expression:
    """Each client's failure once: an ensemble's failure and its step's are one, as far as steps failed."""
    everything = OverModels(failures(plain=plain))
    by_name = failures(NAME, plain)
    # Halved as in `failures`, but read once instead of twice: its PromQL stands here four times.
    ensembles = Scale(Only(Increase(FAILURE, NAME, plain=plain), FactFamily.ENSEMBLE_STEP), 0.5)
    twice = Smaller(ensembles, OverSteps(by_name, ensembles, by=NAME))
    return OrElse(Difference(everything, OverModels(twice), on=SERVER), everything)


QUEUE = part_us("queue")
STEP_QUEUE = OverSteps(
    Ratio(part_us("queue", NAME), Increase(SUCCESS, NAME)), Increase(SUCCESS, NAME), leaves=True
)
QUEUE_MEAN = OrElse(Ratio(without_ensembles(QUEUE), without_ensembles(successes())), STEP_QUEUE, on=NAME)
# No batch size has been executed: idle if the executions say so too, else not known.
BUSY_US = OrElse(Rate("tritonscope_batch_compute_us_total"), WhereZero(Rate(MODEL_EXECUTIONS)), on=MODEL)
PENDING_FAMILY = "nv_inference_pending_request_count"
# On a GPU server only the series without gpu_uuid means anything; older pages have only those with it.
PENDING = OrElse(Gauge(PENDING_FAMILY, where=(("gpu_uuid", ""),)), Gauge(PENDING_FAMILY))
HITS, MISSES = Increase("nv_cache_num_hits_per_model"), Increase("nv_cache_num_misses_per_model")
