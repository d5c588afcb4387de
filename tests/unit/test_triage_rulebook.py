"""Rule files: what is understood, and the sentence for each mistake, with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.errors import SettingsError
from telemetry.units import Unit
from triage.conditions import parse_condition, parse_reference
from triage.durations import parse_duration
from triage.finding import Severity
from triage.rulebook import HEADINGS, load_rulebook, parse_rule
from triage.runbooks import FOLDER, pages
from triage.template import parse_template
from triage.vocabulary import FACTS, QUANTITIES, Level

GOOD = """---
title: Requests wait
tag: WAITING
level: model
clause: "{model} waits"
when:
  - queue_us_mean > 10 ms
for: 1m
severity: ticket
say:
  - sentence: "{model} waits {queue_us_mean}."
    remedy: Add instances.
harm: [requests_per_second]
evidence:
  queue: queue_us_mean
---

# Waiting

## Meaning

It waits.

## Impact

Every request
is late.

More.

## Diagnosis

Look.

## Mitigation

Add.
"""


def test_a_rule_is_read_with_its_conditions_units_and_sections() -> None:
    rule = parse_rule(GOOD, "Waiting.md")
    assert (rule.name, rule.tag, rule.level) == ("Waiting", "WAITING", Level.MODEL)
    assert rule.when[0].left.quantity.unit is Unit.US
    assert rule.when[0].terms[0].factor == 10_000.0
    assert [(stage.severity, stage.for_seconds) for stage in rule.stages] == [(Severity.TICKET, 60.0)]
    assert rule.impact == "Every request is late."
    assert tuple(rule.sections) == HEADINGS


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("queue_us_mean > 10 ms", "queue_us_meen > 10 ms", 7, "unknown signal 'queue_us_meen'"),
        ("queue_us_mean > 10 ms", "queue_us_mean => 10 ms", 7, "not a condition"),
        ("queue_us_mean > 10 ms", "queue_us_mean", 7, "not a condition"),
        ("queue_us_mean > 10 ms", "queue_us_mean > 10 MiB", 7, "'MiB' is not a unit of us"),
        ("queue_us_mean > 10 ms", "queue_us_mean > failed_ratio", 7, "failed_ratio is in ratio"),
        ("queue_us_mean > 10 ms", "state == SLEEPING", 7, "never 'SLEEPING'"),
        ("queue_us_mean > 10 ms", "state > READY", 7, "compare it with == or !="),
        ("queue_us_mean > 10 ms", "instances[5m] > 1", 7, "takes no window"),
        ("queue_us_mean > 10 ms", "planet.requests_total > 1", 7, "unknown level 'planet'"),
        ("queue_us_mean > 10 ms", "requests_total[5 minutes] > 1", 7, "not a duration"),
        ("for: 1m", "for: soon", 8, "'soon' is not a duration"),
        ("severity: ticket", "severity: urgent", 9, "severity is 'urgent'"),
        ("level: model", "level: planet", 4, "level is 'planet'"),
        ("title: Requests wait", "title: Requests wait\ntitle: Twice", 3, "title is set on line 2 already"),
        ("tag: WAITING", "tag: 5", 3, "tag must be text"),
        ("tag: WAITING", "tag: waits a bit", 3, "one word in capitals"),
        ("{model} waits {queue_us_mean}.", "{model} waits {queue}.", 11, "unknown signal 'queue'"),
        ("{model} waits {queue_us_mean}.", "{model} waits [{queue_us_mean}.", 11, "do not match"),
        ("harm: [requests_per_second]\n", "", 2, "harm is missing"),
        ("title: Requests wait\n", "", 2, "title is missing"),
        ("tag: WAITING", "tag: WAITING\ncolour: red", 4, "unknown key 'colour'"),
        ("## Diagnosis\n\nLook.\n", "", 17, "`## Diagnosis` is missing"),
        ("Add.\n", "", 17, "`## Mitigation` is missing or has nothing under it"),
        ("title: Requests wait", "title: [", 2, "the front matter cannot be read"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(old: str, new: str, line: int, words: str) -> None:
    assert old in GOOD
    with pytest.raises(SettingsError) as caught:
        parse_rule(GOOD.replace(old, new), "Waiting.md")
    assert caught.value.sentence.startswith(f"Waiting.md:{line}: "), caught.value.sentence
    assert words in caught.value.sentence


def test_a_file_without_front_matter_and_a_bad_file_name_are_named() -> None:
    with pytest.raises(SettingsError, match=r"Waiting\.md:1: a rule begins with front matter"):
        parse_rule("# Waiting\n", "Waiting.md")
    with pytest.raises(SettingsError, match="called after the alert"):
        parse_rule(GOOD, "waiting_requests.md")


def test_the_last_saying_must_be_the_general_case() -> None:
    text = GOOD.replace("    remedy: Add instances.", "    remedy: Add instances.\n    when: [pending >= 1]")
    with pytest.raises(SettingsError, match="must have no conditions"):
        parse_rule(text, "Waiting.md")


def test_an_empty_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there are no rules"):
        load_rulebook(tmp_path)


def test_the_five_rules_load_and_the_most_severe_stage_comes_first() -> None:
    rulebook = load_rulebook()
    assert {rule.name for rule in rulebook.rules} >= {
        "ServerDown", "ModelLoadFailed", "ModelHung", "RequestsFailing", "QueueDominates",
    }  # fmt: skip
    order = [stage.severity for stage in rulebook.rule("ModelHung").stages]
    assert order == sorted(order, key=list(Severity).index)
    with pytest.raises(KeyError):
        rulebook.rule("NoSuchRule")


def test_durations() -> None:
    assert [parse_duration(text) for text in ("10s", "5m", "1h30m", "1d")] == [10, 300, 5400, 86400]
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration("5")


def test_thresholds_may_be_the_largest_of_several() -> None:
    condition = parse_condition("queue_us_mean > max(10 ms, 3 * max_queue_delay_us)", Level.MODEL)
    assert condition.choice == "max"
    assert [term.factor for term in condition.terms] == [10_000.0, 3.0]
    assert [reference.quantity.name for reference in condition.references()] == [
        "queue_us_mean", "max_queue_delay_us",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.0, "alpha has 3 waiting requests, 3 in all."),
        (1.0, "alpha has 1 waiting request, 1 in all."),
        (None, "alpha has –."),
    ],
)
def test_a_template_counts_nouns_and_drops_what_is_not_reported(value: float | None, text: str) -> None:
    template = parse_template("{model} has {pending:waiting request}[, {pending} in all].", Level.MODEL)
    assert template.fill({"model": "alpha"}, lambda _: value) == text


def test_every_fact_has_a_value_function() -> None:
    from triage import facts

    known = {
        Level.MODEL: facts.MODEL_FACTS,
        Level.SERVER: facts.SERVER_FACTS,
        Level.WORKLOAD: facts.WORKLOAD_FACTS,
    }
    for level, functions in known.items():
        assert {row.name for row in FACTS if row.level is level} == set(functions)
    assert (Level.MODEL, "errors_ratio") in QUANTITIES


def test_the_runbooks_are_those_of_the_rules() -> None:
    wanted = pages(load_rulebook())
    found = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    assert found == dict(wanted), "run python -m triage.runbooks"


def test_an_increase_is_told_in_whole_things() -> None:
    """Prometheus' increase is extrapolated to the window: of 30 requests it may say 31.2."""
    counts = parse_reference("requests_before", Level.MODEL)
    assert [counts.told(value) for value in (31.2, 0.4, 0.0)] == [31.0, 0.4, 0.0]
    assert parse_reference("failures_total[5m]", Level.MODEL).told(49.7) == 50.0
    waiting = parse_reference("requests_queued", Level.MODEL)
    assert waiting.told(3.4) == 3.4, "a mean is none"
    told = parse_template("{requests_before} requests", Level.MODEL)
    assert told.fill({}, lambda _: 31.2) == "31 requests"
