"""A real server of a test module's own, with a proxy before it that counts what is really sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from control.facade import Control
from control.inference import InferenceRequest, Tensor, Way
from control.performer import Job
from control.repository_watch import Patience
from control.test_requests import TestAnswer, test_request_work
from experiments.fresh_reader import FreshReader
from sandbox import Sandbox, SandboxOptions
from sandbox.options import ControlMode
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Record
from telemetry.facts import ModelState
from telemetry.identity import Server
from tests.counting_proxy import CountingProxy

MODELS = Path(__file__).parents[1] / "fixtures" / "models"
LIMIT_SECONDS = 30.0


class LabFiles:
    """The `control.ports.ServerFiles` of a lab's server."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def config_text(self, server_id: str, model: str) -> str | None:
        path = self.sandbox.repository / model / "config.pbtxt"
        return path.read_text() if path.is_file() else ""

    def log_tail(self, server_id: str) -> str | None:
        return self.sandbox.log_path.read_text(errors="replace")[-65536:]


class Lab:
    """A sandbox of this module's own, with a proxy before it that counts what is really sent."""

    def __init__(self, sandbox: Sandbox, proxy: CountingProxy) -> None:
        self.sandbox = sandbox
        self.proxy = proxy
        self.server = Server("lab", proxy.url, sandbox.metrics_url, control=True, grpc_url=sandbox.grpc_url)
        self.reader = FreshReader(lambda: (self.server,))
        self.control = self.make_control(Patience())

    def make_control(self, patience: Patience) -> Control:
        files = LabFiles(self.sandbox)
        return Control(lambda: (self.server,), self.reader, lambda _: False, patience=patience, files=files)

    def do(self, kind: ActionKind, model: str, *, dependents: bool = False) -> Record:
        action = Action(kind, "lab", model, unload_dependents=dependents)
        return self.control.perform(action, by=LOCAL).wait(LIMIT_SECONDS)

    def states(self, model: str) -> set[ModelState]:
        return {entry.state for entry in self.reader.index("lab") if entry.name == model}

    def sent(self, model: str, verb: str) -> int:
        return len(self.proxy.passed("POST", f"/models/{model}/{verb}"))

    def ask(self, model: str, *tensors: Tensor, timeout_seconds: float = 10.0, way: Way = Way.INFER) -> Job:
        config = self.reader.config("lab", model)
        request = InferenceRequest("lab", model, "", tensors, timeout_seconds, way=way)
        work = test_request_work(self.reader, config, request)
        return self.control.perform(Action(ActionKind.TEST_REQUEST, "lab", model), work, by=LOCAL)


@contextmanager
def started_lab(
    *models: str,
    extra: tuple[str, ...] = (),
    control_mode: ControlMode = "explicit",
    extra_args: tuple[str, ...] = (),
) -> Iterator[Lab]:
    """A lab with these models of the project and these of the test fixtures, all of them loaded."""
    options = SandboxOptions(
        http_port=0,
        grpc_port=0,
        metrics_port=0,
        models=models,
        simulated_gpu=False,
        extra_models=tuple(MODELS / name for name in extra),
        control_mode=control_mode,
        extra_args=extra_args,
    )
    with Sandbox(options) as sandbox, CountingProxy(sandbox.http_url) as proxy:
        if not extra_args:
            assert sandbox.not_ready() == {}
        yield Lab(sandbox, proxy)


def floats(name: str, *values: float) -> Tensor:
    return Tensor(name, "FP32", np.array([values], dtype=np.float32))


def answer(job: Job) -> TestAnswer:
    record = job.wait(LIMIT_SECONDS)
    assert isinstance(job.result, TestAnswer), record
    return job.result
