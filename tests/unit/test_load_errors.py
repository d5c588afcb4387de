"""Load failures in words: every text of the recorded real answers, and what the log adds to them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from control.wording import server_text
from telemetry.load_error_rows import ROWS
from telemetry.load_errors import explain_reason, index_error, load_error, poll_failure, reference, remedy_of

FIXTURES = Path(__file__).parents[1] / "fixtures"
RECORDED = json.loads((FIXTURES / "load_errors_broken.json").read_text())
UNREADABLE = "the server could not read it: the model does not exist, or its config.pbtxt or the override is"
RAISED = "The model's own code raised this while it was loaded: the full text names the line of model.py"
SENTENCES = {
    "badpbtxt": f"badpbtxt not loaded: {UNREADABLE} not valid. Triton writes the reason to its log only: "
    "look there for badpbtxt",
    "novers": "novers not loaded: it has no version folder that its version policy allows. Give it a folder "
    "named by a plain number such as 1 (not v1, not 01), or change version_policy",
    "initraise": f"initraise v1 not loaded: RuntimeError: cannot find weights. {RAISED}",
    "partial": f"partial v2 not loaded: RuntimeError: v2 broken. {RAISED}",
    "syntax": "syntax v1 not loaded: its model.py is not valid Python: SyntaxError: invalid syntax "
    "(model.py, line 1). Correct that line",
    "oominit": "oominit v1 not loaded: out of GPU memory: MemoryError: CUDA out of memory. Tried to allocate "
    "2.00 GiB. Free memory (unload another model, fewer instances), or use a smaller batch or precision",
    "onnx": "onnx v1 not loaded: the server has no backend 'onnxruntime'. Use a server image that has it, or "
    "another backend",
    "gpukind7": "gpukind7 v1 not loaded: its instance group names GPU 7, which the server does not have or "
    "cannot use. Correct gpus in instance_group; the full text lists those it can use",
    "badwarm": "badwarm v1 not loaded: its model_warmup gives 0 inputs where 2 are needed. Complete "
    "model_warmup in config.pbtxt, or remove it",
    "ens_badsub": "ens_badsub not loaded: its step initraise could not be loaded: RuntimeError: cannot find "
    "weights. Load initraise by itself, correct what it says, then load this ensemble",
    "ens_badio": "ens_badio not loaded: its tensor X is TYPE_INT32 in ens_badio and TYPE_FP32 in ok. Make "
    "the datatypes of both sides the same",
}


def body_text(model: str) -> str:
    return server_text(RECORDED[model]["body"])


@pytest.mark.parametrize("model", SENTENCES)
def test_a_recorded_load_error_in_words(model: str) -> None:
    assert load_error(model, body_text(model)).sentence == SENTENCES[model]


def test_every_recorded_load_error_is_a_known_kind_without_a_traceback_or_a_server_path() -> None:
    failed = {name: row["body"] for name, row in RECORDED.items() if row["body"]}
    assert len(failed) == 29
    for name, body in failed.items():
        error = load_error(name, server_text(body))
        assert error.case and error.remedy, error
        assert error.sentence.startswith(name)
        assert "\n" not in error.sentence and "/models/" not in error.sentence
        assert "Internal:" not in error.sentence


def test_the_log_says_why_a_model_could_not_be_polled() -> None:
    log = (
        "[libprotobuf ERROR text_format.cc:337] Error parsing text-format inference.ModelConfig: 9:1: "
        "Other.\n"
        "E1130 18:27:02 9 model_repository_manager.cc:1460] \"Poll failed for model directory 'other': "
        'failed to read text proto from /m/other/config.pbtxt"\n'
        "[libprotobuf ERROR text_format.cc:337] Error parsing text-format inference.ModelConfig: 5:14: "
        'Message type "inference.ModelConfig" has no field named "no_such_field".\n'
        "[libprotobuf ERROR text_format.cc:337] Error parsing text-format inference.ModelConfig: 6:1: Next.\n"
        "E1130 18:27:03 9 model_repository_manager.cc:1460] \"Poll failed for model directory 'mine': "
        'failed to read text proto from /m/mine/config.pbtxt"\n'
        "E1130 18:27:04 9 model_repository_manager.cc:703] \"Invalid argument: ensemble 'x' depends on\"\n"
    )
    logged = poll_failure(log, "mine")
    assert load_error("mine", body_text("badfield"), logged).sentence == (
        "mine not loaded: line 5 of its config.pbtxt has the field no_such_field, which this Triton does not "
        "know. Correct the spelling, or use a Triton version that has the field"
    )
    assert poll_failure(log, "nobody") is None
    # A line of another failure does not explain this one.
    stray = "Error parsing text-format inference.ModelConfig: 9:1: Other.\nI1130 something\n"
    named = "E1130 \"Poll failed for model directory 'mine': 'max_batch_size' must be non-negative value\"\n"
    assert poll_failure(stray + named, "mine") == "'max_batch_size' must be non-negative value"


def test_the_index_reasons_and_what_to_do_about_them() -> None:
    assert (explain_reason(""), explain_reason("unloaded")) == ("", "unloaded")
    assert (remedy_of(""), remedy_of("unloaded")) == ("", "")
    assert explain_reason("Internal: Stub process 'a_0' is not healthy.") == (
        "its Python process ended while starting"
    )
    double = index_error("twice", "", "model appears in two or more repositories")
    assert double.sentence.startswith("twice not loaded: a model of that name is in two of the server's")
    unknown = index_error("odd", "3", "Internal: nobody knows this\n\nAt:\n  /models/x.py(3): f\n")
    assert unknown.case == ""
    assert unknown.sentence == "odd v3 not loaded: nobody knows this. The server's log may say more"
    assert index_error("mute", "1", "").sentence.startswith("mute v1 not loaded: the server gave no reason")


def test_the_page_of_the_documentation_has_every_row() -> None:
    text = reference()
    assert all(f"| {row.case} | " in text for row in ROWS)
    assert "{" not in text.split("|---|---|")[1]
