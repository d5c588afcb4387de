"""The journal on disk: written before anything is sent, read again after whatever happened to the process."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from pathlib import Path

import pytest

from control.journal import Journal
from control.journal_file import JournalFile
from control.performer import Course, Performer
from control.policy import Policy
from control.restoration import Restoration
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Conclusion, MemoryChange, Outcome
from telemetry.errors import NotRecorded
from telemetry.identity import Server

SERVER = Server("lab", "http://lab:8000", None, control=True)
DONE = Conclusion(Outcome.DONE, "alpha is loaded")
WAIT_SECONDS = 30.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.jsonl"


def action(model: str = "alpha", kind: ActionKind = ActionKind.LOAD, **more: object) -> Action:
    return Action(kind, "lab", model, **more)  # type: ignore[arg-type]


def done(journal: Journal, what: Action, conclusion: Conclusion = DONE) -> int:
    record = journal.begin(what, "loading")
    journal.write_down(record.id)
    journal.progress(record.id, sent=True)
    journal.end(record.id, conclusion)
    return record.id


def on_disk(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def killed(journal: Journal) -> None:
    """What the end of a process does to its journal: nothing more is written, and the lock is free."""
    assert journal.store is not None
    journal.store.close()


def test_two_lines_say_who_did_what_why_and_how_it_ended(path: Path) -> None:
    times = iter((1000.0, 1012.5))
    said: list[str] = []
    journal = Journal(clock=lambda: next(times), store=JournalFile(path), echo=said.append)
    what = action(
        who="alice", how="single sign-on", why="new weights", unload_dependents=True, parameters={"rows": 3}
    )
    memory = (MemoryChange("GPU 0", 1.0e9, None),)
    done(journal, what, Conclusion(Outcome.DONE, "alpha is loaded", memory=memory))
    begin, end = on_disk(path)
    common = {
        "format": 1,
        "id": 1,
        "who": "alice",
        "how": "single sign-on",
        "what": "load",
        "why": "new weights",
        "server": "lab",
        "model": "alpha",
        "version": "",
        "parameters": {"rows": 3, "unload_dependents": True},
    }
    assert begin == {**common, "event": "begin", "at": "1970-01-01T00:16:40.000Z"}
    assert end == {
        **common,
        "event": "end",
        "at": "1970-01-01T00:16:52.500Z",
        "began": "1970-01-01T00:16:40.000Z",
        "outcome": "done",
        "result": "alpha is loaded",
        "sent": True,
        "duration_seconds": 12.5,
        "detail": None,
        "memory": [{"where": "GPU 0", "before_bytes": 1.0e9, "after_bytes": None}],
    }
    assert [json.loads(line) for line in said] == [begin, end]
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_line_is_synced_before_the_work_begins(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        real(fd)
        order.append(Path(f"/proc/self/fd/{fd}").readlink().name)

    monkeypatch.setattr(os, "fsync", fsync)
    performer = Performer(
        Policy(lambda: (SERVER,), lambda server_id: False), Journal(store=JournalFile(path))
    )

    def work(course: Course) -> Conclusion:
        assert [line["event"] for line in on_disk(path)] == ["begin"]
        order.append("work")
        course.sent()
        return DONE

    performer.perform(action(), work, by=LOCAL).wait(WAIT_SECONDS)
    assert order == ["state", "journal.jsonl", "work", "journal.jsonl"]


def test_a_restart_reads_everything_again(path: Path) -> None:
    first = Journal(store=JournalFile(path))
    what = action(who="alice", why="why not", unload_dependents=True, parameters={"rows": 3})
    memory = (MemoryChange("GPU 0", 1.0e9, 2.0e9),)
    done(first, what, Conclusion(Outcome.FAILED, "no", "raw text", memory=memory))
    before = first.records()
    killed(first)
    (after,) = Journal(store=JournalFile(path)).records()
    (was,) = before
    assert (after.id, after.sentence, after.detail, after.outcome) == (1, "no", "raw text", Outcome.FAILED)
    assert after.memory == memory
    assert after.started_at == pytest.approx(was.started_at, abs=0.001)
    for name in ("kind", "server", "model", "who", "how", "why", "unload_dependents", "parameters"):
        assert getattr(after.action, name) == getattr(what, name)


def test_killed_between_sending_and_outcome_reads_unknown_for_ever(path: Path) -> None:
    first = Journal(store=JournalFile(path))
    record = first.begin(action(), "loading alpha")
    first.write_down(record.id)
    first.progress(record.id, sent=True)
    killed(first)
    for _ in range(2):
        again = Journal(store=JournalFile(path))
        (seen,) = again.records()
        assert (seen.id, seen.outcome, seen.sent) == (1, Outcome.UNKNOWN, None)
        assert seen.sentence.startswith("Outcome unknown: Tritonscope itself ended while loading alpha.")
        killed(again)
    assert [line["event"] for line in on_disk(path)] == ["begin", "end"]
    assert done(Journal(store=JournalFile(path)), action()) == 2


def test_a_second_process_only_reads_follows_and_takes_over(path: Path) -> None:
    first = Journal(store=JournalFile(path))
    done(first, action("alpha"))
    second = Journal(store=JournalFile(path))
    reason = second.refusal()
    assert reason.startswith(f"Read-only: another Tritonscope process (pid {os.getpid()}) holds the journal")
    assert reason.endswith("This one takes over when that one has ended.")
    with pytest.raises(NotRecorded, match="Nothing was sent"):
        done(second, action())
    assert [record.action.model for record in second.records()] == ["alpha"]
    record = first.begin(action("bravo"), "loading bravo")
    first.write_down(record.id)
    seen = second.records()[0]
    assert (seen.action.model, seen.running) == ("bravo", True)
    killed(first)
    deadline = time.monotonic() + WAIT_SECONDS
    while second.refusal() and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    assert second.refusal() == ""
    assert second.records()[0].outcome is Outcome.UNKNOWN
    assert done(second, action("charlie")) == 3


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_what_cannot_be_recorded_is_not_done(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    journal = Journal(store=JournalFile(path))
    performer = Performer(Policy(lambda: (SERVER,), lambda server_id: False), journal)
    done(journal, action("before"))
    kept = path.read_bytes()
    began: list[str] = []

    def work(course: Course) -> Conclusion:
        began.append(course.action.model)
        return DONE

    def half_then_full(fd: int, data: bytes) -> int:
        if len(data) > 10:
            return real(fd, bytes(data)[:10])
        raise OSError(number, os.strerror(number))

    real = os.write
    monkeypatch.setattr("control.journal_file.os.write", half_then_full)
    with pytest.raises(NotRecorded) as refused:
        performer.perform(action(), work, by=LOCAL)
    assert os.strerror(number).lower() in refused.value.sentence
    assert "nothing is sent that is not recorded" in refused.value.sentence
    assert path.read_bytes() == kept
    monkeypatch.undo()
    assert performer.perform(action("after"), work, by=LOCAL).wait(WAIT_SECONDS).outcome is Outcome.DONE
    assert began == ["after"]
    assert [record.action.model for record in journal.records()] == ["after", "before"]


def test_an_outcome_that_did_not_fit_is_written_before_anything_new(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(store=JournalFile(path))
    record = journal.begin(action("alpha"), "loading")
    journal.write_down(record.id)

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("control.journal_file.os.fsync", full)
    assert journal.end(record.id, DONE).outcome is Outcome.DONE
    assert [line["event"] for line in on_disk(path)] == ["begin"]
    monkeypatch.undo()
    done(journal, action("bravo"))
    assert [(line["event"], line["model"]) for line in on_disk(path)] == [
        ("begin", "alpha"), ("end", "alpha"), ("begin", "bravo"), ("end", "bravo"),
    ]  # fmt: skip


def test_a_place_that_cannot_be_written_refuses_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    place = tmp_path / "file" / "journal.jsonl"
    reason = Journal(store=JournalFile(place)).refusal()
    assert reason.startswith(f"The journal {place} cannot be written (")
    assert reason.endswith("Make room or set journal: path: to a file that can be written.")


def test_a_line_cut_by_a_power_failure_costs_that_line_and_a_notice(path: Path) -> None:
    first = Journal(store=JournalFile(path))
    done(first, action("alpha"))
    done(first, action("bravo"))
    killed(first)
    whole = path.read_bytes()
    path.write_bytes(b'\0\0\0\n{"no": "line"}\n' + whole[:-25])
    again = Journal(store=JournalFile(path))
    assert [record.outcome for record in again.records()] == [Outcome.UNKNOWN, Outcome.DONE]
    assert [(notice.source, notice.line) for notice in again.notices] == [
        ("journal.jsonl", 2), ("journal.jsonl", 6),
    ]  # fmt: skip
    assert "damaged" in again.notices[0].text
    done(again, action("charlie"))
    killed(again)
    assert [record.action.model for record in Journal(store=JournalFile(path)).records()] == [
        "charlie", "bravo", "alpha",
    ]  # fmt: skip


def test_rotated_by_size_with_a_few_parts_kept_and_nothing_open_lost(path: Path) -> None:
    journal = Journal(store=JournalFile(path, max_bytes=2000, keep=2))
    journal.intend(Restoration("lab", "omega", None, "the run of 14:02"))
    running = journal.begin(action("running"), "loading running")
    journal.write_down(running.id)
    for number in range(30):
        done(journal, action(f"m{number}"))
    parts = sorted(one.name for one in path.parent.iterdir())
    assert parts == ["journal.jsonl", "journal.jsonl.1", "journal.jsonl.2", "journal.jsonl.lock"]
    assert all(one.stat().st_size <= 2000 + 500 for one in path.parent.iterdir())
    killed(journal)
    again = Journal(store=JournalFile(path, max_bytes=2000, keep=2))
    records = again.records()
    assert records[0].action.model == "m29"
    (unknown,) = [one for one in records if one.outcome is Outcome.UNKNOWN]
    assert unknown.action.model == "running"
    (pending,) = again.open_restorations()
    assert pending.restoration == Restoration("lab", "omega", None, "the run of 14:02")
    assert pending.left_over


def test_a_long_journal_is_read_only_as_far_back_as_it_is_shown(path: Path) -> None:
    journal = Journal(store=JournalFile(path, max_bytes=20_000, keep=3))
    for number in range(100):
        done(journal, action(f"m{number}"))
    killed(journal)
    oldest = path.with_name("journal.jsonl.3")
    assert not oldest.exists() or oldest.write_bytes(b"damaged\n")
    path.with_name("journal.jsonl.2").write_bytes(b"damaged\n")
    store = JournalFile(path, max_bytes=20_000, keep=3)
    short = Journal(keep=10, store=store)
    assert [record.action.model for record in short.records()] == [
        f"m{number}" for number in range(99, 89, -1)
    ]
    assert short.notices == ()
    assert store.read()[1] != []


def test_a_journal_that_was_moved_away_is_begun_anew(path: Path) -> None:
    journal = Journal(store=JournalFile(path))
    done(journal, action("alpha"))
    path.rename(path.with_name("archived"))
    done(journal, action("bravo"))
    assert [line["model"] for line in on_disk(path)] == ["bravo", "bravo"]


def test_no_line_holds_a_secret_or_a_configuration(path: Path) -> None:
    said: list[str] = []
    journal = Journal(
        store=JournalFile(path),
        secrets=lambda: ("Bearer s3cr3t-token", "s3cr3t-token", "1"),
        echo=said.append,
    )
    what = action(
        why="with s3cr3t-token", kind=ActionKind.OVERRIDE, config={"name": "hidden-name"},
        parameters={"header": ["Bearer s3cr3t-token"], "count": 1},
    )  # fmt: skip
    done(journal, what, Conclusion(Outcome.FAILED, "no", "the server said s3cr3t-token"))
    pending = journal.intend(Restoration("lab", "alpha", {"name": "hidden-name"}, "the run"))
    text = path.read_text() + "".join(said)
    assert "s3cr3t" not in text
    assert "hidden-name" not in text
    assert '"why":"with [secret]"' in text
    assert '"header":["[secret]"]' in text
    kept = path.with_name(f"journal.jsonl.restore-{pending}.json")
    assert kept.stat().st_mode & 0o777 == 0o600
    journal.settled(pending)
    assert not kept.exists()


def test_what_must_be_put_back_survives_the_process(path: Path) -> None:
    first = Journal(store=JournalFile(path))
    back = Restoration("lab", "alpha", {"max_batch_size": 8}, "the run of 14:02")
    settled = first.intend(Restoration("lab", "bravo", None, "another run"))
    first.intend(back)
    first.settled(settled)
    assert [one.left_over for one in first.open_restorations()] == [False]
    killed(first)
    again = Journal(store=JournalFile(path))
    (pending,) = again.open_restorations()
    assert (pending.restoration, pending.left_over) == (back, True)
    assert pending.restoration.config == {"max_batch_size": 8}
    done(again, action("alpha", ActionKind.REVERT))
    assert again.open_restorations() == ()
    killed(again)
    assert Journal(store=JournalFile(path)).open_restorations() == ()


def test_what_another_process_has_open_is_not_left_over_while_that_one_lives(path: Path) -> None:
    first = Journal(store=JournalFile(path))
    second = Journal(store=JournalFile(path))
    first.intend(Restoration("lab", "alpha", None, "the run"))
    assert [one.left_over for one in second.open_restorations()] == [False]
    killed(first)
    deadline = time.monotonic() + WAIT_SECONDS
    while second.refusal() and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    assert [one.left_over for one in second.open_restorations()] == [True]


def test_a_configuration_that_is_gone_is_told_and_not_guessed(path: Path) -> None:
    first = Journal(store=JournalFile(path))
    pending = first.intend(Restoration("lab", "alpha", {"max_batch_size": 8}, "the run"))
    killed(first)
    path.with_name(f"journal.jsonl.restore-{pending}.json").unlink()
    again = Journal(store=JournalFile(path))
    assert again.open_restorations() == ()
    assert "the configuration to put back is not there any more" in again.notices[0].text


def test_actions_are_counted_by_server_kind_and_outcome() -> None:
    journal = Journal()
    for conclusion in (DONE, DONE, Conclusion(Outcome.FAILED, "no")):
        done(journal, action(), conclusion)
    assert journal.counts() == {("lab", "load", "done"): 2, ("lab", "load", "failed"): 1}


def test_a_slow_disk_holds_up_nobody_else(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one click waits for the disk, pages read on and a second click learns that it runs."""
    performer = Performer(
        Policy(lambda: (SERVER,), lambda server_id: False), Journal(store=JournalFile(path))
    )
    inside, go = threading.Event(), threading.Event()

    def slow(fd: int) -> None:
        inside.set()
        assert go.wait(WAIT_SECONDS)

    monkeypatch.setattr("control.journal_file.os.fsync", slow)

    def work(course: Course) -> Conclusion:
        return DONE

    jobs = []
    click = threading.Thread(target=lambda: jobs.append(performer.perform(action(), work, by=LOCAL)))
    click.start()
    assert inside.wait(WAIT_SECONDS)
    running = performer.running("lab", "alpha")
    assert running is not None and running.running
    with pytest.raises(Exception, match="Already running"):
        performer.perform(action(), work, by=LOCAL)
    go.set()
    click.join(WAIT_SECONDS)
    assert jobs[0].wait(WAIT_SECONDS).outcome is Outcome.DONE
