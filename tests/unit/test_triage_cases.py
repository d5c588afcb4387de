"""Saved answers of other people's servers: what triage says about them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from signals.saved import SERVER, Replay, SavedAnswers, SavedFile, replay
from telemetry.identity import Server
from triage.context import Context
from triage.coverage import server_coverage
from triage.engine import judge
from triage.finding import ONE_READING, Judgement, Severity
from triage.rulebook import load_rulebook
from triage.verdict import Verdict, VerdictLevel, verdict

CASES = Path(__file__).parents[1] / "fixtures" / "cases"


def saved(pages: Sequence[str], configs: Sequence[str] = (), indexes: Sequence[str] = ()) -> Replay:
    def files(names: Sequence[str]) -> list[SavedFile]:
        return [SavedFile(name, (CASES / name).read_text(encoding="utf-8")) for name in names]

    return replay(SavedAnswers(10.0, files(pages), configs=files(configs), indexes=files(indexes)))


def judged(played: Replay) -> tuple[Judgement, Verdict]:
    span = played.ring.span()
    assert span is not None
    context = Context(
        report=played.report(),
        history=played.ring,
        inventory=played.inventory(),
        coverage=[server_coverage(played.ring, Server(SERVER, None, None), played.at)],
        now=played.at,
        interval_seconds=10.0,
        history_from=span[0],
    )
    judgement = judge(load_rulebook(), context)
    return judgement, verdict(judgement, context)


def test_b04_a_stuck_model_is_named_with_its_waiting_requests() -> None:
    judgement, said = judged(saved(["b04_stuck_t0.prom", "b04_stuck_t1.prom"]))
    assert [one.rule for one in judgement.findings] == ["ModelHung"]
    finding = judgement.findings[0]
    assert finding.sentence == "alpha has 3 waiting requests and finished none for 10 s."
    assert finding.harm_per_second == 3.0
    assert [(one.label, one.value) for one in finding.evidence] == [
        ("waiting requests", 3.0),
        ("finished in 10 s", 0.0),
        ("mean request time since the load", None),
    ]
    assert said == Verdict(VerdictLevel.LOOK, "Look soon: alpha hangs with 3 waiting requests.")


def test_b07_overload_is_not_blamed_on_the_delay_setting() -> None:
    judgement, _ = judged(saved(["b07_overload_t0.prom", "b07_overload_t1.prom"], ["b07.config.json"]))
    assert [one.rule for one in judgement.findings] == ["QueueDominates"]
    finding = judgement.findings[0]
    assert finding.sentence == (
        "alpha is overloaded: requests wait 1.9 s in the queue, batches are full (4 of 4) and more arrive"
        " than are served; the delay setting (1 µs) is not the cause."
    )
    assert finding.remedy == "Add instances (instance_group count) or send fewer requests to this server."
    values = {one.signal: one.value for one in finding.evidence}
    assert values["queue_us_mean"] == pytest.approx(1_900_000.0)
    assert values["compute_infer_us_mean"] == pytest.approx(40_000.0)
    assert values["batch_size_mean"] == pytest.approx(4.0)


def test_b01_a_queue_as_long_as_the_configured_delay_is_a_remark_and_no_alarm() -> None:
    judgement, said = judged(saved(["b01_seq_t0.prom", "b01_seq_t1.prom"], ["b01.config.json"]))
    assert [(one.rule, one.severity) for one in judgement.findings] == [("OneClientAtATime", Severity.INFO)]
    assert said.level is VerdictLevel.FINE


def test_b03_without_the_pending_gauge_the_rule_is_not_judged_and_nobody_is_said_to_wait() -> None:
    page = "b03_no_pending_family.prom"
    judgement, said = judged(saved([page, page]))
    assert judgement.findings == ()
    why = {one.rule: one.why for one in judgement.unjudged}
    assert list(why) == ["GpuIdleWhileQueueing", "ModelHung", "ModelLoadFailed"]
    assert "not reported by this server version" in why["ModelHung"]
    assert "waits" not in said.sentence


@pytest.mark.parametrize("page", ["b08_rejected_not_counted.prom", "a07_failure_reasons.prom"])
def test_one_page_says_nothing_about_now(page: str) -> None:
    judgement, said = judged(saved([page]))
    assert judgement.findings == ()
    assert {one.why for one in judgement.unjudged if one.rule == "RequestsFailing"} == {ONE_READING}
    assert said.level is VerdictLevel.UNKNOWN


def test_b08_uncounted_refusals_are_not_called_no_failure() -> None:
    page = "b08_rejected_not_counted.prom"
    _, said = judged(saved([page, page]))
    assert "fail" not in said.sentence
    text = load_rulebook().rule("RequestsFailing").sections["Impact"]
    assert "requests refused for a full queue" in text


def test_c09_an_ensemble_taken_down_with_its_step_is_a_remark_while_nobody_used_it() -> None:
    pages = ["a03_families_without_samples.prom"] * 2
    judgement, _ = judged(saved(pages, ["c09_ensemble.config.json"], ["c09_ensemble_index_after.json"] * 2))
    found = [(one.rule, one.severity) for one in judgement.findings]
    assert found == [("EnsembleWithoutStep", Severity.INFO)]


def test_a15_a_reset_is_no_failure() -> None:
    judgement, said = judged(saved([f"a15_reset_t{tick}.prom" for tick in range(4)]))
    assert judgement.findings == ()
    assert said.level is VerdictLevel.FINE
