"""A test request as an action: guarded, sent once in its own thread, with the server's split of its time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from control.generate import NOT_IN_JSON, check_generate, responses
from control.grpc_client import infer_over_grpc, refusal, stream_over_grpc
from control.inference import (
    InferenceRequest,
    Reply,
    SequenceStep,
    Way,
    check_request,
    infer,
    new_sequence_id,
    sent_as,
)
from control.performer import Course, Work
from control.ports import StatisticsReader
from control.request_errors import infer_failure
from control.server_split import Rows, ServerSplit, split_of_request
from telemetry.actions import Conclusion, Outcome
from telemetry.ensembles import steps as steps_of_ensemble
from telemetry.errors import ActionFailed, InvalidRequest, SourceError
from telemetry.facts import ModelConfig
from telemetry.identity import Server
from telemetry.units import Unit, human

MAX_STEPS = 100
"""Steps of one sequence."""
_DECOUPLED_SPLIT = (
    "Of a model that streams Triton's figures show its execute, which may hand the work on to a thread."
)
_COUNTED_WITHIN_SECONDS = 1.0
"""Triton counts a request when it is released, which may be a moment after its answer."""
_COUNTED_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class TestAnswer:
    """The result of a test request: what the model answered, and where the server spent the time.

    `replies` has one for each step of a sequence, one for each response of a stream (which may be none), and
    else exactly one.
    """

    __test__ = False  # pytest would take the name for a test class

    replies: tuple[Reply, ...]
    split: ServerSplit
    streamed: bool = False
    """The replies are of one request: their latencies all count from its sending."""

    @property
    def reply(self) -> Reply:
        """The first reply; raises IndexError where a stream ended without one."""
        return self.replies[0]


def ways_for(config: ModelConfig, server: Server) -> tuple[Way, ...]:
    """The ways this model can be asked, the best first; gRPC where the package and an address are there."""
    over_grpc = not refusal(server)
    if config.decoupled:
        streams = (Way.GENERATE_STREAM, Way.GENERATE) if _fits_json(config) else ()
        # With none of them the form says what is missing.
        return (*streams, *((Way.GRPC_STREAM,) if over_grpc else ())) or (Way.GRPC_STREAM,)
    return (
        Way.INFER, *((Way.GRPC,) if over_grpc else ()), *((Way.GENERATE,) if _fits_json(config) else ())
    )  # fmt: skip


def _fits_json(config: ModelConfig) -> bool:
    """True if generate can carry requests of this model at all."""
    needed = [spec for spec in config.inputs if not spec.optional]
    outputs = config.outputs
    return (
        not config.sequence_batching
        and not any(spec.datatype in NOT_IN_JSON or len(spec.dims) > 1 for spec in needed)
        and not (outputs and all(spec.datatype in NOT_IN_JSON for spec in outputs))
    )


def as_sequence(requests: Iterable[InferenceRequest]) -> tuple[InferenceRequest, ...]:
    """The same requests as the steps of one whole sequence: a new id, start on the first, end on the last."""
    given = tuple(requests)
    number = new_sequence_id()
    return tuple(
        replace(request, sequence=SequenceStep(number, start=place == 0, end=place == len(given) - 1))
        for place, request in enumerate(given)
    )


def check_steps(config: ModelConfig, requests: tuple[InferenceRequest, ...]) -> None:
    """Raise InvalidRequest unless every one of these requests can be sent, and they belong together."""
    if not requests:
        raise InvalidRequest("No request was given")
    if len(requests) > 1 and not config.sequence_batching:
        raise InvalidRequest(f"{config.name} does not keep sequences: it takes one request at a time")
    if len(requests) > MAX_STEPS:
        raise InvalidRequest(f"At most {MAX_STEPS} steps per sequence (got {len(requests)})")
    for place, request in enumerate(requests):
        try:
            check_request(config, request)
            check_generate(config, request)
        except InvalidRequest as error:
            if len(requests) == 1:
                raise
            raise InvalidRequest(f"Step {place + 1}: {error.sentence}", detail=error.detail) from error


def test_request_work(reader: StatisticsReader, config: ModelConfig, *requests: InferenceRequest) -> Work:
    """The work of `Control.perform`; raises InvalidRequest before anything is begun.

    Several requests are the steps of one sequence. They are sent one after another, each once; after a step
    that failed none is sent.
    """
    check_steps(config, requests)
    whole = as_sequence(requests) if config.sequence_batching else requests

    def work(course: Course) -> Conclusion:
        if whole[0].way.over_grpc and (why := refusal(course.server)):
            raise InvalidRequest(f"{why}. Nothing was sent.")
        before = _read(reader, whole[0].server)
        course.sent()
        replies = tuple(_replies(course, config, whole))
        split = _split(reader, config, whole, before)
        if config.decoupled and split.rows:
            split = replace(split, sentence=f"{split.sentence} {_DECOUPLED_SPLIT}")
        return Conclusion(
            _outcome(course, replies, whole),
            _sentence(whole, replies),
            result=TestAnswer(replies, split, whole[0].way.streams),
        )

    return work


test_request_work.__test__ = False  # type: ignore[attr-defined]


def told_in_journal(config: ModelConfig, requests: tuple[InferenceRequest, ...]) -> dict[str, object]:
    """What the journal tells of a request: how it travelled and the shapes, never a value."""
    first = requests[0]
    told: dict[str, object] = {
        "way": first.way.value,
        "inputs": [sent_as(config, tensor) for tensor in first.tensors],
    }
    if len(requests) > 1:
        told["steps"] = len(requests)
    if first.parameters:
        told["parameters"] = sorted(first.parameters)
    return told


def send_one(server: Server, config: ModelConfig, request: InferenceRequest) -> Iterator[Reply]:
    """Send one request by its way and yield its responses; raises ActionFailed or a SourceError.

    Checks nothing and asks no guard: `check_steps` and `Control.perform` come before it.
    """
    if request.way.in_json:
        yield from responses(server, config, request)
    elif request.way is Way.GRPC_STREAM:
        yield from stream_over_grpc(server, config, request)
    elif request.way is Way.GRPC:
        yield infer_over_grpc(server, config, request)
    else:
        yield infer(server, config, request)


def _replies(course: Course, config: ModelConfig, requests: tuple[InferenceRequest, ...]) -> Iterator[Reply]:
    for place, request in enumerate(requests):
        if len(requests) > 1:
            course.say(f"step {place + 1} of {len(requests)} of a sequence to {request.model}")
        try:
            for count, reply in enumerate(send_one(course.server, config, request)):
                if request.way.streams and count:
                    course.say(f"{count + 1} responses of {request.model}")
                yield reply
                if course.stopping:
                    return
        except (ActionFailed, SourceError) as error:
            if len(requests) == 1:
                raise
            raise ActionFailed(
                f"Step {place + 1} of {len(requests)}: {error.sentence}. No further step was sent; the "
                "server closes the sequence after its idle time",
                detail=error.detail,
                status=error.status,
            ) from error


def _outcome(course: Course, replies: tuple[Reply, ...], requests: tuple[InferenceRequest, ...]) -> Outcome:
    if any(reply.error for reply in replies):
        return Outcome.FAILED
    return Outcome.STOPPED if course.stopping else Outcome.DONE


def _sentence(requests: tuple[InferenceRequest, ...], replies: tuple[Reply, ...]) -> str:
    model, way = requests[0].model, requests[0].way
    broken = [reply for reply in replies if reply.error]
    if broken:
        said = infer_failure(model, broken[0].error, None)
        return f"{len(broken)} of {len(replies)} responses of {model} are errors. The first: {said}"
    if not replies:
        return f"{model} ended the stream without a response"
    took = human(replies[-1].latency_us, Unit.US)
    if way.streams:
        first = human(replies[0].latency_us, Unit.US)
        count = f"{len(replies)} responses" if len(replies) > 1 else "one response"
        return f"{model} sent {count}, the first after {first}, the last after {took}"
    if len(requests) > 1:
        total = human(sum(reply.latency_us for reply in replies), Unit.US)
        return f"{model} answered {len(replies)} steps in {total}"
    return f"{model} answered after {took}"


def _read(reader: StatisticsReader, server_id: str) -> Rows | SourceError:
    try:
        return reader.statistics(server_id)
    except SourceError as error:
        return error


def _split(
    reader: StatisticsReader,
    config: ModelConfig,
    requests: tuple[InferenceRequest, ...],
    before: Rows | SourceError,
) -> ServerSplit:
    if isinstance(before, SourceError):
        return ServerSplit((), f"No split: the statistics could not be read. {before.sentence}")
    model, parts = requests[0].model, steps_of_ensemble(config)
    deadline = time.monotonic() + _COUNTED_WITHIN_SECONDS
    while True:
        after = _read(reader, requests[0].server)
        if isinstance(after, SourceError):
            return ServerSplit((), f"No split: the statistics could not be read. {after.sentence}")
        split = split_of_request(before, after, model, parts, len(requests))
        counted = sum(row.requests + row.failures for row in split.rows if row.model == model)
        if counted >= len(requests) or time.monotonic() > deadline:
            return split
        time.sleep(_COUNTED_POLL_SECONDS)
