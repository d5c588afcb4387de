"""A load with another configuration: the whole effective one with changes to a few fields only.

Triton replaces a configuration by an override, it never merges them: what is sent is always complete. What
may differ from the running configuration is a list of fields about scheduling. Everything else can mean other
code (`backend`, `parameters`, `default_model_filename`, keys like `file:1/model.py`) and is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from control.override_rules import FIELDS, check_fields, foreign_difference
from telemetry.errors import InvalidRequest
from telemetry.facts import ModelConfig

Config = Mapping[str, Any]
BATCHING = "dynamic_batching"
_NEW_GROUP = {"kind": "KIND_AUTO", "count": 1, "gpus": []}


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """The default queue policy of dynamic batching; the time-out in us, a queue size of 0 is unlimited."""

    timeout_action: str = "REJECT"
    default_timeout_us: int = 0
    allow_timeout_override: bool = False
    max_queue_size: int = 0


@dataclass(frozen=True, slots=True)
class GroupWish:
    """Instances of one group: `count` per GPU for KIND_GPU, in all otherwise."""

    count: int = 1
    kind: str = "KIND_AUTO"
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """Which versions are served: the newest `latest`, those in `specific`, or all if neither is given."""

    latest: int | None = None
    specific: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Override:
    """Wanted changes; None leaves a field as it runs. Times in us.

    `dynamic_batching` False removes dynamic batching; a value for one of its fields switches it on.
    `instances` is the count of every instance group there is; `instance_groups` replaces the groups.
    """

    max_batch_size: int | None = None
    dynamic_batching: bool | None = None
    max_queue_delay_us: int | None = None
    preferred_batch_sizes: tuple[int, ...] | None = None
    preserve_ordering: bool | None = None
    queue_policy: QueuePolicy | None = None
    instances: int | None = None
    instance_groups: tuple[GroupWish, ...] | None = None
    response_cache: bool | None = None
    version_policy: VersionPolicy | None = None


def override_config(effective: ModelConfig | Config, changes: Override) -> dict[str, Any]:
    """The complete configuration to send: `effective` (as `GET .../config` gives it) with these changes.

    Unless `changes` names its own, preferred batch sizes above a smaller `max_batch_size` are left out, since
    Triton would refuse them, and the one Triton filled in itself (the largest batch) follows it. Raises
    InvalidRequest for what `check_override` refuses.
    """
    before = raw_config(effective)
    wanted = deepcopy(dict(before))
    if changes.max_batch_size is not None:
        wanted["max_batch_size"] = changes.max_batch_size
    _change_batching(wanted, changes, before.get("max_batch_size"))
    _change_groups(wanted, changes)
    if changes.response_cache is not None:
        _switch_cache(wanted, changes.response_cache)
    if changes.version_policy is not None:
        wanted["version_policy"] = _policy(changes.version_policy)
    check_override(before, wanted)
    return wanted


def check_override(effective: ModelConfig | Config, wanted: Config, *, code_allowed: bool = False) -> None:
    """Raise InvalidRequest unless `wanted` is `effective` with valid changes to the fields that may change.

    `code_allowed` is for the sandbox alone: then any field but the name may differ.
    """
    before = raw_config(effective)
    after = _plain(wanted)
    if after.get("name") != before.get("name"):
        raise InvalidRequest(
            f"The override is called {after.get('name')!r} and the model {before.get('name')!r}: Triton "
            "refuses it. Nothing was sent."
        )
    if not code_allowed:
        _check_rest(_plain(before), after)
    check_fields(_plain(before), after)


def raw_config(config: ModelConfig | Config) -> Config:
    """The whole configuration as the server gave it."""
    raw = config.raw if isinstance(config, ModelConfig) else config
    if not raw:
        raise InvalidRequest("The running configuration is not known: it cannot be overridden.")
    return raw


def _plain(config: Config) -> dict[str, Any]:
    """The configuration as JSON will carry it; raises InvalidRequest for what is no JSON."""
    try:
        plain = json.loads(json.dumps(config, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"The override cannot be written as JSON: {error}. Nothing was sent.") from error
    if not isinstance(plain, dict):
        raise InvalidRequest("An override is a whole configuration, a JSON object. Nothing was sent.")
    return plain


def _check_rest(before: dict[str, Any], after: dict[str, Any]) -> None:
    """What is left without the fields that may change must be the same to the last digit."""
    path = foreign_difference(before, after)
    if path is not None:
        raise InvalidRequest(
            f"An override may not change {path}: outside the sandbox only {', '.join(FIELDS)} can differ "
            "from the running configuration, since other fields can mean other code. Change the model's "
            "files instead. Nothing was sent."
        )


def _change_batching(wanted: dict[str, Any], changes: Override, running_max: object) -> None:
    fields = {
        "max_queue_delay_microseconds": changes.max_queue_delay_us,
        "preserve_ordering": changes.preserve_ordering,
        "preferred_batch_size": (
            None if changes.preferred_batch_sizes is None else list(changes.preferred_batch_sizes)
        ),
        "default_queue_policy": None if changes.queue_policy is None else _queue(changes.queue_policy),
    }
    given = {name: value for name, value in fields.items() if value is not None}
    if changes.dynamic_batching is False:
        if given:
            raise InvalidRequest(
                f"Dynamic batching is to be off and {', '.join(given)} is given: leave one of them out."
            )
        wanted.pop(BATCHING, None)
        return
    if given or changes.dynamic_batching:
        batching = wanted.setdefault(BATCHING, {})
        batching.update(given)
    batching = wanted.get(BATCHING)
    if isinstance(batching, dict) and changes.preferred_batch_sizes is None:
        _fit_preferred(batching, running_max, changes.max_batch_size)


def _fit_preferred(batching: dict[str, Any], running_max: object, max_batch_size: int | None) -> None:
    sizes = batching.get("preferred_batch_size")
    if max_batch_size is None or not sizes:
        return
    if sizes == [running_max]:
        batching["preferred_batch_size"] = []
    else:
        batching["preferred_batch_size"] = [size for size in sizes if size <= max_batch_size]


def _change_groups(wanted: dict[str, Any], changes: Override) -> None:
    groups = wanted.get("instance_group") or []
    if changes.instance_groups is not None:
        if changes.instances is not None:
            raise InvalidRequest("Give the count of instances or the instance groups, not both.")
        groups = [
            {**(groups[place] if place < len(groups) else _NEW_GROUP), **_group(wish)}
            for place, wish in enumerate(changes.instance_groups)
        ]
    elif changes.instances is not None:
        groups = [{**group, "count": changes.instances} for group in groups] or [
            {**_NEW_GROUP, "count": changes.instances}
        ]
    else:
        return
    wanted["instance_group"] = groups


def _switch_cache(wanted: dict[str, Any], on: bool) -> None:
    if on or "response_cache" in wanted:
        wanted["response_cache"] = {"enable": on}


def _group(wish: GroupWish) -> dict[str, Any]:
    return {"count": wish.count, "kind": wish.kind, "gpus": list(wish.gpus)}


def _queue(policy: QueuePolicy) -> dict[str, Any]:
    return {
        "timeout_action": policy.timeout_action,
        "default_timeout_microseconds": policy.default_timeout_us,
        "allow_timeout_override": policy.allow_timeout_override,
        "max_queue_size": policy.max_queue_size,
    }


def _policy(policy: VersionPolicy) -> dict[str, Any]:
    if policy.specific:
        return {"specific": {"versions": list(policy.specific)}}
    return {"all": {}} if policy.latest is None else {"latest": {"num_versions": policy.latest}}
