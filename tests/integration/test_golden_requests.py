"""Golden requests on the real server: what its counters are blind to is found; a bad reload goes back."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from collectors.gpu_processes import ProcessCollector
from control.expected_answers import Mode, expected_of
from control.facade import Control
from control.gated_reload import GATE, OR_REVERT
from control.golden import GoldenRequests, ask
from control.inference import InferenceRequest, Tensor
from control.saved_requests import SavedRequest, saved_from
from control.test_requests import send_one
from experiments.golden_prober import GoldenProber, Hearers, Rhythm, Target
from telemetry.access import LOCAL, Identity
from telemetry.actions import Action, ActionKind, Outcome, Record
from telemetry.facts import ModelState
from telemetry.memory import ServerProcesses
from telemetry.probe import ProbeCause, ProbeResult
from telemetry.scrape import Scrape
from tests.integration.request_lab import text
from tests.integration.write_lab import LIMIT_SECONDS, Lab, floats, started_lab

pytestmark = pytest.mark.integration
Figure = Callable[[str], None]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with started_lab("batch_add_model", extra=("moods", "short_queue")) as started:
        folder = tmp_path_factory.mktemp("golden")
        started.control = Control(
            lambda: (started.server,),
            started.reader,
            lambda _: False,
            golden=GoldenRequests(lambda _: folder),
        )
        yield started


def keep(lab: Lab, model: str, *tensors: Tensor, timeout_seconds: float = 5.0) -> SavedRequest:
    """Ask the model now, and take its answer for the golden one."""
    request = InferenceRequest("lab", model, "", tensors, timeout_seconds)
    config = lab.reader.config("lab", model)
    good = expected_of(tuple(send_one(lab.server, config, request)), Mode.TOLERANCE, latency_bound_us=60e6)
    return lab.control.golden.keep(saved_from("golden", "a tester", (request,), good))


def asked(lab: Lab, golden: SavedRequest) -> tuple[ProbeCause | None, str]:
    found = ask(lab.server, lab.reader.config("lab", golden.model), golden, 5.0)
    return found.cause, found.sentence


class Told:
    """What a prober tells."""

    def __init__(self, lab: Lab) -> None:
        self.results: dict[str, ProbeResult] = {}
        self.scrapes: list[Scrape] = []
        self.prober = GoldenProber(
            lab.control,
            lambda: (lab.server,),
            lambda _: [
                Target(lab.server, one.name, one.version, lab.reader.config("lab", one.name))
                for one in lab.reader.index("lab")
                if one.state is ModelState.READY
            ],
            lambda _: Rhythm(60.0, 5.0),
            Hearers(self._report, lambda _server, model: void(self.results.pop(model)), self.scrapes.append),
        )

    def _report(self, result: ProbeResult) -> None:
        self.results[result.model] = result


def void(_: object) -> None:
    return None


def journal_lines(lab: Lab, model: str) -> list[tuple[str, Outcome | None]]:
    return [
        (record.action.who, record.outcome)
        for record in lab.control.records("lab", model)
        if record.action.kind is ActionKind.TEST_REQUEST
    ]


def reload(lab: Lab, model: str, by: Identity = LOCAL) -> Record:
    action = Action(ActionKind.RELOAD, "lab", model, parameters={GATE: OR_REVERT})
    return lab.control.perform(action, by=by).wait(LIMIT_SECONDS)


def model_file(lab: Lab, model: str, version: str = "1") -> Path:
    return lab.sandbox.repository / model / version / "model.py"


def write_newer(path: Path, code: str) -> None:
    """Replace a file, with a modification time that Triton cannot take for the old one."""
    before = path.stat().st_mtime if path.exists() else 0.0
    path.write_text(code)
    newer = max(time.time(), before + 2.0)
    os.utime(path, (newer, newer))


def test_a_round_tells_each_change_once_in_the_journal(lab: Lab, figure: Figure) -> None:
    keep(lab, "batch_add_model", floats("INPUT_A", 1.5), floats("INPUT_B", 2.25))
    told = Told(lab)
    before = lab.sent("batch_add_model", "infer")
    told.prober.round("lab")
    told.prober.round("lab")
    assert told.results["batch_add_model"].ok
    assert told.results["batch_add_model"].version == "1"
    assert lab.sent("batch_add_model", "infer") == before + 2
    assert journal_lines(lab, "batch_add_model") == []
    path = model_file(lab, "batch_add_model")
    good = path.read_text()
    assert " + " in good
    write_newer(path, good.replace(" + ", " - "))
    assert lab.do(ActionKind.RELOAD, "batch_add_model").outcome is Outcome.DONE
    told.prober.round("lab")
    told.prober.round("lab")
    assert told.results["batch_add_model"].cause == ProbeCause.WRONG_ANSWER
    assert told.results["batch_add_model"].sentence == "OUTPUT_SUM differs in 1 of 1 values"
    figure(f"changed model.py: {told.results['batch_add_model'].sentence}")
    assert journal_lines(lab, "batch_add_model") == [("golden requests", Outcome.FAILED)]
    write_newer(path, good)
    assert lab.do(ActionKind.RELOAD, "batch_add_model").outcome is Outcome.DONE
    told.prober.round("lab")
    assert told.results["batch_add_model"].ok
    assert [outcome for _, outcome in journal_lines(lab, "batch_add_model")] == [Outcome.DONE, Outcome.FAILED]
    series, values = told.scrapes[-1].samples.series, told.scrapes[-1].samples.values
    assert [one.label("cause") for one in series if one.label("model") == "batch_add_model"] == ["ok"]
    assert values.tolist() == [1.0]


def test_errors_that_a_model_answers_are_found(lab: Lab) -> None:
    golden = keep(lab, "moods", text("MOOD", b"fine"))
    assert asked(lab, golden) == (None, "as expected")
    failing = replace(golden, steps=((text("MOOD", b"INTERNAL"),),))
    cause, sentence = asked(lab, failing)
    assert cause is ProbeCause.ERROR
    assert "told to say INTERNAL" in sentence
    assert asked(lab, replace(golden, steps=((text("MOOD", b"INVALID_ARG"),),)))[0] is ProbeCause.ERROR
    assert asked(lab, replace(golden, steps=((text("MOOD", b"raise"),),)))[0] is ProbeCause.ERROR


def test_a_request_that_does_not_fit_any_more_is_refused_before_it_is_sent(lab: Lab) -> None:
    golden = keep(lab, "batch_add_model", floats("INPUT_A", 1.0), floats("INPUT_B", 2.0))
    cause, sentence = asked(lab, replace(golden, steps=((floats("INPUT_A", 1.0),),)))
    assert cause is ProbeCause.REFUSED
    assert "INPUT_B" in sentence


def test_a_full_queue_is_found(lab: Lab) -> None:
    config = lab.reader.config("lab", "short_queue")
    spec = config.inputs[0]
    rows = (1,) if config.max_batch_size > 0 else ()
    array = np.zeros((*rows, *(max(1, size) for size in spec.dims)), dtype=np.float32)
    tensor = Tensor(spec.name, spec.datatype, array)
    golden = keep(lab, "short_queue", tensor, timeout_seconds=20.0)
    ended, causes = threading.Event(), []
    clients = [threading.Thread(target=lambda: flood(lab, tensor, ended), daemon=True) for _ in range(8)]
    for client in clients:
        client.start()
    until = time.monotonic() + LIMIT_SECONDS
    while ProbeCause.QUEUE_FULL not in causes and time.monotonic() < until:
        causes.append(asked(lab, golden)[0])
    ended.set()
    for client in clients:
        client.join(LIMIT_SECONDS)
    assert ProbeCause.QUEUE_FULL in causes


def flood(lab: Lab, tensor: Tensor, ended: threading.Event) -> None:
    while not ended.is_set():
        lab.ask("short_queue", tensor).wait(LIMIT_SECONDS)


def test_a_gated_reload_keeps_a_good_version_and_puts_back_from_a_bad_one(lab: Lab, figure: Figure) -> None:
    golden = keep(lab, "batch_add_model", floats("INPUT_A", 1.5), floats("INPUT_B", 2.25))
    good = model_file(lab, "batch_add_model").read_text()
    second = model_file(lab, "batch_add_model", "2")
    second.parent.mkdir()
    write_newer(second, good.replace(" + ", " - "))
    record = reload(lab, "batch_add_model")
    figure(f"gated reload of a bad version: {record.sentence} ({record.seconds(time.time()):.1f} s)")
    assert record.outcome is Outcome.FAILED
    assert "wrong_answer" in record.sentence
    assert "version 1 serves again and answers as expected" in record.sentence
    assert ready_versions(lab, "batch_add_model") == {"1"}
    assert asked(lab, golden) == (None, "as expected")
    await_settled(lab, "batch_add_model")
    write_newer(second, good + "\n# a good one\n")
    assert lab.do(ActionKind.REVERT, "batch_add_model").outcome is Outcome.DONE
    third = model_file(lab, "batch_add_model", "3")
    third.parent.mkdir()
    write_newer(third, good + "\n# a better one\n")
    record = reload(lab, "batch_add_model")
    assert record.outcome is Outcome.DONE
    assert "as expected: kept" in record.sentence
    assert ready_versions(lab, "batch_add_model") == {"3"}
    await_settled(lab, "batch_add_model")


def test_overwritten_files_cannot_be_put_back_and_it_says_so(lab: Lab) -> None:
    keep(lab, "batch_add_model", floats("INPUT_A", 1.5), floats("INPUT_B", 2.25))
    version = max(ready_versions(lab, "batch_add_model"))
    path = model_file(lab, "batch_add_model", version)
    good = path.read_text()
    write_newer(path, good.replace(" + ", " - "))
    record = reload(lab, "batch_add_model")
    assert record.outcome is Outcome.FAILED
    assert f"the files of version {version} were overwritten" in record.sentence
    write_newer(path, good)
    assert reload(lab, "batch_add_model").outcome is Outcome.DONE


def test_a_reload_without_a_golden_request_is_not_gated(lab: Lab) -> None:
    before = lab.sent("identity", "load")
    lab.control.golden.remove("lab", "moods")
    record = reload(lab, "moods")
    assert record.outcome is Outcome.REFUSED
    assert "no golden request" in record.sentence
    assert lab.sent("moods", "load") == before == 0


def test_a_dead_process_that_says_ready_is_found_and_healed_by_touching_its_file(
    lab: Lab, figure: Figure
) -> None:
    golden = keep(lab, "moods", text("MOOD", b"fine"))
    scrape = ProcessCollector(replace(lab.server, http_url=lab.sandbox.http_url)).collect()
    assert scrape is not None
    assert isinstance(scrape.payload, ServerProcesses)
    stubs = [stub.pid for stub in scrape.payload.stubs if stub.model == "moods"]
    assert stubs
    for pid in stubs:
        os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + LIMIT_SECONDS
    cause, sentence = asked(lab, golden)
    while cause is not ProbeCause.PROCESS_DEAD and time.monotonic() < until:
        cause, sentence = asked(lab, golden)
    assert cause is ProbeCause.PROCESS_DEAD, sentence
    assert lab.states("moods") == {ModelState.READY}
    path = model_file(lab, "moods")
    write_newer(path, path.read_text())
    began = time.monotonic()
    assert lab.do(ActionKind.LOAD, "moods").outcome is Outcome.DONE
    assert asked(lab, golden) == (None, "as expected")
    figure(f"dead process: {sentence}; touched and loaded in {time.monotonic() - began:.1f} s")


def await_settled(lab: Lab, model: str) -> None:
    """Wait until no version is loaded or unloaded any more."""
    until = time.monotonic() + LIMIT_SECONDS
    while lab.states(model) & {ModelState.LOADING, ModelState.UNLOADING}:
        assert time.monotonic() < until
        time.sleep(0.1)


def ready_versions(lab: Lab, model: str) -> set[str]:
    return {
        one.version for one in lab.reader.index("lab") if one.name == model and one.state is ModelState.READY
    }
