"""Findings with all a person needs to act: why it is said, what to do, what it is not, where to go on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from signals.definition import Level
from signals.definitions import of_level
from telemetry.scrape import FloatArray
from telemetry.units import human
from triage.finding import Change, Confidence, Evidence, Finding, Severity
from triage.rule import HEADINGS
from ui.findings import began, finding_sentence
from ui.format import counted, moment, since
from ui.html import Child, Html, copy_button, div, join, span, tag
from ui.markdown import inline, markdown
from ui.tiles import spark
from ui.triage_changes import just_before_words
from ui.triage_links import rule_named, ways_on
from ui.view import View

WITH_CHARTS = 8
"""So many cards have charts; further ones their numbers."""
SHOWN = 30
EVIDENCE = 3
_COURSES = {"errors_ratio": "failed_ratio", "errors_per_second": "failures_per_second"}
"""Rules leave out what clients cancelled; the course is drawn with it."""
_WORDS = {Severity.PAGE: "users are hurt", Severity.TICKET: "look soon", Severity.INFO: "worth knowing"}
_SURE = {
    Confidence.HIGH: "the numbers show this cause",
    Confidence.MEDIUM: "concluded from the numbers, not counted",
    Confidence.LOW: "one of several causes that fit",
}


def cases(view: View) -> Html:
    """All findings as cards, most harmful first."""
    found = view.judgement.findings
    cards = [_case(one, view, charts=place < WITH_CHARTS) for place, one in enumerate(found[:SHOWN])]
    more = len(found) - SHOWN
    return join(cards, div(f"and {counted(more, 'finding')} more", class_="ts-more") if more > 0 else None)


def _case(finding: Finding, view: View, *, charts: bool) -> Html:
    return div(
        div(
            span(finding.tag, class_="ts-tag"),
            span(_WORDS[finding.severity], class_=f"ts-badge {finding.severity.value}"),
            span(began(finding, view.now), class_="ts-since"),
            class_="ts-case-head",
        ),
        tag("h2", finding_sentence(finding, view.filters), class_="ts-case-sentence"),
        _evidence(finding, view, charts),
        div(_todo(finding), _why(finding, view), class_="ts-case-columns"),
        _follows(finding, view),
        tag("pre", finding.detail, class_="ts-pre") if finding.detail else None,
        ways_on(finding, view),
        _runbook(finding),
        class_=f"ts-case {finding.severity.value}",
        role="article",
        data_key=f"case {finding.rule} {finding.server} {finding.model}",
    )


# ---- the numbers it rests on


def _evidence(finding: Finding, view: View, charts: bool) -> Html | None:
    numbers = [_number(one, finding, view, charts) for one in finding.evidence[:EVIDENCE]]
    return div(numbers, class_="ts-case-evidence") if numbers else None


def _number(one: Evidence, finding: Finding, view: View, charts: bool) -> Html:
    course = _course(one, finding, view) if charts else None
    return div(
        div(one.label, class_="ts-label"),
        div(
            human(one.value, one.unit),
            class_="ts-value" if one.value is not None else "ts-value ts-none",
            data_tip="not reported: nothing counts it now" if one.value is None else None,
        ),
        spark(course) if course is not None and np.isfinite(course).any() else None,
        data_key=one.label,
    )


def _course(one: Evidence, finding: Finding, view: View) -> FloatArray | None:
    """The number over the time shown; None for a fact, which has no course."""
    signal = _COURSES.get(one.signal or "", one.signal)
    level = Level.MODEL if finding.model is not None else Level.SERVER
    if signal is None or not any(row.name == signal for row in of_level(level)):
        return None
    if finding.model is not None:
        frame = view.of_model(signal, finding.model)
    else:
        frame = view.of_level(signal, level)
    columns = [place for place, key in enumerate(frame.keys) if key[0] == finding.server]
    return frame.values[:, columns[0]] if len(columns) == 1 else None


# ---- what to do, and why


def _todo(finding: Finding) -> Html:
    return div(
        tag("h3", "What to do"),
        tag("p", finding.remedy),
        _change(finding.change) if finding.change is not None else None,
    )


def _change(change: Change) -> Html:
    """The proposed setting, old and new, with its lines of config.pbtxt to copy."""
    return join(
        tag("p", tag("code", change.setting), f": {change.old} → ", tag("b", change.new), " in config.pbtxt"),
        div(
            tag("pre", change.snippet, class_="ts-pre"),
            copy_button(change.snippet, "copy these lines"),
            class_="ts-case-snippet",
        ),
    )


def _why(finding: Finding, view: View) -> Html:
    sure = finding.confidence
    # A remark on the same model would only repeat it.
    before = just_before_words(view, finding) if finding.severity is not Severity.INFO else ""
    return div(
        tag("h3", "Why it says so"),
        tag("p", tag("b", "What changed: "), before) if before else None,
        tag("p", f"Confidence {sure.value}: {_SURE[sure]}."),
        tag("p", tag("b", "Affected: "), finding.affected) if finding.affected else None,
        tag("p", tag("b", "Impact: "), inline(finding.impact)) if finding.impact else None,
        tag("p", tag("b", "It is not")) if finding.excluded else None,
        tag("ul", [tag("li", one) for one in finding.excluded]) if finding.excluded else None,
    )


def _follows(finding: Finding, view: View) -> Html | None:
    """What only follows from this: it goes when this goes."""
    if not finding.follows:
        return None
    names = counted(len(finding.follows), "finding")
    rows = [
        tag(
            "li",
            finding_sentence(one, view.filters),
            " ",
            span(since(one.since, view.now), class_="ts-faint"),
        )
        for one in finding.follows
    ]
    return div(tag("h3", f"Follows from it ({names})"), tag("ul", rows))


def _runbook(finding: Finding) -> Html | None:
    rule = rule_named(finding.rule)
    if rule is None:
        return None
    parts: list[Child] = []
    for heading in HEADINGS:
        parts += [tag("h3", heading), markdown(rule.sections[heading])]
    return tag(
        "details",
        tag("summary", f"runbook {rule.name}: {rule.title}"),
        div(parts, class_="ts-runbook"),
        class_="ts-fold",
    )


# ---- nothing found


def nothing_wrong(view: View) -> Html:
    """`Nothing is wrong by the 34 rules checked 2 s ago`, or why that cannot be said."""
    ages = [one.age_seconds for one in view.coverage if one.age_seconds is not None]
    silent = [one.server for one in view.coverage if not one.answering]
    if silent or not ages:
        who = ", ".join(silent[:4]) or "no server"
        words = f"No finding, but that says little: {who} does not answer."
        return div(words, class_="ts-case-none")
    paused = view.filters.refresh_seconds is None
    when = join("at ", moment(view.now)) if paused else f"{max(ages):.0f} s ago"
    return div(
        f"Nothing is wrong by the {view.judgement.rules} rules checked ",
        when,
        ".",
        class_="ts-case-none",
    )


def not_judged(view: View) -> Html | None:
    """What could not be judged, once, by reason."""
    by_reason: dict[str, list[str]] = {}
    for one in view.judgement.unjudged:
        by_reason.setdefault(one.why, []).append(one.model.label() if one.model else one.server)
    if not by_reason:
        return None
    rows = [
        tag("li", f"{_some(subjects)}: {why}", data_tip=", ".join(dict.fromkeys(subjects)))
        for why, subjects in sorted(by_reason.items(), key=lambda row: -len(row[1]))
    ]
    checks = counted(len(view.judgement.unjudged), "check")
    return tag(
        "details", tag("summary", f"{checks} could not be judged"), tag("ul", rows), class_="ts-fold ts-faint"
    )


def _some(subjects: Sequence[str]) -> str:
    names = list(dict.fromkeys(subjects))
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"
