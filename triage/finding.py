"""What triage says: findings, ranked by harm, and what it could not judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from history.drift import Drift
from telemetry.identity import ModelKey
from telemetry.units import Unit


class Severity(StrEnum):
    """PAGE: users are hurt now. TICKET: look soon. INFO: worth knowing."""

    PAGE = "page"
    TICKET = "ticket"
    INFO = "info"


class Confidence(StrEnum):
    """How sure the cause is. HIGH: counted. MEDIUM: concluded. LOW: one of several that fit."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Change:
    """A proposed setting of config.pbtxt: `old` and `new` as printed, `snippet` the lines to write."""

    setting: str
    old: str
    new: str
    snippet: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number a finding rests on, with its unit; `signal` names it where it is a signal."""

    label: str
    value: float | None
    unit: Unit
    signal: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One judgement. `since` is unix seconds, None if it began before the history does.

    `tag` is one word for the card (FAILING, WAITING). `sentence` is what an operator would say, `remedy`
    the first thing to do. `harm_per_second` ranks: requests per second failing plus waiting. `clause` is
    the sentence in a few words, for a list of several. `affected` is who is hurt, `confidence` how sure the
    cause is, `excluded` what it is not, `change` the setting that is proposed. `follows` are findings that
    only follow from this one, such as an ensemble that fails because this step does; `explains` are the rules
    whose findings about the same model do for this cause, besides those that its rule names.
    """

    rule: str
    severity: Severity
    tag: str
    server: str
    model: ModelKey | None
    sentence: str
    since: float | None
    evidence: tuple[Evidence, ...]
    impact: str
    remedy: str
    detail: str = ""
    harm_per_second: float = 0.0
    clause: str = ""
    follows: tuple[Finding, ...] = ()
    affected: str = ""
    confidence: Confidence = Confidence.HIGH
    excluded: tuple[str, ...] = ()
    change: Change | None = None
    explains: tuple[str, ...] = ()


NO_PAGE = "its metrics page was not read"
"""Why nothing can be said about requests where only other answers of the server were given."""
ONE_READING = "there is one reading only, and rates need two"
"""Why nothing can be said about requests right after the start, or on one saved page."""


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A rule that could not be judged somewhere, and why, in one quiet sentence."""

    rule: str
    server: str
    model: ModelKey | None
    why: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """All findings at `at`, most harmful first; `rules` is how many rules were checked.

    `drifts` are the models that run with another configuration than their files give them, whatever the
    settings say about the rule for it: none of a server that does not answer or whose figures mean nothing.
    """

    at: float
    rules: int
    findings: tuple[Finding, ...]
    unjudged: tuple[Unjudged, ...] = ()
    drifts: Mapping[ModelKey, Drift] = field(default_factory=dict)
