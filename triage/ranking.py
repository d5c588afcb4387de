"""The order of findings, and which of them only follow from another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from telemetry.facts import ModelConfig
from telemetry.identity import ModelKey
from triage.finding import Finding
from triage.rulebook import SEVERITY_ORDER, Rule


def ranked(findings: Iterable[Finding], rules: Sequence[Rule]) -> tuple[Finding, ...]:
    """Most harmful first: by severity, then by requests per second failing plus waiting, then by name."""
    order = {rule.name: number for number, rule in enumerate(rules)}

    def place(finding: Finding) -> tuple[int, float, int, str, str]:
        name = finding.model.label() if finding.model else ""
        severity = SEVERITY_ORDER.index(finding.severity)
        return severity, -finding.harm_per_second, order[finding.rule], finding.server, name

    return tuple(sorted(findings, key=place))


def folded(findings: Sequence[Finding], config: Callable[[ModelKey], ModelConfig | None]) -> list[Finding]:
    """Findings of an ensemble are put under the worst finding of one of its steps, if there is one."""
    kept = list(findings)
    for finding in findings:
        effective = config(finding.model) if finding.model else None
        if finding.model is None or effective is None or not effective.ensemble:
            continue
        steps = {step.model_name for step in effective.ensemble_steps}
        causes = [one for one in kept if _is_step(one, finding.server, steps)]
        if causes:
            cause = min(causes, key=lambda one: (SEVERITY_ORDER.index(one.severity), -one.harm_per_second))
            kept.remove(finding)
            kept[kept.index(cause)] = _with(cause, finding)
    return kept


def _is_step(finding: Finding, server: str, steps: set[str]) -> bool:
    return finding.server == server and finding.model is not None and finding.model.name in steps


def _with(cause: Finding, follower: Finding) -> Finding:
    """The cause carries the worse severity of both; the same requests are not counted twice as harm."""
    worse = min(cause.severity, follower.severity, key=SEVERITY_ORDER.index)
    harm = max(cause.harm_per_second, follower.harm_per_second)
    return replace(
        cause, severity=worse, harm_per_second=harm, follows=(*cause.follows, follower, *follower.follows)
    )
