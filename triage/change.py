"""Settings a rule may propose to change, and the lines of config.pbtxt that do it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from collectors.reading import listing, mapping
from telemetry.facts import ModelConfig
from telemetry.pbtxt import block_text
from telemetry.units import Unit, human
from triage.conditions import Term
from triage.finding import Change


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its unit, the value in a config (None: not set), and its lines of config.pbtxt.

    `shown` gives old and new value as printed, where they are not those of `read` and of the proposal.
    """

    name: str
    unit: Unit
    read: Callable[[ModelConfig], float | None]
    snippet: Callable[[ModelConfig, int], str]
    shown: Callable[[ModelConfig, int], tuple[str, str]] | None = None


@dataclass(frozen=True, slots=True)
class ChangeForm:
    """A proposal of a rule: the largest or smallest ("max", "min") of the terms that are reported."""

    setting: Setting
    choice: str
    terms: tuple[Term, ...]


def proposed(form: ChangeForm, value: float, config: ModelConfig) -> Change | None:
    """The proposal with `value` in the setting's unit; None if it is what the config says already."""
    setting = form.setting
    whole = _rounded(value, setting.unit)
    old = setting.read(config)
    if old is not None and round(old) == whole:
        return None
    if setting.shown is not None:
        before, after = setting.shown(config, whole)
    else:
        before = "not set" if old is None else human(old, setting.unit)
        after = human(float(whole), setting.unit)
    return None if before == after else Change(setting.name, before, after, setting.snippet(config, whole))


def _rounded(value: float, unit: Unit) -> int:
    """Counts upwards; times to two digits, which is as exact as such advice is."""
    if unit is not Unit.US:
        return max(1, math.ceil(value - 1e-9))
    if value < 1:
        return 0
    digits: int = 10 ** max(0, math.floor(math.log10(value)) - 1)
    return round(value / digits) * digits


def _counts(config: ModelConfig, total: int) -> list[int]:
    """The count of each group that makes about `total` instances; a count is per GPU of its group."""
    factor = total / (config.instance_count or total)
    return [max(1, math.ceil(group.count * factor - 1e-9)) for group in config.instance_groups]


def _shown_instances(config: ModelConfig, total: int) -> tuple[str, str]:
    """The count as it stands in the config; of several groups all together."""
    before = [group.count for group in config.instance_groups]
    return str(sum(before)), str(sum(_counts(config, total)))


def _instances(config: ModelConfig, total: int) -> str:
    rows = []
    for number, (group, count) in enumerate(zip(config.instance_groups, _counts(config, total), strict=True)):
        row: dict[str, Any] = {"count": count, "kind": group.kind or "KIND_AUTO"}
        given = listing(config.raw.get("instance_group"))
        others = _without_defaults(mapping(given[number]) if number < len(given) else {})
        # Triton's own names of groups are the model's with a number.
        own = others.get("name") in (config.name, f"{config.name}_{number}")
        rows.append(
            row | {key: one for key, one in others.items() if key not in row and not (own and key == "name")}
        )
    return block_text("instance_group", rows)


def _batching(config: ModelConfig, *path: str, value: int) -> str:
    """The whole section with one field changed: a second section of the same name would be an error."""
    section = _without_defaults(mapping(config.raw.get("dynamic_batching")))
    inner = section
    for name in path[:-1]:
        inner[name] = dict(mapping(inner.get(name)))
        inner = inner[name]
    inner[path[-1]] = value
    return block_text("dynamic_batching", section)


def _without_defaults(section: Mapping[str, Any]) -> dict[str, Any]:
    """Triton prints every field: without those that are what they would be without being set."""
    kept: dict[str, Any] = {}
    for key, value in section.items():
        inner = _without_defaults(value) if isinstance(value, Mapping) else value
        if inner and inner != _DEFAULTS.get(key):
            kept[key] = inner
    return kept


_DEFAULTS = {"timeout_action": "REJECT"}


def _delay(config: ModelConfig, value: int) -> str:
    return _batching(config, "max_queue_delay_microseconds", value=value)


def _policy(field: str) -> Callable[[ModelConfig, int], str]:
    return lambda config, value: _batching(config, "default_queue_policy", field, value=value)


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(
            "instance_group.count",
            Unit.COUNT,
            lambda config: config.instance_count,
            _instances,
            _shown_instances,
        ),
        Setting("max_queue_delay_microseconds", Unit.US, lambda config: config.max_queue_delay_us, _delay),
        Setting(
            "max_queue_size",
            Unit.COUNT,
            lambda config: config.max_queue_size or None,
            _policy("max_queue_size"),
        ),
        Setting(
            "default_timeout_microseconds",
            Unit.US,
            lambda config: config.queue_timeout_us or None,
            _policy("default_timeout_microseconds"),
        ),
        Setting(
            "max_batch_size",
            Unit.COUNT,
            lambda config: config.max_batch_size,
            lambda config, value: f"max_batch_size: {value}",
        ),
    )
}
"""Settings by the name they have in config.pbtxt."""
