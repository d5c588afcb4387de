"""What a finding carries besides its sentence: proposal, confidence, what it is not, what follows from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collectors.config import parse_config
from history.protocol import Grid
from history.ring import Ring
from signals.evaluation import SERVER, Dialect, Evaluation
from signals.expression import Gauge
from signals.facts import SignalFacts
from telemetry.errors import SettingsError
from telemetry.facts import ModelConfig
from telemetry.identity import ModelKey
from telemetry.scrape import Samples, Scrape, Series, Source
from triage.change import SETTINGS, ChangeForm, proposed
from triage.conditions import parse_threshold
from triage.finding import Confidence, Finding, Severity
from triage.happenings import ProbeResult, Probes
from triage.nodes import Largest
from triage.ranking import folded
from triage.rulebook import load_rulebook, parse_rule
from triage.scaled import scaled
from triage.vocabulary import Level

RULES = Path(__file__).parents[2] / "triage" / "rules"
RULE = (RULES / "OneClientAtATime.md").read_text(encoding="utf-8")


def config(**raw: Any) -> ModelConfig:
    return parse_config({"name": "alpha", **raw})


def form(setting: str, text: str) -> ChangeForm:
    choice, terms = parse_threshold(text, SETTINGS[setting].unit, Level.MODEL)
    return ChangeForm(SETTINGS[setting], choice, terms)


# ---- rule files


@pytest.mark.parametrize(
    ("written", "wrong", "told"),
    [
        ("confidence: high", "confidence: sure", "confidence is 'sure': use high, medium or low"),
        ("setting: max_queue_delay_microseconds", "setting: delay", "unknown setting 'delay': known are"),
        ("to: 100 us", "to: 100 GB", "'GB'"),
        ("to: 100 us", "to: 2 * nothing", "unknown signal 'nothing'"),
    ],
)
def test_a_mistake_in_a_proposal_names_its_line(written: str, wrong: str, told: str) -> None:
    assert written in RULE
    with pytest.raises(SettingsError, match=r"Bad\.md:\d+: ") as error:
        parse_rule(RULE.replace(written, wrong, 1), "Bad.md")
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        ("\naffects:", "\nexplains: [QueueDominated]\naffects:"),
        ("\n    confidence: high", "\n    explains: [QueueDominated]\n    confidence: high"),
    ],
    ids=["the rule", "a cause of it"],
)
def test_a_rule_can_only_explain_rules_that_exist(tmp_path: Path, written: str, wrong: str) -> None:
    assert written in RULE
    text = RULE.replace(written, wrong, 1)
    (tmp_path / "OneClientAtATime.md").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match="`explains` names no rule: QueueDominated"):
        load_rulebook(tmp_path)


def test_every_cause_that_is_told_apart_says_how_sure_it_is() -> None:
    book = load_rulebook()
    assert {saying.confidence for rule in book.rules for saying in rule.sayings} == set(Confidence)
    assert all(rule.affects.text for rule in book.rules)
    proposals = {
        saying.change.setting.name for rule in book.rules for saying in rule.sayings if saying.change
    }
    assert {"instance_group.count", "max_queue_delay_microseconds", "max_queue_size"} <= proposals


# ---- proposals


def test_a_delay_is_rounded_to_what_such_advice_can_tell() -> None:
    found = proposed(
        form("max_queue_delay_microseconds", "0.5 * compute_infer_us_mean"),
        8_437.0,
        config(dynamic_batching={"preferred_batch_size": [4, 8], "max_queue_delay_microseconds": 20_000}),
    )
    assert found is not None
    assert (found.old, found.new) == ("20 ms", "8.4 ms")
    assert found.snippet == (
        "dynamic_batching {\n  preferred_batch_size: [ 4, 8 ]\n  max_queue_delay_microseconds: 8400\n}"
    )


def test_instances_keep_their_kind_and_what_is_so_already_is_not_proposed() -> None:
    running = config(instance_group=[{"name": "alpha_0", "kind": "KIND_CPU", "count": 2}])
    found = proposed(form("instance_group.count", "2 * instances"), 4.0, running)
    assert found is not None
    assert (found.old, found.new) == ("2", "4")
    assert found.snippet == "instance_group [\n  { count: 4 kind: KIND_CPU }\n]"
    assert proposed(form("instance_group.count", "2 * instances"), 2.0, running) is None


def test_what_is_not_set_is_called_so() -> None:
    found = proposed(form("default_timeout_microseconds", "100 ms"), 100_000.0, config())
    assert found is not None
    assert found.old == "not set"
    assert found.snippet == (
        "dynamic_batching {\n  default_queue_policy {\n    default_timeout_microseconds: 100000\n  }\n}"
    )


def test_a_section_keeps_what_else_stands_in_it() -> None:
    running = config(
        dynamic_batching={
            "preferred_batch_size": [8],
            "max_queue_delay_microseconds": 20_000,
            "preserve_ordering": False,
            "priority_levels": 2,
            "default_queue_policy": {
                "timeout_action": "REJECT",
                "default_timeout_microseconds": 300_000,
                "max_queue_size": 16,
            },
            "priority_queue_policy": {},
        }
    )
    found = proposed(form("max_queue_size", "32"), 32.0, running)
    assert found is not None
    assert found.snippet == (
        "dynamic_batching {\n  preferred_batch_size: [ 8 ]\n  max_queue_delay_microseconds: 20000\n"
        "  priority_levels: 2\n  default_queue_policy {\n    default_timeout_microseconds: 300000\n"
        "    max_queue_size: 32\n  }\n}"
    )


def test_a_count_of_instances_is_per_gpu_and_of_each_group() -> None:
    # One instance on each of two GPUs: two of them, and twice as many are two on each.
    on_gpus = config(instance_group=[{"name": "alpha_0", "kind": "KIND_GPU", "count": 1, "gpus": [0, 1]}])
    found = proposed(form("instance_group.count", "2 * instances"), 4.0, on_gpus)
    assert found is not None
    assert (found.old, found.new) == ("1", "2")
    assert found.snippet == "instance_group [\n  { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] }\n]"
    groups = [
        {"name": "fast", "kind": "KIND_GPU", "count": 2, "gpus": [0]},
        {"name": "alpha_1", "kind": "KIND_CPU", "count": 1, "host_policy": "", "passive": False},
    ]
    found = proposed(form("instance_group.count", "2 * instances"), 6.0, config(instance_group=groups))
    assert found is not None
    assert (found.old, found.new) == ("3", "6")
    assert found.snippet == (
        'instance_group [\n  { count: 4 kind: KIND_GPU name: "fast" gpus: [ 0 ] },\n'
        "  { count: 2 kind: KIND_CPU }\n]"
    )


# ---- what follows from what


def finding(rule: str, model: str, severity: Severity = Severity.TICKET, server: str = "a") -> Finding:
    key = ModelKey(server, model, "1") if model else None
    return Finding(rule, severity, "TAG", server, key, "", None, (), "", "")


def test_a_finding_goes_under_the_one_that_explains_it_and_passes_its_severity_on() -> None:
    rules = load_rulebook().rules
    found = [
        finding("RequestsFailing", "alpha", Severity.PAGE),
        finding("PythonProcessDead", "alpha"),
        finding("RequestsFailing", "bravo"),
        finding("RequestsFailing", "alpha", server="b"),
    ]
    kept = folded(found, rules, lambda key: None)
    assert [(one.rule, one.model.name if one.model else "", one.server) for one in kept] == [
        ("PythonProcessDead", "alpha", "a"),
        ("RequestsFailing", "bravo", "a"),
        ("RequestsFailing", "alpha", "b"),
    ]
    assert kept[0].severity is Severity.PAGE
    assert [one.rule for one in kept[0].follows] == ["RequestsFailing"]


def test_a_cause_explains_more_than_its_rule_does() -> None:
    rules = load_rulebook().rules
    failing, waiting = finding("RequestsFailing", "alpha"), finding("QueueDominates", "alpha")
    assert len(folded([failing, waiting], rules, lambda key: None)) == 2
    timed_out = replace(failing, explains=("QueueDominates",))
    [kept] = folded([timed_out, waiting], rules, lambda key: None)
    assert (kept.rule, [one.rule for one in kept.follows]) == ("RequestsFailing", ["QueueDominates"])


def test_what_follows_from_what_follows_goes_along() -> None:
    rules = load_rulebook().rules
    found = [
        finding("ModelHung", "alpha"),
        finding("QueueFull", "alpha"),
        finding("QueueDominates", "alpha"),
    ]
    [kept] = folded(found, rules, lambda key: None)
    assert kept.rule == "ModelHung"
    assert {one.rule for one in kept.follows} == {"QueueFull", "QueueDominates"}


# ---- what happened


def test_the_newest_test_request_of_a_model_counts() -> None:
    probes = Probes()
    probes.report(ProbeResult("a", "alpha", 1.0, False, "error", "500"))
    probes.report(ProbeResult("a", "alpha", 2.0, True))
    assert probes.results()["a", "alpha"].ok
    probes.forget("a", "alpha")
    assert probes.results() == {}


# ---- windows


def test_a_scaled_rule_has_shorter_windows_everywhere() -> None:
    rule = scaled(load_rulebook().rule("MemoryGrowsWithReloads"), 1 / 60)
    windows = {one.left.window_seconds for one in rule.when if one.left.window_seconds is not None}
    assert windows == {60.0, 20.0}
    assert {one.left.ago_seconds for one in rule.when} == {0.0, 20.0, 40.0}
    told = [field.reference for field in rule.sayings[0].sentence.fields() if field.reference is not None]
    assert {one.window_seconds for one in told} == {60.0}


def test_the_largest_of_a_window_is_its_readings_own() -> None:
    ring = Ring()
    series = (Series("nv_gpu_memory_total_bytes", (("gpu_uuid", "GPU-1"),)),)
    for tick, value in enumerate((8.0, 16.0, 16.0, 8.0, 8.0, 8.0)):
        at = 1000.0 + 10 * tick
        ring.accept(Scrape("a", Source.METRICS, at, 0.001, Samples(series, np.array([value]))))
    node = Largest(Gauge("nv_gpu_memory_total_bytes", SERVER))
    frame = Evaluation(ring, SignalFacts(), 15.0, Grid(1050.0, 1050.0, 1.0)).of(node)
    assert frame.values[0].tolist() == [8.0]
    frame = Evaluation(ring, SignalFacts(), 35.0, Grid(1050.0, 1050.0, 1.0)).of(node)
    assert frame.values[0].tolist() == [16.0]
    assert "max_over_time(nv_gpu_memory_total_bytes[30m])" in node.promql(Dialect(window="30m"))
