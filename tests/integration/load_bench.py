"""The write side on one address of a sandbox, for load runs, with the request each example model takes."""

from __future__ import annotations

from collections.abc import Callable

from control.facade import Control
from control.inference import InferenceRequest, Tensor
from control.performer import Job, Work
from control.tensors import random_array
from experiments.fresh_reader import FreshReader
from experiments.report import RunReport
from experiments.session import Wanted
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Outcome
from telemetry.identity import Server

LIMIT_SECONDS = 90.0


class Bench:
    """Control of one server, which counts as the sandbox unless a limit for load runs is given."""

    def __init__(self, url: str, *, limit_per_second: float | None = None) -> None:
        self.server = Server("lab", url, None, control=True, load_run_limit_per_second=limit_per_second)
        self.reader = FreshReader(lambda: (self.server,))
        own = limit_per_second is None
        self.control = Control(lambda: (self.server,), self.reader, lambda server_id: own)

    def request(self, model: str, version: str = "") -> InferenceRequest:
        config = self.reader.config("lab", model)
        tensors = tuple(
            Tensor(spec.name, spec.datatype, random_array(spec.datatype, (1, *spec.dims), 1))
            for spec in config.inputs
        )
        return InferenceRequest("lab", model, version, tensors)

    def wanted(self, model: str, request: InferenceRequest | None = None) -> Wanted:
        return Wanted(self.control, self.reader.config("lab", model), request or self.request(model))

    def start(
        self, model: str, make: Callable[[Wanted], Work], request: InferenceRequest | None = None
    ) -> Job:
        work = make(self.wanted(model, request))
        return self.control.perform(Action(ActionKind.LOAD_RUN, "lab", model), work, by=LOCAL)

    def run(self, model: str, make: Callable[[Wanted], Work]) -> RunReport:
        return report_of(self.start(model, make))


def report_of(job: Job) -> RunReport:
    record = job.wait(LIMIT_SECONDS)
    assert record.outcome is Outcome.DONE, record
    assert isinstance(job.result, RunReport)
    return job.result
