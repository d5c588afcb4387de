"""A rule with shorter or longer windows: for situations that cannot last an hour."""

from __future__ import annotations

from dataclasses import replace

from triage.conditions import Condition, Reference, Term
from triage.rule import Rule, Saying, Stage
from triage.template import Part, Template


def scaled(rule: Rule, factor: float) -> Rule:
    """The rule with every window, `ago` and `for` multiplied by `factor`, the numbers in sentences too."""

    def reference(one: Reference) -> Reference:
        window = None if one.window_seconds is None else one.window_seconds * factor
        return replace(one, window_seconds=window, ago_seconds=one.ago_seconds * factor)

    def term(one: Term) -> Term:
        return one if one.reference is None else replace(one, reference=reference(one.reference))

    def condition(one: Condition) -> Condition:
        return replace(one, left=reference(one.left), terms=tuple(map(term, one.terms)))

    def stage(one: Stage) -> Stage:
        return Stage(
            one.severity,
            one.for_seconds * factor,
            tuple(map(condition, one.when)),
            tuple(map(condition, one.unless)),
        )

    def part(one: Part) -> Part:
        if isinstance(one, str) or one.reference is None:
            return one
        return replace(one, reference=reference(one.reference))

    def template(one: Template) -> Template:
        parts = (tuple(map(part, each)) if isinstance(each, tuple) else part(each) for each in one.parts)
        return Template(one.text, tuple(parts))

    def saying(one: Saying) -> Saying:
        return replace(
            one,
            when=tuple(map(condition, one.when)),
            unless=tuple(map(condition, one.unless)),
            clause=template(one.clause),
            sentence=template(one.sentence),
            remedy=template(one.remedy),
            excluded=tuple(map(template, one.excluded)),
        )

    return replace(
        rule,
        sayings=tuple(map(saying, rule.sayings)),
        when=tuple(map(condition, rule.when)),
        unless=tuple(map(condition, rule.unless)),
        stages=tuple(map(stage, rule.stages)),
        evidence=tuple((label, reference(one)) for label, one in rule.evidence),
        harm=tuple(map(reference, rule.harm)),
    )
