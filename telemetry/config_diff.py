"""How two configurations differ, field by field, and the lines of config.pbtxt that would make it last."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from telemetry.pbtxt import block_text

ABSENT = "not set"
"""How a field that a configuration does not have is named."""
_MISSING = object()
_SHOWN = {
    "dynamic_batching": "dynamic batching",
    "dynamic_batching.max_queue_delay_microseconds": "max_queue_delay_microseconds",
    "dynamic_batching.preferred_batch_size": "preferred_batch_size",
    "dynamic_batching.preserve_ordering": "preserve_ordering",
    "response_cache.enable": "response cache",
}
_PUBLIC = ("max_batch_size", "dynamic_batching", "instance_group", "response_cache", "version_policy")
"""Fields whose values may stand in a journal and on a page that everybody sees."""
_COUNT = re.compile(r"instance_group\[(\d+)]\.count")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that differs: JSON values, None where the configuration does not have it."""

    path: str
    before: object
    after: object

    @property
    def public(self) -> bool:
        """True if its values can hold no secret."""
        return self.path.partition(".")[0].partition("[")[0] in _PUBLIC

    @property
    def name(self) -> str:
        """The field as a person names it."""
        if (group := _COUNT.fullmatch(self.path)) is not None:
            place = int(group[1])
            return "instances" if not place else f"instances of group {place + 1}"
        return _SHOWN.get(self.path, self.path.removeprefix("dynamic_batching."))

    def words(self, before: str = "was") -> str:
        """`max_batch_size 8 (was 4)`, `before` in place of "was"; values of other fields stay unsaid."""
        if not self.public:
            return f"another {self.name}"
        return f"{self.name} {shown(self.after)} ({before} {shown(self.before)})"


def shown(value: object) -> str:
    """A value as a person reads it."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return "none" if not value else ", ".join(shown(one) for one in value)
    if isinstance(value, dict):
        return "on" if not value else ", ".join(f"{key} {shown(one)}" for key, one in value.items())
    return str(value)


def in_words(changes: Iterable[FieldChange], before: str = "was") -> str:
    """All changes in one run of words; of two that say the same, one."""
    return ", ".join(dict.fromkeys(change.words(before) for change in changes))


def changes_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[FieldChange, ...]:
    """The fields that differ, by name; a block that only one of the two has is one change.

    Values that mean the same are the same: another order of keys, an empty list and a missing one.
    """
    return tuple(_changes(before, after, ""))


def _changes(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterable[FieldChange]:
    for key in sorted({*before, *after}):
        here = f"{path}.{key}" if path else key
        old, new = before.get(key, _MISSING), after.get(key, _MISSING)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _changes(old, new, here)
        elif key == "instance_group" and not path:
            yield from _group_changes(old, new)
        elif not _same(old, new):
            yield FieldChange(here, _value(old), _value(new))


def _group_changes(before: object, after: object) -> Iterable[FieldChange]:
    old, new = (list(one) if isinstance(one, Sequence) else [] for one in (before, after))
    if len(old) != len(new):
        yield FieldChange("instance_group", [_group(one) for one in old], [_group(one) for one in new])
        return
    for place, (one, two) in enumerate(zip(old, new, strict=True)):
        yield from _changes(one, two, f"instance_group[{place}]")


def _group(group: Mapping[str, Any]) -> dict[str, Any]:
    """What counts of a group beside its name."""
    return {key: group[key] for key in ("count", "kind", "gpus") if group.get(key)}


def _same(before: object, after: object) -> bool:
    nothing = (_MISSING, None)
    if (before in nothing and after == []) or (after in nothing and before == []):
        return True
    return type(before) is type(after) and before == after


def _value(value: object) -> Any:
    if value is _MISSING:
        return None
    return dict(value) if isinstance(value, Mapping) else value


def durable_lines(
    before: Mapping[str, Any], wanted: Mapping[str, Any], drifted: Iterable[FieldChange] = ()
) -> str:
    """What to write into config.pbtxt so that the change outlives a restart; "" without a difference.

    A block is written whole, without what is Triton's default; a block to be removed is a comment.
    `drifted` are the fields in which `before` already differs from the file: their lines are needed as well.
    """
    made = changes_between(before, wanted)
    changes = (*made, *drifted) if made else ()
    fields = dict.fromkeys(change.path.partition(".")[0].partition("[")[0] for change in changes)
    return "\n".join(_durable(name, wanted) for name in fields if name in _PUBLIC)


def _durable(name: str, wanted: Mapping[str, Any]) -> str:
    if name not in wanted:
        return f"# remove the block {name}"
    value = wanted[name]
    if name == "instance_group":
        groups = [{key: group[key] for key in ("count", "kind", "gpus") if group.get(key)} for group in value]
        return block_text(name, groups)
    return block_text(name, _without_defaults(value))


def _without_defaults(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    cleaned = {key: _without_defaults(one) for key, one in value.items()}
    # The blocks of a version policy count even when they are empty: `all { }`.
    return {
        key: one
        for key, one in cleaned.items()
        if key == "all" or one not in (0, "", [], {}, "REJECT") or key in ("enable", "num_versions")
    }


def journal_parameters(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What the journal tells of an override: fields with their values before and after, never a secret."""
    changes = changes_between(before, wanted)
    told = {one.path: {"before": one.before, "after": one.after} for one in changes if one.public}
    other = sorted(one.path for one in changes if not one.public)
    return {"changes": told, **({"other_fields": other} if other else {})}
