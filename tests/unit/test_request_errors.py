"""Every known failure of a test request in words: what, why and what to do; the texts are real ones."""

from __future__ import annotations

import pytest

from control.request_error_rows import ROWS
from control.request_errors import explain, infer_failure, reference

ID = "[request id: <id_unknown>] "
SEEN = {
    "queue full": (ID + "Exceeds maximum queue size", 503),
    "queue time-out": ("Request timeout expired", 503),
    "model not loaded": ("Request for unknown model: 'alpha' has no available versions", 404),
    "version not there": ("Request for unknown model: 'alpha' version 7 is not found", 404),
    "unknown model": ("Request for unknown model: 'alpha' is not found", 404),
    "version that is no number": ("Not Found", 404),
    "model not ready": ("Request for unknown model: 'alpha' version 1 is not at ready state", 503),
    "decoupled model over infer": (
        "HTTP end point doesn't support models with decoupled transaction policy", 501,
    ),
    "decoupled model over plain gRPC": (
        "ModelInfer RPC doesn't support models with decoupled transaction policy", 501,
    ),
    "generate with 0 or many responses": (
        "generate expects model to produce exactly 1 response, use generate stream for model that generates "
        "various number of responses", 200,
    ),
    "dead Python process": ("Stub process 'alpha_0' is not healthy.", 500),
    "BF16 read as numpy": (
        "Failed to process the request(s) for model 'a_0_0', message: TritonModelException: tensor dtype is "
        "bf16 and cannot be converted to numpy.\n\nAt:\n  x(1): f\n", 500,
    ),
    "out of memory": (
        "Failed to process the request(s) for model 'a_0_0', message: MemoryError: CUDA out of memory"
        "\n\nAt:\n  x(1): f\n", 500,
    ),
    "exception in the model": (
        "Failed to process the request(s) for model 'a_0_1', message: ValueError: no\n\nAt:\n  x\n", 500,
    ),
    "input missing": (
        ID + "expected 2 inputs but got 1 inputs for model 'alpha'. Got input(s) ['A'], but missing required "
        "input(s) ['B']. Please provide all required input(s).", 400,
    ),
    "inputs missing or too many": ("expected 2 inputs but got 3 inputs for model 'alpha'", 400),
    "input that does not exist": ("unexpected inference input 'C' for model 'alpha'", 400),
    "output that does not exist": ("unexpected inference output 'NOPE' for model 'alpha'", 400),
    "no inputs given": (ID + "out of bounds index 0: request has 0 inputs", 400),
    "wrong datatype": ("inference input 'A' data-type is 'INT32', but model 'alpha' expects 'FP32'", 400),
    "unknown datatype": ("invalid datatype for input A", 400),
    "wrong shape": (
        "unexpected shape for input 'A' for model 'alpha'. Expected [-1,1], got [1,3]. NOTE: Setting", 400,
    ),
    "sequence with several rows": (
        "inference request to model 'alpha' must specify batch-size 1 due to requirements of sequence "
        "batcher",
        400,
    ),
    "batch too big": (ID + "inference request batch-size must be <= 8 for 'alpha'", 400),
    "rows differ between inputs": (
        ID + "input 'A' batch size does not match other inputs for 'alpha'", 400,
    ),
    "bytes do not match the shape": (
        "input byte size mismatch for input 'A' for model 'alpha'. Expected 8, got 4", 400,
    ),
    "elements do not match the shape": (
        "Unable to parse 'data': Shape does not match true shape of 'data' field", 500,
    ),
    "FP16 or BF16 in JSON": (
        "receiving FP16 data via JSON is not supported. Please use the binary data format for input A", 400,
    ),
    "FP16 or BF16 asked as JSON": (
        "sending BF16 data via JSON is not supported. Please use the binary data format for output", 400,
    ),
    "text given as numbers": (
        "Unable to parse JSON bytes array: attempt to access JSON non-string as string", 500,
    ),
    "truth values given as numbers": (
        "Unable to parse 'data': attempt to access JSON non-boolean as boolean", 500,
    ),
    "reserved parameter of the wrong type": (
        "Unable to parse 'priority': attempt to access JSON non-unsigned-integer as unsigned-integer", 500,
    ),
    "values of the wrong kind": (
        "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer", 500,
    ),
    "no inputs key": (
        "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'", 500,
    ),
    "body is not JSON": ("failed to parse the request JSON buffer: Invalid value. at 1", 500),
    "empty body": (
        ID + "Raw request must only have 1 input (found 1) to be deduced but got 14 inputs in 'alpha' model "
        "configuration", 400,
    ),
    "parameter with a reserved name": (
        "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
        400,
    ),
    "parameter of a type that is not taken": (
        "parameter 'x' has invalid type. It should be either 'int', 'bool', or 'string'.", 400,
    ),
    "sequence without an id": (
        "inference request to model 'alpha' must specify a non-zero or non-empty correlation ID", 400,
    ),
    "sequence not begun, ended, or idle too long": (
        "inference request for sequence 5 to model 'alpha' must specify the START flag on the first request "
        "of the sequence", 400,
    ),
    "compression that Triton does not know": ("Unsupported compression type", 501),
    "request too large": ("Request body too large", 413),
}  # fmt: skip
WORDS = {
    "queue full": "Queue full: alpha has as many waiting requests as it accepts (503). Send fewer at a time, "
    "or raise max_queue_size or the number of instances",
    "version not there": "alpha has no version 7 that is ready. Ask for another version, or none for the "
    "newest one",
    "exception in the model": "alpha failed on this request: ValueError: no. The exception comes from the "
    "model's code: the whole text names file and line",
    "input missing": "alpha was not given all inputs: 'B' missing. Give values for every input that is not "
    "optional",
    "wrong datatype": "Input A of alpha wants FP32 and got INT32. Send values of that datatype",
    "wrong shape": "Input A of alpha wants the shape [-1,1] and got [1,3]. The first dimension is the batch "
    "where the model batches: [1,...] for one row",
    "batch too big": "At most 8 rows per request to alpha. Send fewer rows at a time, or raise "
    "max_batch_size",
    "no inputs key": 'The body has no list "inputs". A request is '
    '{"inputs": [{"name", "shape", "datatype", "data"}]}',
    "sequence not begun, ended, or idle too long": "alpha knows no open sequence 5: it was not begun, has "
    "ended, or was idle for too long. Begin again with the first step; max_sequence_idle_microseconds says "
    "how long it may pause",
}


def test_every_row_has_a_text_it_explains() -> None:
    assert set(SEEN) == {row.case for row in ROWS}
    assert len(ROWS) == len(SEEN) == 42


@pytest.mark.parametrize("case", SEEN)
def test_a_text_is_explained_by_its_own_row_with_cause_and_remedy(case: str) -> None:
    text, status = SEEN[case]
    found = explain("alpha", text, status)
    assert found.case == case
    assert found.what and found.remedy
    assert found.sentence == f"{found.what}. {found.remedy}"
    assert "{" not in found.sentence.replace('{"inputs": [{"name"', "")
    assert "\n" not in found.sentence and "At:" not in found.sentence


@pytest.mark.parametrize("case", WORDS)
def test_what_is_said_to_the_letter(case: str) -> None:
    assert infer_failure("alpha", *SEEN[case]) == WORDS[case]


def test_the_step_of_an_ensemble_is_named() -> None:
    text = (
        "in ensemble 'pipe', Failed to process the request(s) for model 'head_0_0', message: ValueError: no"
    )
    assert infer_failure("pipe", text, 500).startswith(
        "In a step of pipe: pipe failed on this request: Value"
    )
    asked = "[request id: 1] in ensemble 'pipe', " + SEEN["wrong shape"][0]
    assert explain("pipe", asked, 400).case == "wrong shape"


@pytest.mark.parametrize(
    ("text", "status", "sentence"),
    [
        (
            "told to say NOT_FOUND",
            404,
            "alpha refused the request (HTTP 404): told to say NOT_FOUND. The model answers, so this comes "
            "from its own code: ask who wrote it what was not found",
        ),
        (
            '{"error":"some text nobody knows"}',
            400,
            "alpha refused the request (HTTP 400): some text nobody knows. The request does not suit the "
            "model: compare it with the model's inputs",
        ),
        ("", None, "alpha refused the request: the server gave no reason. The server's log may say more"),
    ],
)
def test_what_no_row_knows_is_told_as_it_is(text: str, status: int | None, sentence: str) -> None:
    assert infer_failure("alpha", text, status) == sentence
    assert explain("alpha", text, status).case == ""


def test_braces_in_a_servers_text_are_harmless() -> None:
    assert "{model}" in infer_failure("alpha", "Stub {model} exploded {0}", 500)
    assert infer_failure("{0}", SEEN["batch too big"][0], 400).startswith("At most 8 rows per request to {0}")


def test_the_reference_lists_every_row() -> None:
    lines = [line for line in reference().splitlines() if line.startswith("| ")]
    assert len(lines) == len(ROWS) + 1
