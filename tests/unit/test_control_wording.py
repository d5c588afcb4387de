"""The server's error texts in words: every text of the recorded real answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from control.wording import explain_reason, infer_failure, load_failure, server_text

FIXTURES = Path(__file__).parents[1] / "fixtures"
RECORDED = json.loads((FIXTURES / "load_errors_broken.json").read_text())
UNREADABLE = "Triton could not read this model (wrong name, config.pbtxt or override); see the server log"
NO_VERSION = "no version folder (needs e.g. an empty folder 1/), or the version policy allows none of them"
SENTENCES = {
    "badpbtxt": f"badpbtxt not loaded: {UNREADABLE}",
    "negbatch": f"negbatch not loaded: {UNREADABLE}",
    "novers": f"novers: {NO_VERSION}",
    "vp9": f"vp9: {NO_VERSION}",
    "initraise": "initraise v1 not loaded: RuntimeError: cannot find weights",
    "partial": "partial v2 not loaded: RuntimeError: v2 broken",
    "syntax": "syntax v1 not loaded: SyntaxError: invalid syntax (model.py, line 1)",
    "noclass": "noclass v1 not loaded: its model.py has no class TritonPythonModel",
    "importfail": "importfail v1 not loaded: Python module 'torch_does_not_exist' is missing where the "
    "server runs its models",
    "exitinit": "exitinit v1 not loaded: its Python process ended while starting: see the server log",
    "oominit": "oominit v1 not loaded: out of memory: MemoryError: CUDA out of memory. "
    "Tried to allocate 2.00 GiB",
    "onnx": "onnx v1 not loaded: the server has no backend 'onnxruntime': use a server image that has it, "
    "or another backend",
    "gpukind": "gpukind v1 not loaded: its instance group asks for a GPU (KIND_GPU) and the server has none: "
    "use KIND_AUTO or KIND_CPU",
    "gpukind7": "gpukind7 v1 not loaded: its instance group names GPU 7, which the server does not have",
    "badwarm": "badwarm v1 not loaded: its model_warmup gives 0 inputs where 2 are needed",
    "ens_badsub": "ens_badsub not loaded: its step initraise could not be loaded: "
    "RuntimeError: cannot find weights",
    "ens_badio": "ens_badio not loaded: in ensemble ens_badio, ensemble tensor X: inconsistent data type: "
    "TYPE_INT32 is inferred from model ens_badio while TYPE_FP32 is inferred from model ok",
}


@pytest.mark.parametrize("model", SENTENCES)
def test_a_recorded_load_error_in_words(model: str) -> None:
    assert load_failure(model, RECORDED[model]["body"]) == SENTENCES[model]


def test_no_recorded_load_error_shows_a_traceback_or_a_server_path() -> None:
    failed = {name: row["body"] for name, row in RECORDED.items() if row["body"]}
    assert len(failed) == 29
    for name, body in failed.items():
        sentence = load_failure(name, body)
        assert sentence.startswith(name)
        assert "\n" not in sentence and "/models/" not in sentence and "Internal:" not in sentence


def test_the_reason_of_a_wanted_unload_is_left_alone() -> None:
    assert (explain_reason(""), explain_reason("unloaded")) == ("", "unloaded")


@pytest.mark.parametrize(
    ("text", "status", "sentence"),
    [
        (
            "[request id: <id_unknown>] Exceeds maximum queue size",
            503,
            "Queue full: alpha has as many waiting requests as it accepts (503)",
        ),
        (
            "Request timeout expired",
            503,
            "The request waited longer in the queue of alpha than its queue policy allows (503)",
        ),
        (
            "HTTP end point doesn't support models with decoupled transaction policy",
            501,
            "This model streams (decoupled); HTTP infer is not possible",
        ),
        ("Request for unknown model: 'alpha' is not found", 404, "The server knows no model alpha"),
        (
            "Request for unknown model: 'alpha' has no available versions",
            404,
            "alpha is not loaded: load it first",
        ),
        ("Request for unknown model: 'alpha' version 7 is not found", 404, "alpha has no version 7"),
        (
            "Failed to process the request(s) for model 'a_0_1', message: ValueError: no\n\nAt:\n  x(1): f\n",
            500,
            "alpha failed on this request: ValueError: no",
        ),
        (
            "Stub process 'alpha_0' is not healthy.",
            500,
            "The Python process of alpha has died; the server still calls it READY. Unload and load it again",
        ),
        (
            "unexpected shape for input 'A' for model 'alpha'. Expected [-1,1], got [1,3]. NOTE: Setting",
            400,
            "Input A of alpha wants the shape [-1,1] and got [1,3]",
        ),
        ("inference request batch-size must be <= 8 for 'alpha'", 400, "At most 8 rows per request to alpha"),
        ("some text nobody knows", 400, "alpha refused the request (HTTP 400): some text nobody knows"),
        ("", None, "alpha refused the request: the server gave no reason"),
    ],
)
def test_an_inference_error_in_words(text: str, status: int | None, sentence: str) -> None:
    assert infer_failure("alpha", text, status) == sentence


def test_the_error_is_found_by_the_body_whatever_it_is() -> None:
    assert server_text('{"error":"why"}') == "why"
    assert server_text("plain why\n") == "plain why"
    assert server_text('["a list"]') == '["a list"]'
    assert server_text(None) == ""
