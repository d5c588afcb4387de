"""The fields of a configuration that an override may change, and what is valid in them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from telemetry.errors import InvalidRequest

FIELDS = (
    "max_batch_size", "dynamic_batching (delay, preferred sizes, ordering, queue policy)",
    "instance_group (count, kind, gpus)", "response_cache.enable", "version_policy",
)  # fmt: skip
"""The fields as a person reads them."""

KINDS = ("KIND_AUTO", "KIND_CPU", "KIND_GPU", "KIND_MODEL")
TIMEOUT_ACTIONS = ("REJECT", "DELAY")
MAX_INSTANCES = 256
"""Per group (and GPU): a Python instance is a process of its own."""
MAX_BATCH = 65_536
MAX_DELAY_US = 60_000_000
MAX_TIMEOUT_US = 3_600_000_000
MAX_QUEUE = 2**32 - 1

_BATCHING_KEYS = frozenset(
    ("preferred_batch_size", "max_queue_delay_microseconds", "preserve_ordering", "default_queue_policy")
)
_QUEUE_KEYS = frozenset(
    ("timeout_action", "default_timeout_microseconds", "allow_timeout_override", "max_queue_size")
)
_GROUP_KEYS = frozenset(("count", "kind", "gpus"))
_POLICIES = {"latest": "num_versions", "all": None, "specific": "versions"}


def foreign_difference(running: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    """Where `wanted` differs from `running` outside the fields that may change; None if nowhere."""
    for name in sorted({*running, *wanted} - {"max_batch_size", "response_cache", "version_policy"}):
        if name == "dynamic_batching":
            found = _foreign_batching(running.get(name), wanted.get(name))
        elif name == "instance_group":
            found = _foreign_groups(running.get(name), wanted.get(name))
        elif name in running and name in wanted:
            found = first_difference(running[name], wanted[name], name)
        else:
            found = name
        if found is not None:
            return found
    return None


def first_difference(before: object, after: object, path: str) -> str | None:
    """The first place where two JSON values differ, by its path; types count: 1 is not true and not 1.0."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            here = f"{path}.{key}"
            if key not in before or key not in after:
                return here
            found = first_difference(before[key], after[key], here)
            if found is not None:
                return found
        return None
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        rows = enumerate(zip(before, after, strict=True))
        found_in = (first_difference(one, two, f"{path}[{place}]") for place, (one, two) in rows)
        return next((found for found in found_in if found is not None), None)
    return None if type(before) is type(after) and before == after else path


def _foreign_batching(running: object, wanted: object) -> str | None:
    """Dynamic batching may be switched off whole; on, it may hold nothing but what may change."""
    name = "dynamic_batching"
    if wanted is None:
        return None
    if running is None:
        return _foreign_keys(wanted, _BATCHING_KEYS, name)
    return first_difference(_without(running, _BATCHING_KEYS), _without(wanted, _BATCHING_KEYS), name)


def _foreign_groups(running: object, wanted: object) -> str | None:
    """Groups may be left out at the end and added there; a new one holds nothing but what may change."""
    name = "instance_group"
    if wanted is None:
        return None
    if not isinstance(wanted, list) or not isinstance(running, list | None):
        return name
    known = running or []
    for place, group in enumerate(wanted):
        here = f"{name}[{place}]"
        if place >= len(known):
            found = _foreign_keys(group, _GROUP_KEYS, here)
        else:
            rest = _without(known[place], _GROUP_KEYS)
            found = first_difference(rest, _without(group, _GROUP_KEYS), here)
        if found is not None:
            return found
    return None


def _foreign_keys(block: object, keys: Collection[str], path: str) -> str | None:
    if not isinstance(block, dict):
        return path
    strange = sorted(set(block) - set(keys))
    return f"{path}.{strange[0]}" if strange else None


def _without(block: object, keys: Collection[str]) -> object:
    if not isinstance(block, dict):
        return block
    return {key: value for key, value in block.items() if key not in keys}


def check_fields(effective: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise InvalidRequest for the first value that Triton would refuse or that makes no sense."""
    ensemble = bool(wanted.get("ensemble_scheduling")) or wanted.get("platform") == "ensemble"
    max_batch = _check_max_batch(effective, wanted)
    if ensemble:
        _check_ensemble(effective, wanted)
    else:
        _check_batching(wanted, max_batch)
        _check_groups(wanted.get("instance_group"))
    _check_cache(wanted)
    _check_version_policy(wanted.get("version_policy"))


def _check_max_batch(effective: dict[str, Any], wanted: dict[str, Any]) -> int:
    size = whole(wanted.get("max_batch_size", 0), "max_batch_size", 0, MAX_BATCH)
    running = effective.get("max_batch_size", 0)
    if (size == 0) != (running == 0):
        raise InvalidRequest(
            f"max_batch_size cannot go from {running} to {size}: with 0 requests have no batch dimension, so "
            "that every client's requests would have to change. Change config.pbtxt instead."
        )
    return size


def _check_ensemble(effective: dict[str, Any], wanted: dict[str, Any]) -> None:
    for name in ("dynamic_batching", "instance_group"):
        if wanted.get(name) not in (None, [], effective.get(name)):
            raise InvalidRequest(
                f"{name} does not apply to an ensemble: it executes nothing itself. Change its steps instead."
            )


def _check_batching(wanted: dict[str, Any], max_batch: int) -> None:
    if "dynamic_batching" not in wanted:
        return
    batching = block(wanted["dynamic_batching"], "dynamic_batching")
    if wanted.get("sequence_batching") is not None:
        raise InvalidRequest(
            "dynamic_batching does not apply to a model that keeps sequences: Triton takes one batcher only."
        )
    # Without a batch dimension Triton accepts the block, fills in 0 as a preferred size and ignores it.
    least = 1 if max_batch else 0
    sizes = wholes(batching.get("preferred_batch_size", []), "preferred_batch_size", least, MAX_BATCH)
    if max_batch == 0 and any(size for size in sizes):
        raise InvalidRequest("max_batch_size is 0: this model takes no batches, preferred sizes do nothing.")
    for size in sizes:
        if size > max_batch:
            raise InvalidRequest(
                f"A preferred batch size of {size} is above max_batch_size {max_batch}: Triton would refuse "
                "the model."
            )
    whole(batching.get("max_queue_delay_microseconds", 0), "max_queue_delay_microseconds", 0, MAX_DELAY_US)
    switch(batching.get("preserve_ordering", False), "preserve_ordering")
    if "default_queue_policy" in batching:
        _check_queue(block(batching["default_queue_policy"], "default_queue_policy"))


def _check_queue(policy: dict[str, Any]) -> None:
    _known_keys(policy, _QUEUE_KEYS, "default_queue_policy")
    one_of(policy.get("timeout_action", "REJECT"), TIMEOUT_ACTIONS, "timeout_action")
    timeout = policy.get("default_timeout_microseconds", 0)
    whole(timeout, "default_timeout_microseconds", 0, MAX_TIMEOUT_US)
    switch(policy.get("allow_timeout_override", False), "allow_timeout_override")
    whole(policy.get("max_queue_size", 0), "max_queue_size", 0, MAX_QUEUE)


def _check_groups(groups: object) -> None:
    if groups is None:
        return
    if not isinstance(groups, list):
        raise InvalidRequest("instance_group must be a list of groups.")
    for place, each in enumerate(groups):
        group = block(each, f"instance_group[{place}]")
        whole(group.get("count", 1), "instance_group count", 1, MAX_INSTANCES)
        kind = one_of(group.get("kind", "KIND_AUTO"), KINDS, "instance_group kind")
        gpus = wholes(group.get("gpus", []), "instance_group gpus", 0, 1023)
        if len(set(gpus)) != len(gpus):
            raise InvalidRequest(f"instance_group gpus names a GPU twice: {gpus}.")
        if gpus and kind in ("KIND_CPU", "KIND_MODEL"):
            raise InvalidRequest(f"A group of {kind} takes no list of GPUs: leave gpus empty.")


def _check_cache(wanted: dict[str, Any]) -> None:
    if "response_cache" not in wanted:
        return
    cache = block(wanted["response_cache"], "response_cache")
    _known_keys(cache, {"enable"}, "response_cache")
    on = switch(cache.get("enable", False), "response_cache.enable")
    if on and (wanted.get("model_transaction_policy") or {}).get("decoupled") is True:
        raise InvalidRequest("The response cache does not work with decoupled models: leave it off.")


def _check_version_policy(policy: object) -> None:
    if policy is None:
        return
    choice = block(policy, "version_policy")
    _known_keys(choice, set(_POLICIES), "version_policy")
    if len(choice) != 1:
        raise InvalidRequest("version_policy must be one of latest, all and specific.")
    ((name, content),) = choice.items()
    inner = block(content, f"version_policy.{name}")
    key = _POLICIES[name]
    _known_keys(inner, {key} if key else set(), f"version_policy.{name}")
    if name == "latest":
        whole(inner.get("num_versions", 1), "version_policy.latest.num_versions", 1, 2**31 - 1)
    if name == "specific":
        versions = inner.get("versions")
        # The server's JSON writes 64-bit integers as strings in some places.
        numbers = [int(one) if isinstance(one, str) and one.isdecimal() else one for one in versions or ()]
        if not wholes(numbers, "version_policy.specific.versions", 0, 2**63 - 1):
            raise InvalidRequest("version_policy.specific names no version: nothing would be loaded.")


def block(value: object, name: str) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise InvalidRequest(f"{name} must be a block of fields, it is {value!r}.")
    return value


def whole(value: object, name: str, least: int, most: int) -> int:
    """A whole number in this range; true is none."""
    if type(value) is not int:
        raise InvalidRequest(f"{name} must be a whole number, it is {value!r}.")
    if not least <= value <= most:
        raise InvalidRequest(f"{name} must be {least:,} to {most:,}, it is {value:,}.")
    return value


def wholes(values: object, name: str, least: int, most: int) -> list[int]:
    """A list of whole numbers in this range."""
    if not isinstance(values, list):
        raise InvalidRequest(f"{name} must be a list of whole numbers, it is {values!r}.")
    return [whole(value, name, least, most) for value in values]


def switch(value: object, name: str) -> bool:
    """true or false."""
    if type(value) is not bool:
        raise InvalidRequest(f"{name} must be true or false, it is {value!r}.")
    return value


def one_of(value: object, choices: Collection[str], name: str) -> str:
    """One of these words."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidRequest(f"{name} must be one of {', '.join(choices)}, it is {value!r}.")
    return value


def _known_keys(found: dict[str, Any], keys: Collection[str], name: str) -> None:
    strange = sorted(set(found) - set(keys))
    if strange:
        raise InvalidRequest(f"An override may not set {name}.{strange[0]}. Nothing was sent.")
