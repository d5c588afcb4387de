"""The same N requests one after another, then concurrently: what batching gives, to clients and server."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from control.actions import Conclusion, Outcome
from control.consequences import steps
from control.inference import InferenceRequest, check_request, infer
from control.performer import Course, Work
from control.ports import StatisticsReader
from control.server_split import ModelSplit, Rows, increase
from experiments.load import LoadFigures, LoadOrder, LoadProgress, run_load
from telemetry.errors import SourceError
from telemetry.facts import ModelConfig
from telemetry.identity import Server
from telemetry.units import Unit, human, significant

DEFAULT_REQUESTS = 200
DEFAULT_CONCURRENCY = 16

_A_BATCH = 1.05
"""Mean rows per execution from which on batches are said to have formed."""
_COUNTED_WITHIN_SECONDS = 1.0
_COUNTED_POLL_SECONDS = 0.05

RunLoad = Callable[[Server, LoadOrder, Callable[[LoadProgress], None], Callable[[], bool]], LoadFigures]


@dataclass(frozen=True, slots=True)
class Phase:
    """One half of the experiment. `server` is the increase of the statistics over it, None if not readable.

    `server` is of the model and, for an ensemble, of its steps; it counts everybody's requests.
    """

    name: str
    requests: int
    clients: LoadFigures
    server: tuple[ModelSplit, ...] | None
    model: str

    @property
    def split(self) -> ModelSplit | None:
        """The server's figures of the model itself."""
        return next((row for row in self.server or () if row.model == self.model), None)

    @property
    def others(self) -> int | None:
        """Requests the server counted beyond ours: other traffic; None if the server's count is not known."""
        split = self.split
        return None if split is None else max(0, split.requests - self.clients.succeeded)


@dataclass(frozen=True, slots=True)
class Progress:
    """What the page shows meanwhile: the phase under way and the halves that are complete."""

    phase: str
    requests: int
    load: LoadProgress
    serial: Phase | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both halves; `concurrent` is None if it was stopped before."""

    model: str
    serial: Phase
    concurrent: Phase | None
    notes: tuple[str, ...] = ()

    @property
    def speedup(self) -> float | None:
        """Throughput of the concurrent half / of the serial half."""
        serial = self.serial.clients.throughput_per_second
        concurrent = self.concurrent.clients.throughput_per_second if self.concurrent else None
        return concurrent / serial if serial and concurrent else None

    @property
    def sentence(self) -> str:
        """The comparison in words."""
        if self.concurrent is None:
            return f"{self.model}: stopped before the concurrent half"
        speedup = self.speedup
        if speedup is None:
            return f"{self.model}: no comparison, since requests of one half all failed"
        slow, fast = (phase.clients for phase in (self.serial, self.concurrent))
        rates = " to ".join(significant(half.throughput_per_second or 0) for half in (slow, fast))
        return (
            f"{self.model}: {fast.concurrency} at a time give {significant(speedup)} times the throughput "
            f"of one ({rates} requests/s){_batches(self.concurrent)}"
        )


def experiment_work(
    reader: StatisticsReader,
    config: ModelConfig,
    request: InferenceRequest,
    requests: int = DEFAULT_REQUESTS,
    concurrency: int = DEFAULT_CONCURRENCY,
    *,
    load: RunLoad = run_load,
) -> Work:
    """The work of `Control.perform`; raises InvalidRequest before anything is begun.

    One request goes ahead, unmeasured: it warms the model, and a request that fails is told at once. The
    result is a `Comparison`, the progress a `Progress`.
    """
    check_request(config, request)
    order = LoadOrder(request, requests, concurrency, config.sequence_batching)
    order.check()

    def work(course: Course) -> Conclusion:
        course.sent()
        infer(course.server, config, request)
        halves = _Halves(reader, config, course, load)
        serial = halves.run("serial", replace(order, concurrency=1), None)
        concurrent = None if course.stopping else halves.run("concurrent", order, serial)
        comparison = Comparison(request.model, serial, concurrent, notes(config, serial, concurrent))
        outcome = Outcome.STOPPED if course.stopping else Outcome.DONE
        return Conclusion(outcome, comparison.sentence, result=comparison)

    return work


def notes(config: ModelConfig, serial: Phase, concurrent: Phase | None) -> tuple[str, ...]:
    """What a reader must know to read the figures rightly."""
    found = []
    if config.response_cache:
        found.append("The response cache is on: equal requests are answered from it and not executed.")
    if config.max_batch_size > 0 and not (config.dynamic_batching or config.ensemble):
        found.append(
            "The model has no dynamic batching: Triton never merges requests of it. "
            "Write dynamic_batching { } into its config.pbtxt."
        )
    if config.max_batch_size == 0:
        found.append("max_batch_size is 0: this model takes one request per execution.")
    others = [phase.others for phase in (serial, concurrent) if phase is not None and phase.others]
    if others:
        found.append(
            f"Other clients sent {sum(count or 0 for count in others)} requests to it meanwhile: "
            "executions and batch sizes include theirs."
        )
    return tuple(found)


def _batches(phase: Phase) -> str:
    """The batches that formed: of the model, or of the step of an ensemble that batched most."""
    executed = [row for row in phase.server or () if row.executions]
    if not executed:
        return ""
    fullest = max(executed, key=lambda row: row.batch_size_mean or 0.0)
    mean = fullest.batch_size_mean or 0.0
    if mean < _A_BATCH:
        return "; no batches formed"
    where = "" if fullest.model == phase.model else f"{fullest.model}: "
    return f"; {where}{fullest.inferences} rows in {fullest.executions} executions, {significant(mean)} each"


@dataclass(frozen=True, slots=True)
class _Halves:
    reader: StatisticsReader
    config: ModelConfig
    course: Course
    load: RunLoad

    def run(self, name: str, order: LoadOrder, serial: Phase | None) -> Phase:
        model = order.request.model
        before = self._statistics()
        self._show(name, order, LoadProgress(0, 0, 0.0), serial)
        clients = self.load(
            self.course.server,
            order,
            lambda progress: self._show(name, order, progress, serial),
            lambda: self.course.stopping,
        )
        server = self._increase(before, model, clients.succeeded)
        return Phase(name, order.requests, clients, server, model)

    def _show(self, name: str, order: LoadOrder, load: LoadProgress, serial: Phase | None) -> None:
        self.course.show(Progress(name, order.requests, load, serial))
        took = human(load.seconds, Unit.SECONDS)
        self.course.say(f"{name}: {load.done + load.failed} of {order.requests} requests after {took}")

    def _statistics(self) -> Rows | None:
        try:
            return self.reader.statistics(self.course.server.id)
        except SourceError:
            return None

    def _increase(self, before: Rows | None, model: str, succeeded: int) -> tuple[ModelSplit, ...] | None:
        """The increase, once all our requests are counted (a moment after their answers)."""
        if before is None:
            return None
        parts = steps(self.config)
        deadline = time.monotonic() + _COUNTED_WITHIN_SECONDS
        while True:
            after = self._statistics()
            rows = increase(before, after, (model, *parts)) if after is not None else None
            counted = sum(row.requests for row in rows or () if row.model == model)
            if counted >= succeeded or time.monotonic() > deadline:
                return rows
            time.sleep(_COUNTED_POLL_SECONDS)
