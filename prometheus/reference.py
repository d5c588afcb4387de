"""docs/alerts.md, written from reference.md and the rules: how to build and use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from string import Template

from prometheus.alerts import BY_OBJECTIVE, alerts
from prometheus.builder import FILE, SIGNALS_GROUP, groups
from prometheus.facts import NOT_IN_PROMQL
from prometheus.parameters import Parameters
from prometheus.recordings import Recordings
from prometheus.slo import LEFT, RATIO
from telemetry.units import human_duration
from triage.burn import PAIRS
from triage.rulebook import Rule, Rulebook, load_rulebook

_TEXT = Path(__file__).with_name("reference.md")


def render() -> str:
    """The whole text of docs/alerts.md."""
    rulebook = load_rulebook()
    notes = (f"- {name}: {why}.\n" for name, why in sorted(NOT_IN_PROMQL.items()))
    return Template(_TEXT.read_text(encoding="utf-8")).substitute(
        file=FILE,
        table="".join(_table(rulebook)),
        pairs="".join(_pairs()),
        ratio=RATIO,
        left=LEFT,
        notes="".join((*notes, *(_note(rule) for rule in rulebook.rules if _text(rule)))),
        recorded="".join(_recorded(rulebook)),
    )


def _table(rulebook: Rulebook) -> Iterator[str]:
    yield "| alert | severity | for | what it says |\n|---|---|---|---|\n"
    waits = {
        (one.name, one.labels["severity"]): one.for_seconds
        for one in alerts(rulebook, Parameters(), Recordings(Parameters()))
    }
    for rule in (one for one in rulebook.rules if not one.alert.app_only):
        for severity in dict.fromkeys(stage.severity.value for stage in rule.stages):
            seconds = waits.get((rule.name, severity), 0.0)
            lasting = human_duration(seconds) if seconds else "–"
            yield f"| [{rule.name}](runbooks/{rule.name}.md) | {severity} | {lasting} | {_title(rule)} |\n"


def _title(rule: Rule) -> str:
    if rule.name in BY_OBJECTIVE:
        return f"{rule.title} (for each objective of `slo:`)"
    return rule.title if rule.enabled else f"{rule.title} (off unless `rules:` switches it on)"


def _pairs() -> Iterator[str]:
    yield "| severity | long window | short window | share of the budget | times too fast, of 30 days |\n"
    yield "|---|---|---|---|---|\n"
    for pair in PAIRS:
        long, short = human_duration(pair.long_seconds), human_duration(pair.short_seconds)
        yield f"| {pair.severity} | {long} | {short} | {pair.share:.0%} | {pair.rate(30.0):.3g} |\n"


def _text(rule: Rule) -> str:
    return f"no alert. {rule.alert.app_only}" if rule.alert.app_only else rule.alert.note


def _note(rule: Rule) -> str:
    return f"- {rule.name}: {' '.join(_text(rule).split())}\n"


def _recorded(rulebook: Rulebook) -> Iterator[str]:
    for group in groups(rulebook, Parameters()):
        if group["name"] == SIGNALS_GROUP:
            yield from (f"- `{rule['record']}`\n" for rule in group["rules"])
