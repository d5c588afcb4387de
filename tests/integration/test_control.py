"""Load, unload and reload on the real server: what is sent, how often, and what is said about it."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator

import pytest

from control.policy import CONTROL_REFUSED
from control.repository_watch import Patience
from sandbox.repository import FAULT_MODELS
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Outcome
from telemetry.errors import AlreadyRunning
from telemetry.facts import ModelState
from tests.integration.write_lab import LIMIT_SECONDS, Lab, answer, floats, started_lab

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with started_lab("batch_add_model", "ensemble_pipeline") as started:
        yield started


class TestLoadAndUnload:
    def test_unload_and_load_are_sent_once_and_done_when_the_index_says_so(self, lab: Lab) -> None:
        unloads, loads = lab.sent("batch_add_model", "unload"), lab.sent("batch_add_model", "load")
        record = lab.do(ActionKind.UNLOAD, "batch_add_model")
        assert (record.outcome, record.sentence) == (Outcome.DONE, "batch_add_model is unloaded")
        assert lab.states("batch_add_model") == {ModelState.UNAVAILABLE}
        record = lab.do(ActionKind.LOAD, "batch_add_model")
        assert record.outcome is Outcome.DONE
        assert re.fullmatch(r"batch_add_model is loaded after \d+\.\d s", record.sentence)
        assert lab.states("batch_add_model") == {ModelState.READY}
        assert lab.sent("batch_add_model", "unload") == unloads + 1
        assert lab.sent("batch_add_model", "load") == loads + 1
        assert lab.control.control_mode("lab") == "explicit"

    def test_unloading_what_is_not_loaded_or_unknown_sends_nothing(self, lab: Lab) -> None:
        record = lab.do(ActionKind.UNLOAD, "does_not_exist")
        assert record.outcome is Outcome.REFUSED
        assert record.sentence == "Nothing to unload: does_not_exist is not in the repository index."
        assert not record.sent
        lab.sandbox.add_model(FAULT_MODELS["flaky"], name="never_loaded")
        record = lab.do(ActionKind.UNLOAD, "never_loaded")
        assert (record.outcome, record.sentence) == (
            Outcome.REFUSED,
            "Nothing to unload: never_loaded is not loaded.",
        )
        assert lab.sent("does_not_exist", "unload") == lab.sent("never_loaded", "unload") == 0

    def test_a_step_takes_its_ensemble_down_and_up_again_and_both_are_told(self, lab: Lab) -> None:
        record = lab.do(ActionKind.UNLOAD, "label_head")
        assert record.sentence == "label_head is unloaded; with it stopped ensemble_pipeline"
        assert lab.states("ensemble_pipeline") == {ModelState.UNAVAILABLE}
        record = lab.do(ActionKind.LOAD, "label_head")
        assert record.sentence.endswith("; with it came ensemble_pipeline")
        assert lab.states("ensemble_pipeline") == {ModelState.READY}

    def test_a_reload_says_whether_anything_had_changed(self, lab: Lab) -> None:
        # A first load may find what the Python process wrote beside model.py; the second finds nothing new.
        lab.do(ActionKind.RELOAD, "batch_add_model")
        answer(lab.ask("batch_add_model", floats("INPUT_A", 1.0), floats("INPUT_B", 2.0)))
        record = lab.do(ActionKind.RELOAD, "batch_add_model")
        assert record.sentence == (
            "batch_add_model: nothing had changed on disk, so the server kept what it had loaded"
        )
        model = lab.sandbox.repository / "batch_add_model" / "1" / "model.py"
        model.write_text(model.read_text() + "\n# changed\n")
        record = lab.do(ActionKind.RELOAD, "batch_add_model")
        assert record.sentence == (
            "batch_add_model: loaded anew: the server found its files changed, and its statistics begin at 0"
        )

    def test_twenty_clicks_send_one_request(self, lab: Lab) -> None:
        before = lab.sent("batch_add_model", "load")
        answers: list[str] = []
        barrier = threading.Barrier(20)

        def click() -> None:
            barrier.wait()
            try:
                lab.control.perform(Action(ActionKind.LOAD, "lab", "batch_add_model"), by=LOCAL)
                answers.append("begun")
            except AlreadyRunning as refusal:
                answers.append(refusal.sentence)

        threads = [threading.Thread(target=click) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_SECONDS)
        record = lab.control.records("lab", "batch_add_model")[0]
        job = lab.control.job(record.id)
        assert job is not None and job.wait(LIMIT_SECONDS).outcome is Outcome.DONE
        assert answers.count("begun") == 1
        assert sum(text.startswith("Already running, since") for text in answers) == 19
        assert lab.sent("batch_add_model", "load") == before + 1


class TestFailures:
    def test_a_failing_load_tells_its_reason_both_times_and_the_traceback_is_behind_the_fold(
        self, lab: Lab
    ) -> None:
        text = "missing weights file on purpose"
        lab.sandbox.add_model(FAULT_MODELS["fail_init"], name="m_badinit", parameters={"message": text})
        for _ in range(2):
            record = lab.do(ActionKind.LOAD, "m_badinit")
            assert record.outcome is Outcome.FAILED
            assert record.sentence.startswith(
                f"m_badinit v1 not loaded: RuntimeError: {text}. The model's own"
            )
            assert record.detail is not None and "initialize" in record.detail
        assert lab.sent("m_badinit", "load") == 2

    def test_a_load_outlives_its_client_and_is_not_sent_again(self, lab: Lab) -> None:
        lab.sandbox.add_model(FAULT_MODELS["slow_load"], name="slow", parameters={"load_seconds": "5"})
        control = lab.make_control(Patience(call_seconds=2.0, stuck_seconds=3.0))
        job = control.perform(Action(ActionKind.LOAD, "lab", "slow"), by=LOCAL)
        stages = set()
        while job.record.running:
            stages.add(job.record.stage)
            job.wait(0.1)
        record = job.record
        assert record.outcome is Outcome.DONE, record
        assert record.seconds(0.0) > 4.0
        assert "loading slow" in stages
        assert "still loading slow: the call was given up, the server goes on" in stages
        assert any(stage.startswith("loading slow: this may never end") for stage in stages)
        assert lab.states("slow") == {ModelState.READY}
        assert lab.sent("slow", "load") == 1

    def test_a_changed_model_that_does_not_load_leaves_the_old_one_serving_and_says_so(
        self, lab: Lab
    ) -> None:
        lab.sandbox.add_model(FAULT_MODELS["slow_load"], name="edited", parameters={"load_seconds": "0"})
        assert lab.do(ActionKind.LOAD, "edited").outcome is Outcome.DONE
        model = lab.sandbox.repository / "edited" / "1" / "model.py"
        model.write_text("raise ValueError('edited badly')\n")
        record = lab.do(ActionKind.RELOAD, "edited")
        assert record.outcome is Outcome.FAILED
        assert "ValueError: edited badly" in record.sentence
        assert record.sentence.endswith("The version loaded before stays READY and serves on")
        assert lab.states("edited") == {ModelState.READY}


def test_a_server_in_mode_none_refuses_once_and_the_buttons_know_it() -> None:
    with started_lab("batch_add_model", control_mode="none") as lab:
        record = lab.do(ActionKind.UNLOAD, "batch_add_model")
        assert (record.outcome, record.sentence) == (Outcome.FAILED, CONTROL_REFUSED)
        assert record.detail is not None and "if polling is enabled" in record.detail
        for kind in (ActionKind.LOAD, ActionKind.UNLOAD, ActionKind.RELOAD):
            assert lab.control.decide("lab", kind, "batch_add_model", by=LOCAL).reason == CONTROL_REFUSED
        assert lab.control.decide("lab", ActionKind.TEST_REQUEST, "batch_add_model", by=LOCAL).allowed
        # A server that goes away under way is told, and what became of the action is not guessed.
        lab.control.server_restarted("lab")
        lab.sandbox.kill(signal.SIGKILL)
        lab.sandbox.wait_ended()
        record = lab.do(ActionKind.UNLOAD, "batch_add_model")
        assert record.outcome is Outcome.REFUSED
        assert record.sentence.startswith("Nothing was sent: the repository index cannot be read.")


def test_what_became_of_a_load_is_not_guessed_when_the_server_dies_under_way() -> None:
    with started_lab("batch_add_model") as lab:
        lab.sandbox.add_model(FAULT_MODELS["slow_load"], name="slow", parameters={"load_seconds": "20"})
        control = lab.make_control(Patience(unreachable_seconds=1.0))
        job = control.perform(Action(ActionKind.LOAD, "lab", "slow"), by=LOCAL)
        while ModelState.LOADING not in lab.states("slow"):
            assert job.wait(0.05).running
        lab.sandbox.kill(signal.SIGKILL)
        record = job.wait(LIMIT_SECONDS)
        assert record.outcome is Outcome.UNKNOWN
        assert record.sentence.startswith(
            "The server stopped answering while loading slow: what became of it is not known."
        )
        assert lab.sent("slow", "load") == 1
        assert control.running("lab", "slow") is None
