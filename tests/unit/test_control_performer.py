"""Once per click, once per model at a time; the result outlives the page that asked."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from control.journal import Journal
from control.performer import Course, Performer
from control.policy import Policy
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Conclusion, Outcome, new_token
from telemetry.errors import ActionFailed, AlreadyRunning, InvalidRequest
from telemetry.identity import Server

SERVER = Server("lab", "http://lab:8000", None, control=True, load_run_limit_per_second=50.0)
WAIT_SECONDS = 30.0


class Gate:
    """Work that counts how often it was begun and ends when it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.inside = threading.Event()
        self.go = threading.Event()

    def __call__(self, course: Course) -> Conclusion:
        self.begun += 1
        course.sent()
        self.inside.set()
        assert self.go.wait(WAIT_SECONDS)
        return Conclusion(Outcome.DONE, f"{course.action.model} is loaded", result=42)


@pytest.fixture
def performer() -> Performer:
    return Performer(Policy(lambda: (SERVER,), lambda server_id: False), Journal(clock=lambda: 1000.0))


def action(model: str = "alpha", kind: ActionKind = ActionKind.LOAD, token: str = "") -> Action:
    return Action(kind, "lab", model, token=token or new_token())


def test_the_record_tells_stage_and_outcome_and_the_result_is_kept(performer: Performer) -> None:
    gate = Gate()
    job = performer.perform(action(), gate, by=LOCAL)
    assert gate.inside.wait(WAIT_SECONDS)
    assert job.record.running
    assert job.record.summary(1012.0) == "loading alpha (12 s)"
    gate.go.set()
    record = job.wait(WAIT_SECONDS)
    assert (record.outcome, record.sentence, record.sent) == (Outcome.DONE, "alpha is loaded", True)
    assert performer.job(record.id) is job
    assert job.result == 42


def test_a_token_is_sent_once_however_often_it_arrives(performer: Performer) -> None:
    gate = Gate()
    gate.go.set()
    first = performer.perform(action(token="click-1"), gate, by=LOCAL)
    first.wait(WAIT_SECONDS)
    again = [performer.perform(action(token="click-1"), gate, by=LOCAL) for _ in range(20)]
    assert all(job is first for job in again)
    assert gate.begun == 1


def test_twenty_clicks_at_once_begin_one_action_and_tell_nineteen_since_when(performer: Performer) -> None:
    gate = Gate()
    refusals: list[str] = []
    barrier = threading.Barrier(20)

    def click() -> None:
        barrier.wait()
        try:
            performer.perform(action(), gate, by=LOCAL)
        except AlreadyRunning as refusal:
            refusals.append(refusal.sentence)

    clicks = [threading.Thread(target=click) for _ in range(20)]
    for thread in clicks:
        thread.start()
    for thread in clicks:
        thread.join(WAIT_SECONDS)
    gate.go.set()
    assert gate.inside.wait(WAIT_SECONDS)
    assert gate.begun == 1
    assert len(refusals) == 19
    assert all(text.startswith("Already running, since ") for text in refusals)
    assert all(text.endswith("by local: loading alpha. Nothing was sent.") for text in refusals)


def test_another_model_and_a_later_action_are_free(performer: Performer) -> None:
    gate, other = Gate(), Gate()
    other.go.set()
    job = performer.perform(action("alpha"), gate, by=LOCAL)
    assert performer.perform(action("bravo"), other, by=LOCAL).wait(WAIT_SECONDS).outcome is Outcome.DONE
    assert performer.running("lab", "alpha") == job.record
    gate.go.set()
    job.wait(WAIT_SECONDS)
    assert performer.running("lab", "alpha") is None
    assert performer.perform(action("alpha", ActionKind.UNLOAD), other, by=LOCAL).wait(WAIT_SECONDS).sentence


def test_one_experiment_per_server_but_test_requests_side_by_side(performer: Performer) -> None:
    gate = Gate()
    performer.perform(action("alpha", ActionKind.EXPERIMENT), gate, by=LOCAL)
    with pytest.raises(AlreadyRunning, match="running an experiment on alpha"):
        performer.perform(action("bravo", ActionKind.EXPERIMENT), gate, by=LOCAL)
    first = performer.perform(action("alpha", ActionKind.TEST_REQUEST), gate, by=LOCAL)
    second = performer.perform(action("alpha", ActionKind.TEST_REQUEST), gate, by=LOCAL)
    gate.go.set()
    assert [first.wait(WAIT_SECONDS).outcome, second.wait(WAIT_SECONDS).outcome] == [Outcome.DONE] * 2


def raiser(error: Exception, sent: bool) -> Callable[[Course], Conclusion]:
    def work(course: Course) -> Conclusion:
        if sent:
            course.sent()
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "sent", "outcome", "sentence"),
    [
        (InvalidRequest("Nothing to unload: x."), False, Outcome.REFUSED, "Nothing to unload: x."),
        (ActionFailed("It failed.", detail="raw"), True, Outcome.FAILED, "It failed."),
    ],
)
def test_a_known_error_becomes_the_outcome(
    performer: Performer, error: Exception, sent: bool, outcome: Outcome, sentence: str
) -> None:
    record = performer.perform(action(), raiser(error, sent), by=LOCAL).wait(WAIT_SECONDS)
    assert (record.outcome, record.sentence) == (outcome, sentence)
    assert record.sent is sent


def test_a_bug_ends_the_action_as_unknown_and_frees_the_model(
    performer: Performer, caplog: pytest.LogCaptureFixture
) -> None:
    record = performer.perform(action(), raiser(ZeroDivisionError("oops"), sent=True), by=LOCAL).wait(
        WAIT_SECONDS
    )
    assert record.outcome is Outcome.UNKNOWN
    assert record.sentence.startswith("Tritonscope itself failed while loading alpha")
    assert "ZeroDivisionError" not in record.sentence
    assert record.detail is not None and "ZeroDivisionError: oops" in record.detail
    assert performer.running("lab", "alpha") is None
    assert "failed inside tritonscope" in caplog.text


def test_the_journal_is_bounded_and_never_forgets_what_runs() -> None:
    journal = Journal(keep=3)
    running = journal.begin(action("kept"), "loading kept")
    for number in range(5):
        record = journal.begin(action(f"m{number}"), "loading")
        journal.end(record.id, Conclusion(Outcome.DONE, "done"))
    names = [record.action.model for record in journal.records()]
    assert names == ["m4", "m3", "kept"]
    assert journal.get(running.id).running
    assert [record.action.model for record in journal.records(model="m4")] == ["m4"]
    assert journal.records(server="other") == ()


def test_results_are_kept_for_the_newest_jobs_only(
    monkeypatch: pytest.MonkeyPatch, performer: Performer
) -> None:
    monkeypatch.setattr("control.performer.KEEP_RESULTS", 2)
    monkeypatch.setattr("control.performer.KEEP_JOBS", 3)
    gate = Gate()
    gate.go.set()
    jobs = []
    for number in range(5):
        job = performer.perform(action(f"m{number}"), gate, by=LOCAL)
        job.wait(WAIT_SECONDS)
        jobs.append(job)
    assert [job.result for job in jobs] == [None, None, None, 42, 42]
    assert [performer.job(job.id) is not None for job in jobs] == [False, False, True, True, True]
    assert jobs[0].record.outcome is Outcome.DONE
