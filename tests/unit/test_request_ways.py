"""The ways of a request without a server: what each can carry, sequences, gRPC's errors in words."""

from __future__ import annotations

import json
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from control.generate import check_generate, generate_body, generate_path
from control.grpc_client import NOT_INSTALLED, grpc_error, refusal
from control.inference import InferenceRequest, SequenceStep, Tensor, Way, infer_arguments
from control.request_code import curl, file_name_of, perf_analyzer, variable_of
from control.request_script import python_script
from control.test_requests import as_sequence, check_steps, told_in_journal, ways_for
from telemetry.errors import ActionFailed, InvalidRequest, NoAnswer, Restricted, TlsFailed, Unreachable
from telemetry.facts import TensorSpec
from telemetry.identity import Server
from tests.unit.test_control_inference import CONFIG, UNBATCHED, request, tensor
from tests.unit.test_saved_requests import texts

SERVER = Server("lab", "http://h:8000", None, grpc_url="h:8001")
STREAMS = replace(UNBATCHED, decoupled=True)
KEEPS = replace(CONFIG, sequence_batching=True)
HALF = TensorSpec("A", "BF16", (1,))


def generate(*tensors: Tensor) -> InferenceRequest:
    return replace(request(*tensors), way=Way.GENERATE)


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (
            generate(Tensor("A", "BF16", np.zeros((1, 1), ml_dtypes.bfloat16))),
            "A is BF16, which generate cannot carry: use infer or gRPC",
        ),
        (generate(tensor(2, 1)), "A has 2 rows: generate sends exactly one"),
        (
            generate(tensor(1, 2, 2)),
            "A has the shape [1,2,2]: generate carries single values and flat lists; use infer or gRPC",
        ),
        (
            generate(replace(texts(b"\xff"), array=texts(b"\xff").array[np.newaxis])),
            "TEXT holds bytes that are no UTF-8 text: generate cannot carry them, infer can",
        ),
    ],
)
def test_what_generate_cannot_carry_is_refused_before_sending(sent: InferenceRequest, sentence: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_generate(CONFIG, sent)
    assert caught.value.sentence == sentence
    check_generate(CONFIG, replace(sent, way=Way.INFER))


def test_the_body_of_generate_is_exact_and_has_single_values_without_brackets() -> None:
    sent = generate(
        Tensor("I", "INT64", np.array([[2**63 - 1]])),
        Tensor("F", "FP32", np.array([[1.5, np.nan]], np.float32)),
    )
    sent = replace(sent, parameters={"temperature": 0.5}, version="2")
    body = generate_body(CONFIG, sent)
    assert body == '{"I": 9223372036854775807, "F": [1.5, NaN], "parameters": {"temperature": 0.5}}'
    assert generate_path(sent) == "/v2/models/alpha/versions/2/generate"
    assert generate_path(replace(sent, way=Way.GENERATE_STREAM)).endswith("/generate_stream")


def test_the_ways_follow_the_model_and_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control.grpc_client.installed", lambda: True)
    assert ways_for(CONFIG, SERVER) == (Way.INFER, Way.GRPC, Way.GENERATE)
    assert ways_for(KEEPS, SERVER) == (Way.INFER, Way.GRPC)
    assert ways_for(STREAMS, SERVER) == (Way.GENERATE_STREAM, Way.GENERATE, Way.GRPC_STREAM)
    assert ways_for(replace(STREAMS, inputs=(HALF,)), SERVER) == (Way.GRPC_STREAM,)
    assert refusal(replace(SERVER, grpc_url=None)) == (
        "lab has no gRPC address: write grpc_url at this server in tritonscope.yml"
    )
    monkeypatch.setattr("control.grpc_client.installed", lambda: False)
    assert refusal(SERVER) == NOT_INSTALLED
    assert ways_for(CONFIG, SERVER) == (Way.INFER, Way.GENERATE)
    # Nothing works, and the form says why.
    assert ways_for(replace(STREAMS, inputs=(HALF,)), SERVER) == (Way.GRPC_STREAM,)


def test_a_sequence_is_begun_and_ended_once_under_one_id() -> None:
    steps = [step.sequence for step in as_sequence([request(tensor(1, 1))] * 3)]
    assert [(step.start, step.end) for step in steps if step] == [
        (True, False),
        (False, False),
        (False, True),
    ]
    assert len({step.id for step in steps if step}) == 1
    (alone,) = as_sequence([request(tensor(1, 1))])
    assert alone.sequence is not None and (alone.sequence.start, alone.sequence.end) == (True, True)
    assert alone.sequence.id > 0


@pytest.mark.parametrize(
    ("config", "count", "rows", "sentence"),
    [
        (CONFIG, 2, 1, "alpha does not keep sequences: it takes one request at a time"),
        (KEEPS, 101, 1, "At most 100 steps per sequence (got 101)"),
        (KEEPS, 2, 2, "Step 1: alpha keeps sequences: every step has exactly one row"),
        (KEEPS, 0, 1, "No request was given"),
    ],
)
def test_steps_that_cannot_be_sent_are_refused(config: object, count: int, rows: int, sentence: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_steps(config, (request(tensor(rows, 1)),) * count)  # type: ignore[arg-type]
    assert caught.value.sentence == sentence


def test_parameters_and_sequence_become_arguments_of_the_call() -> None:
    sent = replace(
        request(tensor(1, 1)), parameters={"priority": 2, "x": "y"}, sequence=SequenceStep(7, True, False)
    )
    assert infer_arguments(KEEPS, sent) == {
        "priority": 2, "parameters": {"x": "y"}, "sequence_id": 7, "sequence_start": True,
        "sequence_end": False,
    }  # fmt: skip
    assert infer_arguments(CONFIG, request(tensor(1, 1))) == {}


def test_the_journal_is_told_shapes_and_names_and_never_a_value() -> None:
    sent = replace(
        request(Tensor("A", "FP32", np.full((1, 1), 123.5, np.float32))), parameters={"key": "secret"}
    )
    told = told_in_journal(KEEPS, (sent, sent))
    assert told == {
        "way": "HTTP infer", "inputs": ["A: sent shape [1,1] (batch 1), FP32"], "steps": 2,
        "parameters": ["key"],
    }  # fmt: skip
    assert "123.5" not in json.dumps(told) and "secret" not in json.dumps(told)


@pytest.mark.parametrize(
    ("code", "text", "kind", "words"),
    [
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", NoAnswer, "No answer from h:8001 within 2 s"),
        ("PERMISSION_DENIED", "no", Restricted, "h:8001 restricts its inference API"),
        (
            "UNAVAILABLE",
            "This protocol is restricted, expecting header 'triton-grpc-protocol-admin-key'",
            Restricted,
            "h:8001 restricts its inference API",
        ),
        (
            "UNAVAILABLE",
            "failed to connect to all addresses",
            Unreachable,
            "is it the gRPC port, usually 8001?",
        ),
        (
            "UNAVAILABLE",
            "failed to connect; Tls handshake failed",
            TlsFailed,
            "TLS with h:8001 failed: grpcs://",
        ),
        ("UNAVAILABLE", "Exceeds maximum queue size", ActionFailed, "Queue full: alpha"),
        (
            "NOT_FOUND",
            "Request for unknown model: 'alpha' is not found",
            ActionFailed,
            "knows no model alpha",
        ),
    ],
)
def test_errors_of_grpc_become_the_same_sentences(
    code: str, text: str, kind: type[Exception], words: str
) -> None:
    found = grpc_error(InferenceServerException(text, status=f"StatusCode.{code}"), "h:8001", 2.0, "alpha")
    assert type(found) is kind
    assert words in found.sentence


def test_names_in_code_are_harmless() -> None:
    evil = 'A\'; rm -rf $HOME """ \\'
    spec = replace(CONFIG.inputs[0], name=evil)
    config = replace(CONFIG, inputs=(spec,))
    sent = [request(Tensor(evil, "FP32", np.ones((1, 1), np.float32)))]
    shell = curl(SERVER, config, sent).text
    assert "'\"'\"'; rm -rf $HOME" in shell, "inside single quotes"
    script = python_script(SERVER, config, [replace(sent[0], model=evil)]).text
    compile(script, "request.py", "exec")
    assert json.loads(perf_analyzer(SERVER, config, sent).text.splitlines()[1])["data"][0][evil]
    assert file_name_of("../../etc/passwd", "raw") == "_.._etc_passwd.raw"
    assert file_name_of("", "npy") == "tensor.npy"
    assert variable_of("X-Admin key") == "TRITON_X_ADMIN_KEY"
    assert curl(SERVER, config, [replace(sent[0], way=Way.GRPC)]).text == ""


def test_a_header_travels_over_grpc_under_both_of_its_names() -> None:
    server = replace(SERVER, headers={"Admin-Key": "secret"})
    script = python_script(server, CONFIG, [replace(request(tensor(1, 1)), way=Way.GRPC)]).text
    assert "{'admin-key': os.environ['TRITON_ADMIN_KEY']," in script
    assert "'triton-grpc-protocol-admin-key': os.environ['TRITON_ADMIN_KEY']}" in script
    assert "secret" not in script
