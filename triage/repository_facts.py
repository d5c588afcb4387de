"""Facts that rest on what happened: refused loads, overrides, restarts, processes, test requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

import numpy as np

from history.changes import lasting_falls
from history.config_book import ConfigChange
from history.events import EventKind
from history.protocol import Grid, Reduce
from signals.parts import EXECUTIONS
from telemetry.actions import ActionKind, Outcome, Record
from telemetry.facts import ModelConfig, ModelState
from telemetry.identity import ModelKey
from telemetry.load_errors import POLL_FAILED
from telemetry.probe import ProbeCause
from triage.context import Context, Fact

LOADS = (ActionKind.LOAD, ActionKind.RELOAD, ActionKind.OVERRIDE, ActionKind.REVERT)
REFUSALS: tuple[tuple[str, str], ...] = (
    ("not_explicit", "explicit model load / unload is not allowed"),
    ("no_version", "at least one version must be available"),
    ("unreadable", POLL_FAILED),
)
"""Class of a refused load, and the words of the server that tell it."""
_NOT_LOADED = "not loaded: "
SETTLED_SECONDS = 10.0
"""A model that has been READY for less may still start its processes."""
_MINUTE = 60.0
_STUBBED = "python"


@dataclass(frozen=True, slots=True)
class _Refusal:
    at: float
    sentence: str
    kind: str


def refused_models(context: Context) -> tuple[ModelKey, ...]:
    """Models whose load was refused and that no source names: they have no version folder, for example."""
    # One that is gone counts as not named: the refused load itself takes it out of the index.
    wanted = [
        (server, model)
        for server, model in context.happenings.records_of
        if server in context.coverage_of and _refusal(context, server, model)
    ]
    named = {(key.server, key.name) for key in context.model_keys} if wanted else set()
    return tuple(ModelKey(server, model, "") for server, model in wanted if (server, model) not in named)


def _newest_load(context: Context, server: str, model: str) -> Record | None:
    ended = [
        record
        for record in context.happenings.records_of.get((server, model), ())
        if record.action.kind in LOADS
        and record.ended_at is not None
        and record.outcome is not Outcome.REFUSED
    ]
    return max(ended, key=lambda record: record.ended_at or 0.0, default=None)


def _refusal(context: Context, server: str, model: str) -> _Refusal | None:
    """The newest load of the model, if it was sent and failed."""
    newest = _newest_load(context, server, model)
    if newest is None or newest.outcome is not Outcome.FAILED or newest.ended_at is None:
        return None
    raw = newest.detail or newest.sentence
    kind = next((word for word, mark in REFUSALS if mark in raw), "other")
    return _Refusal(newest.ended_at, newest.sentence.partition(_NOT_LOADED)[2] or newest.sentence, kind)


def _refused(context: Context, key: ModelKey) -> _Refusal | None:
    """A refused load that the index says nothing of: what it gives a reason for has a rule of its own."""
    facts = context.facts_of.get(key)
    if facts is not None and facts.reason not in ("", "unloaded"):
        return None
    return _refusal(context, key.server, key.name)


def _load_refused(context: Context, key: ModelKey) -> Fact:
    return float(_refused(context, key) is not None)


def _load_refusal(context: Context, key: ModelKey) -> Fact:
    found = _refused(context, key)
    return found.sentence.removesuffix(".") if found else None


def _load_refusal_class(context: Context, key: ModelKey) -> Fact:
    found = _refused(context, key)
    return found.kind if found else None


def unloaded_by_us(context: Context, key: ModelKey) -> bool:
    """True if the newest thing that was done to this very model through us is an unload."""
    mine = [
        record
        for record in context.happenings.records_of.get((key.server, key.name), ())
        if record.action.kind.changes_repository and record.outcome is not Outcome.REFUSED
    ]
    newest = max(mine, key=lambda record: record.started_at, default=None)
    return newest is not None and newest.action.kind is ActionKind.UNLOAD


# ---- configurations


def _config(context: Context, key: ModelKey) -> ModelConfig | None:
    facts = context.facts_of.get(key)
    return facts.config if facts else None


def _known(context: Context, key: ModelKey, told: bool) -> Fact:
    """Nothing is told of a model whose configuration was never read."""
    return None if _config(context, key) is None and not told else float(told)


def _config_drifted(context: Context, key: ModelKey) -> Fact:
    return _known(context, key, key in context.happenings.drifts)


def _override_in_force(context: Context, key: ModelKey) -> Fact:
    drift = context.happenings.drifts.get(key)
    return _known(context, key, drift is not None and drift.ours)


def _drift_known_from(context: Context, key: ModelKey) -> Fact:
    drift = context.happenings.drifts.get(key)
    return drift.source.value if drift else None


def _config_change(context: Context, key: ModelKey) -> Fact:
    drift = context.happenings.drifts.get(key)
    return drift.difference if drift else None


def _resized(context: Context, key: ModelKey) -> ConfigChange | None:
    """The newest change of instances or the largest batch, whoever brought it."""
    changes = context.happenings.config_changes.get((key.server, key.name), ())
    return next((one for one in reversed(changes) if one.sizes), None)


def _config_changed(context: Context, key: ModelKey) -> Fact:
    """Only known of what was read: an earlier process' configurations are not kept."""
    return _known(context, key, _resized(context, key) is not None)


def _load_without_effect(context: Context, key: ModelKey) -> Fact:
    """1 if the newest load through us was answered well and changed nothing; a restart reads the files."""
    newest = _newest_load(context, key.server, key.name)
    if newest is None or not newest.without_effect:
        return 0.0
    restarts = _restarts(context, key.server)
    return float(not restarts or restarts[-1] < (newest.ended_at or 0.0))


def _queue_limit(context: Context, key: ModelKey) -> Fact:
    config = _config(context, key)
    return float(config.max_queue_size) if config and config.max_queue_size else None


def _queue_timeout_us(context: Context, key: ModelKey) -> Fact:
    config = _config(context, key)
    return float(config.queue_timeout_us) if config and config.queue_timeout_us else None


def _name_in_url(context: Context, key: ModelKey) -> Fact:
    """Triton takes a name in an address as it stands there: what clients must encode it does not know."""
    return float(quote(key.name, safe="") == key.name)


# ---- processes and test requests


def _stubs_alive(context: Context, key: ModelKey) -> Fact:
    """Living processes of the model's instances; None where the server's processes cannot be seen."""
    seen = context.happenings.processes.get(key.server)
    facts = context.facts_of.get(key)
    if seen is None or seen.pid is None or facts is None or facts.config is None:
        return None
    settled = facts.since is None or context.now - facts.since >= SETTLED_SECONDS
    if facts.config.backend != _STUBBED or facts.state is not ModelState.READY or not settled:
        return None
    return float(seen.living(key.name, key.version))


def _probe_failed(context: Context, key: ModelKey) -> Fact:
    result = context.happenings.probes.get((key.server, key.name))
    # A server that does not answer is a finding of its own, for all of its models at once.
    if result is None or result.cause == ProbeCause.UNREACHABLE:
        return None
    return float(not result.ok)


def _probe_cause(context: Context, key: ModelKey) -> Fact:
    result = context.happenings.probes.get((key.server, key.name))
    return result.cause or None if result else None


def _probe_sentence(context: Context, key: ModelKey) -> Fact:
    result = context.happenings.probes.get((key.server, key.name))
    return result.sentence.removesuffix(".") or None if result else None


# ---- servers


def _restarts(context: Context, server: str) -> list[float]:
    return [
        event.at
        for event in context.happenings.events
        if event.server == server and event.kind is EventKind.RESTART
    ]


def _restarted_seconds(context: Context, server: str) -> Fact:
    found = _restarts(context, server)
    return max(0.0, context.now - found[-1]) if found else None


def _restarts_in_1h(context: Context, server: str) -> Fact:
    return float(len(_restarts(context, server)))


def _loads_in_1m(context: Context, server: str) -> Fact:
    """None without an index: then nothing tells of loads."""
    if server not in context.inventory.index_read:
        return None
    since = context.now - _MINUTE
    mine = [one for one in context.happenings.events if one.server == server and one.at >= since]
    shown = sum(one.kind is EventKind.LOAD for one in mine)
    # A model that is unloaded and loaded between two readings of the index is READY in both.
    fell = any(one.kind is EventKind.RESET for one in mine)
    return float(max(shown, _lasting_falls(context, server, since) if fell else 0))


def _lasting_falls(context: Context, server: str, since: float) -> int:
    """Falls of the counters that lasted, the most of any model: each was a load."""
    grid = Grid(since, context.report.at, context.interval_seconds)
    frame = context.history.gauge_range(
        EXECUTIONS, ("model", "version"), grid, where=(("server", server),), reduce=Reduce.MAX
    )
    columns = (frame.values[:, place] for place in range(len(frame.keys)))
    return max((lasting_falls(column[~np.isnan(column)]) for column in columns), default=0)


OF_MODELS: Mapping[str, Callable[[Context, ModelKey], Fact]] = {
    "load_refused": _load_refused,
    "load_refusal": _load_refusal,
    "load_refusal_class": _load_refusal_class,
    "override_in_force": _override_in_force,
    "config_changed": _config_changed,
    "config_drifted": _config_drifted,
    "drift_known_from": _drift_known_from,
    "load_without_effect": _load_without_effect,
    "config_change": _config_change,
    "max_queue_size": _queue_limit,
    "queue_timeout_us": _queue_timeout_us,
    "name_in_url": _name_in_url,
    "stubs_alive": _stubs_alive,
    "probe_failed": _probe_failed,
    "probe_cause": _probe_cause,
    "probe_sentence": _probe_sentence,
}
OF_SERVERS: Mapping[str, Callable[[Context, str], Fact]] = {
    "restarted_seconds": _restarted_seconds,
    "restarts_in_1h": _restarts_in_1h,
    "loads_in_1m": _loads_in_1m,
}


def model_since(context: Context, name: str, key: ModelKey) -> float | None:
    """Unix seconds since when a fact of this module holds; None = not known."""
    if name in ("load_refused", "load_refusal_class"):
        found = _refused(context, key)
        return found.at if found else None
    if name == "load_without_effect":
        newest = _newest_load(context, key.server, key.name)
        return newest.ended_at if newest else None
    if name in ("override_in_force", "config_drifted", "drift_known_from"):
        drift = context.happenings.drifts.get(key)
        return drift.since if drift else None
    if name == "config_changed":
        change = _resized(context, key)
        return change.at if change else None
    if name == "stubs_alive":
        seen = context.happenings.processes.get(key.server)
        return seen.fewer_since.get((key.name, key.version)) if seen else None
    if name in ("probe_failed", "probe_cause"):
        result = context.happenings.probes.get((key.server, key.name))
        return (result.at if result.since is None else result.since) if result else None
    return None


def server_since(context: Context, name: str, server: str) -> float | None:
    """Unix seconds since when; None = not known."""
    found = _restarts(context, server) if name.startswith("restart") else []
    return found[-1] if found else None
