"""A config.pbtxt beside what runs: only fields that an override can change, with Triton's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from telemetry.config_diff import FieldChange

_DEFAULT_QUEUE = {
    "timeout_action": "REJECT",
    "default_timeout_microseconds": 0,
    "allow_timeout_override": False,
    "max_queue_size": 0,
}
_ABSENT: dict[str, Any] = {}


def changes_from_file(file: Mapping[str, Any], running: Mapping[str, Any]) -> tuple[FieldChange, ...]:
    """Where the running configuration differs: `before` is the file's value, `after` what runs.

    A field the file leaves to the server (the batch size of a model that describes itself, the kind of its
    instances) is not compared.
    """
    batching = _block(running.get("dynamic_batching"))
    wanted = _block(file.get("dynamic_batching")) if "dynamic_batching" in file else None
    found: list[FieldChange] = []
    if "max_batch_size" in file:
        found += _change("max_batch_size", file["max_batch_size"], running.get("max_batch_size", 0))
    if wanted is None or "dynamic_batching" not in running:
        on = ("on" if wanted is not None else None, "on" if "dynamic_batching" in running else None)
        found += _change("dynamic_batching", *on)
    else:
        found += _batching_changes(wanted, batching, running.get("max_batch_size", 0))
    found += _group_changes(_list(file.get("instance_group")), _list(running.get("instance_group")))
    cache = (_block(one.get("response_cache")).get("enable", False) for one in (file, running))
    found += _change("response_cache.enable", *cache)
    policy = (_policy(_block(one.get("version_policy"))) for one in (file, running))
    found += _change("version_policy", *policy)
    return tuple(found)


def _batching_changes(
    file: Mapping[str, Any], running: Mapping[str, Any], max_batch: int
) -> list[FieldChange]:
    path = "dynamic_batching."
    sizes = _list(file.get("preferred_batch_size"))
    # Triton fills in the largest batch where no size is preferred.
    same = _list(running.get("preferred_batch_size")) in (sizes, sizes or [max_batch])
    found = (
        [] if same else _change(f"{path}preferred_batch_size", sizes, _list(running["preferred_batch_size"]))
    )
    for name, unset in (("max_queue_delay_microseconds", 0), ("preserve_ordering", False)):
        found += _change(path + name, file.get(name, unset), running.get(name, unset))
    queues = [_block(one.get("default_queue_policy")) for one in (file, running)]
    for name, default in _DEFAULT_QUEUE.items():
        values = (queue.get(name, default) for queue in queues)
        found += _change(f"{path}default_queue_policy.{name}", *values)
    return found


def _group_changes(file: list[Any], running: list[Any]) -> list[FieldChange]:
    if not file:
        # Left to the server: one instance, or one on every GPU.
        more = [group for group in running if _block(group).get("count", 1) != 1]
        return [FieldChange("instance_group", [], [_counted(group) for group in running])] if more else []
    if len(file) != len(running):
        counted = ([_counted(group) for group in file], [_counted(group) for group in running])
        return [FieldChange("instance_group", *counted)]
    found = []
    for place, (mine, theirs) in enumerate(zip(file, running, strict=True)):
        path = f"instance_group[{place}]"
        # A count of 0 is read as 1.
        found += _change(f"{path}.count", mine.get("count") or 1, theirs.get("count") or 1)
        kind = mine.get("kind", "KIND_AUTO")
        if kind != "KIND_AUTO":
            found += _change(f"{path}.kind", kind, theirs.get("kind"))
        if gpus := _list(mine.get("gpus")):
            found += _change(f"{path}.gpus", gpus, _list(theirs.get("gpus")))
    return found


def _change(path: str, before: object, after: object) -> list[FieldChange]:
    return [] if before == after else [FieldChange(path, before, after)]


def _counted(group: Any) -> dict[str, Any]:
    return {key: group[key] for key in ("count", "kind", "gpus") if _block(group).get(key)}


def _policy(policy: Mapping[str, Any]) -> dict[str, Any]:
    if "all" in policy:
        return {"all": {}}
    if "specific" in policy:
        return {
            "specific": {"versions": [int(one) for one in _list(_block(policy["specific"]).get("versions"))]}
        }
    return {"latest": {"num_versions": _block(policy.get("latest")).get("num_versions", 1)}}


def _block(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else _ABSENT


def _list(value: object) -> list[Any]:
    """A repeated field: the text format also allows it once without brackets."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]
