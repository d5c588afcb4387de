"""The write side against the real server: what is sent, how often, and what is said about it."""

from __future__ import annotations

import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from control.actions import Action, ActionKind, Outcome, Record
from control.facade import Control
from control.inference import InferenceRequest, Tensor, check_request
from control.performer import Job
from control.policy import CONTROL_REFUSED
from control.repository_watch import Patience
from control.tensors import (
    DATATYPES,
    FLOAT_TYPES,
    INTEGER_TYPES,
    arranged,
    element_texts,
    integer_range,
    numpy_dtype,
    typed_array,
)
from control.test_requests import TestAnswer, test_request_work
from experiments.fresh_reader import FreshReader
from sandbox import Sandbox, SandboxOptions
from sandbox.repository import FAULT_MODELS
from telemetry.errors import AlreadyRunning, InvalidRequest, SourceError
from telemetry.facts import ModelConfig, ModelState, TensorSpec
from telemetry.identity import Server
from tests.counting_proxy import CountingProxy

pytestmark = pytest.mark.integration

MODELS = Path(__file__).parents[1] / "fixtures" / "models"
LIMIT_SECONDS = 30.0


class Lab:
    """A sandbox of this module's own, with a proxy before it that counts what is really sent."""

    def __init__(self, sandbox: Sandbox, proxy: CountingProxy) -> None:
        self.sandbox = sandbox
        self.proxy = proxy
        self.server = Server("lab", proxy.url, sandbox.metrics_url, control=True)
        self.reader = FreshReader(lambda: (self.server,))
        self.control = self.make_control(Patience())

    def make_control(self, patience: Patience) -> Control:
        return Control(lambda: (self.server,), self.reader, lambda server_id: False, patience=patience)

    def do(self, kind: ActionKind, model: str, *, dependents: bool = False) -> Record:
        action = Action(kind, "lab", model, unload_dependents=dependents)
        return self.control.perform(action).wait(LIMIT_SECONDS)

    def states(self, model: str) -> set[ModelState]:
        return {entry.state for entry in self.reader.index("lab") if entry.name == model}

    def sent(self, model: str, verb: str) -> int:
        return len(self.proxy.passed("POST", f"/models/{model}/{verb}"))

    def ask(self, model: str, *tensors: Tensor, timeout_seconds: float = 10.0) -> Job:
        config = self.reader.config("lab", model)
        request = InferenceRequest("lab", model, "", tensors, timeout_seconds)
        work = test_request_work(self.reader, config, request)
        return self.control.perform(Action(ActionKind.TEST_REQUEST, "lab", model), work)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    options = SandboxOptions(
        http_port=0,
        grpc_port=0,
        metrics_port=0,
        models=("batch_add_model", "ensemble_pipeline"),
        simulated_gpu=False,
        extra_models=(MODELS / "identity", MODELS / "short_queue"),
    )
    with Sandbox(options) as sandbox, CountingProxy(sandbox.http_url) as proxy:
        assert sandbox.not_ready() == {}
        yield Lab(sandbox, proxy)


def floats(name: str, *values: float) -> Tensor:
    return Tensor(name, "FP32", np.array([values], dtype=np.float32))


def answer(job: Job) -> TestAnswer:
    record = job.wait(LIMIT_SECONDS)
    assert isinstance(job.result, TestAnswer), record
    return job.result


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
                lab.control.perform(Action(ActionKind.LOAD, "lab", "batch_add_model"))
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
            assert record.sentence == f"m_badinit v1 not loaded: RuntimeError: {text}"
            assert record.detail is not None and "initialize" in record.detail
        assert lab.sent("m_badinit", "load") == 2

    def test_a_load_outlives_its_client_and_is_not_sent_again(self, lab: Lab) -> None:
        lab.sandbox.add_model(FAULT_MODELS["slow_load"], name="slow", parameters={"load_seconds": "5"})
        control = lab.make_control(Patience(call_seconds=2.0))
        job = control.perform(Action(ActionKind.LOAD, "lab", "slow"))
        stages = set()
        while job.record.running:
            stages.add(job.record.stage)
            job.wait(0.1)
        record = job.record
        assert record.outcome is Outcome.DONE, record
        assert record.seconds(0.0) > 4.0
        assert "loading slow" in stages
        assert "still loading slow: the call was given up, the server goes on" in stages
        assert lab.states("slow") == {ModelState.READY}
        assert lab.sent("slow", "load") == 1

    @pytest.mark.parametrize(
        ("name", "config", "sentence"),
        [
            (
                "m_nover",
                'backend: "python"\n',
                "m_nover: no version folder (needs e.g. an empty folder 1/), or the version policy allows "
                "none of them",
            ),
            (
                "m_lots",
                "max_batch_size: lots\n",
                "m_lots not loaded: Triton could not read this model (wrong name, config.pbtxt or "
                "override); see the server log",
            ),
            (
                "does_not_exist",
                None,
                "does_not_exist not loaded: Triton could not read this model (wrong name, config.pbtxt or "
                "override); see the server log",
            ),
        ],
    )
    def test_what_triton_cannot_read_is_said_in_words(
        self, lab: Lab, name: str, config: str | None, sentence: str
    ) -> None:
        if config is not None:
            folder = lab.sandbox.repository / name
            folder.mkdir()
            (folder / "config.pbtxt").write_text(config)
        record = lab.do(ActionKind.LOAD, name)
        assert (record.outcome, record.sentence) == (Outcome.FAILED, sentence)

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
    options = SandboxOptions(
        http_port=0,
        grpc_port=0,
        metrics_port=0,
        models=("batch_add_model",),
        simulated_gpu=False,
        control_mode="none",
    )
    with Sandbox(options) as sandbox, CountingProxy(sandbox.http_url) as proxy:
        lab = Lab(sandbox, proxy)
        record = lab.do(ActionKind.UNLOAD, "batch_add_model")
        assert (record.outcome, record.sentence) == (Outcome.FAILED, CONTROL_REFUSED)
        assert record.detail is not None and "if polling is enabled" in record.detail
        for kind in (ActionKind.LOAD, ActionKind.UNLOAD, ActionKind.RELOAD):
            assert lab.control.decide("lab", kind, "batch_add_model").reason == CONTROL_REFUSED
        assert lab.control.decide("lab", ActionKind.TEST_REQUEST, "batch_add_model").allowed
        # A server that goes away under way is told, and what became of the action is not guessed.
        lab.control.server_restarted("lab")
        sandbox.kill(signal.SIGKILL)
        sandbox.wait_ended()
        record = lab.do(ActionKind.UNLOAD, "batch_add_model")
        assert record.outcome is Outcome.REFUSED
        assert record.sentence.startswith("Nothing was sent: the repository index cannot be read.")


class TestRequests:
    def test_the_sum_is_right_and_the_server_tells_where_the_time_went(self, lab: Lab) -> None:
        found = answer(lab.ask("batch_add_model", floats("INPUT_A", 1.5), floats("INPUT_B", 2.0)))
        (output,) = found.reply.outputs
        assert (output.name, output.datatype, output.shape) == ("OUTPUT_SUM", "FP32", (1, 1))
        assert output.array.tolist() == [[3.5]]
        row = found.split.of("batch_add_model")
        assert row is not None and row.requests == 1
        assert found.split.sentence == "This request alone: the server counted no other in between."
        parts = (row.queue_us, row.compute_input_us, row.compute_infer_us, row.compute_output_us)
        known = [part for part in parts if part is not None]
        assert len(known) == 4 and all(part > 0 for part in known)
        assert row.request_us is not None
        assert sum(known) <= row.request_us <= found.reply.latency_us
        assert row.executions_by_batch_size == {1: 1}

    def test_ten_requests_from_ten_threads_all_come_back_right(self, lab: Lab) -> None:
        # One client per action, made and closed in its thread: a shared one fails or hangs.
        jobs = [
            lab.ask("batch_add_model", floats("INPUT_A", float(number)), floats("INPUT_B", 0.5))
            for number in range(10)
        ]
        sums = [answer(job).reply.outputs[0].array.item() for job in jobs]
        assert sums == [number + 0.5 for number in range(10)]

    def test_requests_leave_no_open_files_behind(self, lab: Lab) -> None:
        def open_files() -> int:
            return len(list(Path("/proc/self/fd").iterdir()))

        answer(lab.ask("batch_add_model", floats("INPUT_A", 1.0), floats("INPUT_B", 2.0)))
        before = open_files()
        for _ in range(20):
            answer(lab.ask("batch_add_model", floats("INPUT_A", 1.0), floats("INPUT_B", 2.0)))
        # The proxy's own connections come and go; two per request would be 40.
        assert open_files() < before + 20

    @pytest.mark.parametrize("datatype", DATATYPES)
    def test_extreme_values_of_every_datatype_come_back_exactly(self, lab: Lab, datatype: str) -> None:
        name = "STRING" if datatype == "BYTES" else datatype
        texts = extremes(datatype)
        spec = TensorSpec(f"IN_{name}", datatype, (-1,), optional=True)
        array = arranged(spec, typed_array(spec.name, datatype, texts), batching=True, rows=2)
        found = answer(lab.ask("identity", Tensor(spec.name, datatype, array)))
        (output,) = found.reply.outputs
        assert (output.name, output.datatype) == (f"OUT_{name}", datatype)
        assert output.array.dtype == numpy_dtype(datatype)
        assert output.shape == array.shape
        assert element_texts(output.array, 100) == element_texts(array, 100)
        assert output.array.tobytes() == array.tobytes() or datatype == "BYTES"

    def test_a_decoupled_model_and_too_many_rows_are_refused_without_a_byte_sent(self, lab: Lab) -> None:
        config = lab.reader.config("lab", "batch_add_model")
        before = len(lab.proxy.passed("POST", "/infer"))
        five = Tensor("INPUT_A", "FP32", np.zeros((5, 1), dtype=np.float32))
        with pytest.raises(InvalidRequest, match=r"^At most 4 rows per request \(got 5\)$"):
            lab.ask("batch_add_model", five, Tensor("INPUT_B", "FP32", five.array))
        lab.sandbox.add_model(FAULT_MODELS["decoupled_thread"])
        assert lab.do(ActionKind.LOAD, "decoupled_thread").outcome is Outcome.DONE
        with pytest.raises(InvalidRequest, match=r"^This model streams \(decoupled\)"):
            lab.ask("decoupled_thread", Tensor("INPUT", "FP32", np.zeros(1, dtype=np.float32)))
        assert len(lab.proxy.passed("POST", "/infer")) == before
        check_request(
            config,
            InferenceRequest("lab", "batch_add_model", "", (floats("INPUT_A", 1), floats("INPUT_B", 1))),
        )

    def test_a_full_queue_is_called_a_full_queue(self, lab: Lab) -> None:
        jobs = [lab.ask("short_queue", floats("IN", 1.0)) for _ in range(6)]
        records = [job.wait(LIMIT_SECONDS) for job in jobs]
        refused = [record for record in records if record.outcome is Outcome.FAILED]
        assert 1 <= len(refused) <= 4
        assert {record.sentence for record in refused} == {
            "Queue full: short_queue has as many waiting requests as it accepts (503)"
        }
        assert sum(record.outcome is Outcome.DONE for record in records) == 6 - len(refused)

    def test_a_model_that_was_unloaded_meanwhile_is_said_to_be_not_loaded(self, lab: Lab) -> None:
        config = lab.reader.config("lab", "short_queue")
        lab.do(ActionKind.UNLOAD, "short_queue")
        work = test_request_work(
            lab.reader, config, InferenceRequest("lab", "short_queue", "", (floats("IN", 1.0),))
        )
        record = lab.control.perform(Action(ActionKind.TEST_REQUEST, "lab", "short_queue"), work).wait(10)
        assert (record.outcome, record.sentence) == (
            Outcome.FAILED,
            "short_queue is not loaded: load it first",
        )
        assert lab.do(ActionKind.LOAD, "short_queue").outcome is Outcome.DONE

    def test_network_faults_are_four_plain_sentences(self, lab: Lab, tmp_path: Path) -> None:
        held = tmp_path / "held"
        held.touch()
        lab.sandbox.add_model(FAULT_MODELS["hang"], parameters={"while_file_exists": str(held)})
        lab.do(ActionKind.LOAD, "hang")
        began = time.monotonic()
        record = lab.ask("hang", Tensor("INPUT", "FP32", np.zeros(1, np.float32)), timeout_seconds=1.0).wait(
            20
        )
        assert 1.0 <= time.monotonic() - began < 5.0
        assert record.sentence.endswith("within 1 s (the server may still run the request)")
        held.unlink()
        config = lab.reader.config("lab", "batch_add_model")
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            refusing = f"http://127.0.0.1:{unused.getsockname()[1]}"
            grpc = f"http://{lab.sandbox.grpc_url}"
            tls = lab.sandbox.http_url.replace("http", "https", 1)
            found = {
                url: fault(url, config, lab.reader) for url in (refusing, grpc, lab.sandbox.metrics_url, tls)
            }
        assert found[refusing].endswith("is not reachable (refused)")
        assert found[grpc].endswith("does not speak HTTP: is it the gRPC port?")
        assert found[tls].endswith("failed: wrong scheme, or a certificate that is not trusted")
        assert "is it the metrics port?" in found[lab.sandbox.metrics_url]
        assert all("Traceback" not in sentence for sentence in found.values())


class NoStatistics:
    """A reader of statistics that never answers, so that only the request itself speaks."""

    def statistics(self, server_id: str) -> tuple[()]:
        raise SourceError("not read")


def fault(url: str, config: ModelConfig, reader: FreshReader) -> str:
    server = Server("odd", url, None, control=True)
    control = Control(lambda: (server,), reader, lambda server_id: False)
    request = InferenceRequest("odd", config.name, "", (floats("INPUT_A", 1.0), floats("INPUT_B", 1.0)), 2.0)
    work = test_request_work(NoStatistics(), config, request)
    record = control.perform(Action(ActionKind.TEST_REQUEST, "odd", config.name), work).wait(20)
    assert record.outcome is Outcome.FAILED
    return record.sentence


def extremes(datatype: str) -> str:
    if datatype in INTEGER_TYPES:
        low, high = integer_range(datatype)
        return f"[{low}, {high}, 0, 1]" if datatype != "INT64" else f"[{low}, {high}, 9007199254740993]"
    if datatype in FLOAT_TYPES:
        return (
            "[1.5, -0.0, 65504, NaN, Infinity, -Infinity]"
            if datatype == "FP16"
            else "[1.5, 3e38, 1e-38, NaN]"
        )
    if datatype == "BOOL":
        return "[true, false, true]"
    return '["", "plain", "ünï \\u2028 \\u0000 \\"quoted\\""]'
