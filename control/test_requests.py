"""A test request as an action: guarded, sent once in its own thread, with the server's split of its time."""

from __future__ import annotations

import time
from dataclasses import dataclass

from control.actions import Conclusion, Outcome
from control.consequences import steps
from control.inference import InferenceRequest, Reply, check_request, infer
from control.performer import Course, Work
from control.ports import StatisticsReader
from control.server_split import Rows, ServerSplit, split_of_request
from telemetry.errors import SourceError
from telemetry.facts import ModelConfig
from telemetry.units import Unit, human

_COUNTED_WITHIN_SECONDS = 1.0
"""Triton counts a request when it is released, which may be a moment after its answer."""
_COUNTED_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class TestAnswer:
    """The result of a test request: what the model answered, and where the server spent the time."""

    __test__ = False  # pytest would take the name for a test class

    reply: Reply
    split: ServerSplit


def test_request_work(reader: StatisticsReader, config: ModelConfig, request: InferenceRequest) -> Work:
    """The work of `Control.perform` for one request; raises InvalidRequest before anything is begun."""
    check_request(config, request)

    def work(course: Course) -> Conclusion:
        before = _read(reader, request.server)
        course.sent()
        reply = infer(course.server, config, request)
        split = _split(reader, config, request, before)
        took = human(reply.latency_us, Unit.US)
        return Conclusion(
            Outcome.DONE, f"{request.model} answered after {took}", result=TestAnswer(reply, split)
        )

    return work


test_request_work.__test__ = False  # type: ignore[attr-defined]


def _read(reader: StatisticsReader, server_id: str) -> Rows | SourceError:
    try:
        return reader.statistics(server_id)
    except SourceError as error:
        return error


def _split(
    reader: StatisticsReader, config: ModelConfig, request: InferenceRequest, before: Rows | SourceError
) -> ServerSplit:
    if isinstance(before, SourceError):
        return ServerSplit((), f"No split: the statistics could not be read. {before.sentence}")
    parts = steps(config)
    deadline = time.monotonic() + _COUNTED_WITHIN_SECONDS
    while True:
        after = _read(reader, request.server)
        if isinstance(after, SourceError):
            return ServerSplit((), f"No split: the statistics could not be read. {after.sentence}")
        split = split_of_request(before, after, request.model, parts)
        if split.rows or time.monotonic() > deadline:
            return split
        time.sleep(_COUNTED_POLL_SECONDS)
