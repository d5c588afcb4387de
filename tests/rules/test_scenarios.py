"""Every rule has a scenario that fires and situations in which nothing may be said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.replay import Replay, described
from tests.rules.series import START, Scenario, load_scenarios
from triage.rulebook import load_rulebook

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.yaml"))
RULES = [rule.name for rule in load_rulebook().rules]
SCENARIOS = [
    pytest.param(scenario, id=f"{path.stem}: {scenario.name}")
    for path in FILES
    for scenario in load_scenarios(path)
]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario: Scenario) -> None:
    replay = Replay(scenario)
    expected = {one.at_seconds: one for one in scenario.expect}
    assert expected or scenario.quiet, "a scenario says what is expected, or that it is quiet"
    for seconds in replay.run():
        if not scenario.quiet and seconds not in expected:
            continue
        judgement, said = replay.judge()
        found = [described(finding) for finding in judgement.findings]
        want = expected.pop(seconds, None)
        if want is None:
            assert found == [], f"at {seconds:g} s: {[one.sentence for one in judgement.findings]}"
            continue
        assert found == list(want.findings), f"at {seconds:g} s: {said.sentence}"
        if want.sentences is not None:
            told = tuple(finding.sentence for finding in judgement.findings[: len(want.sentences)])
            assert told == want.sentences
        if want.follows is not None:
            assert tuple(map(described, judgement.findings[0].follows)) == want.follows
        if want.since_seconds is not None:
            assert judgement.findings[0].since == START + want.since_seconds
        if want.verdict is not None:
            assert f"{said.level.value}: {said.sentence}" == want.verdict
        if want.unjudged is not None:
            assert [f"{one.rule} {one.server}" for one in judgement.unjudged] == list(want.unjudged)
    assert not expected, f"the scenario ends before {sorted(expected)}"


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_scenarios_that_fire_and_that_do_not(rule: str) -> None:
    path = FOLDER / f"{rule}.yaml"
    assert path.exists(), f"write {path.name}: a rule is two files"
    scenarios = load_scenarios(path)
    fired = any(
        found.startswith(f"{rule} ") for one in scenarios for want in one.expect for found in want.findings
    )
    assert fired, f"no scenario of {path.name} fires {rule}"
    assert any(one.quiet for one in scenarios), f"no scenario of {path.name} must stay quiet"
