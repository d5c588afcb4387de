"""Rules as files: `rules/<RuleName>.md` loaded, checked and typed. `docs/rules.md` says how to write one.

The front matter says when the rule holds and what it says; the headings say what it means to a person.
Every mistake in a file is a SettingsError with the file and the line.
"""

from __future__ import annotations

import functools
from pathlib import Path

from telemetry.errors import SettingsError
from triage.front_matter import FrontMatterError, read_front_matter
from triage.rule import EVERY_RULE, HEADINGS, SEVERITY_ORDER, Rule, Rulebook, Saying, Stage
from triage.rule_reader import RuleReader

__all__ = [
    "HEADINGS",
    "RULES",
    "SEVERITY_ORDER",
    "Rule",
    "Rulebook",
    "Saying",
    "Stage",
    "load_rulebook",
    "parse_rule",
]

RULES = Path(__file__).parent / "rules"


def load_rulebook(folder: Path = RULES) -> Rulebook:
    """Every `*.md` of the folder. SettingsError with file and line for the first mistake.

    The project's own rules are read once in a process: they cannot change under it.
    """
    return _own_rules() if folder == RULES else _read(folder)


@functools.cache
def _own_rules() -> Rulebook:
    return _read(RULES)


def _read(folder: Path) -> Rulebook:
    paths = sorted(folder.glob("*.md"))
    if not paths:
        raise SettingsError(f"there are no rules in {folder.name}/: expected files like ServerDown.md")
    rules = tuple(parse_rule(path.read_text(encoding="utf-8"), path.name) for path in paths)
    names = {rule.name for rule in rules} | {EVERY_RULE}
    for rule in rules:
        explained = {*rule.explains, *(name for saying in rule.sayings for name in saying.explains)}
        if unknown := sorted(explained - names):
            raise SettingsError(f"{rule.path}: `explains` names no rule: {', '.join(unknown)}")
    return Rulebook(rules)


def parse_rule(text: str, file: str) -> Rule:
    """One rule from the text of its file. SettingsError with file and line for a mistake in it."""
    try:
        top, body_line, body = read_front_matter(text)
        return RuleReader(file).rule(top, body, body_line)
    except FrontMatterError as error:
        raise SettingsError(f"{file}:{error.line}: {error}") from error
