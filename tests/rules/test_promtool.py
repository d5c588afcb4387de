"""promtool, with every scenario that the app's engine replays: both find the same, at any scrape interval."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prometheus.builder import FOLDER
from prometheus.parameters import Parameters
from telemetry.rule_choice import RuleChoice
from tests.prometheus_server import PROMTOOL
from tests.rules.promtool import (
    OPERATOR,
    Case,
    Columns,
    Relabel,
    agreeing,
    agreement,
    foreign,
    operated,
    plain,
    quietly,
    slowed,
)
from tests.rules.promtool_run import rules_of, run
from tests.rules.series import Scenario, load_scenarios
from triage.rulebook import load_rulebook

pytestmark = pytest.mark.timeout(420)

SCENARIOS = Path(__file__).parent
FILES = sorted(SCENARIOS.glob("*.yaml"))
RULES = [rule.name for rule in load_rulebook().rules if not rule.alert.app_only]
APP_ONLY = {rule.name for rule in load_rulebook().rules if rule.alert.app_only}
SLOW_SECONDS = 60.0


def asked(path: Path) -> list[Scenario]:
    """The scenarios of a file that Prometheus can be asked about."""
    return [scenario for scenario in load_scenarios(path) if not scenario.app_only]


def firing(path: Path) -> list[Scenario]:
    """Those in which the rule the file is called after fires: the first of each severity: they take long."""
    found: dict[str, Scenario] = {}
    if path.stem in APP_ONLY:
        return []
    for scenario in asked(path):
        alerts = [alert.split() for one in scenario.expect for alert in one.alerts]
        for severity in (words[1] for words in alerts if words[0] == path.stem):
            found.setdefault(severity, scenario)
    return list({id(scenario): scenario for scenario in found.values()}.values())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_prometheus_finds_what_the_app_finds_and_nothing_else(path: Path, tmp_path: Path) -> None:
    scenarios = asked(path)
    for number, parameters in enumerate(dict.fromkeys(map(_hashable, scenarios))):
        same = [scenario for scenario in scenarios if _hashable(scenario) == parameters]
        folder = tmp_path / str(number)
        folder.mkdir()
        told = run(
            folder, rules_of(agreeing(same[0])), [agreement(one) for one in same], same[0].interval_seconds
        )
        assert told == ""


def _hashable(scenario: Scenario) -> tuple[float, float]:
    return scenario.interval_seconds, scenario.window_seconds


@pytest.mark.parametrize(
    ("parameters", "relabel"),
    [(Parameters(), plain), (Parameters(), foreign), (OPERATOR, operated)],
    ids=["our labels", "an operator's labels on top", "an operator's labels in the way of ours"],
)
def test_every_rule_fires_with_a_scrape_a_minute(
    parameters: Parameters, relabel: Relabel, tmp_path: Path, figure: Any
) -> None:
    cases: dict[str, list[Case]] = {
        path.stem: [slowed(scenario, SLOW_SECONDS, path.stem, relabel) for scenario in firing(path)]
        for path in FILES
    }
    cases = {rule: found for rule, found in cases.items() if found}
    scenarios = sum(map(len, cases.values()))
    figure(f"{len(cases)} rules fire in {scenarios} scenarios with a scrape a minute")
    switched_on = {rule.name: RuleChoice(rule.name, True) for rule in load_rulebook().rules}
    objectives = dict.fromkeys(row for path in FILES for one in asked(path) for row in one.objectives)
    built = replace(parameters, choices=switched_on, objectives=tuple(objectives))
    rules = rules_of(built)
    told = {rule: run(tmp_path / rule, rules, found, SLOW_SECONDS, rule) for rule, found in cases.items()}
    assert {rule: text for rule, text in told.items() if text} == {}
    assert set(cases) == set(RULES)


def test_the_committed_rules_stay_quiet_where_nothing_is_wrong(tmp_path: Path, figure: Any) -> None:
    """At their own windows and waiting times, scraped every 15 s."""
    quiet = [
        quietly(scenario)
        for path in FILES
        for scenario in asked(path)
        if scenario.quiet and scenario.interval_seconds == 15.0
    ]
    figure(f"{len(quiet)} situations in which the committed rules say nothing")
    assert len(quiet) >= 20
    assert run(tmp_path, rules_of(Parameters()), quiet, 30.0) == ""


def test_promtool_accepts_the_committed_rules(figure: Any) -> None:
    answer = subprocess.run(
        [str(PROMTOOL), "check", "rules", *map(str, sorted(FOLDER.glob("*.yml")))],
        capture_output=True,
        text=True,
        timeout=60,
    )
    counted = re.findall(r"SUCCESS: (\d+) rules found", answer.stdout)
    scenarios = sum(len(load_scenarios(path)) for path in FILES)
    figure(
        f"{sum(map(int, counted))} rules in Prometheus from {len(RULES)} rule files, {scenarios} scenarios"
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "duplicate" not in answer.stdout
    assert sum(map(int, counted)) >= 30


def test_a_scenario_that_expects_the_wrong_thing_fails(tmp_path: Path) -> None:
    """The comparison can fail: an alert too many, and one that does not come."""
    [hung] = [one for one in asked(SCENARIOS / "ModelHung.yaml") if one.name.startswith("works, then hangs")]
    for wrong in ((), ("ModelHung page bravo v1",)):
        expect = tuple(replace(one, alerts=wrong) for one in hung.expect[-1:])
        told = run(tmp_path, rules_of(agreeing(hung)), [agreement(replace(hung, expect=expect))], 2.0)
        assert 'alertname="ModelHung", model="alpha", severity="page"' in told


def test_a_queue_that_is_as_long_as_yesterday_is_no_news(tmp_path: Path) -> None:
    """60 ms for 26 hours, then 200 ms: an alert while there is no yesterday, and when it is twice as long."""
    minutes, usual = 27 * 60, 26 * 60
    queue_us = [
        600.0 * 60_000 * min(at, usual) + 600.0 * 200_000 * max(0, at - usual) for at in range(minutes)
    ]
    rates = {
        "nv_inference_request_success": [600.0 * at for at in range(minutes)],
        "nv_inference_queue_duration_us": queue_us,
        "nv_inference_compute_infer_duration_us": [600.0 * 20_000 * at for at in range(minutes)],
        "nv_inference_request_duration_us": [one + 600.0 * 20_000 * at for at, one in enumerate(queue_us)],
    }
    series: Columns = {
        (("__name__", name), ("instance", "a"), ("job", "triton"), ("model", "m"), ("version", "1")): [
            *values
        ]
        for name, values in rates.items()
    }
    firing_now = (
        'count by (severity) (ALERTS{alertname="QueueDominates", alertstate="firing", severity="ticket"})'
    )
    fires = (('{severity="ticket"}', 1.0),)
    checks = (
        (3 * 3600.0, firing_now, fires),
        (25.5 * 3600, firing_now, ()),
        (26.8 * 3600, firing_now, fires),
    )
    case = Case("queue of a day", 60.0, series, checks)
    assert run(tmp_path, rules_of(Parameters()), [case], 300.0) == ""
