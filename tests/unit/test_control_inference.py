"""Checks before sending, foreign errors as sentences, and the server's split of the time."""

from __future__ import annotations

import socket
import ssl
from dataclasses import replace

import numpy as np
import pytest
from geventhttpclient.response import HTTPConnectionClosed, HTTPParseError
from tritonclient.utils import InferenceServerException

from control.inference import InferenceRequest, Tensor, check_request, sent_as
from control.policy import NOT_ADDRESSABLE
from control.server_split import increase, split_of_request
from control.triton_client import call_error
from telemetry.actions import Action, ActionKind
from telemetry.errors import (
    ActionFailed,
    InvalidRequest,
    NoAnswer,
    NotHttp,
    Restricted,
    TlsFailed,
    Unreachable,
)
from telemetry.facts import BatchSizeStatistics, DurationTotals, ModelConfig, ModelStatistics, TensorSpec

CONFIG = ModelConfig(
    name="alpha", backend="python", platform="", max_batch_size=8, dynamic_batching=True,
    preferred_batch_sizes=(), max_queue_delay_us=0, max_queue_size=None, queue_timeout_us=None,
    instance_groups=(), ensemble_steps=(), sequence_batching=False, decoupled=False, response_cache=False,
    inputs=(TensorSpec("A", "FP32", (1,)), TensorSpec("B", "FP32", (1,), optional=True)), outputs=(),
)  # fmt: skip
UNBATCHED = replace(CONFIG, max_batch_size=0)


def tensor(*shape: int, name: str = "A", datatype: str = "FP32") -> Tensor:
    return Tensor(name, datatype, np.zeros(shape, dtype=np.float32))


def request(*tensors: Tensor, model: str = "alpha") -> InferenceRequest:
    return InferenceRequest("lab", model, "", tensors)


def refusal(config: ModelConfig, sent: InferenceRequest) -> str:
    with pytest.raises(InvalidRequest) as caught:
        check_request(config, sent)
    return caught.value.sentence


def test_a_good_request_passes_and_says_what_is_sent() -> None:
    check_request(CONFIG, request(tensor(1, 1)))
    check_request(CONFIG, request(tensor(8, 1), tensor(8, 1, name="B")))
    check_request(UNBATCHED, request(tensor(1)))
    assert sent_as(CONFIG, tensor(1, 1)) == "A: sent shape [1,1] (batch 1), FP32"
    assert sent_as(UNBATCHED, tensor(1)) == "A: sent shape [1], FP32"


@pytest.mark.parametrize(
    ("config", "sent", "sentence"),
    [
        (CONFIG, request(tensor(1)), "A wants the shape [-1,1] and got [1]: add a batch dimension: [1,1]"),
        (
            UNBATCHED,
            request(tensor(1, 1)),
            "A wants the shape [1] and got [1,1]: remove the batch dimension: [1]",
        ),
        (CONFIG, request(tensor(1, 3)), "A wants the shape [-1,1] and got [1,3]"),
        (CONFIG, request(tensor(9, 1)), "At most 8 rows per request (got 9)"),
        (CONFIG, request(tensor(0, 1)), "At least 1 row per request (got 0)"),
        (
            CONFIG,
            request(tensor(2, 1), tensor(3, 1, name="B")),
            "All inputs need the same number of rows: A 2, B 3",
        ),
        (CONFIG, request(), "alpha also needs A"),
        (CONFIG, request(tensor(1, 1), tensor(1, 1, name="C")), "alpha has no input C"),
        (CONFIG, request(tensor(1, 1, datatype="INT32")), "A wants FP32 and got INT32"),
        (
            replace(CONFIG, decoupled=True),
            request(tensor(1, 1)),
            "This model streams (decoupled): use generate stream or gRPC stream. Nothing was sent.",
        ),
        (
            CONFIG,
            request(tensor(1, 1), model="sp ace"),
            NOT_ADDRESSABLE,
        ),
    ],
)
def test_what_the_server_would_refuse_is_refused_before_sending(
    config: ModelConfig, sent: InferenceRequest, sentence: str
) -> None:
    assert refusal(config, sent) == sentence


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (ConnectionRefusedError(111, "Connection refused"), Unreachable, "h:8000 is not reachable (refused)"),
        (
            TimeoutError("timed out"),
            NoAnswer,
            "No answer from h:8000 within 1 s (the server may still run the request). Wait longer with a "
            "larger time-out; a model whose execute returns nothing never answers",
        ),
        (
            HTTPParseError("Expected HTTP/"),
            NotHttp,
            "This port (h:8000) does not speak HTTP: is it the gRPC port?",
        ),
        (
            ssl.SSLEOFError(8, "EOF occurred"),
            TlsFailed,
            "TLS with h:8000 failed: wrong scheme, or a certificate that is not trusted",
        ),
        (
            socket.gaierror(-2, "Name or service not known"),
            Unreachable,
            "h:8000 is not reachable: nobody knows that host name",
        ),
        (
            HTTPConnectionClosed("connection closed."),
            Unreachable,
            "h:8000 closed the connection before it answered",
        ),
        (ConnectionResetError(104, "reset"), Unreachable, "h:8000 closed the connection before it answered"),
        (
            InferenceServerException("Exceeds maximum queue size", status="503"),
            ActionFailed,
            "Queue full: alpha has as many waiting requests as it accepts (503). Send fewer at a time, or "
            "raise max_queue_size or the number of instances",
        ),
        (
            InferenceServerException("This API is restricted", status="403"),
            Restricted,
            "h:8000 restricts its inference API (HTTP 403): write "
            "`api_headers_from_env: {inference: {HEADER: VARIABLE}}` at this server in tritonscope.yml",
        ),
    ],
)
def test_foreign_errors_become_sentences(error: Exception, kind: type[Exception], sentence: str) -> None:
    known = call_error(error, "http://h:8000", 1.0, "alpha")
    assert type(known) is kind
    assert known.sentence == sentence
    assert "Traceback" not in (known.detail or "")


def statistics(
    requests: int, *, name: str = "alpha", failures: int = 0, sizes: dict[int, int] | None = None, ns: int = 0
) -> ModelStatistics:
    batches = tuple(BatchSizeStatistics(size, count, 0, 0, 0) for size, count in (sizes or {}).items())
    executions = sum((sizes or {}).values())
    rows = sum(size * count for size, count in (sizes or {}).items())
    return ModelStatistics(
        name,
        "1",
        0,
        rows,
        executions,
        requests,
        failures,
        batches,
        None,
        DurationTotals(ns, ns // 2, 0, ns // 4, 0),
    )


def test_the_split_of_a_single_request_is_exact() -> None:
    before = (statistics(10, sizes={1: 10}, ns=1_000_000),)
    after = (statistics(11, sizes={1: 10, 2: 1}, ns=1_400_000),)
    split = split_of_request(before, after, "alpha", ())
    row = split.of("alpha")
    assert row is not None
    assert (row.requests, row.request_us, row.queue_us, row.compute_infer_us) == (1, 400.0, 200.0, 100.0)
    assert row.executions_by_batch_size == {2: 1}
    assert row.batch_size_mean == 2.0
    assert split.sentence == "This request alone: the server counted no other in between."


def test_the_split_says_when_other_traffic_was_running() -> None:
    before = (statistics(10, ns=0),)
    after = (statistics(13, failures=1, ns=3_000),)
    split = split_of_request(before, after, "alpha", ())
    assert split.sentence == "Mean over the 4 requests of alpha in between: other traffic was running."
    assert split.rows[0].request_us == 1.0


def test_the_split_of_an_ensemble_shows_its_steps() -> None:
    before = (statistics(1, name="pipe"), statistics(5, name="step"))
    after = (statistics(2, name="pipe", ns=90_000), statistics(7, name="step", ns=40_000))
    split = split_of_request(before, after, "pipe", ("step",))
    assert [row.model for row in split.rows] == ["pipe", "step"]
    assert split.sentence == (
        "This request alone for pipe; its steps show means over up to 2 requests in between."
    )


def test_nothing_counted_gives_no_split_and_a_reload_counts_from_zero() -> None:
    same = (statistics(10),)
    assert split_of_request(same, same, "alpha", ()).rows == ()
    (row,) = increase((statistics(10, sizes={1: 10}),), (statistics(2, sizes={1: 2}),), ("alpha",))
    assert (row.requests, row.executions, row.executions_by_batch_size) == (2, 2, {1: 2})


def test_missing_counts_and_durations_are_not_reported_never_zero() -> None:
    partial = ModelStatistics("alpha", "1", None, None, None, 3, 0)
    assert increase((), (partial,), ("alpha",)) == ()
    without = replace(statistics(3), durations=None)
    (row,) = increase((), (without,), ("alpha",))
    assert (row.requests, row.request_us, row.queue_us, row.batch_size_mean) == (3, None, None, None)


def test_an_action_names_its_target() -> None:
    assert Action(ActionKind.LOAD, "lab", "alpha").target == "alpha"
    assert Action(ActionKind.TEST_REQUEST, "lab", "alpha", "2").target == "alpha v2"
