"""A situation of the laboratory, how it is played, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sandbox.laboratory.lab import Lab, Servers
from triage.finding import Finding

WITHIN_SECONDS = 30.0
"""From its onset a fault must be the first finding within this time."""
LIMIT_SECONDS = 50.0
"""So long is waited for it at most."""
CALM_SECONDS = 4.0
"""Readings before the onset, in which nothing may be found."""
LOOK_SECONDS = 0.5


class Kind(StrEnum):
    """FAULT: something must be found, first. HEALTHY: nothing may be."""

    FAULT = "fault"
    HEALTHY = "healthy"


def nothing(lab: Lab) -> None:
    """Nothing has to be done."""


@dataclass(frozen=True)
class Situation:
    """`prepare` makes models and clients before the product watches; `lead_up` is what it sees before
    `begin`, which is the onset.

    `first`: the rule that must be named first, `model` whom it must name ("" = a server). `also`: rules that
    may be found besides, because they are true as well. `servers` 0 = the one with the simulated GPU.
    """

    name: str
    kind: Kind
    text: str
    prepare: Callable[[Lab], None] = nothing
    lead_up: Callable[[Lab], None] = nothing
    begin: Callable[[Lab], None] = nothing
    first: str = ""
    model: str = ""
    also: frozenset[str] = frozenset()
    servers: int = 1
    calm_seconds: float = CALM_SECONDS


@dataclass
class Outcome:
    """What came of one play. `seconds` from the onset to the finding being first, None = it never was."""

    situation: Situation
    seconds: float | None = None
    stayed: bool = True
    """It was still first at the end."""
    others: dict[str, str] = field(default_factory=dict)
    """Findings that must not be: `Rule severity subject` -> sentence."""
    minutes: float = 0.0
    sentence: str = ""

    @property
    def good(self) -> bool:
        """As it must be."""
        if self.situation.kind is Kind.HEALTHY:
            return not self.others
        in_time = self.seconds is not None and self.seconds <= WITHIN_SECONDS
        return in_time and self.stayed and not self.others

    def row(self) -> dict[str, Any]:
        """One line of the benchmark."""
        if self.situation.kind is Kind.HEALTHY:
            return {
                "kind": "healthy",
                "name": self.situation.name,
                "false_alarms": len(self.others),
                "minutes": round(self.minutes, 2),
            }
        in_time = self.seconds is not None and self.seconds <= WITHIN_SECONDS
        return {
            "kind": "fault",
            "name": self.situation.name,
            "first": in_time and self.stayed,
            "seconds": None if self.seconds is None else round(self.seconds, 1),
            "unexpected": sorted(self.others),
        }


def play(situation: Situation, servers: Servers, *, minutes: float) -> Outcome:
    """Play one situation for so long after its onset; a fault's named finding must stay first till then."""
    sandboxes = servers.plain(situation.servers) if situation.servers else [servers.simulated_gpu()]
    lab = Lab(sandboxes)
    outcome = Outcome(situation, minutes=minutes)
    try:
        situation.prepare(lab)
        lab.watch()
        _observe(lab, outcome, situation.calm_seconds, onset=None)
        situation.lead_up(lab)
        onset = time.monotonic()
        situation.begin(lab)
        if situation.kind is Kind.FAULT:
            _await_first(lab, outcome, onset)
        left = onset + 60.0 * minutes - time.monotonic()
        _observe(lab, outcome, max(2.0, left), onset=onset)
    finally:
        lab.close()
    return outcome


def _await_first(lab: Lab, outcome: Outcome, onset: float) -> None:
    while time.monotonic() - onset < LIMIT_SECONDS:
        if _look(lab, outcome, onset):
            return
        time.sleep(LOOK_SECONDS)


def _observe(lab: Lab, outcome: Outcome, seconds: float, *, onset: float | None) -> None:
    end = time.monotonic() + seconds
    while True:
        first = _look(lab, outcome, onset)
        if time.monotonic() >= end:
            break
        time.sleep(LOOK_SECONDS)
    if onset is not None and outcome.situation.kind is Kind.FAULT:
        outcome.stayed = first


def _look(lab: Lab, outcome: Outcome, onset: float | None) -> bool:
    """Judge now; True if the wanted finding is first."""
    situation = outcome.situation
    findings = lab.runtime.judgement().findings
    wanted = [one for one in findings if _is_wanted(one, situation)] if onset is not None else []
    for one in findings:
        if one not in wanted and one.rule not in situation.also:
            subject = one.model.name if one.model else one.server
            outcome.others.setdefault(f"{one.rule} {one.severity.value} {subject}", one.sentence)
    first = bool(findings) and bool(wanted) and findings[0] == wanted[0]
    if first and onset is not None and outcome.seconds is None:
        outcome.seconds = time.monotonic() - onset
        outcome.sentence = findings[0].sentence
    return first


def _is_wanted(finding: Finding, situation: Situation) -> bool:
    named = finding.model.name if finding.model else ""
    return finding.rule == situation.first and (not situation.model or named == situation.model)
