"""Rules as files: `rules/<RuleName>.md` loaded, checked and typed. `docs/rules.md` says how to write one.

The front matter says when the rule holds and what it says; the headings say what it means to a person.
Every mistake in a file is a SettingsError with the file and the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from telemetry.errors import SettingsError
from telemetry.located_yaml import Located
from triage.conditions import Condition, Reference, parse_condition, parse_reference
from triage.durations import parse_duration
from triage.finding import Severity
from triage.front_matter import FrontMatterError, read_front_matter
from triage.template import Template, parse_template
from triage.vocabulary import Level

RULES = Path(__file__).parent / "rules"
HEADINGS = ("Meaning", "Impact", "Diagnosis", "Mitigation")
SEVERITY_ORDER = (Severity.PAGE, Severity.TICKET, Severity.INFO)

_NAME = re.compile(r"^[A-Z][A-Za-z0-9]+$")
_TAG = re.compile(r"^[A-Z]+$")
_RULE_KEYS = {
    "title", "tag", "level", "clause", "when", "unless", "needs", "severity", "for", "stages", "say", "harm",
    "evidence", "enabled", "prometheus",
}  # fmt: skip
_ALERT_KEYS = {"for", "when", "unless", "without", "windows", "note"}
_STAGE_KEYS = {"severity", "for", "when", "unless"}
_SAYING_KEYS = {"when", "unless", "clause", "sentence", "remedy", "tag"}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Stage:
    """How severe it is once `when` holds, `unless` does not, and both have for `for_seconds`."""

    severity: Severity
    for_seconds: float
    when: tuple[Condition, ...]
    unless: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Saying:
    """What is said when its conditions hold: the cause as far as the data separates it."""

    when: tuple[Condition, ...]
    unless: tuple[Condition, ...]
    clause: Template
    sentence: Template
    remedy: Template
    tag: str


@dataclass(frozen=True, slots=True)
class Need:
    """A number without which the rule cannot be judged on a server, and the quiet sentence that says so."""

    reference: Reference
    why: str


@dataclass(frozen=True, slots=True)
class AlertForm:
    """What differs when the rule is an alert of Prometheus.

    It must hold for `for_seconds` at least; `when` and `unless` hold besides; the conditions `without` (as
    written in the rule) are not part of it; `windows` replaces windows, seconds by seconds; `note` tells a
    person what cannot be said in PromQL.
    """

    for_seconds: float = 0.0
    when: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()
    without: tuple[str, ...] = ()
    windows: Mapping[float, float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. All of `when` must hold and none of `unless`; the most severe stage that holds counts.

    A number that is not reported makes a `when` condition not hold and an `unless` condition not exclude.
    `enabled` False: only judged where the settings switch it on.
    """

    name: str
    path: str
    title: str
    tag: str
    level: Level
    when: tuple[Condition, ...]
    unless: tuple[Condition, ...]
    needs: tuple[Need, ...]
    stages: tuple[Stage, ...]
    sayings: tuple[Saying, ...]
    harm: tuple[Reference, ...]
    evidence: tuple[tuple[str, Reference], ...]
    sections: dict[str, str]
    enabled: bool = True
    alert: AlertForm = AlertForm()

    @property
    def impact(self) -> str:
        """The first paragraph under Impact, on one line."""
        return " ".join(self.sections["Impact"].split("\n\n")[0].split())


@dataclass(frozen=True, slots=True)
class Rulebook:
    """All rules, by name."""

    rules: tuple[Rule, ...]

    def rule(self, name: str) -> Rule:
        """One rule; KeyError if there is none of that name."""
        for rule in self.rules:
            if rule.name == name:
                return rule
        raise KeyError(name)


def load_rulebook(folder: Path = RULES) -> Rulebook:
    """Every `*.md` of the folder. SettingsError with file and line for the first mistake."""
    paths = sorted(folder.glob("*.md"))
    if not paths:
        raise SettingsError(f"there are no rules in {folder.name}/: expected files like ServerDown.md")
    return Rulebook(tuple(parse_rule(path.read_text(encoding="utf-8"), path.name) for path in paths))


def parse_rule(text: str, file: str) -> Rule:
    """One rule from the text of its file. SettingsError with file and line for a mistake in it."""
    try:
        top, body_line, body = read_front_matter(text)
        return _Reader(file).rule(top, body, body_line)
    except FrontMatterError as error:
        raise SettingsError(f"{file}:{error.line}: {error}") from error


class _Reader:
    """Turns located YAML into a Rule; every method raises FrontMatterError with the line."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.level = Level.MODEL

    def rule(self, top: Located, body: str, body_line: int) -> Rule:
        name = self.file.removesuffix(".md")
        fields = self._mapping(top, _RULE_KEYS)
        if not _NAME.match(name):
            raise FrontMatterError(
                1, f"a rule's file is called after the alert, like ModelHung.md, not {self.file}"
            )
        self.level = self._checked(fields.get("level"), top, "level", self._rule_level)
        tag = self._checked(fields.get("tag"), top, "tag", self._tag)
        return Rule(
            name=name,
            path=self.file,
            title=self._checked(fields.get("title"), top, "title", str),
            tag=tag,
            level=self.level,
            when=self._required_conditions(fields, top),
            unless=self._conditions(fields.get("unless")),
            needs=self._needs(fields.get("needs")),
            stages=self._stages(fields, top),
            sayings=self._sayings(
                fields.get("say"),
                top,
                tag,
                self._checked(fields.get("clause"), top, "clause", self._template),
            ),
            harm=self._references(fields.get("harm"), top, "harm"),
            evidence=self._evidence(fields.get("evidence"), top),
            sections=self._sections(body, body_line),
            enabled=self._enabled(fields.get("enabled")),
            alert=self._alert(fields.get("prometheus")),
        )

    def _mapping(self, node: Located, keys: set[str]) -> dict[str, Located]:
        if node.entries is None:
            raise FrontMatterError(node.line, "expected `key: value` lines here")
        for key in node.entries:
            if key not in keys:
                raise FrontMatterError(
                    node.key_lines[key], f"unknown key {key!r}: known are {', '.join(sorted(keys))}"
                )
        return node.entries

    def _items(self, node: Located | None) -> list[Located]:
        if node is None:
            return []
        if node.items is None:
            raise FrontMatterError(node.line, "expected a list (lines that begin with -)")
        return node.items

    def _checked(self, node: Located | None, parent: Located, key: str, parse: Callable[[str], _T]) -> _T:
        if node is None:
            raise FrontMatterError(parent.line, f"{key} is missing")
        if not isinstance(node.scalar, str):
            raise FrontMatterError(node.line, f"{key} must be text")
        try:
            return parse(node.scalar)
        except ValueError as error:
            raise FrontMatterError(node.line, str(error)) from error

    def _rule_level(self, text: str) -> Level:
        if text not in (Level.MODEL, Level.SERVER):
            raise ValueError(
                f"level is {text!r}: a rule stands at model or server; join others as workload.name"
            )
        return Level(text)

    def _tag(self, text: str) -> str:
        if not _TAG.match(text):
            raise ValueError(f"tag is {text!r}: write one word in capitals, like FAILING")
        return text

    def _condition(self, text: str) -> Condition:
        return parse_condition(text, self.level)

    def _conditions(self, node: Located | None) -> tuple[Condition, ...]:
        return tuple(self._checked(item, item, "condition", self._condition) for item in self._items(node))

    def _required_conditions(self, fields: dict[str, Located], top: Located) -> tuple[Condition, ...]:
        conditions = self._conditions(fields.get("when"))
        if not conditions:
            raise FrontMatterError(
                fields.get("when", top).line, "when is missing: a rule needs at least one condition"
            )
        return conditions

    def _needs(self, node: Located | None) -> tuple[Need, ...]:
        if node is None:
            return ()
        if node.entries is None:
            raise FrontMatterError(node.line, "needs must be `signal: why it cannot be judged without it`")
        return tuple(
            Need(self._reference(name, inner), self._checked(inner, inner, name, str))
            for name, inner in node.entries.items()
        )

    def _reference(self, text: str, node: Located) -> Reference:
        try:
            return parse_reference(text, self.level)
        except ValueError as error:
            raise FrontMatterError(node.line, str(error)) from error

    def _enabled(self, node: Located | None) -> bool:
        if node is None:
            return True
        if not isinstance(node.scalar, bool):
            raise FrontMatterError(node.line, "enabled must be true or false")
        return node.scalar

    def _alert(self, node: Located | None) -> AlertForm:
        if node is None:
            return AlertForm()
        fields = self._mapping(node, _ALERT_KEYS)
        windows = fields.get("windows")
        return AlertForm(
            self._checked(fields["for"], node, "for", parse_duration) if "for" in fields else 0.0,
            self._conditions(fields.get("when")),
            self._conditions(fields.get("unless")),
            tuple(self._checked(item, item, "without", str) for item in self._items(fields.get("without"))),
            {
                self._duration(short, windows): self._checked(inner, inner, short, parse_duration)
                for short, inner in ((windows.entries or {}) if windows else {}).items()
            },
            self._checked(fields["note"], node, "note", str) if "note" in fields else "",
        )

    def _duration(self, text: str, node: Located | None) -> float:
        try:
            return parse_duration(text)
        except ValueError as error:
            raise FrontMatterError(node.line if node else 1, str(error)) from error

    def _references(self, node: Located | None, top: Located, key: str) -> tuple[Reference, ...]:
        if node is None:
            raise FrontMatterError(top.line, f"{key} is missing: name the numbers that say how many are hurt")
        return tuple(self._reference(str(item.scalar), item) for item in self._items(node))

    def _evidence(self, node: Located | None, top: Located) -> tuple[tuple[str, Reference], ...]:
        if node is None or not node.entries:
            raise FrontMatterError((node or top).line, "evidence is missing: write `label: signal` lines")
        return tuple(
            (label, self._checked(inner, inner, label, lambda text: parse_reference(text, self.level)))
            for label, inner in node.entries.items()
        )

    def _stages(self, fields: dict[str, Located], top: Located) -> tuple[Stage, ...]:
        if "stages" not in fields:
            return (self._stage({key: fields[key] for key in ("severity", "for") if key in fields}, top),)
        for key in ("severity", "for"):
            if key in fields:
                raise FrontMatterError(
                    fields[key].line, f"{key} stands in each of the stages, not beside them"
                )
        stages = [
            self._stage(self._mapping(item, _STAGE_KEYS), item) for item in self._items(fields["stages"])
        ]
        if not stages:
            raise FrontMatterError(fields["stages"].line, "stages is empty")
        return tuple(sorted(stages, key=lambda stage: SEVERITY_ORDER.index(stage.severity)))

    def _stage(self, fields: dict[str, Located], parent: Located) -> Stage:
        severity = self._checked(fields.get("severity"), parent, "severity", _severity)
        for_seconds = self._checked(fields["for"], parent, "for", parse_duration) if "for" in fields else 0.0
        return Stage(
            severity,
            for_seconds,
            self._conditions(fields.get("when")),
            self._conditions(fields.get("unless")),
        )

    def _sayings(self, node: Located | None, top: Located, tag: str, clause: Template) -> tuple[Saying, ...]:
        sayings = [self._saying(item, tag, clause) for item in self._items(node)]
        if not sayings:
            raise FrontMatterError((node or top).line, "say is missing: a rule needs a sentence and a remedy")
        if sayings[-1].when or sayings[-1].unless:
            raise FrontMatterError(
                (node or top).line, "the last of say must have no conditions: it is the general case"
            )
        return tuple(sayings)

    def _saying(self, item: Located, tag: str, clause: Template) -> Saying:
        fields = self._mapping(item, _SAYING_KEYS)
        return Saying(
            self._conditions(fields.get("when")),
            self._conditions(fields.get("unless")),
            self._checked(fields["clause"], item, "clause", self._template) if "clause" in fields else clause,
            self._checked(fields.get("sentence"), item, "sentence", self._template),
            self._checked(fields.get("remedy"), item, "remedy", self._template),
            self._checked(fields["tag"], item, "tag", self._tag) if "tag" in fields else tag,
        )

    def _template(self, text: str) -> Template:
        return parse_template(text, self.level)

    def _sections(self, body: str, first_line: int) -> dict[str, str]:
        parts = re.split(r"^## +(.+?) *$", body, flags=re.MULTILINE)
        sections = {title: text.strip() for title, text in zip(parts[1::2], parts[2::2], strict=True)}
        for heading in HEADINGS:
            if not sections.get(heading):
                raise FrontMatterError(
                    first_line, f"the heading `## {heading}` is missing or has nothing under it"
                )
        return sections


def _severity(text: str) -> Severity:
    try:
        return Severity(text)
    except ValueError:
        raise ValueError(f"severity is {text!r}: use page, ticket or info") from None
