"""Log levels: what is refused, when one is set back, and that the journal remembers it over a restart."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from control.journal import Journal
from control.log_level import LogLevel, LogReturns, check_log_level, due_at, level_of, log_level_action
from telemetry.access import PROCESS, Identity
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.errors import ControlError, InvalidRequest

QUIET, LOUD = LogLevel(), LogLevel(verbose=2)


class Sent:
    """The part of Control that is asked; what is performed is noted and ends as the test says."""

    def __init__(self, outcome: Outcome = Outcome.DONE) -> None:
        self.now = 1000.0
        self.journal = Journal(clock=lambda: self.now)
        self.performed: list[Action] = []
        self.outcome = outcome

    def records(self):  # type: ignore[no-untyped-def]
        return self.journal.records()

    def decide(self, server_id: str, kind: ActionKind, model: str = "", *, by: Identity):  # type: ignore[no-untyped-def]
        return type("Decision", (), {"allowed": True})

    def perform(self, action: Action, *, by: Identity):  # type: ignore[no-untyped-def]
        assert by is PROCESS
        self.performed.append(action)
        record = self.note(action, self.outcome)
        return type("Job", (), {"wait": lambda self: record})()

    def note(self, action: Action, outcome: Outcome = Outcome.DONE):  # type: ignore[no-untyped-def]
        record = self.journal.begin(action, "")
        self.journal.progress(record.id, sent=True)
        return self.journal.end(record.id, Conclusion(outcome, ""))


def change(server: str, level: LogLevel, minutes: float | None, before: LogLevel = QUIET) -> Action:
    action = log_level_action(server, level, minutes)
    return replace(action, parameters={**action.parameters, "before": asdict(before)})


def test_a_level_is_set_back_when_its_time_is_over_and_only_once() -> None:
    control = Sent()
    control.note(change("a", LOUD, 5))
    returns = LogReturns(control)  # type: ignore[arg-type]
    due = returns.due("a")
    assert due is not None and due_at(due) == 1300.0
    returns.step(1299.0)
    assert control.performed == []
    control.now = 1300.0
    returns.step(1300.0)
    (action,) = control.performed
    assert (action.kind, action.server, level_of(action)) == (ActionKind.LOG_LEVEL, "a", QUIET)
    assert "minutes" not in action.parameters
    assert returns.due("a") is None
    returns.step(9999.0)
    assert len(control.performed) == 1
    # A process that starts later finds nothing left to do.
    LogReturns(control).step(9999.0)  # type: ignore[arg-type]
    assert len(control.performed) == 1


def test_a_restart_of_the_app_forgets_nothing_and_a_newer_change_counts() -> None:
    control = Sent()
    control.note(change("a", LOUD, 5))
    control.note(change("b", LOUD, 5))
    control.note(change("b", LogLevel(verbose=1), None))
    control.note(change("a", LogLevel(info=False), 5), Outcome.FAILED)
    later = LogReturns(control)  # type: ignore[arg-type]
    assert later.due("b") is None
    later.step(2000.0)
    assert [(action.server, level_of(action)) for action in control.performed] == [("a", QUIET)]


def test_a_server_that_refuses_is_not_asked_for_ever() -> None:
    control = Sent(Outcome.FAILED)
    control.note(change("a", LOUD, 1))
    returns = LogReturns(control)  # type: ignore[arg-type]
    for now in (1100.0, 1102.0, 1104.0):
        returns.step(now)
    assert len(control.performed) == 1


@pytest.mark.parametrize(
    ("level", "minutes"),
    [(LogLevel(verbose=-1), 5.0), (LogLevel(verbose=10), 5.0), (QUIET, 0.0), (QUIET, 1e9)],
)
def test_what_makes_no_sense_is_refused(level: LogLevel, minutes: float) -> None:
    with pytest.raises(InvalidRequest):
        check_log_level(level, minutes)


def test_a_damaged_level_is_refused() -> None:
    for parameters in (
        {},
        {"level": 3},
        {"level": {"info": 1, "warning": True, "error": True, "verbose": 0}},
    ):
        with pytest.raises(ControlError):
            level_of(Action(ActionKind.LOG_LEVEL, "a", "", parameters=parameters))
    assert LogLevel(info=False, verbose=3).words() == "warnings, errors, verbose 3"
    assert LogLevel(info=False, warning=False, error=False).words() == "nothing"
