"""Twenty clicks of four people on one model are one request at the server; a second app only looks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from control.facade import Control
from control.journal import Journal
from control.journal_file import JournalFile
from sandbox.repository import FAULT_MODELS
from telemetry.access import ALL_RIGHTS, ANY_SERVER, How, Identity
from telemetry.actions import Action, ActionKind, Outcome, new_token
from telemetry.errors import AlreadyRunning
from tests.integration.write_lab import LIMIT_SECONDS, Lab, started_lab

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
PEOPLE = ("alice", "bob", "carol", "dave")
CLICKS = 5
SECOND_PROCESS = """
import json
import runtime
from telemetry.actions import Action, ActionKind
from settings import load_settings
from telemetry.access import LOCAL
from telemetry.errors import ControlError

process = runtime.Runtime(load_settings())
said = {"decide": process.control.decide("lab", ActionKind.LOAD, "slow", by=LOCAL).reason}
for kind in (ActionKind.LOAD, ActionKind.UNLOAD, ActionKind.TEST_REQUEST):
    try:
        process.control.perform(Action(kind, "lab", "slow"), lambda course: 1 / 0, by=LOCAL)
    except ControlError as error:
        said[str(kind)] = error.sentence
said["seen"] = [(one.action.who, one.action.model, one.running) for one in process.control.records()]
print(json.dumps(said))
"""


@dataclass
class Session:
    """One person in one browser: what each of their clicks was told."""

    who: Identity
    told: list[str] = field(default_factory=list)

    def click(self, control: Control, token: str) -> None:
        try:
            job = control.perform(Action(ActionKind.LOAD, "lab", "slow", token=token), by=self.who)
            self.told.append(f"job {job.id} {job.record.stage} by {job.record.action.who}")
        except AlreadyRunning as refusal:
            self.told.append(refusal.sentence)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with started_lab("batch_add_model") as started:
        yield started


def second_process(lab: Lab, journal: Path) -> dict[str, object]:
    """What another app process with the same settings may do, and what it sees."""
    settings = journal.with_name("tritonscope.yml")
    settings.write_text(
        f"servers:\n  - {{id: lab, url: '{lab.proxy.url}', metrics_url: none, control: true}}\n"
        f"journal: {{path: '{journal}', stdout: false}}\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", SECOND_PROCESS], cwd=ROOT, capture_output=True, text=True, timeout=60,
        env={**os.environ, "TRITONSCOPE_CONFIG": str(settings)},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    said: dict[str, object] = json.loads(run.stdout)
    return said


def test_twenty_clicks_of_four_people_are_one_request_and_twenty_honest_answers(
    lab: Lab, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    lab.sandbox.add_model(FAULT_MODELS["slow_load"], name="slow", parameters={"load_seconds": "6"})
    path = tmp_path / "journal.jsonl"
    journal = Journal(store=JournalFile(path))
    control = Control(lambda: (lab.server,), lab.reader, lambda server_id: False, journal=journal)
    sessions = [Session(Identity(name, How.PROXY, {ANY_SERVER: ALL_RIGHTS})) for name in PEOPLE]
    barrier = threading.Barrier(len(sessions) * CLICKS)

    def click(session: Session, token: str) -> None:
        barrier.wait()
        session.click(control, token)

    # Of each person's clicks two are one click that arrives twice (a rerun), the others come from more tabs.
    tokens = {one.who.name: [new_token() for _ in range(CLICKS - 1)] for one in sessions}
    threads = [
        threading.Thread(target=click, args=(one, token))
        for one in sessions
        for token in (*tokens[one.who.name], tokens[one.who.name][0])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_SECONDS)

    (record,) = control.records("lab", "slow")
    job = control.job(record.id)
    assert job is not None and job.record.running, "the load must outlast the clicks"
    other = second_process(lab, path)
    assert job.wait(LIMIT_SECONDS).outcome is Outcome.DONE

    assert lab.sent("slow", "load") == 1
    first = record.action.who
    begun = f"job {record.id} loading slow by {first}"
    answers = Counter(text for one in sessions for text in one.told)
    assert sum(answers.values()) == 20
    refusals = {text: count for text, count in answers.items() if text != begun}
    assert 1 <= answers[begun] <= 2, "the click that was first, and that one again if it arrived twice"
    (refusal,) = refusals
    assert refusal.startswith("Already running, since ")
    assert refusal.endswith(f" by {first}: loading slow. Nothing was sent.")
    figure(
        f"20 clicks: {lab.sent('slow', 'load')} request; {answers[begun]} began it or were that same click, "
        f"{refusals[refusal]} were told by whom and since when"
    )

    held = f"Read-only: another Tritonscope process (pid {os.getpid()}) holds the journal since "
    for key in ("decide", "load", "unload", "test request"):
        assert str(other[key]).startswith(held), other
    assert other["seen"] == [[first, "slow", True]]
    assert lab.sent("slow", "load") == 1 and lab.sent("slow", "unload") == 0
    assert [line["event"] for line in map(json.loads, path.read_text().splitlines())] == ["begin", "end"]
    journal.close()
