"""The words a rule may use: signals, what triage measures besides, and facts about models and servers.

A rule names numbers only through this list, so that every condition has a level, a unit and one
definition, and can be written as PromQL by whoever builds alerts from the same file.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from history.drift import KnownFrom
from signals.definition import Definition
from signals.definitions import DEFINITIONS
from telemetry.facts import ModelState
from telemetry.probe import ProbeCause
from telemetry.reasons import ReasonClass
from telemetry.units import Unit
from triage.measures import MEASURES


class Level(StrEnum):
    """What a rule, a condition or a number speaks about; conditions of other levels are joined to it."""

    MODEL = "model"
    SERVER = "server"
    WORKLOAD = "workload"


class Origin(StrEnum):
    """Where a number comes from: a signal over a window, or a fact that holds now."""

    SIGNAL = "signal"
    FACT = "fact"


@dataclass(frozen=True, slots=True)
class Quantity:
    """One name a rule may use. `words` are the values of a fact that is a word and not a number."""

    name: str
    level: Level
    unit: Unit
    help: str
    origin: Origin
    words: tuple[str, ...] = ()


_M, _S, _W = Level.MODEL, Level.SERVER, Level.WORKLOAD


def _fact(name: str, level: Level, unit: Unit, text: str, words: tuple[str, ...] = ()) -> Quantity:
    return Quantity(name, level, unit, text, Origin.FACT, words)


_BURNS = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")
"""Windows of burn rates."""

FACTS: tuple[Quantity, ...] = (
    _fact(
        "state", _M, Unit.NONE, "state in the repository index", tuple(state.value for state in ModelState)
    ),
    _fact("load_failed", _M, Unit.NONE, "1 if the index gives a reason other than a wanted unload"),
    _fact(
        "reason_class",
        _M,
        Unit.NONE,
        "kind of the load failure, from the server's text",
        tuple(kind.value for kind in ReasonClass),
    ),
    _fact("reason", _M, Unit.NONE, "the load failure's first meaningful line, for sentences"),
    _fact(
        "failing_reason",
        _M,
        Unit.NONE,
        "the reason most failures of the window have, CANCELED left out",
        ("BACKEND", "OTHER", "REJECTED"),
    ),
    _fact("failures_over_seconds", _M, Unit.SECONDS, "how long none failed any more, if 15 s or longer"),
    _fact("ready_versions", _M, Unit.COUNT, "versions of the model that are READY on any replica"),
    _fact("ready_here", _M, Unit.COUNT, "versions of the model that are READY on this server"),
    _fact(
        "ready_before", _M, Unit.NONE, "1 if a version of it was READY on this server within the last hour"
    ),
    _fact(
        "requests_before",
        _M,
        Unit.REQUESTS,
        "requests to the model within the last hour, on all its replicas",
    ),
    _fact("loading_seconds", _M, Unit.SECONDS, "how long it has been LOADING; only while it is"),
    _fact("load_seconds", _M, Unit.SECONDS, "how long its last load took, by Triton 2.52 and later"),
    _fact(
        "requests_per_delay",
        _M,
        Unit.NONE,
        "requests that arrive while the batcher holds one back for others",
    ),
    _fact("config_changed", _M, Unit.NONE, "1 if its instances or its largest batch changed lately"),
    _fact(
        "config_drifted",
        _M,
        Unit.NONE,
        "1 if it runs with another configuration than its files give it, as far as can be seen",
    ),
    _fact("drift_known_from", _M, Unit.NONE, "how that is known", tuple(KnownFrom)),
    _fact("load_without_effect", _M, Unit.NONE, "1 if its newest load through this app changed nothing"),
    _fact("config_change", _M, Unit.NONE, "how what runs differs from its files, for sentences"),
    _fact("override_in_force", _M, Unit.NONE, "1 if it runs with a configuration that a load call brought"),
    _fact("load_refused", _M, Unit.NONE, "1 if its newest load through this app was refused"),
    _fact("load_refusal", _M, Unit.NONE, "why, for sentences"),
    _fact(
        "load_refusal_class",
        _M,
        Unit.NONE,
        "kind of the refusal",
        ("not_explicit", "no_version", "unreadable", "other"),
    ),
    _fact("max_queue_size", _M, Unit.REQUESTS, "requests its queue takes; only where there is a limit"),
    _fact("queue_timeout_us", _M, Unit.US, "default_timeout_microseconds of its queue policy"),
    _fact("name_in_url", _M, Unit.NONE, "0 if its name has characters that an address cannot have"),
    _fact("stubs_alive", _M, Unit.COUNT, "living processes of its instances, Python models only"),
    _fact("probe_failed", _M, Unit.NONE, "1 if its newest test request with a known answer failed"),
    _fact(
        "probe_cause",
        _M,
        Unit.NONE,
        "how it failed",
        tuple(ProbeCause),
    ),
    _fact("probe_sentence", _M, Unit.NONE, "how it failed, for sentences"),
    _fact("siblings_request_us_mean", _M, Unit.US, "median of the mean request times of its other replicas"),
    _fact("siblings_failed_ratio", _M, Unit.RATIO, "median of the failed shares of its other replicas"),
    _fact(
        "replicas_settled",
        _M,
        Unit.COUNT,
        "replicas READY for half a minute or more, with this one",
    ),
    _fact("replica_share", _M, Unit.RATIO, "share of the model's requests that this replica answers"),
    _fact("replica_config_differs", _M, Unit.NONE, "1 if another replica has another configuration"),
    _fact("replica_config_difference", _M, Unit.NONE, "what differs, for sentences"),
    _fact("slowest_step", _M, Unit.NONE, "the step that takes most of the ensemble's time, for sentences"),
    _fact("slowest_step_us", _M, Unit.US, "mean time of that step in one request"),
    _fact("slowest_step_ratio", _M, Unit.RATIO, "its share of the ensemble's request time"),
    _fact("missing_steps", _M, Unit.COUNT, "steps of the ensemble that are not READY"),
    _fact("missing_step", _M, Unit.NONE, "their names, for sentences"),
    _fact("went_with_step", _M, Unit.NONE, "1 if it stopped within seconds of one of its steps"),
    *(
        _fact(f"{kind}_burn_{name}", _M, Unit.NONE, text.format(kind), words)
        for kind in ("errors", "latency")
        for name, text, words in (
            *((window, f"how many times too fast the {{}} budget goes, {window}", ()) for window in _BURNS),
            ("severity", "how urgent it is that the {} budget is used up", ("page", "ticket", "no")),
            ("long", "the same over the longer window of the pair that speaks", ()),
            ("short", "the same over its shorter window", ()),
            ("long_window", "the longer window of the pair that speaks, for sentences", ()),
            ("short_window", "its shorter window, for sentences", ()),
            ("unreached", "which windows of the {} budget cannot be judged and why, for sentences", ()),
        )
    ),
    _fact(
        "latency_source",
        _M,
        Unit.NONE,
        "what slow requests are told by, for sentences",
        ("histogram", "summary", "mean"),
    ),
    _fact("max_batch_size", _M, Unit.COUNT, "from the effective config; 0 = the model takes no batches"),
    _fact("dynamic_batching", _M, Unit.NONE, "1 if the config has a dynamic_batching section"),
    _fact("max_queue_delay_us", _M, Unit.US, "max_queue_delay_microseconds of the dynamic batcher"),
    _fact("instances", _M, Unit.COUNT, "instances over all groups of the effective config"),
    _fact("sequence_batching", _M, Unit.NONE, "1 if the config has a sequence_batching section"),
    _fact("queue_policy", _M, Unit.NONE, "1 if its queue has a limit, a timeout or priority levels"),
    _fact("on_gpu", _M, Unit.NONE, "1 if its config places instances on GPUs"),
    _fact("ensemble", _M, Unit.NONE, "1 for a pipeline of other models"),
    _fact("successes_since_load", _M, Unit.REQUESTS, "the success counter as it stands"),
    _fact("request_us_mean_since_load", _M, Unit.US, "request duration over successes, as they stand"),
    _fact("request_us_mean_before", _M, Unit.US, "the same as it stood when the window began"),
    _fact("answering", _S, Unit.NONE, "1 if any source of the server answered its last reading"),
    _fact("http_answering", _S, Unit.NONE, "1 if its HTTP API answered when last asked"),
    _fact("index_read", _S, Unit.NONE, "1 if its repository index could be read last"),
    _fact(
        "silent_seconds",
        _S,
        Unit.SECONDS,
        "from the last answer (or first attempt) to the newest attempt, while none answers",
    ),
    _fact("figures_age_seconds", _S, Unit.SECONDS, "time since any source of the server last answered"),
    _fact("interval_seconds", _S, Unit.SECONDS, "time between two readings"),
    _fact("restarted_seconds", _S, Unit.SECONDS, "time since its last restart that was seen"),
    _fact("restarts_in_1h", _S, Unit.COUNT, "restarts within the last hour"),
    _fact("loads_in_1m", _S, Unit.COUNT, "models that became READY within the last minute"),
    _fact("replicas_answering", _W, Unit.COUNT, "servers of the same workload that answer"),
    _fact("replicas", _W, Unit.COUNT, "servers of the same workload"),
    _fact("error", _S, Unit.NONE, "why the last reading failed, for sentences"),
)
"""Facts by hand; `triage.context` gives them their values."""


def _signals() -> dict[tuple[Level, str], Definition]:
    """Signals and measures that are one number of a model or of a server."""
    return {
        (Level(row.level.value), row.name): row
        for row in (*DEFINITIONS, *MEASURES)
        if row.level.value in (_M.value, _S.value) and not row.keys
    }


_DEFINITIONS = _signals()
QUANTITIES = {(row.level, row.name): row for row in FACTS} | {
    (level, name): Quantity(name, level, row.unit, row.title, Origin.SIGNAL)
    for (level, name), row in _DEFINITIONS.items()
}
"""Every usable name by level and name."""
EXPRESSIONS = {place: row.expression for place, row in _DEFINITIONS.items()}
"""How each signal is computed, by level and name."""
