"""What the settings say about rules, against the rules there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from telemetry.rule_choice import RuleChoice
from telemetry.scrape import Notice


def unknown_choices(choices: Mapping[str, RuleChoice], rules: Iterable[str]) -> tuple[Notice, ...]:
    """One notice for every entry of `rules:` that names no rule, with its line and the likely name."""
    known = list(rules)
    return tuple(_notice(choice, known) for name, choice in choices.items() if name not in known)


def _notice(choice: RuleChoice, known: list[str]) -> Notice:
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(choice.rule.lower(), list(by_lower), 1)
    guess = f" (did you mean {by_lower[near[0]]}?)" if near else ""
    return Notice(
        choice.source or "rules", choice.line, f"rules: there is no rule {choice.rule}{guess}: not used"
    )
