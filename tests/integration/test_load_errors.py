"""Every kind of load failure the embedded server can produce, provoked on it: sentence, cause, remedy."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.request import Request, urlopen

import pytest

from control.repository_watch import Patience
from control.wording import server_text
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Outcome
from telemetry.errors import AlreadyRunning
from telemetry.facts import ModelState
from telemetry.load_error_rows import ROWS
from telemetry.load_errors import load_error, poll_failure
from tests.integration.write_lab import LIMIT_SECONDS, Lab, started_lab

pytestmark = pytest.mark.integration

IO = """input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
CPU = "instance_group [ { count: 1 kind: KIND_CPU } ]\n"
BASE = f'backend: "python"\nmax_batch_size: 4\n{IO}'
MODEL = """class TritonPythonModel:
    def initialize(self, args):
        {body}

    def execute(self, requests):
        return [None for _ in requests]
"""


def python(body: str) -> str:
    return MODEL.format(body=body)


OK = python("pass")


def ensemble(step: str = "okay", output: str = "Y", *, batch: int = 4, datatype: str = "TYPE_FP32") -> str:
    tensors = IO.replace('"Y" data_type: TYPE_FP32', f'"Y" data_type: {datatype}')
    maps = f'input_map {{ key: "X" value: "X" }} output_map {{ key: "{output}" value: "Y" }}'
    steps = f'ensemble_scheduling {{ step [ {{ model_name: "{step}" model_version: -1 {maps} }} ] }}\n'
    return f'platform: "ensemble"\nmax_batch_size: {batch}\n{tensors}{steps}'


@dataclass(frozen=True)
class Broken:
    """A model that does not load: its files, the row that knows why, and what must be said of the cause."""

    case: str
    cause: str
    files: Mapping[str, str] = field(default_factory=dict)
    known: bool = True


def broken(case: str, cause: str, config: str, model: str = OK, file: str = "1/model.py") -> Broken:
    return Broken(case, cause, {"config.pbtxt": config, file: model})


CASES: dict[str, Broken] = {
    "not_there": Broken(
        "model not in the repository", "the repository has no model of that name", known=False
    ),
    "m_quote": broken(
        "config.pbtxt: not readable", "line 1 of its config.pbtxt is not valid: String", 'backend: "p\n'
    ),
    "m_field": broken(
        "config.pbtxt: unknown field",
        "line 5 of its config.pbtxt has the field no_such",
        f"{BASE}no_such: 1\n",
    ),
    "m_enum": broken(
        "config.pbtxt: unknown value", "gives data_type the value TYPE_FLOAT", BASE.replace("FP32", "FLOAT")
    ),
    "m_two": broken(
        "config.pbtxt: two batchers",
        "sequence_batching beside dynamic_batching",
        f"{BASE}dynamic_batching {{ }}\nsequence_batching {{ }}\n",
    ),
    "m_name": broken(
        "config.pbtxt: another name than the folder",
        "calls it other and its folder is called m_name",
        f'name: "other"\n{BASE}',
    ),
    "m_below": broken("max_batch_size below 0", "its max_batch_size is below 0", BASE.replace(": 4", ": -1")),
    "m_prefer": broken(
        "preferred size above max_batch_size",
        "a preferred_batch_size is above",
        f"{BASE}dynamic_batching {{ preferred_batch_size: [ 16 ] }}\n",
    ),
    "m_empty": Broken("empty folder or no backend", "its folder holds no model"),
    "m_cache": broken(
        "response cache on a decoupled model",
        "has the response cache on and is decoupled",
        f"{BASE}response_cache {{ enable: true }}\nmodel_transaction_policy {{ decoupled: true }}\n",
    ),
    "m_agent": broken(
        "repository agent missing",
        "wants the repository agent checksum",
        f'{BASE}model_repository_agents {{ agents [ {{ name: "checksum" }} ] }}\n',
    ),
    "e_none": broken(
        "ensemble without steps",
        "it is an ensemble and names no step",
        f'platform: "ensemble"\n{IO}ensemble_scheduling {{ }}\n',
        "",
        "1/x",
    ),
    "m_word": broken(
        "no version", "no version folder that its version policy allows", BASE, OK, "v1/model.py"
    ),
    "e_step": broken(
        "ensemble: step not loaded",
        "its step m_raise could not be loaded: RuntimeError: no weights",
        ensemble("m_raise"),
        "",
        "1/x",
    ),
    "e_gone": broken(
        "ensemble: step does not exist",
        "its step nowhere is not in the repository",
        ensemble("nowhere"),
        "",
        "1/x",
    ),
    "e_type": broken(
        "ensemble: datatypes do not fit",
        "Y is TYPE_INT32 in e_type and TYPE_FP32 in okay",
        ensemble(datatype="TYPE_INT32"),
        "",
        "1/x",
    ),
    "e_batch": broken(
        "ensemble: batch too large",
        "max_batch_size 64 is above that of its step okay, 4",
        ensemble(batch=64),
        "",
        "1/x",
    ),
    "e_map": broken(
        "ensemble: tensor mapped wrongly",
        "Y is mapped from the output Z of okay",
        ensemble(output="Z"),
        "",
        "1/x",
    ),
    "m_onnx": broken(
        "backend missing",
        "the server has no backend 'onnxruntime'",
        BASE.replace("python", "onnxruntime"),
        "",
        "1/model.onnx",
    ),
    "m_plan": broken(
        "backend missing",
        "the server has no backend 'tensorrt'",
        f'platform: "tensorrt_plan"\nmax_batch_size: 4\n{IO}',
        "",
        "1/model.plan",
    ),
    "m_gpu": broken(
        "GPU asked for, none there",
        "asks for a GPU (KIND_GPU) and the server has none",
        f"{BASE}instance_group [ {{ kind: KIND_GPU }} ]\n",
    ),
    "m_gpu7": broken(
        "GPU number not there", "names GPU 7", f"{BASE}instance_group [ {{ kind: KIND_GPU gpus: [ 7 ] }} ]\n"
    ),
    "m_cpus": broken(
        "GPUs for a kind that takes none",
        "is of KIND_CPU and lists GPUs",
        f"{BASE}instance_group [ {{ kind: KIND_CPU gpus: [ 0 ] }} ]\n",
    ),
    "m_oom": broken(
        "out of GPU memory",
        "MemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        BASE + CPU,
        python('raise MemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")'),
    ),
    "m_ram": broken("out of memory", "out of memory: MemoryError", BASE + CPU, python("raise MemoryError()")),
    "m_class": broken(
        "no class TritonPythonModel", "its model.py has no class TritonPythonModel", BASE + CPU, "x = 1\n"
    ),
    "m_syntax": broken("Python syntax", "SyntaxError: invalid syntax", BASE + CPU, "def broken(:\n"),
    "m_numpy": broken(
        "numpy missing", "Python module 'numpy.nothing' is missing", BASE + CPU, f"import numpy.nothing\n{OK}"
    ),
    "m_module": broken(
        "Python module missing",
        "Python module 'torch_is_not_here' is missing",
        BASE + CPU,
        f"import torch_is_not_here\n{OK}",
    ),
    "m_import": broken(
        "Python import",
        "cannot import name 'nothing' from 'json'",
        BASE + CPU,
        f"from json import nothing\n{OK}",
    ),
    "m_env": broken(
        "Python environment missing",
        "(EXECUTION_ENV_PATH) is not where",
        f'{BASE}{CPU}parameters: {{ key: "EXECUTION_ENV_PATH" '
        'value: { string_value: "/nowhere/env.tar.gz" } }\n',
    ),
    "m_die": broken(
        "Python process ended",
        "its Python process ended while starting",
        BASE + CPU,
        python("import os; os._exit(3)"),
    ),
    "m_warm": broken(
        "warm-up: inputs missing",
        "gives 0 inputs where 1 are needed",
        f'{BASE}{CPU}model_warmup [ {{ name: "w" batch_size: 1 }} ]\n',
    ),
    "m_wfile": broken(
        "warm-up: file missing",
        "wants the file warmup/nope",
        f'{BASE}{CPU}model_warmup [ {{ name: "w" batch_size: 1 inputs {{ key: "X" '
        'value { data_type: TYPE_FP32 dims: [ 1 ] input_data_file: "nope" } } } ]\n',
    ),
    "m_dims": broken("dims missing", "its input X has no dims", BASE.replace("dims: [ 1 ]", "dims: [ ]", 1)),
    "m_raise": broken(
        "Python error", "RuntimeError: no weights", BASE + CPU, python('raise RuntimeError("no weights")')
    ),
}
"""By model. `e_step` needs m_raise to be there, the other ensembles `okay`."""

BODIES = {
    "override not valid": {"parameters": {"config": '{"no_such_field": 1}'}},
    "files without a configuration": {"parameters": {"file:1/model.py": "YQ=="}},
    "configuration not sent as text": {"parameters": {"config": {"max_batch_size": 1}}},
    "unknown load parameter": {"parameters": {"nonsense": "x"}},
}
"""What only a client other than this product can send."""

NOT_HERE = {
    "config.pbtxt: not readable, place unknown": "a log without the reader's own lines",
    "name in two repositories": "a server with two repositories; said by the index, see the unit test",
    "ensemble: shapes do not fit": "Triton compares shapes of ensembles only where both are fixed",
    "ensemble: not consistent": "texts of other Triton versions",
}
"""Rows this sandbox cannot produce, and why."""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with started_lab("batch_add_model") as started:
        place("okay", {"config.pbtxt": BASE + CPU, "1/model.py": OK}, started)
        for name, one in CASES.items():
            if one.known:
                place(name, one.files, started)
        yield started


def place(name: str, files: Mapping[str, str], lab: Lab) -> None:
    folder = lab.sandbox.repository / name
    folder.mkdir()
    for path, text in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)


@pytest.mark.parametrize("name", CASES)
def test_a_failed_load_says_what_why_and_what_to_do(lab: Lab, name: str) -> None:
    row = next(row for row in ROWS if row.case == CASES[name].case)
    record = lab.control.perform(Action(ActionKind.LOAD, "lab", name), by=LOCAL).wait(LIMIT_SECONDS)
    assert record.outcome is Outcome.FAILED, record
    assert " not loaded: " in record.sentence
    assert record.sentence.startswith(name)
    assert CASES[name].cause in record.sentence
    assert row.remedy.partition("{")[0] in record.sentence
    assert record.detail, "the server's own text must be behind the fold"
    assert "\n" not in record.sentence and str(lab.sandbox.run_folder) not in record.sentence


@pytest.mark.parametrize("case", BODIES)
def test_a_request_that_this_product_never_sends_is_known_too(lab: Lab, case: str) -> None:
    url = f"{lab.sandbox.http_url}/v2/repository/models/batch_add_model/load"
    request = Request(url, json.dumps(BODIES[case]).encode(), {"Content-Type": "application/json"})
    with pytest.raises(OSError) as refused:
        urlopen(request, timeout=LIMIT_SECONDS)
    text = refused.value.read().decode()  # type: ignore[attr-defined]
    logged = poll_failure(lab.sandbox.log_path.read_text(errors="replace"), "batch_add_model")
    assert load_error("batch_add_model", server_text(text), logged).case == case


def test_every_row_is_provoked_or_cannot_be(figure: Callable[[str], None]) -> None:
    provoked = {one.case for one in CASES.values()} | set(BODIES)
    assert provoked | set(NOT_HERE) == {row.case for row in ROWS}
    assert not provoked & set(NOT_HERE)
    figure(
        f"load errors: {len(provoked)} of {len(ROWS)} kinds provoked on the real server by "
        f"{len(CASES) + len(BODIES)} failures; not producible here: {len(NOT_HERE)}"
    )


def test_a_load_that_never_ends_is_told_with_what_it_does_to_others(lab: Lab) -> None:
    """The last one here: this server only ends by being killed (a missing model.py, Triton before 25.08)."""
    place("no_code", {"config.pbtxt": BASE + CPU, "1/weights.bin": ""}, lab)
    control = lab.make_control(Patience(call_seconds=1.0, stuck_seconds=2.0))
    job = control.perform(Action(ActionKind.LOAD, "lab", "no_code"), by=LOCAL)
    deadline = time.monotonic() + LIMIT_SECONDS
    while "this may never end" not in job.record.stage:
        assert job.wait(0.1).running and time.monotonic() < deadline, job.record
    assert "further loads may hang as well, then only a restart of the server helps" in job.record.stage
    assert lab.states("no_code") == {ModelState.LOADING}
    with pytest.raises(AlreadyRunning, match="loading no_code"):
        control.perform(Action(ActionKind.LOAD, "lab", "no_code"), by=LOCAL)
    assert lab.sent("no_code", "load") == 1
