"""Every failure of an inference request that the embedded server can produce, provoked on it, in words."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import requests

from control.grpc_client import infer_over_grpc
from control.inference import InferenceRequest, Tensor, Way
from control.request_error_rows import ROWS
from control.request_errors import Explained, explain
from control.request_parameters import RESERVED_PREFIX
from sandbox.repository import FAULT_MODELS
from telemetry.actions import ActionKind, Outcome
from telemetry.errors import ActionFailed, InvalidRequest
from tests.integration.conftest import Until
from tests.integration.request_lab import find_grpc, started_request_lab, text
from tests.integration.write_lab import MODELS, Lab

pytestmark = pytest.mark.integration

NOT_HERE = {
    "request too large": "Triton limits requests from 25.06 on",
    "inputs missing or too many": "the text of releases before the inputs were named",
}
"""Rows this server cannot be brought to say, and why."""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with started_request_lab() as started:
        yield started


def body(name: str, datatype: str, shape: list[int], data: list[Any], **more: Any) -> dict[str, Any]:
    return {"inputs": [{"name": name, "datatype": datatype, "shape": shape, "data": data}], **more}


def mood(word: str) -> dict[str, Any]:
    return body("MOOD", "BYTES", [1], [word])


def step(rows: int = 1, **parameters: Any) -> dict[str, Any]:
    return body("IN", "INT64", [rows, 1], list(range(rows)), parameters=parameters)


def binary(name: str, datatype: str, shape: list[int], data: bytes) -> tuple[bytes, dict[str, str]]:
    row = {"name": name, "datatype": datatype, "shape": shape}
    head = json.dumps({"inputs": [row | {"parameters": {"binary_data_size": len(data)}}]}).encode()
    return head + data, {"Inference-Header-Content-Length": str(len(head))}


ONE = body("IN_FP32", "FP32", [1, 1], [1.0])
AB = ("INPUT_A", "INPUT_B")
PLAIN: dict[str, tuple[str, Any]] = {
    "model not loaded": ("never/infer", ONE),
    "version not there": ("identity/versions/7/infer", ONE),
    "unknown model": ("nope/infer", ONE),
    "version that is no number": ("identity/versions/abc/infer", ONE),
    "decoupled model over infer": ("repeat_text/infer", body("TEXT", "BYTES", [1], ["a"])),
    "generate with 0 or many responses": ("repeat_text/generate", {"TEXT": "a", "COUNT": 2}),
    "out of memory": ("moods/infer", mood("oom")),
    "exception in the model": ("moods/infer", mood("raise")),
    "input missing": ("batch_add_model/infer", body("INPUT_A", "FP32", [1, 1], [1])),
    "input that does not exist": ("identity/infer", body("NOPE", "FP32", [1, 1], [1])),
    "output that does not exist": ("identity/infer", ONE | {"outputs": [{"name": "NOPE"}]}),
    "no inputs given": ("identity/infer", {"inputs": []}),
    "wrong datatype": ("identity/infer", body("IN_FP32", "INT32", [1, 1], [1])),
    "unknown datatype": ("identity/infer", body("IN_FP32", "FP99", [1, 1], [1])),
    "wrong shape": (
        "batch_add_model/infer",
        {"inputs": [body(name, "FP32", [1, 3], [1, 2, 3])["inputs"][0] for name in AB]},
    ),
    "sequence with several rows": ("sequence_sum/infer", step(2, sequence_id=3, sequence_start=True)),
    "batch too big": (
        "batch_add_model/infer",
        {"inputs": [body(name, "FP32", [9, 1], [1] * 9)["inputs"][0] for name in AB]},
    ),
    "rows differ between inputs": (
        "batch_add_model/infer",
        {"inputs": [body(name, "FP32", [n + 1, 1], [1] * (n + 1))["inputs"][0] for n, name in enumerate(AB)]},
    ),
    "bytes do not match the shape": ("identity/infer", binary("IN_FP32", "FP32", [1, 2], b"1234")),
    "elements do not match the shape": ("identity/infer", body("IN_FP32", "FP32", [1, 2], [1])),
    "FP16 or BF16 in JSON": ("identity/infer", body("IN_BF16", "BF16", [1, 1], [1])),
    "FP16 or BF16 asked as JSON": ("identity/infer", binary("IN_FP16", "FP16", [1, 2], b"1234")),
    "text given as numbers": ("identity/infer", body("IN_STRING", "BYTES", [1, 1], [5])),
    "truth values given as numbers": ("identity/infer", body("IN_BOOL", "BOOL", [1, 1], [1])),
    "reserved parameter of the wrong type": ("identity/infer", ONE | {"parameters": {"priority": -1}}),
    "values of the wrong kind": ("identity/infer", body("IN_UINT8", "UINT8", [1, 1], [-1])),
    "no inputs key": ("identity/infer", {}),
    "body is not JSON": ("identity/infer", (b"nope", {})),
    "empty body": ("identity/infer", (b"", {})),
    "parameter with a reserved name": ("identity/infer", ONE | {"parameters": {f"{RESERVED_PREFIX}x": 1}}),
    "parameter of a type that is not taken": ("identity/infer", ONE | {"parameters": {"x": None}}),
    "sequence without an id": ("sequence_sum/infer", step()),
    "sequence not begun, ended, or idle too long": ("sequence_sum/infer", step(sequence_id=5)),
    "compression that Triton does not know": (
        "identity/infer",
        (json.dumps(ONE).encode(), {"Content-Encoding": "br"}),
    ),
}
"""What one call provokes: its path and its body (or bytes and headers)."""


def said(lab: Lab, path: str, sent: Any) -> Explained:
    data, headers = sent if isinstance(sent, tuple) else (json.dumps(sent).encode(), {})
    answer = requests.post(f"{lab.sandbox.http_url}/v2/models/{path}", data=data, headers=headers, timeout=20)
    return explain(path.split("/")[0], answer.text, answer.status_code)


def queue_full(lab: Lab) -> Explained:
    found: list[Explained] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(said(lab, "short_queue/infer", body("IN", "FP32", [1, 1], [1.0])))
        )
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return next(one for one in found if one.case == "queue full")


def queue_timeout(lab: Lab) -> Explained:
    """Two requests at once to a model that takes half a second and lets nobody wait for a millisecond."""
    url = f"{lab.sandbox.http_url}/v2/repository/models/impatient/load"
    lab.sandbox.add_model(MODELS / "short_queue", name="impatient")
    assert requests.post(url, timeout=30).status_code == 200
    config = requests.get(f"{lab.sandbox.http_url}/v2/models/impatient/config", timeout=5).json()
    policy = {"timeout_action": "REJECT", "default_timeout_microseconds": 1000}
    config["dynamic_batching"] = {"default_queue_policy": policy}
    override = {"parameters": {"config": json.dumps(config)}}
    assert requests.post(url, json=override, timeout=30).status_code == 200
    found: list[Explained] = []
    ask = lambda: found.append(said(lab, "impatient/infer", body("IN", "FP32", [1, 1], [1.0])))  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return next(one for one in found if one.case == "queue time-out")


def not_ready(lab: Lab) -> Explained:
    """A version asked for by its number while it loads; a busy machine may ask only after the load."""
    for load_seconds in (8, 16, 32):
        found = _asked_while_loading(lab, f"late_{load_seconds}", load_seconds)
        if found.case == "model not ready":
            break
    return found


def _asked_while_loading(lab: Lab, name: str, load_seconds: int) -> Explained:
    lab.sandbox.add_model(
        FAULT_MODELS["slow_load"], name=name, parameters={"load_seconds": f"{load_seconds}"}
    )
    url = f"{lab.sandbox.http_url}/v2/repository/models/{name}/load"
    load = threading.Thread(target=requests.post, args=(url,), kwargs={"timeout": 90})
    load.start()
    found = said(lab, f"{name}/versions/1/infer", ONE)
    while found.case == "unknown model" and load.is_alive():
        # The load call has not reached the server yet.
        found = said(lab, f"{name}/versions/1/infer", ONE)
    load.join()
    return found


def bf16_as_numpy(lab: Lab) -> Explained:
    head = {
        "inputs": [
            mood("bf16")["inputs"][0],
            {"name": "HALF", "datatype": "BF16", "shape": [1], "parameters": {"binary_data_size": 2}},
        ]
    }
    written = json.dumps(head).encode()
    return said(lab, "moods/infer", (written + b"12", {"Inference-Header-Content-Length": str(len(written))}))


def dead_stub(lab: Lab) -> Explained:
    """The process ends with its request; that one or the next says so, and the remedy named puts it right."""
    url = f"{lab.sandbox.http_url}/v2/repository/models/mortal/load"
    lab.sandbox.add_model(MODELS / "moods", name="mortal")
    assert requests.post(url, timeout=30).status_code == 200
    deadline = time.monotonic() + 30
    found = said(lab, "mortal/infer", mood("crash"))
    while found.case != "dead Python process" and time.monotonic() < deadline:
        found = said(lab, "mortal/infer", mood("fine"))
    assert requests.get(f"{lab.sandbox.http_url}/v2/models/mortal/ready", timeout=5).status_code == 200
    (lab.sandbox.repository / "mortal" / "1" / "model.py").touch()
    assert requests.post(url, timeout=60).status_code == 200
    healed = requests.post(f"{lab.sandbox.http_url}/v2/models/mortal/infer", json=mood("fine"), timeout=20)
    assert healed.status_code == 200
    return found


def decoupled_over_grpc(lab: Lab) -> Explained:
    config = lab.reader.config("lab", "repeat_text")
    sent = InferenceRequest("lab", "repeat_text", "", (text("TEXT", b"a"),), 10.0, way=Way.GRPC)
    with pytest.raises(ActionFailed) as caught:
        infer_over_grpc(lab.server, config, sent)
    return explain("repeat_text", caught.value.detail, caught.value.status)


STAGED: dict[str, Callable[[Lab], Explained]] = {
    "queue full": queue_full,
    "queue time-out": queue_timeout,
    "model not ready": not_ready,
    "BF16 read as numpy": bf16_as_numpy,
    "dead Python process": dead_stub,
}


def test_every_failure_this_server_can_produce_is_explained_by_its_row(
    lab: Lab, figure: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    lab.sandbox.add_model(FAULT_MODELS["fail_init"], name="never")
    assert lab.do(ActionKind.LOAD, "never").outcome is Outcome.FAILED
    staged = dict(STAGED)
    if find_grpc(tmp_path_factory.mktemp("lent")):
        staged["decoupled model over plain gRPC"] = decoupled_over_grpc
    found = {case: said(lab, *call) for case, call in PLAIN.items()}
    found |= {case: provoke(lab) for case, provoke in staged.items()}
    wrong = {case: one for case, one in found.items() if one.case != case or not one.remedy}
    assert not wrong
    for case, one in found.items():
        assert "{" not in one.sentence.replace('{"inputs": [{"name", "shape"', ""), case
        assert "\n" not in one.sentence and "/tmp/" not in one.sentence, case
    missing = {row.case for row in ROWS} - set(found) - set(NOT_HERE)
    assert missing <= {"decoupled model over plain gRPC"}
    figure(
        f"request errors: {len(found)} of {len(ROWS)} provoked on the real server and explained; not "
        + ", ".join(f"{case!r} ({why})" for case, why in NOT_HERE.items())
    )


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("INVALID_ARG", 400), ("ALREADY_EXISTS", 400), ("CANCELLED", 400), ("UNKNOWN", 400),
        ("NOT_FOUND", 404), ("INTERNAL", 500), ("UNSUPPORTED", 501), ("UNAVAILABLE", 503),
    ],
)  # fmt: skip
def test_an_error_a_model_chose_keeps_its_text_and_status(lab: Lab, code: str, status: int) -> None:
    record = lab.ask("moods", text("MOOD", code.encode())).wait(20)
    assert record.outcome is Outcome.FAILED
    assert record.sentence.startswith(f"moods refused the request (HTTP {status}): told to say {code}. ")
    assert record.detail == f"told to say {code}"


def test_the_failure_of_a_step_names_the_ensemble(lab: Lab) -> None:
    record = lab.ask("moods_pipeline", text("MOOD", b"raise")).wait(20)
    assert record.outcome is Outcome.FAILED
    assert record.sentence.startswith(
        "In a step of moods_pipeline: moods_pipeline failed on this request: ValueError: this picture is "
    )
    assert record.detail is not None and "model.py(" in record.detail


def test_get_is_told_as_the_wrong_port(lab: Lab) -> None:
    answer = requests.get(f"{lab.sandbox.http_url}/v2/models/identity/infer", timeout=5)
    assert (answer.status_code, json.loads(answer.text)) == (405, {"error": "Method Not Allowed"})


def test_a_value_that_triton_would_cut_never_leaves(lab: Lab) -> None:
    # 300 becomes 44 in a UINT8, without a word: so the form refuses it.
    url = f"{lab.sandbox.http_url}/v2/models/identity/infer"
    answer = requests.post(url, json=body("IN_UINT8", "UINT8", [1, 1], [300]), timeout=5)
    assert answer.json()["outputs"][0]["data"] == [44]


def test_an_idle_sequence_is_closed_by_the_server_and_said_so(lab: Lab, until: Until) -> None:
    begun = said(lab, "sequence_sum/infer", step(sequence_id=77, sequence_start=True))
    assert begun.case == ""

    def closed() -> bool:
        time.sleep(1.2)  # longer than max_sequence_idle_microseconds: every step sent would keep it open
        return said(lab, "sequence_sum/infer", step(sequence_id=77)).case != ""

    until(closed, 30.0)
    assert said(lab, "sequence_sum/infer", step(sequence_id=77)).sentence.startswith(
        "sequence_sum knows no open sequence 77: it was not begun, has ended, or was idle for too long. "
    )


def test_a_model_that_never_answers_meets_the_time_out(lab: Lab) -> None:
    lab.sandbox.add_model(MODELS / "moods", name="silent")
    assert lab.do(ActionKind.LOAD, "silent").outcome is Outcome.DONE
    record = lab.ask("silent", text("MOOD", b"none"), timeout_seconds=1.0).wait(30)
    assert record.outcome is Outcome.FAILED
    assert record.sentence.endswith(
        "within 1 s (the server may still run the request). Wait longer with a larger time-out; a model "
        "whose execute returns nothing never answers"
    )
    again = lab.ask("silent", text("MOOD", b"none"), timeout_seconds=1.0, way=Way.GENERATE).wait(30)
    assert again.outcome is Outcome.FAILED
    assert "gave no answer within 1 s" in again.sentence


def test_zero_rows_and_none_of_the_inputs_are_refused_before_sending(lab: Lab) -> None:
    before = len(lab.proxy.passed("POST", "/infer"))
    empty = Tensor("INPUT_A", "FP32", np.zeros((0, 1), dtype=np.float32))
    with pytest.raises(InvalidRequest, match=r"^At least 1 row per request \(got 0\)$"):
        lab.ask("batch_add_model", empty, Tensor("INPUT_B", "FP32", empty.array))
    with pytest.raises(InvalidRequest, match=r"^batch_add_model also needs INPUT_A, INPUT_B$"):
        lab.ask("batch_add_model")
    assert len(lab.proxy.passed("POST", "/infer")) == before
