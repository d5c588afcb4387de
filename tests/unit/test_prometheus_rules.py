"""The rules for Prometheus as text: PromQL, labels, annotations, build parameters, and what is committed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from prometheus import slo
from prometheus.builder import FOLDER, files, groups, main
from prometheus.facts import FACTS_IN_PROMQL, NOT_IN_PROMQL
from prometheus.parameters import Parameters
from runtime import Runtime
from settings import Settings, load_settings
from signals.definitions import definition
from telemetry.catalogue import known
from telemetry.identity import Server
from telemetry.objective import Objective
from telemetry.rule_choice import RuleChoice, pattern_expression
from triage.durations import duration_text, parse_duration
from triage.rulebook import load_rulebook
from triage.vocabulary import FACTS

RULEBOOK = load_rulebook()
OBJECTIVES = (
    Objective("bert_*", "", 0.001, 200_000.0, 0.05),
    Objective("resnet18", "vision", None, 50_000.0, 0.01, 7.0),
)
EVERYTHING = Parameters(
    choices={rule.name: RuleChoice(rule.name, True) for rule in RULEBOOK.rules}, objectives=OBJECTIVES
)
THEIRS = replace(
    EVERYTHING,
    selector='cluster="prod"',
    server="namespace, pod",
    model="model_name",
    version="exported_version",
    runbook_base="https://runbooks.example/triton/",
    team="inference",
)
FAMILY = re.compile(r"\b(?:nv_|tritonscope_|DCGM_)\w+")
PAGES = {
    "ServerDown",
    "ModelLoadFailed",
    "ModelGone",
    "ModelStuckLoading",
    "RequestsFailing",
    "ModelHung",
    "SloErrorsBurn",
    "SloLatencyBurn",
}
"""No replica answers, no replica has the model READY, failing, hung, burning: nothing else wakes anybody."""


def built(parameters: Parameters) -> list[dict[str, Any]]:
    """All rules, recording and alerting."""
    return [rule for group in groups(RULEBOOK, parameters) for rule in group["rules"]]


def alerts(parameters: Parameters) -> list[dict[str, Any]]:
    return [rule for rule in built(parameters) if "alert" in rule]


@pytest.mark.parametrize("parameters", [Parameters(), EVERYTHING, THEIRS], ids=["default", "all", "theirs"])
def test_every_expression_is_promql_over_known_families(parameters: Parameters) -> None:
    for rule in built(parameters):
        text = rule["expr"]
        assert promql_parser.parse(text) is not None
        for family in FAMILY.findall(re.sub(r"\b(?:model|server|workload):tritonscope_\w+", "", text)):
            base = re.sub(r"(?<=_us|_ms)_(?:count|sum|bucket)$", "", family)
            assert known(base) or base == "tritonscope_exporter_source_success", family


def test_every_rule_is_an_alert_or_made_for_objectives() -> None:
    assert {rule["alert"] for rule in alerts(EVERYTHING)} == {
        rule.name for rule in RULEBOOK.rules if not rule.alert.app_only
    }
    default = {rule["alert"] for rule in alerts(Parameters())}
    off = {rule.name for rule in RULEBOOK.rules if not rule.enabled}
    said = {rule.name for rule in RULEBOOK.rules if not rule.alert.app_only}
    assert default == said - off - {"SloErrorsBurn", "SloLatencyBurn"}
    assert off == {"GpuMemoryFull"}


def test_only_what_hurts_users_now_is_a_page() -> None:
    found = {rule["alert"] for rule in alerts(EVERYTHING) if rule["labels"]["severity"] == "page"}
    assert found == PAGES
    assert {rule["labels"]["severity"] for rule in alerts(EVERYTHING)} == {"page", "ticket", "info"}


def test_what_a_person_needs_stands_in_every_alert() -> None:
    for rule in alerts(EVERYTHING):
        texts = rule["annotations"]
        assert set(texts) >= {"summary", "description", "impact", "action", "runbook", "dashboard_url"}
        assert texts["runbook"] == f"docs/runbooks/{rule['alert']}.md"
        assert (Path(__file__).parents[2] / texts["runbook"]).is_file()
        assert texts["dashboard_url"].startswith("{{ with $externalLabels.tritonscope_url }}{{ . }}/")
        assert all(texts.values())
        assert "[" not in texts["action"], "no part that may vanish is left"


def test_build_parameters_are_followed_everywhere() -> None:
    for rule in built(THEIRS):
        text = rule["expr"]
        plain = re.sub(r"\b(?:model|server|workload):tritonscope_\w+(?::\w+)?", "", text)
        assert len(FAMILY.findall(plain)) + len(re.findall(r"\bup\{", plain)) == text.count('cluster="prod"')
        for grouping in re.findall(r"\b(?:by|on|without|group_left) \(([^()]*)\)", text):
            names = {name.strip() for name in grouping.split(",") if name.strip()}
            assert not names & {"model", "version"}
    hung = next(rule for rule in alerts(THEIRS) if rule["alert"] == "ModelHung")
    assert "on (namespace, pod, model_name, exported_version)" in hung["expr"]
    assert hung["labels"] == {
        "severity": "page",
        "workload": "{{ or $labels.workload $labels.pod }}",
        "model": "{{ $labels.model_name }}",
        "team": '{{ or $labels.team "inference" }}',
    }
    assert hung["annotations"]["runbook_url"] == "https://runbooks.example/triton/ModelHung.md"
    assert "version={{ $labels.exported_version | urlquery }}" in hung["annotations"]["dashboard_url"]


@pytest.mark.parametrize("interval", [5.0, 15.0, 60.0, 120.0])
def test_rates_span_four_scrapes(interval: float) -> None:
    parameters = replace(EVERYTHING, scrape_interval_seconds=interval)
    for rule in built(parameters):
        for window in re.findall(r"(?:rate|increase)\([^\[\]]*\[([^\]]+)\]", rule["expr"]):
            assert parse_duration(window) >= 4 * interval, rule
    hung = next(rule for rule in alerts(parameters) if rule["alert"] == "ModelHung")
    assert f"offset {duration_text(max(60.0, interval))}" in hung["expr"]


def test_foreign_labels_pass() -> None:
    """Rows keep their labels: `by` only on the far side of a join, or where steps are summed up."""
    for rule in alerts(Parameters()):
        first = rule["expr"].lstrip("( \n").split("\n")[0]
        head = re.split(r"\b(?:on|unless|and)\b", first)[0]
        assert " by (" not in head, first


def test_a_model_can_be_left_out_of_a_rule() -> None:
    choices = {"QueueDominates": RuleChoice("QueueDominates", None, ("batch_*", "x.y"))}
    for rule in alerts(Parameters(choices=choices)):
        left_out = r'model!~"batch_.*|x\\.y"' in rule["expr"]
        assert left_out is (rule["alert"] == "QueueDominates")
    off = {"ModelHung": RuleChoice("ModelHung", False)}
    assert "ModelHung" not in {rule["alert"] for rule in alerts(Parameters(choices=off))}


def test_patterns_become_expressions() -> None:
    assert [pattern_expression(text) for text in ("bert_*", "a?c", "x.y")] == ["bert_.*", "a.c", r"x\.y"]


def test_every_fact_has_promql_or_a_reason_why_not() -> None:
    names = {row.name for row in FACTS}
    by_objective = {name for name in names if "_burn_" in name} | {"latency_source"}
    assert FACTS_IN_PROMQL | set(NOT_IN_PROMQL) | by_objective == names
    assert not FACTS_IN_PROMQL & set(NOT_IN_PROMQL)


def test_what_is_committed_is_what_is_built() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert committed == dict(files()), "run make rules"
    assert all(text.startswith("# Generated by `make rules`") for text in committed.values())


def test_the_records_of_signals_are_the_signals() -> None:
    records = {rule["record"]: rule["expr"] for rule in built(Parameters()) if "record" in rule}
    dialect = Parameters().dialect(300.0)
    wanted = definition("queue_us_mean").promql(dialect)
    assert records["model:tritonscope_queue_us_mean:5m"] == wanted


def test_objectives_become_burn_rates_with_the_budget_that_was_written() -> None:
    rules = built(EVERYTHING)
    pages = next(
        rule["expr"]
        for rule in rules
        if rule.get("alert") == "SloErrorsBurn" and rule["labels"]["severity"] == "page"
    )
    assert 'bad_ratio:1h{slo="bert_*#1", objective="errors"} > 0.0144\n' in pages
    assert 'bad_ratio:30m{slo="bert_*#1", objective="errors"} > 0.006\n' in pages
    assert "resnet18" not in pages
    # 2 % of a 7-day budget in an hour is 3.36 times too fast.
    slow = next(
        rule["expr"]
        for rule in rules
        if rule.get("alert") == "SloLatencyBurn" and rule["labels"]["severity"] == "page"
    )
    assert 'bad_ratio:1h{slo="resnet18#2", objective="latency"} > 0.0336\n' in slow
    sources = {rule["labels"]["source"] for rule in rules if rule.get("record") == slo.BAD}
    assert sources == {"counters", "histogram", "summary", "mean"}
    assert 'workload=~"vision"' in next(
        rule["expr"] for rule in rules if rule.get("labels", {}).get("slo") == "resnet18#2"
    )
    assert slo.summary(OBJECTIVES[0]) == "99.9 % without error, 95 % under 200 ms, over 30 days"


# ---- the command


def test_rules_for_somebody_else_are_written_where_they_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "tritonscope.yml"
    settings.write_text(
        "slo:\n  - {model: alpha, errors: 99.9 %}\nrules:\n  GpuMemoryFull: {enabled: true}\n"
    )
    arguments = ["--output", str(tmp_path / "out"), "--settings", str(settings), "--server", "pod"]
    assert main([*arguments, "--scrape-interval", "30s"]) == 0
    [written] = (tmp_path / "out").iterdir()
    names = {
        rule.get("alert")
        for group in yaml.safe_load(written.read_text())["groups"]
        for rule in group["rules"]
    }
    assert {"GpuMemoryFull", "SloErrorsBurn"} <= names and "SloLatencyBurn" not in names
    assert "recording and" in capsys.readouterr().out


def test_a_parameter_that_cannot_be_used_is_said_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--output", str(tmp_path), "--scrape-interval", "often"]) == 2
    assert "'often' is not a duration" in capsys.readouterr().err
    (tmp_path / "tritonscope.yml").write_text("rules:\n  ModelHang: {enabled: false}\n")
    assert main(["--output", str(tmp_path), "--settings", str(tmp_path / "tritonscope.yml")]) == 2
    assert "rules that do not exist: ModelHang" in capsys.readouterr().err


# ---- settings


def test_objectives_and_rules_are_read_and_what_is_wrong_costs_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "tritonscope.yml"
    path.write_text(
        """servers: [{url: http://h:8000}]
slo:
  - {model: bert_*, errors: 99.9 %, latency: 95 % under 200 ms}
  - {model: x, errors: 100 %}
  - {model: y, latency: fast}
  - {model: z, errors: 99 %, days: 700}
  - {errors: 99 %}
  - {model: v, workload: search, latency: 99.5 % under 1.5 s, days: 7}
rules:
  GpuMemoryFull: {enabled: true}
  QueueDominates: {except: [batch_*]}
  ModelHung: {enabled: perhaps}
"""
    )
    read = load_settings({}, path)
    assert read.slo == (
        Objective("bert_*", "", 0.001, 200_000.0, 0.05),
        Objective("v", "search", None, 1_500_000.0, 0.005, 7.0),
    )
    assert read.rules == {
        "GpuMemoryFull": RuleChoice("GpuMemoryFull", True),
        "QueueDominates": RuleChoice("QueueDominates", None, ("batch_*",)),
    }
    assert [(notice.line, notice.text.split(":")[0]) for notice in read.notices] == [
        (4, "slo"), (5, "slo"), (6, "slo"), (7, "slo"), (12, "rules"),
    ]  # fmt: skip
    assert "leaves no budget" in read.notices[0].text
    assert read.slo[1].is_for("v", "search") and not read.slo[1].is_for("v", "other")


def test_durations_are_written_as_prometheus_reads_them() -> None:
    for seconds, text in ((300.0, "5m"), (5400.0, "1h30m"), (604800.0, "7d"), (0.5, "500ms"), (0.0, "0s")):
        assert duration_text(seconds) == text
        assert seconds in (0.5, 0.0) or parse_duration(text) == seconds


def test_a_server_is_found_by_what_prometheus_calls_it() -> None:
    servers = (
        Server("one", "http://a:8000", "http://a:8002"),
        Server("two", "http://b:8000", "http://b:8002", match=(("namespace", "prod"), ("pod", "triton-1"))),
    )
    process = Runtime(Settings(servers=servers))
    called = {name: process.server_called(name) for name in ("one", "a:8002", "b:8002", "triton-1")}
    assert called == {"one": "one", "a:8002": "one", "b:8002": "two", "triton-1": "two"}
    assert [process.server_called(name) for name in ("prod", "c:8002", None)] == [None, None, None]
