"""Findings as cards: what is wrong, since when, the numbers it rests on, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from telemetry.units import human
from triage.finding import Evidence, Finding
from ui.filters import Filters
from ui.format import since
from ui.html import Html, div, join, link, span, tag, text
from ui.markdown import inline

SHOWN = 5


def finding_cards(
    findings: Sequence[Finding], now: float, filters: Filters, *, limit: int = SHOWN, said: bool = False
) -> Html:
    """The first `limit` findings as cards in the order given, and how many more there are.

    `said`: the page's first line already is the first finding's sentence, so its card gives the impact.
    """
    more = len(findings) - limit
    rest = None
    if more > 0:
        names = ", ".join(
            sorted({one.model.name if one.model else one.server for one in findings[limit:]})[:8]
        )
        rest = div(f"and {more} more: {names}", class_="ts-more")
    cards = [_card(one, now, filters, said and not place) for place, one in enumerate(findings[:limit])]
    return join(cards, rest)


def _card(finding: Finding, now: float, filters: Filters, said: bool) -> Html:
    evidence = [span(_evidence(one), class_="ts-nowrap") for one in finding.evidence if one.value is not None]
    return div(
        span(finding.tag, class_="ts-tag"),
        div(
            inline(finding.impact) if said and finding.impact else finding_sentence(finding, filters),
            div(join(*evidence, between=" · "), class_="ts-evidence") if evidence else None,
            class_="ts-sentence",
        ),
        div(began(finding, now), " ", _look(finding, filters), class_="ts-since"),
        _what_to_do(finding, filters),
        class_=f"ts-finding {finding.severity.value}",
        role="article",
        data_key=f"{finding.rule} {finding.server} {finding.model}",
    )


def began(finding: Finding, now: float) -> Html:
    """Since when it is so; where only what follows from it tells its time, that it is older than that."""
    known = [one.since for one in finding.follows if one.since is not None]
    if finding.since is not None or not known:
        return since(finding.since, now)
    return span(since(min(known), now), " or before", data_tip="What follows from it is so since then.")


def _look(finding: Finding, filters: Filters) -> Html:
    """To the page Triage, where everything about it stands."""
    key = finding.model
    named = {"model": key.name, "version": key.version} if key is not None else {}
    return link("look", "triage", filters.params(**named), class_="ts-look")


def finding_sentence(finding: Finding, filters: Filters) -> Html:
    """The sentence with the model's name, where it begins with it, as a link to why."""
    model = finding.model
    if model is None:
        return text(finding.sentence)
    params = filters.params(server=model.server, model=model.name, version=model.version)
    for name in (model.label(), model.name):
        if finding.sentence.startswith(name):
            return join(tag("b", link(name, "model", params)), finding.sentence[len(name) :])
    return join(tag("b", link(model.label(), "model", params)), ": ", finding.sentence)


def _evidence(one: Evidence) -> str:
    return f"{one.label} {human(one.value, one.unit)}"


def _change(finding: Finding) -> Html | None:
    """The proposed setting, old and new, and its lines of config.pbtxt."""
    change = finding.change
    if change is None:
        return None
    return join(
        tag("p", tag("b", change.setting), f": {change.old} → {change.new}, in config.pbtxt:"),
        tag("pre", change.snippet, class_="ts-pre"),
    )


def _what_to_do(finding: Finding, filters: Filters) -> Html:
    follows = [
        tag("p", tag("b", "Follows from it: "), finding_sentence(one, filters)) for one in finding.follows
    ]
    detail = tag("pre", finding.detail, class_="ts-pre") if finding.detail else None
    return tag(
        "details",
        tag("summary", "what to do"),
        tag("p", finding.remedy),
        _change(finding),
        tag("p", tag("b", "Affected: "), finding.affected) if finding.affected else None,
        tag("p", tag("b", "Impact: "), inline(finding.impact)) if finding.impact else None,
        [tag("p", tag("b", "It is not "), one) for one in finding.excluded],
        tag("p", tag("b", "Confidence: "), finding.confidence.value),
        follows,
        detail,
    )
