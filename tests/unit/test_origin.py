"""Is it the server or the clients: the answer and its numbers, from figures alone."""

from __future__ import annotations

import pytest

from collectors.config import parse_config
from signals.report import ModelSignals, Signals, SignalValue
from telemetry.facts import ModelConfig, ModelState
from telemetry.identity import ModelKey
from triage.finding import Finding, Severity
from triage.origin import Whose, origin

KEY = ModelKey("lab", "bert_qa", "1")
NAMES = (
    "requests_per_second", "failed_ratio", "queue_ratio", "queue_us_mean", "instance_busy_ratio",
    "batch_size_mean", "request_us_mean",
)  # fmt: skip


def row(**values: SignalValue) -> ModelSignals:
    known: dict[str, SignalValue] = dict.fromkeys(NAMES)
    known["failures_by_reason"] = None
    return ModelSignals(KEY, ModelState.READY, Signals(known | values))


def config(**values: int) -> ModelConfig:
    batcher = {"max_queue_delay_microseconds": values["delay"]} if "delay" in values else {}
    return parse_config(
        {"name": "bert_qa", "max_batch_size": values.get("batch", 8), "dynamic_batching": batcher}
    )


def said(signals: ModelSignals | None, of: ModelConfig | None = None, *rules: str) -> tuple[Whose, str]:
    found = [
        Finding(rule, Severity.TICKET, "X", "lab", KEY, f"bert_qa: {rule}.", None, (), "", "")
        for rule in rules
    ]
    told = origin("bert_qa", signals, of, found)
    return told.whose, told.sentence


@pytest.mark.parametrize(
    ("signals", "of", "whose", "words"),
    [
        (
            row(
                requests_per_second=40.0, failed_ratio=0.12,
                failures_by_reason={"BACKEND": 4.0, "CANCELED": 1.0},
            ),
            None,
            Whose.SERVER,
            "It is the server: 12 % of the requests fail in it, 80 % of them because the model's own code",
        ),
        (
            row(requests_per_second=40.0, failed_ratio=0.2, failures_by_reason={"CANCELED": 3.0}),
            None,
            Whose.CLIENTS,
            "It is the clients: 20 % of the requests end without an answer, 100 % of them because clients",
        ),
        (
            row(requests_per_second=4.0, failed_ratio=0.5),
            None,
            Whose.SERVER,
            "this Triton does not report why",
        ),
        (
            row(
                requests_per_second=40.0, failed_ratio=0.0, queue_ratio=0.9, queue_us_mean=1.9e6,
                batch_size_mean=7.9,
            ),
            config(),
            Whose.LOAD,
            "a request waits 1.9 s, 90 % of its time on the server, and batches are full (7.9 of 8)",
        ),
        (
            row(
                requests_per_second=40.0, queue_ratio=0.9, queue_us_mean=1.9e6, instance_busy_ratio=0.97,
                batch_size_mean=1.0,
            ),
            config(),
            Whose.LOAD,
            "its instances are busy 97 % of the time",
        ),
        (
            row(requests_per_second=9.0, queue_ratio=0.9, queue_us_mean=3e5, instance_busy_ratio=0.1),
            config(delay=300_000),
            Whose.SERVER,
            "while its instances are busy only 10 % of the time; its batching delay is 300 ms",
        ),
        (
            row(requests_per_second=9.0, queue_ratio=0.9, queue_us_mean=3e5),
            None,
            Whose.LOAD,
            "though its instances are not known to be busy",
        ),
        (
            row(
                requests_per_second=9.0, failed_ratio=0.0, queue_ratio=0.1, queue_us_mean=200.0,
                request_us_mean=4e3,
            ),
            None,
            Whose.NEITHER,
            "Not the server, by its figures: it answers in 4 ms on average, 200 µs of it waiting",
        ),
        (
            row(requests_per_second=9.0, queue_ratio=0.7, queue_us_mean=3350.0, request_us_mean=4910.0),
            None,
            Whose.NEITHER,
            "it answers in 4.91 ms on average, 3.35 ms of it waiting",
        ),
        (row(requests_per_second=9.0), None, Whose.UNKNOWN, "does not report how long"),
        (row(requests_per_second=0.0), None, Whose.UNKNOWN, "No request reaches this model now"),
        (None, None, Whose.UNKNOWN, "there are no figures of this model"),
    ],
)  # fmt: skip
def test_the_answer_names_its_numbers(
    signals: ModelSignals | None, of: ModelConfig | None, whose: Whose, words: str
) -> None:
    told, sentence = said(signals, of)
    assert told is whose
    assert words in sentence


def test_a_finding_that_says_whose_it_is_comes_first() -> None:
    busy = row(requests_per_second=9.0, failed_ratio=0.0, queue_ratio=0.9, queue_us_mean=3e5)
    assert said(busy, None, "OneClientAtATime") == (
        Whose.CLIENTS,
        "It is the clients: bert_qa: OneClientAtATime.",
    )
    assert said(busy, None, "QueueDominates", "ModelHung")[0] is Whose.SERVER
    # Nothing is counted of what an unloaded model refuses: that does not send anybody to the network.
    whose, sentence = said(row(requests_per_second=0.0), None, "EnsembleWithoutStep")
    assert whose is Whose.SERVER and sentence == "It is the server: bert_qa: EnsembleWithoutStep."
    assert said(None, None, "ModelLoadFailed")[0] is Whose.SERVER
    serving = row(requests_per_second=4.0, failed_ratio=0.0, queue_us_mean=218.0, request_us_mean=2e5)
    assert said(serving)[0] is Whose.NEITHER and said(serving, None, "EnsembleSlowStep")[0] is Whose.SERVER
    waiting = row(requests_per_second=6.0, queue_ratio=0.8, queue_us_mean=8e5, instance_busy_ratio=0.999)
    assert said(waiting)[0] is Whose.LOAD and said(waiting, None, "OneBadReplica")[0] is Whose.SERVER


def test_failures_are_the_answer_before_what_is_worth_knowing_besides() -> None:
    failing = row(requests_per_second=40.0, failed_ratio=0.3, failures_by_reason={"REJECTED": 9.0})
    whose, sentence = said(failing, None, "RequestsFailing", "BatchingDelayTooLong")
    assert whose is Whose.SERVER
    # Refusals for a full queue are in no counter, so a rejected request is one that timed out.
    assert sentence == (
        "It is the server: 30 % of the requests fail in it, 100 % of them because they waited in the queue "
        "for longer than its time-out allows."
    )


def test_few_failures_are_not_called_none() -> None:
    figures = row(requests_per_second=40.0, failed_ratio=0.0005, request_us_mean=8_000.0)
    assert "and 0.05 % of the requests fail." in said(figures)[1]
    assert "and no failure is counted." in said(row(requests_per_second=40.0, request_us_mean=8_000.0))[1]
