"""Golden requests on the pages: an answer is made one, results are listed, a reload can be gated."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from streamlit.testing.v1 import AppTest

import runtime
from control.expected_answers import Mode, expected_of
from control.gated_reload import GATE, OR_REVERT
from control.golden import GoldenRequests
from control.inference import InferenceRequest, Reply, Tensor
from control.saved_requests import SavedRequest, saved_from
from control.server_split import ServerSplit
from control.test_requests import TestAnswer
from experiments.golden_prober import Hearers
from experiments.golden_side import golden_prober
from telemetry.actions import ActionKind, Conclusion, Outcome
from telemetry.golden_choice import GoldenChoice
from telemetry.probe import ProbeCause, ProbeResult
from tests.pages.test_request_page import ALONE, SPLIT, button, open_form
from tests.pages.write_side import NotingControl, install, open_page, panel


def answering(control: NotingControl, latency_us: float = 2000.0) -> None:
    reply = Reply("fast_add", "1", (floats("OUT", 3.0),), latency_us)
    found = TestAnswer((reply,), ServerSplit((SPLIT,), ALONE))
    control.answers = lambda course: Conclusion(Outcome.DONE, "fast_add answered", result=found)


def floats(name: str, *values: float) -> Tensor:
    return Tensor(name, "FP32", np.array([values], dtype=np.float32))


def kept(folder: Path) -> SavedRequest | None:
    return GoldenRequests(lambda _server: folder).of("lab").get("fast_add")


def keep(folder: Path) -> None:
    request = InferenceRequest("lab", "fast_add", "", (floats("A", 1.0), floats("B", 2.0)))
    good = expected_of((Reply("fast_add", "1", (floats("OUT", 3.0),), 1000.0),), Mode.EXACT)
    GoldenRequests(lambda _server: folder).keep(saved_from("golden", "somebody", (request,), good))


def with_folder(folder: Path) -> NotingControl:
    control = install()
    control.golden = GoldenRequests(lambda _server: folder)
    return control


def test_without_a_folder_it_says_how() -> None:
    install()
    assert "golden: path" in panel(open_form(), "golden_none")


def test_an_answer_becomes_the_golden_request_with_bound_and_tolerance(tmp_path: Path) -> None:
    control = with_folder(tmp_path)
    answering(control)
    page = open_form()
    assert "Send a request first" in panel(page, "golden_wait")
    button(page, "Send request").click()
    page.run()
    button(page, "Save as golden request").click()
    page.run()
    assert not page.exception
    saved = kept(tmp_path)
    assert saved is not None
    assert saved.expected is not None
    assert saved.version == ""
    assert saved.expected.mode is Mode.TOLERANCE
    assert saved.expected.latency_bound_us == 100_000.0
    assert saved.expected.replies[0][0].array is not None
    assert saved.expected.replies[0][0].array.tolist() == [[3.0]]
    assert "within 1e-05 of it" in panel(page, "golden_facts")
    button(page, "Remove it").click()
    page.run()
    assert kept(tmp_path) is None


def test_results_are_listed_and_failures_stand_first(tmp_path: Path) -> None:
    control = with_folder(tmp_path)
    keep(tmp_path)
    assert control.golden.of("lab")
    now = time.time()
    probes = runtime.current().probes
    probes.report(ProbeResult("lab", "alpha", now - 60, True, version="2", latency_us=1500.0))
    probes.report(
        ProbeResult(
            "lab", "fast_add", now - 30, False, ProbeCause.WRONG_ANSWER, "OUT is 4, not 3", "1", 900.0
        )
    )
    markup = panel(open_page("repository"), "golden")
    assert "1 of 2 answered as expected" in markup
    assert markup.index("wrong answer") < markup.index("1.5 ms")
    assert "OUT is 4, not 3" in markup
    assert "1.5 ms" in markup


def test_a_model_that_is_not_asked_says_why(tmp_path: Path) -> None:
    with_folder(tmp_path)
    keep(tmp_path)
    markup = panel(open_page("model", model="fast_add", version="1"), "memory")
    assert "Golden request" in markup
    assert "golden: every_minutes" in markup


def question(**params: str) -> AppTest:
    return open_page("repository", do="reload", on="lab", what="fast_add", **params)


def test_the_question_says_that_golden_requests_are_among_the_traffic(tmp_path: Path) -> None:
    control = with_folder(tmp_path)
    process = runtime.current()
    assert "golden request" not in panel(question(), "question")
    process.golden = golden_prober(
        process, control, GoldenChoice(tmp_path, 5.0), Hearers(print, print, process.accept)
    )
    process.probes.report(ProbeResult("lab", "fast_add", time.time(), True))
    assert "golden request is among them, one every 5 min" in panel(question(), "question")


def test_a_reload_can_be_gated(tmp_path: Path) -> None:
    control = with_folder(tmp_path)
    keep(tmp_path)
    control.answers = lambda course: Conclusion(Outcome.DONE, "loaded")
    page = question()
    (box,) = [one for one in page.checkbox if "golden request" in one.label]
    assert box.value
    button(page, "Reload").click()
    page.run()
    assert not page.exception
    (action,) = control.performed
    assert action.kind is ActionKind.RELOAD
    assert action.parameters[GATE] == OR_REVERT


def test_a_model_without_a_golden_request_is_reloaded_plainly(tmp_path: Path) -> None:
    control = with_folder(tmp_path)
    control.answers = lambda course: Conclusion(Outcome.DONE, "loaded")
    page = question()
    assert not [one for one in page.checkbox if "golden request" in one.label]
    button(page, "Reload").click()
    page.run()
    assert GATE not in control.performed[0].parameters
