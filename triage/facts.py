"""Values of the facts of `triage.vocabulary.FACTS`, and since when they hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from history.protocol import Frame, Grid, GroupKey, Matchers
from signals.parts import FAILURE, SUCCESS, SUMMARY
from telemetry.facts import ModelConfig, ModelState
from telemetry.identity import ModelKey
from telemetry.scrape import Source
from telemetry.units import seconds_from_us
from triage import burn_facts, repository_facts, sibling_facts
from triage.burn_facts import BurnFacts
from triage.context import Context, Fact, failure_reason, reason_kind, reason_text, short_error

_MODEL_BY = ("server", "model", "version")
FEW_REQUESTS = 30.0
"""Fewer say nothing about how long a request usually takes: the first ones warm up."""
_NOT_FAILED = ("", "unloaded")
_HTTP_SOURCES = (Source.STATISTICS, Source.INDEX, Source.METADATA)
_MEMORY_SECONDS = 3600.0
"""How far back "before" reaches."""
_STEP_SECONDS = 30.0
_LATELY_SECONDS = 300.0
_OVER_SECONDS = 15.0
"""Shorter pauses between failures say nothing."""


class Facts:
    """Facts of one context; counters as they stand are read once for all models."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._counters: dict[tuple[str, float], Mapping[tuple[str, ...], float]] = {}
        self._requests: dict[tuple[str, str], float] | None = None
        self.burns = BurnFacts(context)
        self._were_ready: set[GroupKey] | None = None

    @property
    def context(self) -> Context:
        """What is judged."""
        return self._context

    def of_model(self, name: str, key: ModelKey) -> Fact:
        """One model's fact; KeyError for an unknown name."""
        return MODEL_FACTS[name](self, key)

    def of_server(self, name: str, server: str) -> Fact:
        """One server's fact; KeyError for an unknown name."""
        return SERVER_FACTS[name](self, server)

    def of_workload(self, name: str, server: str) -> Fact:
        """A fact of the workload `server` belongs to; KeyError for an unknown name."""
        return WORKLOAD_FACTS[name](self, server)

    def model_since(self, name: str, key: ModelKey) -> float | None:
        """Unix seconds since when a fact about the model's state holds; None = not known, or always."""
        facts = self._context.facts_of.get(key)
        if facts is not None and name in _STATE_FACTS:
            return facts.since
        return repository_facts.model_since(self._context, name, key)

    def server_since(self, name: str, server: str) -> float | None:
        """Unix seconds since when the server has been silent; None for other facts or if it never spoke."""
        if name in repository_facts.OF_SERVERS:
            return repository_facts.server_since(self._context, name, server)
        one = self._context.coverage_of.get(server)
        age = None
        if one is not None and name in ("answering", "silent_seconds"):
            age = one.age_seconds if not one.answering else None
        elif one is not None and name == "http_answering":
            if one.http_age_seconds is None:
                return self._context.history_from
            age = one.http_age_seconds
        return None if age is None else self._context.now - age

    def config(self, key: ModelKey) -> ModelConfig | None:
        """The effective config, None when it was not read."""
        facts = self._context.facts_of.get(key)
        return facts.config if facts is not None else None

    def counter(self, family: str, key: ModelKey, *, ago_seconds: float = 0.0) -> float | None:
        """A counter as it stands or stood, summed over the series of the model; None when it is not there.

        An ensemble's are under one version, whichever Triton prints beside each of them.
        """
        read = (family, ago_seconds)
        if read not in self._counters:
            vector = self._context.history.gauge(family, _MODEL_BY, self._context.report.at - ago_seconds)
            summed: dict[tuple[str, ...], float] = {}
            for row, value in vector.items():
                mine = self._context.signal_facts.canonical(row)
                summed[mine] = summed.get(mine, 0.0) + value
            self._counters[read] = summed
        return self._counters[read].get((key.server, key.name, key.version))

    # ---- models

    def _state(self, key: ModelKey) -> Fact:
        state = self._context.state(key)
        return state.value if state else None

    def _load_failed(self, key: ModelKey) -> Fact:
        facts = self._context.facts_of.get(key)
        if facts is None or facts.state is None:
            return None
        told = facts.state in (ModelState.UNAVAILABLE, ModelState.READY)
        return float(told and facts.reason not in _NOT_FAILED)

    def _reason(self, key: ModelKey) -> Fact:
        facts = self._context.facts_of.get(key)
        return reason_text(facts) if facts else None

    def _reason_class(self, key: ModelKey) -> Fact:
        facts = self._context.facts_of.get(key)
        return reason_kind(facts) if facts else None

    def _ready_versions(self, key: ModelKey) -> Fact:
        where = (self._context.workload(key.server), key.name)
        return float(self._context.ready_versions.get(where, 0))

    def _ready_here(self, key: ModelKey) -> Fact:
        return float(self._context.ready_on_server.get((key.server, key.name), 0))

    def _ready_before(self, key: ModelKey) -> Fact:
        if self._context.state(key) is None:
            return None
        if self._were_ready is None:
            # Of all models at once: a repository may list hundreds that are not loaded.
            frame = self._past_hour("tritonscope_model_state", (("state", "READY"),))
            seen = np.any(frame.values > 0, axis=0)
            self._were_ready = {name for name, was in zip(frame.keys, seen, strict=True) if was}
        return float((key.server, key.name) in self._were_ready)

    def _past_hour(self, family: str, where: Matchers) -> Frame:
        """A gauge over the last hour by (server, model)."""
        at = self._context.report.at
        grid = Grid(at - _MEMORY_SECONDS, at, _STEP_SECONDS)
        return self._context.history.gauge_range(family, ("server", "model"), grid, where=where)

    def _requests_before(self, key: ModelKey) -> Fact:
        if self._requests is None:
            self._requests = {}
            vector = self._context.history.increase(
                "nv_inference_request_success", ("server", "model"), _MEMORY_SECONDS, self._context.report.at
            )
            for (server, name), count in vector.items():
                where = (self._context.workload(server), name)
                self._requests[where] = self._requests.get(where, 0.0) + count
        return self._requests.get((self._context.workload(key.server), key.name))

    def _loading_seconds(self, key: ModelKey) -> Fact:
        facts = self._context.facts_of.get(key)
        if facts is None or facts.state is not ModelState.LOADING:
            return None
        start = facts.since if facts.since is not None else self._context.history_from
        return None if start is None else max(0.0, self._context.now - start)

    def _load_seconds(self, key: ModelKey) -> Fact:
        frame = self._past_hour("nv_model_load_duration_secs", (("server", key.server), ("model", key.name)))
        column = frame.column((key.server, key.name))
        known = [] if column is None else [value for value in column.tolist() if value == value]
        return known[-1] if known else None

    def _requests_per_delay(self, key: ModelKey) -> Fact:
        config, row = self.config(key), self._context.model_signals.get(key)
        rate = row.signals.number("requests_per_second") if row else None
        if rate is None or config is None or not config.max_queue_delay_us:
            return None
        return rate * seconds_from_us(config.max_queue_delay_us)

    def _failing_reason(self, key: ModelKey) -> Fact:
        return failure_reason(self._context.model_signals.get(key))

    def _failures_over_seconds(self, key: ModelKey) -> Fact:
        """How long no failure was counted any more, within the last minutes; None while they go on."""
        at, step = self._context.report.at, self._context.interval_seconds
        grid = Grid(at - math.floor(_LATELY_SECONDS / step) * step, at, step)
        where = (("server", key.server), ("model", key.name))
        column = self._context.history.gauge_range(FAILURE, _MODEL_BY, grid, where=where).column(
            (key.server, key.name, key.version)
        )
        if column is None:
            return None
        grown = np.flatnonzero(np.diff(column) != 0)
        quiet_seconds = at - float(grid.times()[grown[-1] + 1]) if len(grown) else 0.0
        return quiet_seconds if quiet_seconds >= _OVER_SECONDS else None

    def _max_batch_size(self, key: ModelKey) -> Fact:
        config = self.config(key)
        return float(config.max_batch_size) if config else None

    def _dynamic_batching(self, key: ModelKey) -> Fact:
        config = self.config(key)
        return float(config.dynamic_batching) if config else None

    def _max_queue_delay_us(self, key: ModelKey) -> Fact:
        config = self.config(key)
        if config is None or config.max_queue_delay_us is None:
            return None
        return float(config.max_queue_delay_us)

    def _instances(self, key: ModelKey) -> Fact:
        facts = self._context.facts_of.get(key)
        count = facts.instance_count if facts else None
        return float(count) if count is not None else None

    def _sequence_batching(self, key: ModelKey) -> Fact:
        config = self.config(key)
        return float(config.sequence_batching) if config else None

    def _queue_policy(self, key: ModelKey) -> Fact:
        config = self.config(key)
        return float(config.queue_policy) if config else None

    def _on_gpu(self, key: ModelKey) -> Fact:
        config = self.config(key)
        return float(any(group.kind == "KIND_GPU" for group in config.instance_groups)) if config else None

    def _ensemble(self, key: ModelKey) -> Fact:
        facts = self._context.facts_of.get(key)
        return float(facts.ensemble) if facts and facts.config else None

    def _successes_since_load(self, key: ModelKey) -> Fact:
        """Where the counters are switched off, what the summary counts."""
        if (key.server, key.name, key.version) in self._context.signal_facts.frozen:
            return self.counter(f"{SUMMARY}_count", key)
        return self.counter(SUCCESS, key)

    def _request_us_mean_since_load(self, key: ModelKey) -> Fact:
        return self._request_us_mean(key, 0.0)

    def _request_us_mean_before(self, key: ModelKey) -> Fact:
        """From the load until the window began; None for few requests, or when it was loaded within it."""
        window_seconds = self._context.report.window_seconds
        if window_seconds is None:
            return None
        then, now = self.counter(SUCCESS, key, ago_seconds=window_seconds), self.counter(SUCCESS, key)
        if then is None or now is None or not FEW_REQUESTS <= then <= now:
            return None
        return self._request_us_mean(key, window_seconds)

    def _request_us_mean(self, key: ModelKey, ago_seconds: float) -> Fact:
        successes = self.counter(SUCCESS, key, ago_seconds=ago_seconds)
        duration_us = self.counter("nv_inference_request_duration_us", key, ago_seconds=ago_seconds)
        return duration_us / successes if successes and duration_us else None

    # ---- servers and workloads

    def _answering(self, server: str) -> Fact:
        one = self._context.coverage_of.get(server)
        return float(one.answering) if one else None

    def _http_answering(self, server: str) -> Fact:
        """From the newest attempts; None when its HTTP API is not asked, or was never reached."""
        one = self._context.coverage_of.get(server)
        asked = [source for source in _HTTP_SOURCES if one is not None and source in one.asked_sources]
        if one is None or not asked:
            return None
        return float(any(source not in one.failed_sources for source in asked))

    def _index_read(self, server: str) -> Fact:
        one = self._context.coverage_of.get(server)
        if one is None or Source.INDEX not in one.asked_sources:
            return None
        return float(Source.INDEX not in one.failed_sources)

    def _silent_seconds(self, server: str) -> Fact:
        one = self._context.coverage_of.get(server)
        return one.silent_seconds if one else None

    def _figures_age_seconds(self, server: str) -> Fact:
        one = self._context.coverage_of.get(server)
        return one.age_seconds if one else None

    def _interval_seconds(self, server: str) -> Fact:
        return self._context.interval_seconds

    def _error(self, server: str) -> Fact:
        one = self._context.coverage_of.get(server)
        if one is None:
            return None
        failed = (one.failed_sources[source] for source in _HTTP_SOURCES if source in one.failed_sources)
        return short_error(one.sentence or next(failed, "")) or None

    def _replicas(self, server: str) -> Fact:
        return float(len(self._siblings(server)))

    def _replicas_answering(self, server: str) -> Fact:
        coverage = self._context.coverage_of
        return float(sum(coverage[sibling].answering for sibling in self._siblings(server)))

    def _siblings(self, server: str) -> list[str]:
        workload = self._context.workload(server)
        return [other for other in self._context.coverage_of if self._context.workload(other) == workload]


def _of_model(function: Callable[[Context, ModelKey], Fact]) -> Callable[[Facts, ModelKey], Fact]:
    return lambda facts, key: function(facts.context, key)


def _of_burns(function: Callable[[BurnFacts, ModelKey], Fact]) -> Callable[[Facts, ModelKey], Fact]:
    return lambda facts, key: function(facts.burns, key)


def _of_server(function: Callable[[Context, str], Fact]) -> Callable[[Facts, str], Fact]:
    return lambda facts, server: function(facts.context, server)


_STATE_FACTS = frozenset({"state", "load_failed", "reason_class", "reason"})
MODEL_FACTS: dict[str, Callable[[Facts, ModelKey], Fact]] = {
    "state": Facts._state,
    "load_failed": Facts._load_failed,
    "reason": Facts._reason,
    "reason_class": Facts._reason_class,
    "ready_versions": Facts._ready_versions,
    "ready_here": Facts._ready_here,
    "ready_before": Facts._ready_before,
    "requests_before": Facts._requests_before,
    "loading_seconds": Facts._loading_seconds,
    "load_seconds": Facts._load_seconds,
    "requests_per_delay": Facts._requests_per_delay,
    "failing_reason": Facts._failing_reason,
    "failures_over_seconds": Facts._failures_over_seconds,
    "max_batch_size": Facts._max_batch_size,
    "dynamic_batching": Facts._dynamic_batching,
    "max_queue_delay_us": Facts._max_queue_delay_us,
    "instances": Facts._instances,
    "sequence_batching": Facts._sequence_batching,
    "queue_policy": Facts._queue_policy,
    "on_gpu": Facts._on_gpu,
    "ensemble": Facts._ensemble,
    "successes_since_load": Facts._successes_since_load,
    "request_us_mean_since_load": Facts._request_us_mean_since_load,
    "request_us_mean_before": Facts._request_us_mean_before,
    **{name: _of_model(one) for name, one in repository_facts.OF_MODELS.items()},
    **{name: _of_model(one) for name, one in sibling_facts.OF_MODELS.items()},
    **{name: _of_burns(one) for name, one in burn_facts.OF_MODELS.items()},
}
SERVER_FACTS: dict[str, Callable[[Facts, str], Fact]] = {
    "answering": Facts._answering,
    "http_answering": Facts._http_answering,
    "index_read": Facts._index_read,
    "silent_seconds": Facts._silent_seconds,
    "figures_age_seconds": Facts._figures_age_seconds,
    "interval_seconds": Facts._interval_seconds,
    "error": Facts._error,
    **{name: _of_server(one) for name, one in repository_facts.OF_SERVERS.items()},
}
WORKLOAD_FACTS: dict[str, Callable[[Facts, str], Fact]] = {
    "replicas": Facts._replicas,
    "replicas_answering": Facts._replicas_answering,
}
