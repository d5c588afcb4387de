"""Findings for a terminal and as plain data for JSON."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from signals.report_json import to_data
from telemetry.units import human, human_duration
from triage.command import Judged
from triage.finding import Finding

_WIDTH = 110
_INDENT = " " * 8


def to_text(judged: Judged) -> str:
    """The verdict, each finding with its numbers and what to do, and what could not be judged."""
    return "\n".join(_lines(judged)) + "\n"


def _lines(judged: Judged) -> Iterator[str]:
    yield from _wrapped(judged.verdict.sentence, "", "")
    for finding in judged.judgement.findings:
        yield ""
        yield from _finding(finding, judged)
    reasons: dict[str, list[str]] = {}
    for one in judged.judgement.unjudged:
        reasons.setdefault(one.why, []).append(one.rule)
    if reasons:
        yield ""
    for why, rules in reasons.items():
        yield from _wrapped(f"Not judged: {', '.join(rules)}: {why}.", "", "  ")
    for notice in judged.report.notices:
        line = "" if notice.line is None else f", line {notice.line}"
        yield f"Warning: {notice.source}{line}: {notice.text}"


def _finding(finding: Finding, judged: Judged) -> Iterator[str]:
    yield from _wrapped(f"{finding.severity.value.upper():<7} {finding.sentence}", "", _INDENT)
    held = _held_seconds(finding, judged)
    since = [] if not held else [f"for {human_duration(held)}{_clock(finding, judged)}"]
    parts = [f"{finding.rule}", *since, f"confidence {finding.confidence.value}"]
    yield from _under(" · ".join(parts))
    yield from _under(f"Affected: {finding.affected}")
    numbers = [f"{one.label} {human(one.value, one.unit)}" for one in finding.evidence]
    yield from _under(f"Numbers: {' · '.join(numbers)}")
    yield from _under(f"Do: {finding.remedy}")
    if finding.change is not None:
        yield from _under(
            f"config.pbtxt, {finding.change.setting}: {finding.change.old} -> {finding.change.new}"
        )
        yield from (f"{_INDENT}    {line}" for line in finding.change.snippet.splitlines())
    for text in finding.excluded:
        yield from _under(f"It is not {text}")
    for one in finding.follows:
        yield from _under(f"Follows from it: {one.sentence}")


def _under(text: str) -> Iterator[str]:
    yield from _wrapped(text, _INDENT, f"{_INDENT}  ")


def _wrapped(text: str, first: str, later: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False
    ) or [first]


def _clock(finding: Finding, judged: Judged) -> str:
    if not judged.clocked or finding.since is None:
        return ""
    return f", since {datetime.fromtimestamp(finding.since):%H:%M:%S}"


def _held_seconds(finding: Finding, judged: Judged) -> float | None:
    if finding.since is None:
        return None
    return max(0.0, round(judged.judgement.at - finding.since, 3))


# ---- JSON


def to_json(judged: Judged) -> str:
    """Strict JSON: the report of `python -m signals` with `verdict`, `findings` and `unjudged`."""
    data = to_data(judged.report) | {
        "verdict": {"level": judged.verdict.level.value, "sentence": judged.verdict.sentence},
        "findings": [finding_data(one, judged) for one in judged.judgement.findings],
        "unjudged": [
            {"rule": one.rule, "server": one.server, "why": one.why} for one in judged.judgement.unjudged
        ],
    }
    return json.dumps(data, allow_nan=False, indent=1)


def finding_data(finding: Finding, judged: Judged) -> dict[str, Any]:
    """One finding; every key is always there. `since` is unix seconds, null for saved answers."""
    change = finding.change
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "tag": finding.tag,
        "server": finding.server,
        "model": None if finding.model is None else finding.model.name,
        "version": None if finding.model is None else finding.model.version,
        "sentence": finding.sentence,
        "since": finding.since if judged.clocked else None,
        "held_seconds": _held_seconds(finding, judged),
        "affected": finding.affected,
        "confidence": finding.confidence.value,
        "harm_per_second": _finite(finding.harm_per_second),
        "evidence": [
            {"label": one.label, "value": _finite(one.value), "unit": one.unit.value, "signal": one.signal}
            for one in finding.evidence
        ],
        "excluded": list(finding.excluded),
        "impact": finding.impact,
        "remedy": finding.remedy,
        "change": None
        if change is None
        else {
            "setting": change.setting,
            "old": change.old,
            "new": change.new,
            "config_pbtxt": change.snippet,
        },
        "detail": finding.detail,
        "follows": [finding_data(one, judged) for one in finding.follows],
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
