"""Turns the front matter and the headings of a rule's file into a `Rule`, or names the line that is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from telemetry.located_yaml import Located
from triage.change import SETTINGS, ChangeForm
from triage.conditions import Condition, Reference, parse_condition, parse_reference, parse_threshold
from triage.durations import parse_duration
from triage.finding import Confidence, Severity
from triage.front_matter import FrontMatterError
from triage.rule import HEADINGS, SEVERITY_ORDER, AlertForm, Need, Rule, Saying, Stage
from triage.template import Template, parse_template
from triage.vocabulary import Level

_NAME = re.compile(r"^[A-Z][A-Za-z0-9]+$")
_TAG = re.compile(r"^[A-Z]+$")
_RULE_KEYS = {
    "title", "tag", "level", "clause", "when", "unless", "needs", "severity", "for", "stages", "say", "harm",
    "evidence", "enabled", "prometheus", "affects", "confidence", "excluded", "explains", "hides",
}  # fmt: skip
_ALERT_KEYS = {"for", "when", "unless", "without", "windows", "note", "app_only"}
_STAGE_KEYS = {"severity", "for", "when", "unless"}
_SAYING_KEYS = {
    "when", "unless", "clause", "sentence", "remedy", "tag", "confidence", "excluded", "change", "explains",
}  # fmt: skip
_CHANGE_KEYS = {"setting", "to"}
_AFFECTS = {
    Level.MODEL: "clients of {model} on {server}[, whose requests come at {requests_per_second}]",
    Level.SERVER: "all clients of {server}",
}
"""Who is hurt, where a rule does not say it."""
_T = TypeVar("_T")


class RuleReader:
    """Turns located YAML into a Rule; every method raises FrontMatterError with the line."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.level = Level.MODEL

    def rule(self, top: Located, body: str, body_line: int) -> Rule:
        """The rule of this front matter and body, whose first line is `body_line` of the file."""
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
            sayings=self._sayings(fields, top, tag),
            harm=self._references(fields.get("harm"), top, "harm"),
            evidence=self._evidence(fields.get("evidence"), top),
            sections=self._sections(body, body_line),
            affects=self._affects(fields.get("affects")),
            enabled=self._switch(fields.get("enabled"), "enabled", True),
            alert=self._alert(fields.get("prometheus")),
            explains=self._names(fields.get("explains")),
            hides=self._switch(fields.get("hides"), "hides", False),
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

    def _switch(self, node: Located | None, key: str, default: bool) -> bool:
        if node is None:
            return default
        if not isinstance(node.scalar, bool):
            raise FrontMatterError(node.line, f"{key} must be true or false")
        return node.scalar

    def _affects(self, node: Located | None) -> Template:
        if node is None:
            return self._template(_AFFECTS[self.level])
        return self._checked(node, node, "affects", self._template)

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
            self._checked(fields["app_only"], node, "app_only", str) if "app_only" in fields else "",
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

    def _sayings(self, top_fields: dict[str, Located], top: Located, tag: str) -> tuple[Saying, ...]:
        node = top_fields.get("say")
        confidence = top_fields.get("confidence")
        usual = _Usual(
            tag,
            self._checked(top_fields.get("clause"), top, "clause", self._template),
            Confidence.HIGH if confidence is None else self._confidence(confidence),
            self._templates(top_fields.get("excluded")),
        )
        sayings = [self._saying(item, usual) for item in self._items(node)]
        if not sayings:
            raise FrontMatterError((node or top).line, "say is missing: a rule needs a sentence and a remedy")
        if sayings[-1].when or sayings[-1].unless:
            raise FrontMatterError(
                (node or top).line, "the last of say must have no conditions: it is the general case"
            )
        return tuple(sayings)

    def _saying(self, item: Located, usual: _Usual) -> Saying:
        fields = self._mapping(item, _SAYING_KEYS)
        return Saying(
            self._conditions(fields.get("when")),
            self._conditions(fields.get("unless")),
            self._checked(fields["clause"], item, "clause", self._template)
            if "clause" in fields
            else usual.clause,
            self._checked(fields.get("sentence"), item, "sentence", self._template),
            self._checked(fields.get("remedy"), item, "remedy", self._template),
            self._checked(fields["tag"], item, "tag", self._tag) if "tag" in fields else usual.tag,
            self._confidence(fields["confidence"]) if "confidence" in fields else usual.confidence,
            (*usual.excluded, *self._templates(fields.get("excluded"))),
            self._change(fields["change"]) if "change" in fields else None,
            self._names(fields.get("explains")),
        )

    def _names(self, node: Located | None) -> tuple[str, ...]:
        return tuple(self._checked(item, item, "explains", str) for item in self._items(node))

    def _confidence(self, node: Located) -> Confidence:
        return self._checked(node, node, "confidence", _confidence)

    def _templates(self, node: Located | None) -> tuple[Template, ...]:
        return tuple(self._checked(item, item, "excluded", self._template) for item in self._items(node))

    def _change(self, node: Located) -> ChangeForm:
        fields = self._mapping(node, _CHANGE_KEYS)
        setting = self._checked(fields.get("setting"), node, "setting", str)
        known = SETTINGS.get(setting)
        if known is None:
            raise FrontMatterError(node.line, f"unknown setting {setting!r}: known are {', '.join(SETTINGS)}")
        if self.level is not Level.MODEL:
            raise FrontMatterError(node.line, "only a model's rule can propose a change of its config")

        def value(text: str) -> ChangeForm:
            choice, terms = parse_threshold(text, known.unit, self.level)
            return ChangeForm(known, choice, terms)

        return self._checked(fields.get("to"), node, "to", value)

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


@dataclass(frozen=True, slots=True)
class _Usual:
    """What a saying has that does not say otherwise."""

    tag: str
    clause: Template
    confidence: Confidence
    excluded: tuple[Template, ...]


def _confidence(text: str) -> Confidence:
    try:
        return Confidence(text)
    except ValueError:
        raise ValueError(f"confidence is {text!r}: use high, medium or low") from None


def _severity(text: str) -> Severity:
    try:
        return Severity(text)
    except ValueError:
        raise ValueError(f"severity is {text!r}: use page, ticket or info") from None
