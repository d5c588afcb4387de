"""What outlives the process: a kill, a damaged file, two processes, a full disk."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from history import kept_file
from history.events import EventLog
from history.kept_file import KeptFile
from history.memory_changes import BeforeAfter, LoadMark, MemoryChange
from history.memory_ledger import MemoryLedger, kept_changes
from history.ring import Ring
from signals.advice import Advice, advise
from signals.advice_book import AdviceBook, kept_advice
from telemetry.identity import ModelKey
from telemetry.memory import CPU
from tests.unit.test_advice_book import ALONE, BATCHING, KEY, TIME, observed

MIB = 2.0**20
T0 = 1_700_000_000.0
WAIT_SECONDS = 30.0


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.jsonl"


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is looked at as often as it is asked for."""
    monkeypatch.setattr(kept_file, "LOOK_SECONDS", 0.0)


def change(number: int, model: str = "m") -> MemoryChange:
    mark = LoadMark(T0 + 60 * number, T0 + 60 * number + 5, "a", model, "load", True)
    return MemoryChange(
        mark,
        {"GPU-1": BeforeAfter(100 * MIB, (400.0 + number) * MIB)},
        {CPU: BeforeAfter(None, 7 * MIB)},
        "why",
    )


def opened(journal: Path) -> KeptFile[MemoryChange]:
    made = kept_changes(journal)
    made.open()
    return made


def ledger(keeper: KeptFile[MemoryChange]) -> MemoryLedger:
    return MemoryLedger(Ring(), EventLog(), tuple, lambda server: 2.0, keeper)


def rows(keeper: KeptFile[MemoryChange]) -> list[MemoryChange]:
    news = keeper.news()
    return [] if news is None else list(news.rows)


def filled(journal: Path, count: int) -> Path:
    """A file with so many changes, whose writer is gone."""
    first = opened(journal)
    assert rows(first) == [] and first.held
    for number in range(count):
        first.put(change(number))
    first.close()
    return first.path


def test_what_was_kept_is_known_after_a_restart(journal: Path) -> None:
    path = filled(journal, 3)
    assert path.name == "journal-memory.jsonl" and path.stat().st_mode & 0o777 == 0o600
    assert ledger(opened(journal)).changes("a", "m") == (change(0), change(1), change(2))


def test_a_row_replaces_the_one_with_its_identity(journal: Path) -> None:
    first = opened(journal)
    first.news()
    for disturbed in ("", "load of x at the same time"):
        first.put(replace(change(1), disturbed=disturbed))
    first.close()
    assert [one.disturbed for one in rows(opened(journal))] == ["load of x at the same time"]


def test_nothing_is_read_or_written_before_it_is_opened(journal: Path) -> None:
    keeper = kept_changes(journal)
    keeper.put(change(1))
    assert keeper.news() is None and not journal.parent.exists()


@pytest.mark.parametrize(
    "way", ["torn", "no json", "other", "lacking", "no key", "other key", "nested", "binary"]
)
def test_a_damaged_line_costs_itself_and_says_so(journal: Path, way: str) -> None:
    path = filled(journal, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = {
        "torn": lines[1][:40] + b"\n",
        "no json": b"{{{\n",
        "other": b'["x"]\n',
        "lacking": json.dumps({"format": 1, "key": ["a"], "row": {"mark": {}}}).encode() + b"\n",
        "no key": json.dumps({"format": 1, "row": {"mark": {}}}).encode() + b"\n",
        "other key": lines[1].replace(b'"key":["a"', b'"key":["b"'),
        "nested": b"[" * 100_000 + b"\n",
        "binary": b"\xff\xfe\x00garbage\n",
    }[way]
    path.write_bytes(b"".join(lines))
    keeper = opened(journal)
    known = ledger(keeper)
    assert known.changes() == (change(0), change(2))
    (notice,) = keeper.notices
    assert (notice.source, notice.line) == ("journal-memory.jsonl", 2)
    assert notice.text == "this line is damaged: it is left out"
    # It goes on, and what is good stays.
    keeper.put(change(9))
    keeper.close()
    assert rows(opened(journal)) == [change(0), change(2), change(9)]


def test_a_damaged_newest_line_leaves_the_one_before(journal: Path) -> None:
    first = opened(journal)
    first.news()
    for disturbed in ("before", "now"):
        first.put(replace(change(1), disturbed=disturbed))
    first.close()
    first.path.write_bytes(first.path.read_bytes().replace(b'"disturbed":"now"', b'"disturbed":1'))
    keeper = opened(journal)
    assert [one.disturbed for one in rows(keeper)] == ["before"]
    assert [one.line for one in keeper.notices] == [2]


def test_a_line_of_a_newer_version_is_left_out_and_left_alone(journal: Path) -> None:
    path = filled(journal, 1)
    path.write_bytes(b'{"format":2,"row":{"new":1}}\n' + path.read_bytes())
    keeper = opened(journal)
    assert rows(keeper) == [change(0)]
    assert [one.text for one in keeper.notices] == [
        "this line was written by a newer Tritonscope: it is left out"
    ]
    keeper.put(change(1))
    assert path.read_bytes().startswith(b'{"format":2,')


def test_many_damaged_lines_are_counted(journal: Path) -> None:
    path = filled(journal, 1)
    path.write_bytes(b"{\n" * 500 + path.read_bytes())
    keeper = opened(journal)
    assert rows(keeper) == [change(0)]
    assert len(keeper.notices) == kept_file.MAX_NOTICES + 1
    assert keeper.notices[-1].text == "480 more lines are left out"


def test_the_end_of_a_line_that_a_kill_took_does_not_swallow_the_next(journal: Path) -> None:
    path = filled(journal, 2)
    path.write_bytes(path.read_bytes()[:-30])
    keeper = opened(journal)
    assert rows(keeper) == [change(0)]
    keeper.put(change(5))
    keeper.close()
    assert rows(opened(journal)) == [change(0), change(5)]


def test_the_file_is_bounded_and_the_newest_rows_stay(journal: Path) -> None:
    path = filled(journal, 3)
    keeper = opened(journal)
    keeper._most = 10
    keeper.news()
    largest = 0
    for number in range(3, 200):
        keeper.put(change(number))
        largest = max(largest, path.read_bytes().count(b"\n"))
    assert largest <= 31
    keeper.close()
    assert [one.mark for one in rows(opened(journal))][-10:] == [change(one).mark for one in range(190, 200)]


def test_a_file_that_is_not_ours_is_left_as_it_is(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(journal, 2)
    before = path.read_bytes()
    monkeypatch.setattr(kept_file, "MAX_BYTES", 10)
    keeper = opened(journal)
    known = ledger(keeper)
    assert known.changes() == ()
    keeper.put(change(7))
    assert path.read_bytes() == before
    assert "it is larger than 40 bytes" in keeper.notices[0].text


def test_a_file_that_could_not_be_read_is_read_again_once_it_can(journal: Path) -> None:
    writer, reader = opened(journal), opened(journal)
    assert rows(writer) == []
    writer.put(change(0))
    whole = writer.path.stat().st_size
    os.truncate(writer.path, 4 * kept_file.MAX_BYTES + 1)
    assert rows(reader) == []
    assert "cannot be read (it is larger than" in reader.notices[0].text
    os.truncate(writer.path, whole)
    writer.put(change(1))
    assert rows(reader) == [change(0), change(1)]
    assert reader.notices == ()


def test_the_second_process_reads_follows_and_takes_over(journal: Path) -> None:
    first, second = opened(journal), opened(journal)
    assert rows(first) == [] and first.held
    known = ledger(second)
    assert known.changes() == () and not second.held
    second.put(change(8))
    first.put(change(1))
    assert known.changes() == (change(1),)
    first.put(change(2))
    assert known.changes() == (change(1), change(2))
    assert first.path.read_bytes().count(b"\n") == 2
    first.close()
    known.changes()
    assert second.held
    second.put(change(3))
    second.close()
    assert rows(opened(journal)) == [change(1), change(2), change(3)]


def test_a_reader_reads_a_line_that_is_being_written_once_it_is_whole(journal: Path) -> None:
    first, second = opened(journal), opened(journal)
    first.news()
    first.put(change(1))
    known = ledger(second)
    assert known.changes() == (change(1),)
    first.put(change(2))
    whole = first.path.read_bytes()
    with first.path.open("r+b") as file:
        file.truncate(len(whole) - 40)
    assert known.changes() == (change(1),) and second.notices == ()
    with first.path.open("ab") as file:
        file.write(whole[-40:])
    assert known.changes() == (change(1), change(2)) and second.notices == ()


def test_a_file_that_somebody_emptied_is_empty(journal: Path) -> None:
    first, second = opened(journal), opened(journal)
    first.news()
    first.put(change(1))
    assert rows(second) == [change(1)]
    os.truncate(first.path, 0)
    assert rows(second) == []
    first.put(change(2))
    assert rows(second) == [change(2)]


def test_a_file_written_anew_is_read_anew(journal: Path) -> None:
    first, second = opened(journal), opened(journal)
    first.news()
    first._most = 3
    known = ledger(second)
    for number in range(10):
        first.put(change(number))
        if number % 4 == 0:
            known.changes()
    assert known.changes()[-3:] == (change(7), change(8), change(9))
    assert len(rows(second)) == 0, "nothing new"


def test_what_the_second_saw_alone_is_written_when_it_takes_over(journal: Path) -> None:
    first, second = opened(journal), opened(journal)
    first.news()
    known = ledger(second)
    # Both saw this load, at readings of their own; the other one was seen by the second alone.
    mark = replace(change(1).mark, ours=False)
    first.put(replace(change(1), mark=mark))
    known.restore([replace(change(1), mark=replace(mark, ended=mark.ended + 2.0)), change(4, "x")])
    first.close()
    assert [one.mark.model for one in known.changes()] == ["m", "x"]
    second.close()
    assert rows(opened(journal)) == [replace(change(1), mark=mark), change(4, "x")]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_full_disk_costs_what_is_kept_and_nothing_else(
    journal: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    filled(journal, 1)
    keeper = opened(journal)
    assert len(rows(keeper)) == 1

    def full(_fd: int, _data: bytes) -> None:
        raise OSError(number, "no")

    with monkeypatch.context() as broken:
        broken.setattr(kept_file, "write_all", full)
        keeper.put(change(1))
        (notice,) = keeper.notices
        assert os.strerror(number).lower() in notice.text
        assert "what loads and unloads did to memory is forgotten when the app ends" in notice.text
    keeper.put(change(2))
    assert keeper.notices == ()
    keeper.close()
    assert change(2) in rows(opened(journal))


def test_a_place_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    keeper = opened(tmp_path / "file" / "journal.jsonl")
    assert rows(keeper) == []
    assert "cannot be written" in keeper.notices[0].text


def test_a_file_that_somebody_removed_is_written_anew(journal: Path) -> None:
    path = filled(journal, 2)
    keeper = opened(journal)
    keeper.news()
    path.unlink()
    keeper.put(change(2))
    keeper.close()
    assert rows(opened(journal)) == [change(0), change(1), change(2)]


# ---- advice


def book(journal: Path) -> AdviceBook:
    keeper = kept_advice(journal)
    keeper.open()
    return AdviceBook(keeper)


@pytest.fixture(scope="module")
def advice() -> Advice:
    return advise(TIME, ALONE, observed(ALONE))


def closed(made: AdviceBook) -> None:
    assert isinstance(made._keeper, KeptFile)
    made._keeper.close()


def test_advice_and_its_prediction_survive_a_restart(journal: Path, advice: Advice) -> None:
    first = book(journal)
    first.give(KEY, advice, T0)
    closed(first)
    second = book(journal)
    assert second.last(KEY) == advice
    # The configuration changed while nobody ran: it is judged by the advice from before.
    made = second.prediction(KEY, BATCHING, T0 + 100)
    assert made is not None and (made.made_at, made.since, made.before) == (T0, T0 + 100, advice)
    second.give(KEY, advise(TIME, BATCHING, observed(BATCHING)), T0 + 130)
    closed(second)
    third = book(journal)
    assert third.prediction(KEY, BATCHING, T0 + 500) == made
    found = third.checked(KEY, BATCHING, observed(BATCHING), T0 + 500)
    assert found is not None and found.check.within and found.prediction.since == T0 + 100


def test_advice_of_another_week_judges_nothing(journal: Path, advice: Advice) -> None:
    first = book(journal)
    first.give(KEY, advice, T0)
    closed(first)
    second = book(journal)
    assert second.prediction(KEY, BATCHING, T0 + 8 * 86400) is None
    assert second.prediction(KEY, BATCHING, T0 + 6 * 86400) is not None


def test_of_two_processes_the_newer_advice_counts(journal: Path, advice: Advice) -> None:
    first, second = book(journal), book(journal)
    first.give(KEY, advice, T0)
    other = ModelKey("a", "x", "1")
    second.give(other, advice, T0 + 1)
    assert second.last(KEY) == advice
    assert first.last(other) is None
    closed(first)
    assert [one.key for one in second.rows()] == [KEY, other]
    closed(second)
    assert [(one.key, one.at) for one in book(journal).rows()] == [(KEY, T0), (other, T0 + 1)]
