"""The order of findings, and which of them only follow from another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from telemetry.facts import ModelConfig
from telemetry.identity import ModelKey
from triage.finding import Finding
from triage.rule import EVERY_RULE, SEVERITY_ORDER, Rule


def ranked(findings: Iterable[Finding], rules: Sequence[Rule]) -> tuple[Finding, ...]:
    """Most harmful first: by severity, then by requests per second failing plus waiting, then by name."""
    order = {rule.name: number for number, rule in enumerate(rules)}

    def place(finding: Finding) -> tuple[int, float, int, str, str]:
        name = finding.model.label() if finding.model else ""
        severity = SEVERITY_ORDER.index(finding.severity)
        return severity, -finding.harm_per_second, order[finding.rule], finding.server, name

    return tuple(sorted(findings, key=place))


def folded(
    findings: Sequence[Finding], rules: Sequence[Rule], config: Callable[[ModelKey], ModelConfig | None]
) -> list[Finding]:
    """Findings that follow from another go under it: as its rule says, and an ensemble's under a step's."""
    explains = {rule.name: rule.explains for rule in rules}
    kept = _under(
        findings,
        lambda cause, follower: _explained(cause, follower, (*explains[cause.rule], *cause.explains)),
    )

    def of_step(cause: Finding, follower: Finding) -> bool:
        effective = config(follower.model) if follower.model else None
        if effective is None or not effective.ensemble:
            return False
        return _is_step(cause, follower.server, {step.model_name for step in effective.ensemble_steps})

    return _under(kept, of_step)


def _under(findings: Sequence[Finding], follows: Callable[[Finding, Finding], bool]) -> list[Finding]:
    """Each finding that follows from others goes under the worst of them."""
    kept = list(findings)
    for finding in findings:
        # What was folded into it meanwhile goes along.
        present = next((one for one in kept if _same(one, finding)), None)
        if present is None:
            continue
        causes = [one for one in kept if one is not present and follows(one, present)]
        if causes:
            cause = min(causes, key=lambda one: (SEVERITY_ORDER.index(one.severity), -one.harm_per_second))
            kept.remove(present)
            kept[kept.index(cause)] = _with(cause, present)
    return kept


def _same(one: Finding, other: Finding) -> bool:
    return (one.rule, one.server, one.model) == (other.rule, other.server, other.model)


def _explained(cause: Finding, follower: Finding, explains: Sequence[str]) -> bool:
    if follower.rule == cause.rule or not {follower.rule, EVERY_RULE} & set(explains):
        return False
    if cause.model is None:
        return follower.server == cause.server
    return (
        follower.model is not None
        and follower.server == cause.server
        and follower.model.name == cause.model.name
    )


def _is_step(finding: Finding, server: str, steps: set[str]) -> bool:
    return finding.server == server and finding.model is not None and finding.model.name in steps


def _with(cause: Finding, follower: Finding) -> Finding:
    """The cause carries the worse severity of both; the same requests are not counted twice as harm."""
    worse = min(cause.severity, follower.severity, key=SEVERITY_ORDER.index)
    harm = max(cause.harm_per_second, follower.harm_per_second)
    return replace(
        cause, severity=worse, harm_per_second=harm, follows=(*cause.follows, follower, *follower.follows)
    )
