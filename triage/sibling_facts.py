"""Facts that compare: replicas of a workload with one another, the steps of an ensemble with it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from telemetry.config_diff import FieldChange, changes_between, in_words
from telemetry.facts import ModelConfig, ModelState
from telemetry.identity import ModelKey
from triage.context import Context, Fact
from triage.repository_facts import unloaded_by_us

LEAST_REQUESTS = 20.0
"""A replica with fewer requests in the window has no mean worth comparing."""
SETTLED_SECONDS = 30.0
"""A replica that became READY later may simply not have been found by its clients yet."""
TOGETHER_SECONDS = 5.0
"""An ensemble that was taken down by its step went within this time of it."""


def _siblings(context: Context, key: ModelKey) -> Iterator[ModelKey]:
    """The same model version on the other servers of the workload that answer and have it READY."""
    for other in context.replicas.get((context.workload(key.server), key.name, key.version), ()):
        one = context.coverage_of.get(other.server)
        if other.server == key.server or one is None or not one.answering:
            continue
        if context.state(other) in (ModelState.READY, None):
            yield other


def _number(context: Context, key: ModelKey, name: str) -> float | None:
    row = context.model_signals.get(key)
    return row.signals.number(name) if row else None


def _median(context: Context, key: ModelKey, name: str) -> Fact:
    """Over siblings with enough requests, at least two of them."""
    values = [
        value
        for other in _siblings(context, key)
        if (_number(context, other, "requests_total") or 0.0) >= LEAST_REQUESTS
        and (value := _number(context, other, name)) is not None
    ]
    return float(statistics.median(values)) if len(values) >= 2 else None


def _siblings_request_us_mean(context: Context, key: ModelKey) -> Fact:
    return _median(context, key, "request_us_mean")


def _siblings_failed_ratio(context: Context, key: ModelKey) -> Fact:
    return _median(context, key, "failed_ratio")


def _settled(context: Context, key: ModelKey) -> bool:
    facts = context.facts_of.get(key)
    return facts is None or facts.since is None or context.now - facts.since >= SETTLED_SECONDS


def _replicas_settled(context: Context, key: ModelKey) -> Fact:
    """Replicas that could take its requests, itself included."""
    return float(1 + sum(_settled(context, other) for other in _siblings(context, key)))


def _replica_share(context: Context, key: ModelKey) -> Fact:
    """Share of the model's requests, over its settled replicas, that this one answered."""
    mine = _number(context, key, "requests_total")
    others = [
        _number(context, other, "requests_total")
        for other in _siblings(context, key)
        if _settled(context, other)
    ]
    if mine is None or not others or None in others:
        return None
    total = mine + sum(count for count in others if count is not None)
    return mine / total if total else None


def _config(context: Context, key: ModelKey) -> ModelConfig | None:
    facts = context.facts_of.get(key)
    return facts.config if facts else None


def _sibling_difference(context: Context, key: ModelKey) -> tuple[str, tuple[FieldChange, ...]] | None:
    """(server, what differs) of the first replica that is as most are; None for one that is so itself.

    Where as many are one way as the other, those count as most that are like the first server.
    """
    alike: list[list[tuple[ModelKey, dict[str, object]]]] = []
    for one in sorted((key, *_siblings(context, key))):
        config = _config(context, one)
        if config is None or not config.raw:
            continue
        settings = _settings(config)
        like = next((group for group in alike if not _differences(group[0][1], settings)), None)
        if like is None:
            alike.append([(one, settings)])
        else:
            like.append((one, settings))
    usual = max(alike, key=len, default=[])
    mine = next((settings for group in alike for one, settings in group if one == key), None)
    if mine is None or any(one == key for one, _ in usual):
        return None
    first, theirs = usual[0]
    return first.server, _differences(theirs, mine)


def _differences(one: dict[str, object], other: dict[str, object]) -> tuple[FieldChange, ...]:
    return () if one == other else changes_between(one, other)


def _settings(config: ModelConfig) -> dict[str, object]:
    """Without parameters: what a model is told of its surroundings may differ from place to place."""
    return {key: value for key, value in config.raw.items() if key != "parameters"}


def _replica_config_differs(context: Context, key: ModelKey) -> Fact:
    return float(_sibling_difference(context, key) is not None)


def _replica_config_difference(context: Context, key: ModelKey) -> Fact:
    found = _sibling_difference(context, key)
    return in_words(found[1], f"on {found[0]}:") if found else None


# ---- ensembles


@dataclass(frozen=True, slots=True)
class _Step:
    name: str
    us: float


def _slowest(context: Context, key: ModelKey) -> _Step | None:
    """The step that takes most of an ensemble's time: its mean request time, as often as it is called."""
    config = _config(context, key)
    if config is None or not config.ensemble:
        return None
    times = [
        _Step(name, uses * value)
        for name, uses in config.step_uses.items()
        if (value := _step_us(context, key.server, name)) is not None
    ]
    return max(times, key=lambda step: step.us, default=None)


def _step_us(context: Context, server: str, name: str) -> float | None:
    values = [
        value
        for key in context.model_signals
        if (key.server, key.name) == (server, name)
        and (value := _number(context, key, "request_us_mean")) is not None
    ]
    return max(values, default=None)


def _slowest_step(context: Context, key: ModelKey) -> Fact:
    step = _slowest(context, key)
    return step.name if step else None


def _slowest_step_us(context: Context, key: ModelKey) -> Fact:
    step = _slowest(context, key)
    return step.us if step else None


def _slowest_step_ratio(context: Context, key: ModelKey) -> Fact:
    step, whole = _slowest(context, key), _number(context, key, "request_us_mean")
    return min(1.0, step.us / whole) if step and whole else None


def _missing(context: Context, key: ModelKey) -> list[str]:
    """Steps of which no version is READY on the ensemble's server."""
    config = _config(context, key)
    if config is None or not config.ensemble:
        return []
    return [name for name in config.step_uses if not context.ready_on_server.get((key.server, name), 0)]


def _missing_steps(context: Context, key: ModelKey) -> Fact:
    config = _config(context, key)
    return float(len(_missing(context, key))) if config and config.ensemble else None


def _missing_step(context: Context, key: ModelKey) -> Fact:
    return ", ".join(_missing(context, key)) or None


def _went_with_step(context: Context, key: ModelKey) -> Fact:
    """1 if the ensemble and a step stopped within seconds: who unloads an ensemble leaves its steps."""
    mine = context.facts_of.get(key)
    if mine is None:
        return None
    if unloaded_by_us(context, key):
        return 0.0
    for name in _missing(context, key):
        for facts in context.inventory.of_server(key.server):
            if facts.key.name == name and facts.state is ModelState.UNAVAILABLE:
                if mine.since is None or facts.since is None:
                    return float(mine.since is facts.since)
                return float(abs(mine.since - facts.since) <= TOGETHER_SECONDS)
    return 0.0


OF_MODELS: Mapping[str, Callable[[Context, ModelKey], Fact]] = {
    "siblings_request_us_mean": _siblings_request_us_mean,
    "siblings_failed_ratio": _siblings_failed_ratio,
    "replicas_settled": _replicas_settled,
    "replica_share": _replica_share,
    "replica_config_differs": _replica_config_differs,
    "replica_config_difference": _replica_config_difference,
    "slowest_step": _slowest_step,
    "slowest_step_us": _slowest_step_us,
    "slowest_step_ratio": _slowest_step_ratio,
    "missing_steps": _missing_steps,
    "missing_step": _missing_step,
    "went_with_step": _went_with_step,
}
