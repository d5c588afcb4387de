"""Settings a rule may propose to change, and the lines of config.pbtxt that do it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from telemetry.facts import ModelConfig
from telemetry.units import Unit, human
from triage.conditions import Term
from triage.finding import Change


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its unit, the value in a config (None: not set), and its lines of config.pbtxt."""

    name: str
    unit: Unit
    read: Callable[[ModelConfig], float | None]
    snippet: Callable[[ModelConfig, int], str]


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
    shown = "not set" if old is None else human(old, setting.unit)
    return Change(setting.name, shown, human(float(whole), setting.unit), setting.snippet(config, whole))


def _rounded(value: float, unit: Unit) -> int:
    """Counts upwards; times to two digits, which is as exact as such advice is."""
    if unit is not Unit.US:
        return max(1, math.ceil(value - 1e-9))
    if value < 1:
        return 0
    digits: int = 10 ** max(0, math.floor(math.log10(value)) - 1)
    return round(value / digits) * digits


def _instances(config: ModelConfig, value: int) -> str:
    kinds = {group.kind for group in config.instance_groups} or {"KIND_AUTO"}
    return f"instance_group [\n  {{ count: {value} kind: {min(kinds)} }}\n]"


def _batching(*lines: str) -> str:
    return "dynamic_batching {\n" + "\n".join(f"  {line}" for line in lines) + "\n}"


def _delay(config: ModelConfig, value: int) -> str:
    lines = []
    if config.preferred_batch_sizes:
        lines.append(f"preferred_batch_size: [ {', '.join(map(str, config.preferred_batch_sizes))} ]")
    return _batching(*lines, f"max_queue_delay_microseconds: {value}")


def _policy(field: str) -> Callable[[ModelConfig, int], str]:
    return lambda config, value: _batching(f"default_queue_policy {{ {field}: {value} }}")


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("instance_group.count", Unit.COUNT, lambda config: config.instance_count, _instances),
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
