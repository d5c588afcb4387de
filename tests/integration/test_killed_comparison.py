"""An app that is killed while it compares configurations: the next one says so and puts the model's back."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from control.facade import Control
from control.journal import Journal
from control.journal_file import JournalFile
from control.override import raw_config
from control.restoration import Restoration
from telemetry.actions import Action, ActionKind, Outcome
from telemetry.errors import SourceError
from telemetry.facts import ModelState
from tests.integration.conftest import Until
from tests.integration.write_lab import Lab, started_lab

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
MODEL = "batch_cost_model"
COMPARING = """
import sys
from pathlib import Path
import numpy as np
from telemetry.actions import Action, ActionKind
from control.facade import Control
from control.inference import InferenceRequest, Tensor
from control.journal import Journal
from control.journal_file import JournalFile
from experiments.arms import batching_arms
from experiments.comparison import comparison_work
from experiments.fresh_reader import FreshReader
from experiments.plan import LoadPlan
from experiments.session import Wanted
from telemetry.access import LOCAL
from telemetry.identity import Server

server = Server("lab", sys.argv[1], None, control=True)
reader = FreshReader(lambda: (server,))
journal = Journal(store=JournalFile(Path(sys.argv[2])))
control = Control(lambda: (server,), reader, lambda server_id: True, journal=journal)
config = reader.config("lab", sys.argv[3])
one = np.ones((1, *(abs(size) for size in config.inputs[0].dims)), dtype=np.float32)
request = InferenceRequest("lab", sys.argv[3], "", tuple(Tensor(i.name, "FP32", one) for i in config.inputs))
plan = LoadPlan(concurrency=2, seconds=100.0, warmup_seconds=0.0)
work = comparison_work(Wanted(control, config, request), plan, batching_arms(config), LOCAL)
control.perform(Action(ActionKind.LOAD_RUN, "lab", sys.argv[3]), work, by=LOCAL).wait()
print(control.records()[0].sentence)
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with started_lab(MODEL) as started:
        yield started


def test_the_configuration_is_put_back_by_the_next_start_once(
    lab: Lab, tmp_path: Path, until: Until, figure: Callable[[str], None]
) -> None:
    path = tmp_path / "journal.jsonl"
    original = raw_config(lab.reader.config("lab", MODEL))

    def config_now() -> dict[str, object] | None:
        try:
            return dict(raw_config(lab.reader.config("lab", MODEL)))
        except SourceError:
            return None

    app = subprocess.Popen(
        [sys.executable, "-c", COMPARING, lab.proxy.url, str(path), MODEL],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        until(lambda: app.poll() is not None or config_now() not in (None, original), 60.0)
        assert app.poll() is None, app.stdout.read() if app.stdout else ""
        asked = f"/models/{MODEL}/infer"
        until(lambda: len(lab.proxy.passed("POST", asked)) > 5, 60.0)
    finally:
        app.send_signal(signal.SIGKILL)
        app.wait(20)
    loads = lab.sent(MODEL, "load")
    assert config_now() not in (None, original), "the arm's configuration is what the app left"

    def made_anew() -> Control:
        journal = Journal(store=JournalFile(path))
        return Control(lambda: (lab.server,), lab.reader, lambda server_id: False, journal=journal)

    control, began = made_anew(), time.monotonic()
    run = next(one for one in control.records() if one.action.kind is ActionKind.LOAD_RUN)
    assert (run.outcome, run.sent) == (Outcome.UNKNOWN, None)
    (pending,) = control.journal.open_restorations()
    assert pending.left_over and pending.restoration.model == MODEL
    control.start()
    until(lambda: not control.journal.open_restorations(), 60.0)
    figure(f"put back {time.monotonic() - began:.1f} s after the next start")
    assert config_now() == original
    assert lab.states(MODEL) == {ModelState.READY}
    (back,) = [one for one in control.records() if one.action.kind is ActionKind.REVERT]
    assert (back.outcome, back.action.who) == (Outcome.DONE, "tritonscope")
    assert back.action.why.startswith("put back after the comparison of ")
    assert lab.sent(MODEL, "load") == loads + 1
    control.stop()

    third = made_anew()
    assert third.journal.open_restorations() == ()
    assert not third.repairs.step()
    third.stop()
    assert lab.sent(MODEL, "load") == loads + 1
    # The load generator of the killed app ends with it.
    until(lambda: _quiet(lab, asked), 60.0)


def test_a_way_back_that_was_killed_half_way_is_ended_and_the_model_serves_again(
    lab: Lab, tmp_path: Path, until: Until
) -> None:
    path = tmp_path / "journal.jsonl"
    killed = Journal(store=JournalFile(path))
    killed.intend(Restoration("lab", MODEL, None, "the comparison of 14:02"))
    record = killed.begin(Action(ActionKind.REVERT, "lab", MODEL, who="tritonscope"), "reverting")
    killed.write_down(record.id)
    assert lab.do(ActionKind.UNLOAD, MODEL).outcome is Outcome.DONE
    killed.close()
    journal = Journal(store=JournalFile(path))
    control = Control(lambda: (lab.server,), lab.reader, lambda server_id: False, journal=journal)
    control.start()
    until(lambda: not control.journal.open_restorations(), 60.0)
    control.stop()
    assert lab.states(MODEL) == {ModelState.READY}
    assert [one.action.kind for one in control.records()] == [ActionKind.LOAD, ActionKind.REVERT]


def _quiet(lab: Lab, path: str) -> bool:
    """True if nothing was sent there within half a second."""
    before = len(lab.proxy.passed("POST", path))
    threading.Event().wait(0.5)
    return len(lab.proxy.passed("POST", path)) == before
