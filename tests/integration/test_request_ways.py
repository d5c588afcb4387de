"""Every way a request can travel, on the real server: exact values, sequences, streams, code to copy."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from control.expected_answers import Mode, compare, expected_of
from control.inference import InferenceRequest, Reply, SequenceStep, Tensor, Way
from control.performer import Job
from control.request_code import curl, perf_analyzer
from control.request_parameters import ParameterValue
from control.request_script import python_script
from control.saved_requests import SavedRequests, request_of, saved_from
from control.tensor_files import as_raw
from control.tensors import DATATYPES, numpy_dtype
from control.test_requests import TestAnswer, send_one, test_request_work, ways_for
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Outcome, Record
from telemetry.errors import InvalidRequest
from tests.integration.request_lab import find_grpc, number, started_request_lab, text
from tests.integration.write_lab import LIMIT_SECONDS, Lab, answer, floats
from tests.unit.test_tensor_files import extremes

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with started_request_lab() as started:
        yield started


@pytest.fixture(scope="module")
def grpc(tmp_path_factory: pytest.TempPathFactory) -> None:
    if not find_grpc(tmp_path_factory.mktemp("lent")):
        pytest.skip("the package grpcio is neither here nor in the embedded server's environment")


def send(lab: Lab, model: str, *requests: InferenceRequest) -> Job:
    work = test_request_work(lab.reader, lab.reader.config("lab", model), *requests)
    return lab.control.perform(Action(ActionKind.TEST_REQUEST, "lab", model), work, by=LOCAL)


def ended(job: Job) -> Record:
    return job.wait(LIMIT_SECONDS)


def request(model: str, *tensors: Tensor, way: Way = Way.INFER) -> InferenceRequest:
    return InferenceRequest("lab", model, "", tensors, 10.0, way=way)


def identity(datatype: str, shape: tuple[int, ...] | None = None) -> Tensor:
    name = "IN_STRING" if datatype == "BYTES" else f"IN_{datatype}"
    values = extremes(datatype)[np.newaxis] if shape is None else np.empty(shape, numpy_dtype(datatype))
    return Tensor(name, datatype, values)


def assert_echo(sent: Tensor, reply: Reply) -> None:
    (output,) = reply.outputs
    assert (output.name, output.datatype) == (sent.name.replace("IN_", "OUT_"), sent.datatype)
    assert output.array.dtype == sent.array.dtype and output.shape == sent.shape
    assert as_raw(sent.datatype, output.array) == as_raw(sent.datatype, sent.array)


class TestExactness:
    @pytest.mark.parametrize("datatype", DATATYPES)
    def test_extremes_of_every_datatype_come_back_bit_for_bit(self, lab: Lab, datatype: str) -> None:
        # Least and greatest, 2**63 - 1, NaN, both infinities, -0.0, the least denormal, bytes beyond UTF-8.
        sent = identity(datatype)
        assert_echo(sent, answer(send(lab, "identity", request("identity", sent))).reply)

    @pytest.mark.parametrize("datatype", DATATYPES)
    def test_the_same_over_grpc(self, lab: Lab, grpc: None, datatype: str) -> None:
        sent = identity(datatype)
        assert_echo(sent, answer(send(lab, "identity", request("identity", sent, way=Way.GRPC))).reply)

    @pytest.mark.parametrize("datatype", DATATYPES)
    def test_a_dimension_of_size_zero_keeps_its_shape(self, lab: Lab, datatype: str) -> None:
        sent = identity(datatype, (1, 0))
        assert_echo(sent, answer(send(lab, "identity", request("identity", sent))).reply)

    @pytest.mark.parametrize("datatype", [one for one in DATATYPES if one not in ("FP16", "BF16", "BYTES")])
    def test_generate_is_exact_where_json_is(self, lab: Lab, datatype: str) -> None:
        sent = identity(datatype)
        found = answer(send(lab, "identity", request("identity", sent, way=Way.GENERATE))).reply
        (output,) = found.outputs
        assert as_raw(datatype, output.array) == as_raw(datatype, sent.array)

    def test_parameters_of_every_kind_are_taken_by_every_way(self, lab: Lab, grpc: None) -> None:
        parameters: dict[str, ParameterValue] = {
            "text": "a",
            "n": -(2**63),
            "flag": True,
            "share": 0.25,
            "priority": 3,
            "timeout": 1000,
        }
        for way in (Way.INFER, Way.GENERATE, Way.GRPC):
            sent = replace(request("identity", identity("INT64"), way=way), parameters=parameters)
            assert ended(send(lab, "identity", sent)).outcome is Outcome.DONE, way


class TestSequences:
    def steps(self, way: Way, *values: int) -> list[InferenceRequest]:
        return [
            request("sequence_sum", Tensor("IN", "INT64", np.array([[value]], np.int64)), way=way)
            for value in values
        ]

    def test_a_sequence_is_sent_whole_and_the_model_remembers(self, lab: Lab) -> None:
        found = answer(send(lab, "sequence_sum", *self.steps(Way.INFER, 1, 2, 2**62)))
        sums = [reply.outputs[0].array.item() for reply in found.replies]
        assert sums == [1, 3, 2**62 + 3]
        assert [reply.outputs[1].array.item() for reply in found.replies] == [1, 2, 3]
        assert found.split.sentence == (
            "Mean over the 3 steps of this sequence: no other request was counted."
        )

    def test_a_single_request_is_a_whole_sequence_and_two_at_once_do_not_mix(self, lab: Lab) -> None:
        jobs = [send(lab, "sequence_sum", *self.steps(Way.INFER, start, 1)) for start in (100, 200)]
        assert [answer(job).replies[1].outputs[0].array.item() for job in jobs] == [101, 201]
        assert answer(send(lab, "sequence_sum", *self.steps(Way.INFER, 7))).reply.outputs[0].array.item() == 7

    def test_sequences_travel_by_grpc_as_well_but_not_by_generate(self, lab: Lab, grpc: None) -> None:
        found = answer(send(lab, "sequence_sum", *self.steps(Way.GRPC, 5, 6)))
        assert [reply.outputs[0].array.item() for reply in found.replies] == [5, 11]
        # As parameters of generate id, start and end mean nothing to Triton.
        with pytest.raises(InvalidRequest, match="keeps sequences, which generate cannot carry"):
            send(lab, "sequence_sum", *self.steps(Way.GENERATE, 5, 6))
        assert Way.GENERATE not in ways_for(lab.reader.config("lab", "sequence_sum"), lab.server)

    def test_after_a_step_that_failed_none_is_sent(self, lab: Lab) -> None:
        first, second, third = self.steps(Way.INFER, 1, 2, 3)
        config = lab.reader.config("lab", "sequence_sum")
        # A step that names an open sequence nobody began: what a closed one looks like to the server.
        broken = replace(second, sequence=SequenceStep(99, start=False, end=False))
        with pytest.raises(Exception, match="knows no open sequence 99"):
            list(send_one(lab.server, config, broken))
        before = len(lab.proxy.passed("POST", "/sequence_sum/infer"))
        lab.do(ActionKind.UNLOAD, "sequence_sum")
        work = test_request_work(lab.reader, config, first, third)
        action = Action(ActionKind.TEST_REQUEST, "lab", "sequence_sum")
        record = ended(lab.control.perform(action, work, by=LOCAL))
        assert lab.do(ActionKind.LOAD, "sequence_sum").outcome is Outcome.DONE
        assert record.outcome is Outcome.FAILED
        begin, _, end = record.sentence.partition(". Load it first")
        assert begin == "Step 1 of 2: sequence_sum has no version that is ready"
        assert end.endswith("No further step was sent; the server closes the sequence after its idle time")
        assert len(lab.proxy.passed("POST", "/sequence_sum/infer")) == before + 1


class TestStreams:
    def ask(self, lab: Lab, way: Way, count: int, *more: Tensor, word: bytes = b"hi") -> Job:
        tensors = (text("TEXT", word), number("COUNT", "INT32", count), *more)
        return send(lab, "repeat_text", request("repeat_text", *tensors, way=way))

    @pytest.mark.parametrize("way", [Way.GENERATE_STREAM, Way.GRPC_STREAM])
    def test_many_responses_come_in_their_order_with_exact_64_bit_integers(
        self, lab: Lab, grpc: None, way: Way
    ) -> None:
        found = answer(self.ask(lab, way, 5))
        assert [reply.outputs[0].array.tolist() for reply in found.replies] == [[b"hi"]] * 5
        assert [reply.outputs[1].array.item() for reply in found.replies] == [2**53 + i for i in range(5)]
        assert [output.name for output in found.reply.outputs] == ["OUT", "INDEX"]
        latencies = [reply.latency_us for reply in found.replies]
        assert latencies == sorted(latencies) and latencies[0] > 0

    @pytest.mark.parametrize("way", [Way.GENERATE_STREAM, Way.GRPC_STREAM])
    def test_a_stream_without_a_response_is_an_answer_too(self, lab: Lab, grpc: None, way: Way) -> None:
        job = self.ask(lab, way, 0)
        assert (ended(job).outcome, ended(job).sentence) == (
            Outcome.DONE, "repeat_text ended the stream without a response",
        )  # fmt: skip
        assert answer(job).replies == ()

    @pytest.mark.parametrize("way", [Way.GENERATE_STREAM, Way.GRPC_STREAM])
    def test_an_error_amid_the_stream_leaves_the_other_responses(
        self, lab: Lab, grpc: None, way: Way
    ) -> None:
        job = self.ask(lab, way, 3, number("FAIL_AT", "INT32", 1))
        record = ended(job)
        assert record.outcome is Outcome.FAILED
        assert record.sentence.startswith("1 of 3 responses of repeat_text are errors. The first: ")
        assert isinstance(job.result, TestAnswer)
        assert [reply.error for reply in job.result.replies] == ["", "no response 1 can be made", ""]

    def test_generate_takes_exactly_one_response(self, lab: Lab) -> None:
        found = answer(self.ask(lab, Way.GENERATE, 1, word="grüß".encode()))
        assert found.reply.outputs[0].array.tolist() == ["grüß".encode()]
        record = ended(self.ask(lab, Way.GENERATE, 2))
        assert (record.outcome, record.sentence) == (
            Outcome.FAILED,
            "repeat_text sent no response or more than one, and /generate carries exactly one (the server "
            "says so with HTTP 200). Use generate stream",
        )

    def test_an_error_before_the_first_response_is_the_outcome(self, lab: Lab) -> None:
        record = ended(self.ask(lab, Way.GENERATE_STREAM, 1, number("FAIL_AT", "INT32", 0)))
        assert record.sentence.startswith("repeat_text refused the request (HTTP 400): no response 0 can be")

    def test_bytes_that_are_no_text_travel_by_grpc_alone(self, lab: Lab, grpc: None) -> None:
        found = answer(self.ask(lab, Way.GRPC_STREAM, 1, word=b"\xff\x00"))
        assert found.reply.outputs[0].array.tolist() == [b"\xff\x00"]

    def test_responses_arrive_while_the_model_still_works(self, lab: Lab) -> None:
        from sandbox.repository import FAULT_MODELS

        lab.sandbox.add_model(
            FAULT_MODELS["decoupled_thread"], parameters={"responses": "3", "seconds": "1.5"}
        )
        assert lab.do(ActionKind.LOAD, "decoupled_thread").outcome is Outcome.DONE
        config = lab.reader.config("lab", "decoupled_thread")
        sent = request(
            "decoupled_thread", Tensor("INPUT", "FP32", np.zeros(1, np.float32)), way=Way.GENERATE_STREAM
        )
        # Past the counting proxy, which hands on whole answers.
        direct = replace(lab.server, http_url=lab.sandbox.http_url)
        seen = []
        for reply in send_one(direct, config, sent):
            seen.append((time.monotonic(), reply.outputs[0].array.item()))
        assert [value for _, value in seen] == [0.0, 1.0, 2.0]
        assert seen[2][0] - seen[0][0] > 0.5

    def test_the_ways_offered_are_those_that_work(self, lab: Lab, grpc: None) -> None:
        ways = {
            name: ways_for(lab.reader.config("lab", name), lab.server) for name in ("identity", "repeat_text")
        }
        assert ways["identity"] == (Way.INFER, Way.GRPC, Way.GENERATE)
        assert ways["repeat_text"] == (Way.GENERATE_STREAM, Way.GENERATE, Way.GRPC_STREAM)
        assert Way.GRPC not in ways_for(
            lab.reader.config("lab", "identity"), replace(lab.server, grpc_url=None)
        )


class TestCode:
    def both(self) -> list[Tensor]:
        return [floats("INPUT_A", 1.5), floats("INPUT_B", 2.25)]

    def python(
        self, code: str, folder: Path, files: dict[str, bytes]
    ) -> dict[str, tuple[str, list[int], str]]:
        """Run a script as a person would; its lines as name -> (datatype, shape, values as text)."""
        for name, data in files.items():
            (folder / name).write_bytes(data)
        script = folder / "request.py"
        script.write_text(code)
        path = os.pathsep.join(entry for entry in sys.path if (Path(entry) / "grpc").is_symlink())
        ran = subprocess.run(
            [sys.executable, str(script)], cwd=folder, capture_output=True, text=True, timeout=60,
            env=os.environ | {"PYTHONPATH": path}, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        rows = [line.split(" ", 2) for line in ran.stdout.splitlines()]
        found = {}
        for name, datatype, rest in rows:
            shape, values = rest.split("] ", 1)
            found[name] = (datatype, ast.literal_eval(shape + "]"), values)
        return found

    @pytest.mark.parametrize("way", [Way.INFER, Way.GRPC])
    def test_the_python_script_runs_and_prints_the_same_outputs_of_every_datatype(
        self, lab: Lab, grpc: None, tmp_path: Path, way: Way
    ) -> None:
        sent = request("identity", *map(identity, DATATYPES), way=way)
        outputs = answer(send(lab, "identity", sent)).reply.outputs
        assert len(outputs) == len(DATATYPES)
        code = python_script(lab.server, lab.reader.config("lab", "identity"), [sent])
        assert self.python(code.text, tmp_path, code.files) == {
            output.name: (output.datatype, list(output.shape), str(output.array.tolist()))
            for output in outputs
        }

    def test_long_tensors_become_files_beside_the_script(self, lab: Lab, tmp_path: Path) -> None:
        values = np.arange(20_000, dtype=np.float32)[np.newaxis]
        big = text("IN_STRING", bytes(range(256)) * 100)
        sent = request(
            "identity", Tensor("IN_FP32", "FP32", values), replace(big, array=big.array[np.newaxis])
        )
        code = python_script(lab.server, lab.reader.config("lab", "identity"), [sent])
        assert set(code.files) == {"IN_FP32.raw", "IN_STRING_1_1.bin"} and len(code.text) < 2000
        found = self.python(code.text, tmp_path, code.files)
        assert found["OUT_FP32"] == ("FP32", [1, 20_000], str(values.tolist()))
        assert found["OUT_STRING"][2] == str([[bytes(range(256)) * 100]])

    def test_the_script_of_a_sequence_keeps_it_together(self, lab: Lab, tmp_path: Path) -> None:
        steps = TestSequences().steps(Way.INFER, 4, 5)
        code = python_script(lab.server, lab.reader.config("lab", "sequence_sum"), steps)
        assert self.python(code.text, tmp_path, {})["SUM"] == ("INT64", [1, 1], "[[9]]")

    def shell(self, code: str, folder: Path, files: dict[str, bytes], **variables: str) -> bytes:
        for name, data in files.items():
            (folder / name).write_bytes(data)
        ran = subprocess.run(
            ["bash", "-c", code],
            cwd=folder,
            capture_output=True,
            timeout=60,
            env=os.environ | variables,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def test_the_curl_command_of_a_plain_model_prints_the_answer(self, lab: Lab, tmp_path: Path) -> None:
        code = curl(
            lab.server,
            lab.reader.config("lab", "batch_add_model"),
            [request("batch_add_model", *self.both())],
        )
        said = json.loads(self.shell(code.text, tmp_path, code.files))
        assert said["outputs"][0]["data"] == [3.75] and not code.files

    @pytest.mark.parametrize("datatype", DATATYPES)
    def test_the_curl_command_sends_every_datatype_exactly(
        self, lab: Lab, tmp_path: Path, datatype: str
    ) -> None:
        sent = identity(datatype)
        code = curl(lab.server, lab.reader.config("lab", "identity"), [request("identity", sent)])
        self.shell(code.text, tmp_path, code.files)
        # The model has FP16 and BF16 outputs: the answer is binary, and goes to a file.
        data = (tmp_path / "answer.bin").read_bytes()
        end = data.index(b"]}") + 2
        assert json.loads(data[:end])["outputs"][0]["datatype"] == datatype
        assert data[end:] == as_raw(datatype, sent.array)

    def test_a_body_too_long_for_a_command_is_a_file(self, lab: Lab, tmp_path: Path) -> None:
        values = np.random.default_rng(1).random((1, 20_000)).astype(np.float32)
        sent = request("identity", Tensor("IN_FP32", "FP32", values))
        code = curl(lab.server, lab.reader.config("lab", "identity"), [sent])
        assert set(code.files) == {"request.bin"} and len(code.text) < 500
        self.shell(code.text, tmp_path, code.files)
        assert (tmp_path / "answer.bin").read_bytes().endswith(values.tobytes())

    def test_curl_streams_and_keeps_a_sequence_together(self, lab: Lab, tmp_path: Path) -> None:
        tensors = (text("TEXT", b'it\'s "fine" $HOME `x`'), number("COUNT", "INT32", 2))
        sent = request("repeat_text", *tensors, way=Way.GENERATE_STREAM)
        code = curl(lab.server, lab.reader.config("lab", "repeat_text"), [sent])
        events = self.shell(code.text, tmp_path, code.files).decode().strip().split("\n\n")
        assert [json.loads(event.removeprefix("data:"))["OUT"] for event in events] == [
            'it\'s "fine" $HOME `x`'
        ] * 2
        steps = TestSequences().steps(Way.INFER, 4, 5)
        code = curl(lab.server, lab.reader.config("lab", "sequence_sum"), steps)
        assert b'"name":"SUM","datatype":"INT64","shape":[1,1],"data":[9]' in self.shell(
            code.text, tmp_path, {}
        )

    def test_a_header_is_named_and_its_value_taken_from_the_environment(
        self, lab: Lab, tmp_path: Path
    ) -> None:
        secret = replace(lab.server, headers={"admin-key": "very secret"})
        config = lab.reader.config("lab", "batch_add_model")
        sent = [request("batch_add_model", *self.both())]
        texts = [make(secret, config, sent).text for make in (curl, python_script, perf_analyzer)]
        assert all("very secret" not in one and "TRITON_ADMIN_KEY" in one for one in texts)
        assert b"3.75" in self.shell(texts[0], tmp_path, {}, TRITON_ADMIN_KEY="very secret")

    def test_the_script_of_generate_prints_the_events(self, lab: Lab, tmp_path: Path) -> None:
        tensors = (text("TEXT", b"\"quoted\" \\ 'text'"), number("COUNT", "INT32", 2))
        sent = request("repeat_text", *tensors, way=Way.GENERATE_STREAM)
        code = python_script(lab.server, lab.reader.config("lab", "repeat_text"), [sent]).text
        (tmp_path / "request.py").write_text(code)
        ran = subprocess.run(
            [sys.executable, "request.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        events = [ast.literal_eval(line) for line in ran.stdout.splitlines()]
        assert [(event["OUT"], event["INDEX"]) for event in events] == [
            ("\"quoted\" \\ 'text'", 2**53), ("\"quoted\" \\ 'text'", 2**53 + 1),
        ]  # fmt: skip


def test_a_saved_request_is_sent_again_and_its_answer_compared(lab: Lab, tmp_path: Path) -> None:
    sent = request("identity", identity("FP32"), identity("BYTES"), identity("BF16"))
    found = answer(send(lab, "identity", sent))
    store = SavedRequests(tmp_path / "saved", 30)
    saved = saved_from("extremes", "an operator", (sent,), expected_of(found.replies, Mode.EXACT))
    store.save(saved)
    (kept,) = store.requests("identity")
    again = answer(send(lab, "identity", *request_of(kept)))
    assert kept.expected is not None
    assert compare(again.replies, kept.expected).as_expected
    other = answer(send(lab, "identity", request("identity", identity("FP32"), identity("BF16"))))
    assert compare(other.replies, kept.expected).differences == ("OUT_STRING is missing",)
