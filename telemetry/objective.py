"""Service level objectives as they are configured: what share of a model's requests may fail or be slow."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from telemetry.located_yaml import Located
from telemetry.rule_choice import RuleChoice
from telemetry.scrape import Notice
from telemetry.units import Unit, base_value

DEFAULT_DAYS = 30.0
OBJECTIVE_KEYS: dict[str, str] = {
    "model": "name of the models it is for, with `*` and `?` as in file names",
    "workload": "only for this workload (a name or a pattern)",
    "errors": "share of requests that must not fail, for example `99.9 %`; cancelled ones do not count",
    "latency": "share of requests that must be answered in a time, for example `95 % under 200 ms`",
    "days": f"length of the period the budget is for, days; default: {DEFAULT_DAYS:g}",
}
RULE_KEYS: dict[str, str] = {
    "enabled": "`true` or `false`: judge the rule or not",
    "except": "models it is not judged for, names or patterns with `*` and `?`",
}

_SHARE = re.compile(r"^(?P<share>\d+(?:\.\d+)?)\s*%$")
_LATENCY = re.compile(
    r"^(?P<share>\d+(?:\.\d+)?)\s*%\s+under\s+(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>us|µs|ms|s)$"
)


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective. `errors_budget_ratio` and `slow_budget_ratio` are the shares of requests that may fail
    or take longer than `latency_us`; None where that is no objective. `days` is the period of the budget.
    """

    model: str
    workload: str = ""
    errors_budget_ratio: float | None = None
    latency_us: float | None = None
    slow_budget_ratio: float | None = None
    days: float = DEFAULT_DAYS

    def is_for(self, model: str, workload: str) -> bool:
        """True if the objective is for this model of this workload."""
        wanted = not self.workload or fnmatch.fnmatchcase(workload, self.workload)
        return wanted and fnmatch.fnmatchcase(model, self.model)


def objective_for(objectives: tuple[Objective, ...], model: str, workload: str) -> Objective | None:
    """The first objective that is for the model, None if there is none."""
    return next((one for one in objectives if one.is_for(model, workload)), None)


def objectives_of(source: str, located: Located | None) -> tuple[tuple[Objective, ...], list[Notice]]:
    """The objectives under `slo:`; an item that cannot be used is left out with a notice."""
    found: list[Objective] = []
    notices: list[Notice] = []
    if located is None:
        return (), []
    if located.items is None:
        return (), [
            Notice(source, located.line, "slo must be a list: every objective begins with `- model:`")
        ]
    for item in located.items:
        try:
            found.append(_objective(item))
        except ValueError as error:
            notices.append(Notice(source, item.line, f"slo: {error}: this objective is not used"))
    return tuple(found), notices


def _objective(item: Located) -> Objective:
    values = item.entries or {}
    unknown = sorted(set(values) - set(OBJECTIVE_KEYS))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]}")
    model = _text(values.get("model"))
    errors, latency = _text(values.get("errors")), _text(values.get("latency"))
    if not model:
        raise ValueError("`model:` is missing")
    if not errors and not latency:
        raise ValueError("write `errors: 99.9 %` or `latency: 95 % under 200 ms`")
    slow = _LATENCY.match(latency)
    if latency and slow is None:
        raise ValueError(f"latency is {latency!r}: write it like `95 % under 200 ms`")
    share = _SHARE.match(errors)
    if errors and share is None:
        raise ValueError(f"errors is {errors!r}: write it like `99.9 %`")
    return Objective(
        model,
        _text(values.get("workload")),
        None if share is None else _budget(share["share"]),
        None if slow is None else base_value(float(slow["number"]), slow["unit"], Unit.US),
        None if slow is None else _budget(slow["share"]),
        _days(values.get("days")),
    )


def _text(node: Located | None) -> str:
    return "" if node is None or node.scalar is None else str(node.scalar).strip()


def _budget(text: str) -> float:
    share = float(text) / 100.0
    if not 0.0 < share < 1.0:
        raise ValueError(
            f"{text} % leaves no budget, or nothing but budget: write more than 0 and less than 100 %"
        )
    # 1 - 0.999 is 0.0010000000000000009: the budget is what was written.
    return round(1.0 - share, 12)


def _days(node: Located | None) -> float:
    text = _text(node)
    if not text:
        return DEFAULT_DAYS
    try:
        days = float(text)
    except ValueError:
        days = 0.0
    if not 1.0 <= days <= 366.0:
        raise ValueError(f"days is {text!r}: write a number from 1 to 366")
    return days


def rule_choices_of(source: str, located: Located | None) -> tuple[Mapping[str, RuleChoice], list[Notice]]:
    """What `rules:` says, by rule; an entry that cannot be used is left out with a notice."""
    if located is None:
        return {}, []
    if located.entries is None:
        return {}, [
            Notice(source, located.line, "rules must hold entries by rule, for example `QueueDominates:`")
        ]
    found: dict[str, RuleChoice] = {}
    notices: list[Notice] = []
    for name, entry in located.entries.items():
        try:
            found[name] = replace(
                _choice(name, entry), source=source, line=located.key_lines.get(name, entry.line)
            )
        except ValueError as error:
            notices.append(Notice(source, entry.line, f"rules: {name}: {error}: not used"))
    return found, notices


def _choice(name: str, entry: Located) -> RuleChoice:
    values = entry.entries
    if values is None:
        raise ValueError("write `enabled:` or `except:` under it")
    unknown = sorted(set(values) - set(RULE_KEYS))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]}")
    enabled = values["enabled"].scalar if "enabled" in values else None
    if enabled is not None and not isinstance(enabled, bool):
        raise ValueError("enabled must be true or false")
    models = values.get("except")
    if models is not None and models.items is None:
        raise ValueError("except must be a list of models")
    items = (models.items or []) if models is not None else []
    return RuleChoice(name, enabled, tuple(filter(None, map(_text, items))))
