"""What a rule is: its conditions, stages, sayings and texts. `triage.rule_reader` makes it from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from triage.change import ChangeForm
from triage.conditions import Condition, Reference
from triage.finding import Confidence, Severity
from triage.template import Template
from triage.vocabulary import Level

HEADINGS = ("Meaning", "Impact", "Diagnosis", "Mitigation")
SEVERITY_ORDER = (Severity.PAGE, Severity.TICKET, Severity.INFO)
EVERY_RULE = "every rule"
"""In `explains`: findings of whatever rule."""


@dataclass(frozen=True, slots=True)
class Stage:
    """How severe it is once `when` holds, `unless` does not, and both have for `for_seconds`."""

    severity: Severity
    for_seconds: float
    when: tuple[Condition, ...]
    unless: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Saying:
    """What is said when its conditions hold: the cause as far as the data separates it.

    `explains`: findings that follow from this cause, besides those that the rule explains.
    """

    when: tuple[Condition, ...]
    unless: tuple[Condition, ...]
    clause: Template
    sentence: Template
    remedy: Template
    tag: str
    confidence: Confidence = Confidence.HIGH
    excluded: tuple[Template, ...] = ()
    change: ChangeForm | None = None
    explains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Need:
    """A number without which the rule cannot be judged on a server, and the quiet sentence that says so."""

    reference: Reference
    why: str


@dataclass(frozen=True, slots=True)
class AlertForm:
    """What differs when the rule is an alert of Prometheus.

    `app_only` says why there is no alert, "" where there is one. It must hold for `for_seconds` at least;
    `when` and `unless` hold besides; the conditions `without` (as written in the rule) are not part of it;
    `windows` replaces windows, seconds by seconds; `note` tells a person what cannot be said in PromQL.
    """

    for_seconds: float = 0.0
    when: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()
    without: tuple[str, ...] = ()
    windows: Mapping[float, float] = field(default_factory=dict)
    note: str = ""
    app_only: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. All of `when` must hold and none of `unless`; the most severe stage that holds counts.

    A number that is not reported makes a `when` condition not hold and an `unless` condition not exclude.
    `enabled` False: only judged where the settings switch it on. `affects`: who is hurt, for the finding.
    Findings of the rules `explains` about the same model (of a server's rule: about its models) follow from
    this one. `hides`: the figures of the server's models mean nothing, so they are not judged.
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
    affects: Template
    enabled: bool = True
    alert: AlertForm = AlertForm()
    explains: tuple[str, ...] = ()
    hides: bool = False

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
