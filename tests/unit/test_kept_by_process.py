"""What outlives a real process: kept beside its journal, taken along in an incident file, killed half way."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from replay import replayed
from runtime import Runtime
from settings import Settings
from signals.advice import Advice
from telemetry.identity import ModelKey
from telemetry.journal_choice import JournalChoice
from tests.incident_process import Watched
from tests.unit.test_advice_book import BATCHING, KEY
from tests.unit.test_kept_file import T0, advice, book, change, eager, filled, journal, ledger, opened

__all__ = ["advice", "eager", "journal"]
WAIT_SECONDS = 30.0


def test_the_process_keeps_both_beside_its_journal_and_gives_them_back(journal: Path, advice: Advice) -> None:
    settings = Settings(journal=JournalChoice(journal))
    path = filled(journal, 1)
    path.write_bytes(b"damaged\n" + path.read_bytes())
    idle = Runtime(settings)
    assert idle.memory.changes() == ()
    first, second = Runtime(settings), Runtime(settings)
    first.start()
    try:
        assert first.memory.changes() == (change(0),)
        assert [(one.source, one.line) for one in first.notices] == [("journal-memory.jsonl", 1)]
        first.advice.give(KEY, advice, T0)
        second.start()
        assert second.advice.last(KEY) == advice
        assert not any(one.held for one in second._kept)
    finally:
        first.stop()
        second.stop()
    assert (journal.parent / "journal-advice.jsonl").read_bytes().count(b"\n") == 1


def test_an_incident_file_takes_the_advice_along(advice: Advice, tmp_path: Path) -> None:
    watched = Watched().everything()
    seen, hidden = ModelKey("sandbox", "alpha", "1"), ModelKey("elsewhere", "alpha", "1")
    for key in (seen, hidden):
        watched.process.advice.give(key, advice, T0)
    path = tmp_path / "incident.zip"
    watched.saved(path)
    there = replayed(path, Settings(journal=JournalChoice(tmp_path / "state" / "journal.jsonl")))
    assert there.advice.last(seen) == advice
    assert there.advice.last(hidden) is None
    there.start()
    assert not (tmp_path / "state").exists()


# ---- the real thing

PROGRAM = """
import sys, time
from pathlib import Path
from tests.unit.test_kept_file import *
journal = Path(sys.argv[1])
keeper = opened(journal)
known = ledger(keeper)
known.changes()
advice = book(journal)
advice.give(KEY, advise(TIME, ALONE, observed(ALONE)), T0)
advice.prediction(KEY, BATCHING, T0 + 50)
for number in range(5):
    keeper.put(change(number))
print("ready", flush=True)
number = 5
while True:
    keeper.put(change(number))
    number += 1
"""


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_killed_while_it_writes_and_started_again(journal: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(journal)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            waiting = opened(journal)
            known = ledger(waiting)
            until(lambda: len(known.changes()) >= 5)
            assert not waiting.held
            known.changes()
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(WAIT_SECONDS)
    until(lambda: bool(known.changes()) and waiting.held)
    seen = known.changes()
    last = round((seen[-1].mark.began - T0) / 60)
    assert seen == tuple(change(number) for number in range(last - len(seen) + 1, last + 1))
    # At most the line that was being written is lost.
    assert len(waiting.notices) <= 1
    after = book(journal)
    prediction = after.prediction(KEY, BATCHING, T0 + 999)
    assert prediction is not None and (prediction.made_at, prediction.since) == (T0, T0 + 50)
