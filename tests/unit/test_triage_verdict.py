"""The sentence at the top: what it says, in which colour, and what it never claims."""

from __future__ import annotations

import pytest

from history.inventory import Inventory
from history.ring import Ring
from signals.report import ModelSignals, Report, ServerSignals, Signals
from telemetry.facts import ModelState
from telemetry.identity import ModelKey
from telemetry.scrape import Source
from triage.context import Context, ServerCoverage, short_error
from triage.finding import Finding, Judgement, Severity
from triage.ranking import ranked
from triage.rulebook import load_rulebook
from triage.verdict import Verdict, VerdictLevel, verdict

NOW = 1_000.0


def model(name: str, state: ModelState | None, pending: float | None = 0.0) -> ModelSignals:
    return ModelSignals(ModelKey("one", name, "1"), state, Signals({"pending": pending}))


def context(
    models: tuple[ModelSignals, ...] = (),
    coverage: tuple[ServerCoverage, ...] = (ServerCoverage("one", True, 1.0),),
    rate: float | None = 24.0,
) -> Context:
    figures = {"requests_per_second": rate, "failures_total": None, "failures_by_reason": None}
    servers = (ServerSignals("one", Signals(figures)),)
    report = Report(NOW, 60.0, servers=servers, models=models)
    return Context(report, Ring(), Inventory(()), coverage, NOW, 2.0, NOW - 100.0)


def finding(rule: str, clause: str, severity: Severity, harm: float = 0.0, model: str = "") -> Finding:
    key = ModelKey("one", model, "1") if model else None
    return Finding(
        rule,
        severity,
        "TAG",
        "one",
        key,
        f"{clause}.",
        900.0,
        (),
        "",
        "",
        harm_per_second=harm,
        clause=clause,
    )


def said(findings: tuple[Finding, ...], **given: object) -> Verdict:
    return verdict(Judgement(NOW, 5, findings), context(**given), lambda at: f"{at:g}")  # type: ignore[arg-type]


LOADED = (model("a", ModelState.READY), model("b", ModelState.READY), model("c", ModelState.NEVER_LOADED))


def test_nothing_is_wrong_counts_models_rate_and_waiting() -> None:
    assert said((), models=LOADED) == Verdict(
        VerdictLevel.FINE, "Nothing is wrong: 2 of 3 models loaded, 24 req/s, nobody waits."
    )


def test_a_remark_about_waiting_is_not_contradicted_by_the_sentence() -> None:
    remark = finding("QueueDominates", "b keeps requests waiting 14 ms", Severity.INFO, model="b")
    assert said((remark,), models=LOADED) == Verdict(
        VerdictLevel.FINE,
        "Nothing is wrong: 2 of 3 models loaded, 24 req/s; worth knowing: b keeps requests waiting 14 ms.",
    )


@pytest.mark.parametrize(
    ("pending", "words"),
    [(0.0, ", nobody waits."), (1.0, ", 1 request waits."), (5.0, ", 5 requests wait."), (None, "24 req/s.")],
)
def test_waiting_is_said_only_when_it_is_reported(pending: float | None, words: str) -> None:
    assert said((), models=(model("a", ModelState.READY, pending),)).sentence.endswith(words)


def test_a_rate_that_is_not_reported_is_left_out() -> None:
    assert "req/s" not in said((), models=LOADED, rate=None).sentence


def test_two_findings_are_named_and_the_rest_counted() -> None:
    findings = (
        finding("RequestsFailing", "bert_qa fails 12 % of its requests", Severity.PAGE, model="bert_qa"),
        finding("QueueDominates", "resnet18 keeps requests waiting 1.9 s", Severity.TICKET, model="resnet18"),
        finding("ModelLoadFailed", "old failed to load", Severity.TICKET, model="old"),
    )
    assert said(findings[:2], models=LOADED) == Verdict(
        VerdictLevel.HURT,
        "Users are hurt: bert_qa fails 12 % of its requests and resnet18 keeps requests waiting 1.9 s.",
    )
    assert said(findings, models=LOADED).sentence.endswith(
        "bert_qa fails 12 % of its requests, resnet18 keeps requests waiting 1.9 s and 1 more finding."
    )
    assert said(findings[1:2], models=LOADED) == Verdict(
        VerdictLevel.LOOK, "Look soon: resnet18 keeps requests waiting 1.9 s."
    )


def test_a_silent_server_comes_with_its_time_and_the_age_of_its_figures() -> None:
    silent = (ServerCoverage("one", False, 40.0, "h:1 is not reachable: connection refused"),)
    down = finding("ServerDown", "one does not answer (connection refused)", Severity.PAGE)
    assert said((down,), coverage=silent) == Verdict(
        VerdictLevel.HURT,
        "one does not answer (connection refused) since 900; the last figures are 40 s old.",
    )


@pytest.mark.parametrize(
    ("coverage", "sentence"),
    [
        ((), "No server is configured: add one to tritonscope.yml."),
        (
            (ServerCoverage("one", False, None, "h:1 is not reachable: connection refused"),),
            "one has not answered yet (connection refused).",
        ),
        (
            (
                ServerCoverage(
                    "one", False, 5.0, "h:1 gave no answer within 3 s (it may still be working on it)"
                ),
            ),
            "one does not answer (gave no answer within 3 s); the last figures are 5 s old.",
        ),
        (
            (
                ServerCoverage(
                    "one", True, 0.0, failed_sources={Source.METRICS: "h:2 answered with HTTP 500"}
                ),
            ),
            "one answers, but not its metrics page (answered with HTTP 500): its requests cannot be judged.",
        ),
    ],
)
def test_what_cannot_be_seen_is_unknown_and_never_fine(
    coverage: tuple[ServerCoverage, ...], sentence: str
) -> None:
    assert said((), models=LOADED, coverage=coverage) == Verdict(VerdictLevel.UNKNOWN, sentence)


def test_ready_with_nothing_loaded_is_amber() -> None:
    unloaded = (model("a", ModelState.UNAVAILABLE), model("b", ModelState.NEVER_LOADED))
    assert said((), models=unloaded) == Verdict(VerdictLevel.LOOK, "Server ready, 0 of 2 models loaded.")


def test_worth_knowing_is_not_wrong() -> None:
    info = finding("QueueDominates", "a keeps requests waiting 15 ms", Severity.INFO, model="a")
    assert said((info,), models=LOADED).level is VerdictLevel.FINE


def test_findings_are_ordered_by_severity_then_harm_then_name() -> None:
    rules = load_rulebook().rules
    given = [
        finding("QueueDominates", "t", Severity.TICKET, 50.0, "t"),
        finding("RequestsFailing", "p1", Severity.PAGE, 1.0, "p1"),
        finding("RequestsFailing", "p3", Severity.PAGE, 3.0, "p3"),
        finding("RequestsFailing", "p2", Severity.PAGE, 1.0, "a"),
    ]
    assert [one.clause for one in ranked(given, rules)] == ["p3", "p2", "p1", "t"]


@pytest.mark.parametrize(
    ("sentence", "short"),
    [
        ("127.0.0.1:8000 is not reachable: connection refused", "connection refused"),
        ("h:8000 gave no answer within 3 s (it may still be working on it)", "gave no answer within 3 s"),
        ("h:8001 does not speak HTTP: is it the gRPC port?", "does not speak HTTP: is it the gRPC port?"),
        ("", ""),
    ],
)
def test_the_reason_alone(sentence: str, short: str) -> None:
    assert short_error(sentence) == short
