"""Rules and figures in, findings out. Pure: the history is asked, nothing is read or written.

A rule is checked against the figures of now first; only what holds now is followed back in time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from telemetry.identity import ModelKey
from telemetry.scrape import Source
from telemetry.units import human_duration
from triage.change import proposed
from triage.conditions import Condition, Reference
from triage.context import Context, Fact, Subject
from triage.finding import NO_PAGE, ONE_READING, Change, Evidence, Finding, Judgement, Unjudged
from triage.lookback import Hold, Lookback
from triage.numbers import Numbers, server_of
from triage.ranking import folded, ranked
from triage.repository_facts import refused_models
from triage.rule import Rule, Rulebook, Saying, Stage
from triage.vocabulary import Level


def judge(rulebook: Rulebook, context: Context) -> Judgement:
    """All findings of the rulebook in the context, most harmful first, and what could not be judged."""
    return _Judge(rulebook, context).run()


def _judged(rule: Rule, context: Context) -> bool:
    choice = context.choices.get(rule.name)
    return rule.enabled if choice is None or choice.enabled is None else choice.enabled


class _Judge:
    def __init__(self, rulebook: Rulebook, context: Context) -> None:
        rules = [rule for rule in rulebook.rules if _judged(rule, context)]
        self._rules = sorted(rules, key=lambda rule: rule.level is not Level.SERVER)
        self._context = context
        self._numbers = Numbers(context)
        self._lookback = Lookback(context, self._numbers)
        self._hidden: set[str] = set()

    def run(self) -> Judgement:
        findings: list[Finding] = []
        unjudged: list[Unjudged] = []
        for rule in self._rules:
            subjects = self._subjects(rule)
            candidates = tuple(subject for subject in subjects if self._applies(rule, subject))
            for subject in candidates:
                finding = self._finding(rule, subject, candidates)
                if finding is None:
                    unjudged += self._recorded_too_short(rule, subject, candidates)
                    continue
                findings.append(finding)
                if rule.hides or not self._answers(finding.server):
                    self._hidden.add(finding.server)
            if rule.level is not Level.SERVER:
                unjudged += self._unjudged(rule, subjects)
        kept = folded(findings, self._rules, self._numbers.facts.config)
        drifts = {
            key: drift
            for key, drift in self._context.happenings.drifts.items()
            if key.server not in self._hidden
        }
        found = ranked(kept, self._rules)
        return Judgement(self._context.now, len(self._rules), found, tuple(unjudged), drifts)

    def _answers(self, server: str) -> bool:
        one = self._context.coverage_of.get(server)
        return one is None or one.answering

    def _subjects(self, rule: Rule) -> Sequence[Subject]:
        """A server that is down, or one whose figures mean nothing, hides its models."""
        if rule.level is Level.SERVER:
            return [one.server for one in self._context.coverage]
        choice = self._context.choices.get(rule.name)
        known = (*self._context.model_keys, *refused_models(self._context))
        keys = [key for key in known if key.server not in self._hidden]
        if choice is None or not choice.except_models:
            return keys
        return [key for key in keys if not choice.leaves_out(key.name)]

    def _applies(self, rule: Rule, subject: Subject) -> bool:
        return self._all(rule.when, subject) and not self._any(rule.unless, subject)

    def _all(self, conditions: Sequence[Condition], subject: Subject) -> bool:
        return all(self._numbers.holds(condition, subject) is True for condition in conditions)

    def _any(self, conditions: Sequence[Condition], subject: Subject) -> bool:
        return any(self._numbers.holds(condition, subject) is True for condition in conditions)

    def _finding(self, rule: Rule, subject: Subject, among: tuple[Subject, ...]) -> Finding | None:
        base = None
        for stage in self._stages(rule, subject):
            base = base or tuple(self._holds(rule, subject, among))
            if stage.for_seconds <= self._held(base, stage, subject, among):
                return self._said(rule, stage, subject, base)
        return None

    def _stages(self, rule: Rule, subject: Subject) -> list[Stage]:
        return [
            stage
            for stage in rule.stages
            if self._all(stage.when, subject) and not self._any(stage.unless, subject)
        ]

    def _held(
        self, base: Sequence[Hold], stage: Stage, subject: Subject, among: tuple[Subject, ...]
    ) -> float:
        return min(hold.seconds for hold in (*base, *self._holds(stage, subject, among)))

    def _recorded_too_short(
        self, rule: Rule, subject: Subject, among: tuple[Subject, ...]
    ) -> Iterator[Unjudged]:
        """What held all the time, where all the time was shorter than it must hold and no more will come."""
        begun = self._context.history_from
        if not self._context.ended or begun is None:
            return
        reach = self._context.report.at - begun
        stages = [one for one in self._stages(rule, subject) if one.for_seconds > reach]
        if not stages or reach <= 0:
            return
        base = tuple(self._holds(rule, subject, among))
        soonest = min(stages, key=lambda one: one.for_seconds)
        if self._held(base, soonest, subject, among) < reach:
            return
        model = subject if isinstance(subject, ModelKey) else None
        who = self._context.label(model) if model else server_of(subject)
        yield Unjudged(
            rule.name,
            server_of(subject),
            model,
            f"{who} looks like it for all of the {human_duration(reach)} that were recorded; it is told from "
            f"{human_duration(soonest.for_seconds)} on",
        )

    def _holds(self, part: Rule | Stage, subject: Subject, among: tuple[Subject, ...]) -> Iterator[Hold]:
        for condition in part.when:
            yield self._lookback.hold(condition, subject, excluded=False, among=among)
        for condition in part.unless:
            yield self._lookback.hold(condition, subject, excluded=True, among=among)

    def _said(self, rule: Rule, stage: Stage, subject: Subject, holds: Sequence[Hold]) -> Finding:
        saying = next(one for one in rule.sayings if self._fits(one, subject))
        model = subject if isinstance(subject, ModelKey) else None
        server = server_of(subject)
        label = self._context.label(model) if model else server
        names = {"server": server, "model": label}
        held = min(hold.seconds for hold in holds)
        if math.isfinite(held):
            names["held"] = human_duration(held)
        several = model is not None and len(self._context.coverage) > 1
        # Where the clause names the server by itself it would stand there twice.
        placed = several and all(field.plain != "server" for field in saying.clause.fields())
        listed = {**names, "model": f"{label} on {server}" if placed else label}

        def lookup(reference: Reference) -> Fact:
            return self._numbers.value(reference, subject)

        known = [hold.since for hold in holds if hold.since is not None]
        return Finding(
            rule=rule.name,
            severity=stage.severity,
            tag=saying.tag,
            server=server,
            model=model,
            sentence=saying.sentence.fill(names, lookup),
            since=max(known) if known else None,
            evidence=tuple(self._evidence(rule, subject)),
            impact=rule.impact,
            remedy=saying.remedy.fill(names, lookup),
            detail=self._detail(saying, subject),
            harm_per_second=sum(self._number(reference, subject) or 0.0 for reference in rule.harm),
            clause=saying.clause.fill(listed, lookup),
            affected=rule.affects.fill(names, lookup),
            confidence=saying.confidence,
            excluded=tuple(one.fill(names, lookup) for one in saying.excluded if one.known(names, lookup)),
            change=self._change(saying, subject),
            explains=saying.explains,
        )

    def _change(self, saying: Saying, subject: Subject) -> Change | None:
        """The proposed setting, where the model's config and the numbers of the proposal are known."""
        config = self._numbers.facts.config(subject) if isinstance(subject, ModelKey) else None
        if saying.change is None or config is None:
            return None
        value = self._numbers.chosen(saying.change.terms, saying.change.choice, subject)
        return None if value is None else proposed(saying.change, value, config)

    def _fits(self, saying: Saying, subject: Subject) -> bool:
        return self._all(saying.when, subject) and not self._any(saying.unless, subject)

    def _number(self, reference: Reference, subject: Subject) -> float | None:
        value = self._numbers.value(reference, subject)
        return float(value) if isinstance(value, float | int) else None

    def _evidence(self, rule: Rule, subject: Subject) -> Iterator[Evidence]:
        for label, reference in rule.evidence:
            signal = reference.quantity.name if reference.is_signal else None
            value = self._number(reference, subject)
            told = None if value is None else reference.told(value)
            yield Evidence(label, told, reference.quantity.unit, signal)

    def _detail(self, saying: Saying, subject: Subject) -> str:
        """The server's whole text behind a fact that is shown as one line."""
        used = {field.reference.quantity.name for field in saying.sentence.fields() if field.reference}
        if "reason" in used and isinstance(subject, ModelKey):
            facts = self._context.facts_of.get(subject)
            return facts.reason if facts else ""
        one = self._context.coverage_of.get(server_of(subject))
        return one.sentence if "error" in used and one else ""

    # ---- what cannot be judged

    def _unjudged(self, rule: Rule, subjects: Sequence[Subject]) -> Iterator[Unjudged]:
        for server in dict.fromkeys(server_of(subject) for subject in subjects):
            why = self._why_not(rule, server, [one for one in subjects if server_of(one) == server])
            if why:
                yield Unjudged(rule.name, server, None, why)

    def _why_not(self, rule: Rule, server: str, subjects: Sequence[Subject]) -> str | None:
        needs_figures = any(condition.left.is_signal for condition in rule.when)
        one = self._context.coverage_of.get(server)
        if (
            needs_figures
            and one is not None
            and one.asked_sources
            and Source.METRICS not in one.asked_sources
        ):
            return NO_PAGE
        if needs_figures and one is not None and Source.METRICS in one.failed_sources:
            why = one.failed_sources[Source.METRICS].removesuffix(".")
            return f"its metrics page is not readable: {why}"
        if needs_figures and self._one_reading():
            return ONE_READING
        for need in rule.needs:
            if all(self._numbers.value(need.reference, subject) is None for subject in subjects):
                return need.why
        return None

    def _one_reading(self) -> bool:
        start = self._context.history_from
        return (
            self._context.report.window_seconds is None or start is None or start >= self._context.report.at
        )
