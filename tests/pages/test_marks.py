"""Actions are lines on the charts, with who and the outcome, and say once what the poller saw as well."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import runtime
from control.journal import Journal
from history.events import Event, EventKind
from telemetry.access import ALL_RIGHTS, LOCAL, NOBODY, How, Identity, Right
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.identity import ModelKey
from ui import marks as marks_module
from ui.marks import marks

KEY = ModelKey("lab", "alpha", "1")
VIEW: Any = SimpleNamespace(
    range=(1000.0, 1600.0),
    filters=SimpleNamespace(server=None),
    interval_seconds=2.0,
    now=1600.0,
    coverage=(),
)
VIEWER = Identity("vic", How.PASSWORD, {"lab": frozenset({Right.VIEW})})


class Log:
    def __init__(self, *events: Event) -> None:
        self._events = events

    def events(self, *, since: float, server: str | None, model: ModelKey | None) -> tuple[Event, ...]:
        return self._events


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Journal:
    times = iter((1100.0, 1112.0, 1200.0, 1230.0))
    journal = Journal(clock=lambda: next(times))
    seen = (
        Event(1113.0, "lab", KEY, EventKind.UNLOAD, "alpha v1 was unloaded"),
        Event(1150.0, "lab", KEY, EventKind.LOAD, "alpha v1 was loaded"),
        Event(1113.0, "lab", ModelKey("lab", "bravo", "1"), EventKind.UNLOAD, "bravo v1 was unloaded"),
    )
    process = SimpleNamespace(records=journal.records, clock=lambda: 1600.0, events=Log(*seen), remote=None)
    monkeypatch.setattr(runtime, "current", lambda: process)
    monkeypatch.setattr(marks_module, "me", lambda: LOCAL)
    return journal


def did(journal: Journal, kind: ActionKind, conclusion: Conclusion, *, sent: bool = True) -> None:
    record = journal.begin(Action(kind, "lab", "alpha", who="alice"), "doing")
    journal.progress(record.id, sent=sent)
    journal.end(record.id, conclusion)


def test_an_action_is_one_line_with_who_and_outcome_and_replaces_what_it_brought_about(
    journal: Journal,
) -> None:
    did(journal, ActionKind.UNLOAD, Conclusion(Outcome.DONE, "alpha is unloaded"))
    did(journal, ActionKind.LOAD_RUN, Conclusion(Outcome.FAILED, "the server went away"))
    shown = {mark.text: (mark.at, mark.label, mark.color) for mark in marks(VIEW)}
    assert shown == {
        "alpha v1 was loaded": (1150.0, "load", "@grey"),
        "bravo v1 was unloaded": (1113.0, "unload", "@grey"),
        "unload alpha, by alice: alpha is unloaded (12 s)": (1100.0, "unload", "@grey"),
        "load run alpha, by alice: the server went away (30 s)": (1200.0, "load run", "@red"),
    }


def test_what_was_not_sent_is_no_line(journal: Journal) -> None:
    did(journal, ActionKind.UNLOAD, Conclusion(Outcome.REFUSED, "nothing to unload"), sent=False)
    assert [mark.text for mark in marks(VIEW)] == [
        "alpha v1 was unloaded", "alpha v1 was loaded", "bravo v1 was unloaded",
    ]  # fmt: skip


def test_a_viewer_sees_that_and_not_who_and_nobody_sees_nothing(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    did(journal, ActionKind.UNLOAD, Conclusion(Outcome.DONE, "alpha is unloaded"))
    monkeypatch.setattr(marks_module, "me", lambda: VIEWER)
    assert "unload alpha: alpha is unloaded (12 s)" in [mark.text for mark in marks(VIEW)]
    monkeypatch.setattr(marks_module, "me", lambda: NOBODY)
    assert not [mark.text for mark in marks(VIEW) if mark.text.startswith("unload ")]
    assert Identity("op", How.PASSWORD, {"lab": ALL_RIGHTS}).sees_details("lab")


def test_only_the_time_shown(journal: Journal) -> None:
    did(journal, ActionKind.UNLOAD, Conclusion(Outcome.DONE, "alpha is unloaded"))
    later: Any = SimpleNamespace(**{**vars(VIEW), "range": (1105.0, 1600.0)})
    assert not [mark.text for mark in marks(later) if mark.text.startswith("unload ")]
