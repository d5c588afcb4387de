"""What a killed process left changed is put back once, through the guard, when the server answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from control.facade import Control
from control.journal import Journal
from control.journal_file import JournalFile
from control.performer import Course, Job, Work
from control.repair import Repairs
from control.restoration import Restoration
from telemetry.access import LOCAL, NOBODY, PROCESS, Identity
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.errors import InvalidRequest, NotAllowed, Unreachable
from telemetry.facts import IndexEntry, ModelConfig, ModelState, ModelStatistics
from telemetry.identity import Server

RESTORATION = Restoration("lab", "alpha", None, "the run of 14:02")


class Lab:
    """A server that answers when told to; `reader` of a control whose work is noted, not sent."""

    def __init__(self) -> None:
        self.answers = True
        self.entries = (IndexEntry("alpha", "1", ModelState.READY, ""),)

    def index(self, server_id: str) -> tuple[IndexEntry, ...]:
        if not self.answers:
            raise Unreachable("lab is not reachable")
        return self.entries

    def statistics(self, server_id: str) -> tuple[ModelStatistics, ...]:
        raise AssertionError("not read here")

    def config(self, server_id: str, model: str, version: str = "") -> ModelConfig:
        raise AssertionError("not read here")


class Noting(Control):
    """The real guard and journal; what would be sent is noted."""

    def __init__(self, lab: Lab, path: Path, *, control: bool = True, reason_required: bool = False) -> None:
        server = Server("lab", "http://lab:8000", None, control=control)
        super().__init__(
            lambda: (server,), lab, lambda server_id: False,
            journal=Journal(store=JournalFile(path)), reason_required=reason_required,
        )  # fmt: skip
        self.performed: list[tuple[Action, Identity]] = []
        self.outcome = Outcome.DONE

    def perform(self, action: Action, work: Work | None = None, *, by: Identity) -> Job:
        self.performed.append((action, by))
        return self._performer.perform(action, self._note, by=by)

    def _note(self, course: Course) -> Conclusion:
        course.sent()
        return Conclusion(self.outcome, f"{course.action.kind} {self.outcome}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def left_over(path: Path, restoration: Restoration = RESTORATION) -> None:
    """A process that was killed while it had changed something."""
    journal = Journal(store=JournalFile(path))
    journal.intend(restoration)
    journal.close()


def test_put_back_once_by_the_process_itself_when_the_server_answers(path: Path) -> None:
    left_over(path)
    lab = Lab()
    control = Noting(lab, path)
    lab.answers = False
    assert control.repairs.step()
    assert control.performed == []
    lab.answers = True
    control.repairs.step()
    ((action, by),) = control.performed
    assert (action.kind, action.server, action.model) == (ActionKind.REVERT, "lab", "alpha")
    assert (by, action.why) == (PROCESS, "put back after the run of 14:02")
    assert control.journal.open_restorations() == ()
    assert not control.repairs.step()
    assert len(control.performed) == 1


def test_a_configuration_that_was_not_the_disks_is_put_back_as_it_was(path: Path) -> None:
    left_over(path, Restoration("lab", "alpha", {"max_batch_size": 8}, "the run"))
    control = Noting(Lab(), path)
    control.repairs.step()
    ((action, _),) = control.performed
    assert (action.kind, action.config) == (ActionKind.OVERRIDE, {"max_batch_size": 8})


def test_without_the_right_nothing_is_sent_and_it_stays_open(path: Path) -> None:
    left_over(path)
    control = Noting(Lab(), path, control=False)
    assert control.repairs.step()
    assert control.performed == []
    assert [one.restoration for one in control.journal.open_restorations()] == [RESTORATION]


def test_a_failed_repair_is_not_repeated_and_stays_open(path: Path) -> None:
    left_over(path)
    control = Noting(Lab(), path)
    control.outcome = Outcome.FAILED
    control.repairs.step()
    assert not control.repairs.step()
    assert len(control.performed) == 1
    (pending,) = control.journal.open_restorations()
    assert control.repairs.outcome(pending.id) == "revert failed"
    assert pending.sentence == (
        "alpha on lab must get back the configuration on disk: the run of 14:02 was not ended."
    )


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.REFUSED])
def test_what_the_server_did_not_get_or_not_answer_is_tried_again_ever_more_rarely(
    path: Path, outcome: Outcome
) -> None:
    left_over(path)
    now = [1000.0]
    control = Noting(Lab(), path)
    control.outcome = outcome
    repairs = Repairs(control, control.reader, clock=lambda: now[0])
    waits = []
    for number in range(1, 6):
        assert repairs.step()
        assert len(control.performed) == number
        (pending,) = control.journal.open_restorations()
        assert repairs.outcome(pending.id) == f"revert {outcome}"
        again = repairs.again_at(pending.id)
        assert again is not None
        waits.append(again - now[0])
        now[0] = again - 1.0
        assert repairs.step()
        assert len(control.performed) == number
        now[0] = again
    assert waits == [30.0, 60.0, 120.0, 240.0, 300.0]
    control.outcome = Outcome.DONE
    assert not repairs.step()
    assert control.journal.open_restorations() == ()


def test_a_run_that_could_not_put_it_back_leaves_it_over_to_the_repairs(path: Path) -> None:
    control = Noting(Lab(), path)
    number = control.journal.intend(RESTORATION)
    control.journal.leave_over(number)
    ((one, left),) = [(one.id, one.left_over) for one in control.journal.open_restorations()]
    assert (one, left) == (number, True)
    control.repairs.step()
    assert [action.kind for action, _ in control.performed] == [ActionKind.REVERT]
    assert control.journal.open_restorations() == ()


def test_a_model_that_is_not_loaded_needs_nothing(path: Path) -> None:
    left_over(path)
    lab = Lab()
    lab.entries = (IndexEntry("alpha", "1", ModelState.UNAVAILABLE, "unloaded"),)
    control = Noting(lab, path)
    control.repairs.step()
    assert control.performed == []
    assert control.journal.open_restorations() == ()


def test_killed_between_the_unload_and_the_load_of_the_way_back_it_is_loaded_again(path: Path) -> None:
    killed = Journal(store=JournalFile(path))
    killed.intend(Restoration("lab", "alpha", {"max_batch_size": 8}, "the run"))
    record = killed.begin(Action(ActionKind.REVERT, "lab", "alpha"), "reverting")
    killed.write_down(record.id)
    killed.close()
    lab = Lab()
    lab.entries = (IndexEntry("alpha", "1", ModelState.UNAVAILABLE, "unloaded"),)
    control = Noting(lab, path)
    assert control.repairs.step()
    assert [action.kind for action, _ in control.performed] == [ActionKind.LOAD]
    assert len(control.journal.open_restorations()) == 1
    lab.entries = (IndexEntry("alpha", "1", ModelState.READY, ""),)
    assert not control.repairs.step()
    assert [action.kind for action, _ in control.performed] == [ActionKind.LOAD, ActionKind.OVERRIDE]
    assert control.journal.open_restorations() == ()


def test_a_model_that_failed_is_loaded_from_its_files_and_one_on_its_way_is_waited_for(path: Path) -> None:
    left_over(path)
    lab = Lab()
    lab.entries = (IndexEntry("alpha", "1", ModelState.LOADING, ""),)
    control = Noting(lab, path)
    assert control.repairs.step()
    assert control.performed == []
    lab.entries = (IndexEntry("alpha", "1", ModelState.UNAVAILABLE, "Internal: it does not start"),)
    assert not control.repairs.step()
    assert [action.kind for action, _ in control.performed] == [ActionKind.LOAD]


def test_what_this_process_is_doing_is_not_repaired_under_it(path: Path) -> None:
    control = Noting(Lab(), path)
    control.journal.intend(RESTORATION)
    assert not control.repairs.step()
    assert control.performed == []


def test_a_second_process_repairs_nothing(path: Path) -> None:
    left_over(path)
    holder = Journal(store=JournalFile(path))
    control = Noting(Lab(), path)
    assert control.repairs.step()
    assert control.performed == []
    assert not control.decide("lab", ActionKind.LOAD, "alpha", by=LOCAL).allowed
    with pytest.raises(NotAllowed, match="another Tritonscope process"):
        Control.perform(control, Action(ActionKind.LOAD, "lab", "alpha"), by=LOCAL)
    holder.close()


def test_a_reason_is_asked_for_where_the_settings_say_so(path: Path) -> None:
    control = Noting(Lab(), path, reason_required=True)
    assert control.needs_reason("lab", ActionKind.UNLOAD)
    assert control.needs_reason("lab")
    assert not control.needs_reason("lab", ActionKind.TEST_REQUEST)
    assert not Noting(Lab(), path.with_name("other")).needs_reason("lab", ActionKind.UNLOAD)
    with pytest.raises(InvalidRequest, match=r"Say why: .* for every unload on lab\. Nothing was sent\."):
        Control.perform(control, Action(ActionKind.UNLOAD, "lab", "alpha", why=" "), by=LOCAL)


def test_who_asks_without_the_right_is_told_of_on_stdout_and_cannot_fill_the_journal(path: Path) -> None:
    control = Noting(Lab(), path)
    said: list[str] = []
    control.journal._echo = said.append
    for server in ("lab", "no-such-server"):
        with pytest.raises(NotAllowed):
            Control.perform(control, Action(ActionKind.UNLOAD, server, "alpha"), by=NOBODY)
    (line,) = map(json.loads, said)
    assert (line["event"], line["who"], line["how"], line["what"], line["sent"]) == (
        "denied", "anonymous", "not signed in", "unload", False,
    )  # fmt: skip
    assert control.journal.counts() == {("lab", "unload", "refused"): 1}
    assert not path.exists()
    assert control.records() == ()
