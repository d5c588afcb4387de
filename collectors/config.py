"""Source CONFIG: `GET /v2/models/M/config`, read when a model's state changes and else every 5 minutes."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collectors.reading import (
    Reading,
    base_url,
    decode_json,
    listing,
    mapping,
    timed,
    whole,
    words,
    wrong_shape,
)
from telemetry.errors import SourceError
from telemetry.facts import (
    EnsembleStep,
    IndexEntry,
    InstanceGroup,
    ModelConfig,
    ModelState,
    ModelStatistics,
    TensorSpec,
)
from telemetry.identity import Server, is_http_addressable
from telemetry.scrape import Notice, Scrape, Source
from telemetry.transport import Transport, host_of

SOURCE_NAME = "model configuration"
REREAD_SECONDS = 300.0
RETRY_SECONDS = 30.0
FORGET_SECONDS = 3600.0
MODELS_PER_ROUND = 8

ReadyModels = Callable[[], Mapping[str, Hashable] | None]
"""Name of every model that is ready -> what changes when it is loaded anew; None: not known yet."""


@dataclass(slots=True)
class _Known:
    """What was read of one model: `mark` is what it was read for, `due` when to read it again."""

    mark: Hashable
    due: float
    seen: float
    config: ModelConfig | None = None
    problem: str | None = None


class ConfigCollector:
    """Keeps the configurations of the ready models; the payload is a dict of name -> `ModelConfig`.

    A round reads at most a few models. Configurations of models that are gone are kept for an hour.
    """

    source = Source.CONFIG

    def __init__(
        self, server: Server, transport: Transport, ready: ReadyModels, *, timeout_seconds: float
    ) -> None:
        self.server = server
        self._transport = transport
        self._ready = ready
        self._timeout_seconds = timeout_seconds
        self._known: dict[str, _Known] = {}
        self._payload: dict[str, ModelConfig] = {}

    def collect(self) -> Scrape | None:
        """One round, None if nothing was due: what was not asked must not look like an answer.

        The payload is the same object as long as no configuration changed.
        """
        due = self._due(time.monotonic())
        return timed(self.server, self.source, lambda: self._round(due)) if due else None

    def reread(self, model: str | None = None) -> None:
        """Make one model due, or all: something was done to the server that its index may not show."""
        for name, known in list(self._known.items()):
            if model in (None, name):
                known.due = 0.0

    def _due(self, now: float) -> list[str]:
        """Names of the ready models whose configuration is to be read now, the longest due first."""
        for name, mark in (self._ready() or {}).items():
            known = self._known.setdefault(name, _Known(mark, 0.0, now))
            known.seen = now
            if known.mark != mark:
                known.mark, known.due = mark, 0.0
        self._known = {
            name: known for name, known in self._known.items() if now - known.seen < FORGET_SECONDS
        }
        due = [name for name, known in self._known.items() if known.seen == now and known.due <= now]
        return sorted(due, key=lambda name: self._known[name].due)[:MODELS_PER_ROUND]

    def _round(self, due: list[str]) -> Reading:
        for name in due:
            self._read_one(name, time.monotonic())
        payload = {name: known.config for name, known in self._known.items() if known.config is not None}
        if payload.keys() != self._payload.keys() or any(
            payload[name] is not self._payload[name] for name in payload
        ):
            self._payload = payload
        return Reading(self._payload, notices=self._notices())

    def _read_one(self, name: str, now: float) -> None:
        known = self._known[name]
        if not is_http_addressable(name):
            known.problem = (
                f"model {name}: this name cannot be used over Triton's HTTP API (special characters); "
                "its configuration is not read"
            )
            known.due = now + FORGET_SECONDS
            return
        try:
            config = read_config(self.server, self._transport, self._timeout_seconds, name)
        except SourceError as error:
            known.problem, known.due = f"model {name}: {error.sentence}", now + RETRY_SECONDS
            # Without a status there was no answer at all: asking for the next model would only wait again.
            if error.status is None:
                raise
            return
        known.problem, known.due = None, now + REREAD_SECONDS
        if known.config is None or known.config.raw != config.raw:
            known.config = config

    def _notices(self) -> tuple[Notice, ...]:
        newest = max((known.seen for known in self._known.values()), default=0.0)
        ready = (known for known in self._known.values() if known.seen == newest)
        return tuple(Notice(SOURCE_NAME, None, known.problem) for known in ready if known.problem)


def ready_models(
    index: Sequence[IndexEntry] | None, statistics: Sequence[ModelStatistics] | None
) -> dict[str, Hashable] | None:
    """Ready models by name from the last index and statistics, None if there is neither.

    Statistics count too: a model loaded with its files in the request is in no index.
    """
    if index is None and statistics is None:
        return None
    versions: dict[str, set[Hashable]] = {}
    for entry in index or ():
        if entry.state is ModelState.READY:
            versions.setdefault(entry.name, set()).add((entry.version, entry.reason))
    listed = set(versions)
    for row in statistics or ():
        if row.name not in listed:
            versions.setdefault(row.name, set()).add((row.version, ""))
    return {name: frozenset(marks) for name, marks in versions.items()}


def read_config(
    server: Server, transport: Transport, timeout_seconds: float, model: str, version: str = ""
) -> ModelConfig:
    """The effective configuration now, of the newest ready version for ""; raises SourceError."""
    path = f"/v2/models/{model}" + (f"/versions/{version}" if version else "") + "/config"
    url = base_url(server) + path
    answer = transport.get(url, timeout_seconds=timeout_seconds)
    return parse_config(decode_json(answer.text, host_of(url)), who=host_of(url))


def parse_config(data: object, *, who: str = "the file") -> ModelConfig:
    """The configuration in the JSON of `GET .../config`; raises WrongContent if it has no model name.

    A key that is missing is what Triton means by it: no `dynamic_batching` = it forms no batches.
    """
    row = mapping(data)
    if not words(row.get("name")):
        raise wrong_shape(who, "a model configuration", data)
    batching = mapping(row.get("dynamic_batching"))
    policy = mapping(batching.get("default_queue_policy"))
    return ModelConfig(
        name=words(row["name"]),
        backend=words(row.get("backend")),
        platform=words(row.get("platform")),
        max_batch_size=whole(row.get("max_batch_size")) or 0,
        dynamic_batching=isinstance(row.get("dynamic_batching"), dict),
        preferred_batch_sizes=_wholes(batching.get("preferred_batch_size")),
        max_queue_delay_us=whole(batching.get("max_queue_delay_microseconds")),
        max_queue_size=whole(policy.get("max_queue_size")),
        queue_timeout_us=whole(policy.get("default_timeout_microseconds")),
        instance_groups=tuple(_group(mapping(group)) for group in listing(row.get("instance_group"))),
        ensemble_steps=_steps(mapping(row.get("ensemble_scheduling"))),
        sequence_batching=isinstance(row.get("sequence_batching"), dict),
        decoupled=mapping(row.get("model_transaction_policy")).get("decoupled") is True,
        response_cache=mapping(row.get("response_cache")).get("enable") is True,
        inputs=tuple(_tensor(mapping(tensor)) for tensor in listing(row.get("input"))),
        outputs=tuple(_tensor(mapping(tensor)) for tensor in listing(row.get("output"))),
        raw=row,
        queue_policy=_queue_policy(batching, policy),
    )


def _wholes(value: object) -> tuple[int, ...]:
    return tuple(number for item in listing(value) if (number := whole(item)) is not None)


def _group(row: Mapping[str, Any]) -> InstanceGroup:
    # Triton itself reads a count that is missing or 0 as 1.
    count = whole(row.get("count")) or 1
    return InstanceGroup(words(row.get("name")), words(row.get("kind")), count, _wholes(row.get("gpus")))


def _queue_policy(batching: Mapping[str, Any], policy: Mapping[str, Any]) -> bool:
    """As scheduler_utils.cc decides whether requests may be fetched ahead of an idle instance."""
    limits = (policy.get("max_queue_size"), policy.get("default_timeout_microseconds"))
    counts = (*limits, batching.get("priority_levels"))
    return policy.get("allow_timeout_override") is True or any(whole(count) for count in counts)


def _steps(row: Mapping[str, Any]) -> tuple[EnsembleStep, ...]:
    steps = map(mapping, listing(row.get("step")))
    return tuple(
        EnsembleStep(
            words(step.get("model_name")),
            -1 if (version := whole(step.get("model_version"))) is None else version,
        )
        for step in steps
        if words(step.get("model_name"))
    )


def _tensor(row: Mapping[str, Any]) -> TensorSpec:
    return TensorSpec(
        words(row.get("name")),
        wire_datatype(words(row.get("data_type"))),
        _wholes(row.get("dims")),
        row.get("optional") is True,
        row.get("allow_ragged_batch") is True,
    )


def wire_datatype(config_name: str) -> str:
    """The datatype as requests name it (FP32, BYTES) from the configuration's (TYPE_FP32, TYPE_STRING)."""
    name = config_name.removeprefix("TYPE_")
    return "BYTES" if name == "STRING" else name
