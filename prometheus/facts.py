"""Facts of `triage.vocabulary` as PromQL: the exporter's families, counters as they stand, `up`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prometheus.parameters import Parameters
from signals.expression import Gauge, Ratio
from triage.durations import duration_text
from triage.vocabulary import Level

BEFORE_SECONDS = 3600.0
"""How far back "before" reaches, as in the app."""
_REMEMBERED_SECONDS = 86400.0
_LOADING_SECONDS = 21600.0
_MINUTE = 60
_UNBROKEN_SECONDS = 600.0
"""PromQL counts minutes of LOADING; the newest of them must be one load."""
_STATE = "tritonscope_model_state"
_HTTP = 'tritonscope_exporter_source_success{source=~"index|metadata|statistics"}'
_SUCCESS, _DURATION = "nv_inference_request_success", "nv_inference_request_duration_us"


@dataclass(frozen=True, slots=True)
class Vector:
    """A fact in PromQL. `on` are the labels it is matched by.

    `counting`: rows exist only where the fact is above zero. `zero` is what stands for "the fact is 0"
    where that is more than a comparison.
    """

    text: str
    on: str
    counting: bool = False
    zero: str = ""


NOT_IN_PROMQL = {
    "reason": "free text never becomes a label",
    "failing_reason": "for sentences only",
    "failures_over_seconds": "for sentences only",
    "error": "free text never becomes a label",
    "silent_seconds": "what service discovery lists and does not answer is `up` 0; the alert's `for` counts",
    "figures_age_seconds": "for sentences only",
    "interval_seconds": "a build parameter",
    "replicas": "for sentences only",
    "config_drifted": "whole configurations are not published",
    "drift_known_from": "whole configurations are not published",
    "load_without_effect": "the app's own actions are known to the app only",
    "config_change": "free text never becomes a label",
    "override_in_force": "the app's own actions are known to the app only",
    "load_refused": "the app's own actions are known to the app only",
    "load_refusal": "free text never becomes a label",
    "load_refusal_class": "the app's own actions are known to the app only",
    "queue_timeout_us": "for sentences only",
    "name_in_url": "for a remark in the app only",
    "stubs_alive": "processes are seen by an app or exporter on the same machine",
    "on_gpu": "for sentences only",
    "probe_failed": "test requests report to the app",
    "probe_cause": "test requests report to the app",
    "probe_sentence": "free text never becomes a label",
    "siblings_request_us_mean": "medians over replicas: see the fleet board",
    "siblings_failed_ratio": "medians over replicas: see the fleet board",
    "replicas_settled": "how long a replica has been READY is counted in the app",
    "replica_share": "how long a replica has been READY is counted in the app",
    "replica_config_differs": "whole configurations are not published",
    "replica_config_difference": "free text never becomes a label",
    "request_us_mean_before": "judged in the app beside what names the step of an ensemble",
    "sequence_batching": "for sentences only",
    "queue_policy": "for sentences only",
    "slowest_step": "for sentences only",
    "slowest_step_us": "for sentences only",
    "slowest_step_ratio": "judged in the app beside what names the step",
    "missing_steps": "configurations of ensembles that are down are not published",
    "missing_step": "free text never becomes a label",
    "went_with_step": "configurations of ensembles that are down are not published",
    "restarted_seconds": "no family tells when the server began",
    "restarts_in_1h": "no family tells when the server began",
}
"""Facts without a PromQL text, and why."""


def fact(name: str, parameters: Parameters) -> Vector:
    """One fact that is a number; KeyError for one of NOT_IN_PROMQL."""
    return _FACTS[name](parameters)


def state(word: str, parameters: Parameters, *, held_seconds: float = 0.0, unequal: bool = False) -> Vector:
    """Rows of models in a state (`unequal`: in any other); `held_seconds`: at any time within these."""
    operator = "!=" if unequal else "="
    selector = parameters.dialect(matchers=f'state{operator}"{word}"').selector(_STATE)
    if held_seconds:
        selector = f"max_over_time({selector}[{duration_text(held_seconds)}])"
    return Vector(f"{selector} == 1", parameters.on(Level.MODEL))


def reason_class(word: str, parameters: Parameters, *, unequal: bool = False) -> Vector:
    """Rows of models that failed to load for a kind of reason."""
    matcher = f'reason_class{"!=" if unequal else "="}"{word}"'
    selector = parameters.dialect(matchers=matcher).selector("tritonscope_model_load_failed")
    return Vector(f"{selector} == 1", parameters.on(Level.MODEL))


def _family(name: str) -> Callable[[Parameters], Vector]:
    return lambda parameters: Vector(parameters.dialect().selector(name), parameters.on(Level.MODEL))


def _ready(parameters: Parameters) -> str:
    return f"{state('READY', parameters).text}"


def _ready_versions(parameters: Parameters) -> Vector:
    text = parameters.with_workload(f"({_ready(parameters)})")
    return Vector(text, parameters.on(Level.WORKLOAD, by_name=True), counting=True)


def _ready_here(parameters: Parameters) -> Vector:
    return Vector(_ready(parameters), parameters.on(Level.MODEL, by_name=True), counting=True)


def _ready_before(parameters: Parameters) -> Vector:
    before = state("READY", parameters, held_seconds=BEFORE_SECONDS).text
    return Vector(f"max without (state) ({before})", parameters.on(Level.MODEL))


def _requests_before(parameters: Parameters) -> Vector:
    success = parameters.dialect().selector(_SUCCESS)
    increase = f"increase({success}[{duration_text(parameters.window(BEFORE_SECONDS))}])"
    on = parameters.on(Level.WORKLOAD, by_name=True)
    return Vector(f"sum by ({on}) ({parameters.with_workload(increase)})", on)


def _loading_seconds(parameters: Parameters) -> Vector:
    loading = parameters.dialect(matchers='state="LOADING"').selector(_STATE)
    span = f"{duration_text(_LOADING_SECONDS)}:{duration_text(_MINUTE)}"
    unbroken = f"min_over_time({loading}[{duration_text(_UNBROKEN_SECONDS)}]) == 1"
    on = parameters.on(Level.MODEL)
    return Vector(f"({_MINUTE} * sum_over_time({loading}[{span}]) and on ({on}) {unbroken})", on)


def _load_seconds(parameters: Parameters) -> Vector:
    family = parameters.dialect().selector("nv_model_load_duration_secs")
    return Vector(
        f"last_over_time({family}[{duration_text(_REMEMBERED_SECONDS)}])",
        parameters.on(Level.MODEL, by_name=True),
    )


def _requests_per_delay(parameters: Parameters) -> Vector:
    dialect, on = parameters.dialect(), parameters.on(Level.MODEL)
    rate = f"sum without (gpu_uuid) (rate({dialect.over_window(_SUCCESS)}))"
    delay = dialect.selector("tritonscope_model_max_queue_delay_us")
    return Vector(f"{rate} * on ({on}) group_left () (1e-06 * max by ({on}) ({delay}))", on)


def _config_changed(parameters: Parameters) -> Vector:
    window = duration_text(_LOADING_SECONDS)
    changes = [
        f"changes({parameters.dialect().selector(family)}[{window}])"
        for family in ("tritonscope_model_instances", "tritonscope_model_max_batch_size")
    ]
    return Vector(f"({' + '.join(changes)}) > bool 0", parameters.on(Level.MODEL))


def _ensemble(parameters: Parameters) -> Vector:
    step = parameters.dialect().selector("tritonscope_ensemble_step")
    return Vector(step, parameters.on(Level.MODEL, by_name=True), counting=True)


def _successes_since_load(parameters: Parameters) -> Vector:
    return Vector(Gauge(_SUCCESS).promql(parameters.dialect()), parameters.on(Level.MODEL))


def _request_us_mean_since_load(parameters: Parameters) -> Vector:
    mean = Ratio(Gauge(_DURATION), Gauge(_SUCCESS))
    return Vector(mean.promql(parameters.dialect()), parameters.on(Level.MODEL))


def _http(parameters: Parameters) -> str:
    selector = _HTTP[:-1] + (f", {parameters.selector}" if parameters.selector else "") + "}"
    return f"max without (source) ({selector})"


def _up(parameters: Parameters) -> str:
    matchers = ", ".join(filter(None, (parameters.up_selector, parameters.selector)))
    return f"up{{{matchers}}}" if matchers else "up"


def _answering(parameters: Parameters) -> Vector:
    on = parameters.on(Level.SERVER)
    up, http = _up(parameters), _http(parameters)
    answers = f"({up} == 1 or on ({on}) {http} == 1)"
    return Vector(answers, on, counting=True, zero=f"({up} == 0 unless on ({on}) {http} == 1)")


def _replicas_answering(parameters: Parameters) -> Vector:
    text = parameters.with_workload(_answering(parameters).text)
    return Vector(text, parameters.on(Level.WORKLOAD), counting=True)


def _http_answering(parameters: Parameters) -> Vector:
    return Vector(_http(parameters), parameters.on(Level.SERVER))


def _loads_in_1m(parameters: Parameters) -> Vector:
    """In ten minutes here: scrapes are as far apart as a minute."""
    ready = parameters.dialect(matchers='state="READY"').selector(_STATE)
    on = parameters.on(Level.SERVER)
    return Vector(f"(sum by ({on}) (changes({ready}[10m])) / 2)", on)


def _index_read(parameters: Parameters) -> Vector:
    source = parameters.dialect(matchers='source="index"').selector("tritonscope_exporter_source_success")
    return Vector(source, parameters.on(Level.SERVER))


_FACTS: dict[str, Callable[[Parameters], Vector]] = {
    "load_failed": _family("tritonscope_model_load_failed"),
    "ready_versions": _ready_versions,
    "ready_here": _ready_here,
    "ready_before": _ready_before,
    "requests_before": _requests_before,
    "loading_seconds": _loading_seconds,
    "load_seconds": _load_seconds,
    "requests_per_delay": _requests_per_delay,
    "config_changed": _config_changed,
    "max_batch_size": _family("tritonscope_model_max_batch_size"),
    "dynamic_batching": _family("tritonscope_model_dynamic_batching"),
    "max_queue_delay_us": _family("tritonscope_model_max_queue_delay_us"),
    "max_queue_size": _family("tritonscope_model_max_queue_size"),
    "instances": _family("tritonscope_model_instances"),
    "ensemble": _ensemble,
    "successes_since_load": _successes_since_load,
    "request_us_mean_since_load": _request_us_mean_since_load,
    "answering": _answering,
    "http_answering": _http_answering,
    "loads_in_1m": _loads_in_1m,
    "index_read": _index_read,
    "replicas_answering": _replicas_answering,
}
FACTS_IN_PROMQL = frozenset(_FACTS) | {"state", "reason_class"}
"""Facts that have a PromQL text."""
