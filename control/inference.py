"""One inference request: checked before it is sent, sent binary over HTTP, its answer exact."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tritonclient.http import InferenceServerClient, InferInput, InferResult

from control.policy import NOT_ADDRESSABLE
from control.request_parameters import UNDERSTOOD_BY_TRITON, ParameterValue, check_parameters
from control.tensors import AnyArray, numpy_dtype, show_shape
from control.triton_client import triton_client
from telemetry.errors import InvalidRequest
from telemetry.facts import ModelConfig, TensorSpec
from telemetry.identity import Server, is_http_addressable

DECOUPLED = "This model streams (decoupled): use generate stream or gRPC stream. Nothing was sent."
DEFAULT_TIMEOUT_SECONDS = 30.0


class Way(StrEnum):
    """How a request travels."""

    INFER = "HTTP infer"
    """Tensors in binary; every datatype, exactly one response."""
    GENERATE = "generate"
    """JSON over HTTP; exactly one response, also of a decoupled model."""
    GENERATE_STREAM = "generate stream"
    """JSON over HTTP; any number of responses as server-sent events."""
    GRPC = "gRPC"
    GRPC_STREAM = "gRPC stream"
    """Any number of responses, every datatype."""

    @property
    def streams(self) -> bool:
        """True where one request may have any number of responses."""
        return self in (Way.GENERATE_STREAM, Way.GRPC_STREAM)

    @property
    def in_json(self) -> bool:
        """True where tensors travel as JSON: no FP16, no BF16, no shapes."""
        return self in (Way.GENERATE, Way.GENERATE_STREAM)

    @property
    def over_grpc(self) -> bool:
        """True where the package grpcio is needed."""
        return self in (Way.GRPC, Way.GRPC_STREAM)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input or output: the wire datatype, and the values with the batch dimension in front."""

    name: str
    datatype: str
    array: AnyArray

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape as sent or received."""
        return tuple(int(size) for size in self.array.shape)


@dataclass(frozen=True, slots=True)
class SequenceStep:
    """The place of a request in its sequence; `id` is never 0."""

    id: int
    start: bool
    end: bool


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """One request. `version` "" = the newest ready one. The time-out is for each step on the network.

    `sequence` None sends a model that keeps sequences a whole one of this single request.
    """

    server: str
    model: str
    version: str
    tensors: tuple[Tensor, ...]
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    way: Way = Way.INFER
    sequence: SequenceStep | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer. `latency_us` is what the client waited, over an open connection.

    Of a stream every response is one: its latency counts from the sending of the request. `error` is the
    server's text of a response that is an error; such a one has no outputs.
    """

    model: str
    version: str
    outputs: tuple[Tensor, ...]
    latency_us: float
    error: str = ""


def check_request(config: ModelConfig, request: InferenceRequest) -> None:
    """Raise InvalidRequest for what the server would refuse, or worse, take wrongly."""
    if not request.way.over_grpc and not is_http_addressable(request.model):
        raise InvalidRequest(NOT_ADDRESSABLE)
    if config.decoupled and request.way in (Way.INFER, Way.GRPC):
        raise InvalidRequest(DECOUPLED)
    check_parameters(request.parameters)
    given = {tensor.name: tensor for tensor in request.tensors}
    specs = {spec.name: spec for spec in config.inputs}
    missing = [spec.name for spec in config.inputs if spec.name not in given and not spec.optional]
    if missing:
        raise InvalidRequest(f"{request.model} also needs {', '.join(missing)}")
    unknown = sorted(set(given) - set(specs))
    if unknown:
        raise InvalidRequest(f"{request.model} has no input {', '.join(unknown)}")
    for tensor in request.tensors:
        _check_tensor(config, specs[tensor.name], tensor)
    _check_rows(config, request)
    if (
        config.sequence_batching
        and config.max_batch_size > 0
        and any(t.shape[0] > 1 for t in request.tensors)
    ):
        raise InvalidRequest(f"{request.model} keeps sequences: every step has exactly one row")


def sent_as(config: ModelConfig, tensor: Tensor) -> str:
    """What is sent, in words: `INPUT_A: sent shape [1,1] (batch 1), FP32`."""
    batch = f" (batch {tensor.shape[0]})" if config.max_batch_size > 0 and tensor.shape else ""
    return f"{tensor.name}: sent shape {show_shape(tensor.shape)}{batch}, {tensor.datatype}"


def infer(server: Server, config: ModelConfig, request: InferenceRequest) -> Reply:
    """Send one request and wait; raises a SourceError or ActionFailed with a sentence.

    The client is made, used and closed here: it must not leave its thread.
    """
    with triton_client(server, request.timeout_seconds, request.model) as client:
        # Opens the connection, whose cost is not the model's: gevent starts its resolver for the first one.
        client.is_server_live(headers=server.headers_for("health") or None)
        return infer_with(client, server, config, request)


def infer_with(
    client: InferenceServerClient, server: Server, config: ModelConfig, request: InferenceRequest
) -> Reply:
    """Send one request over a client of this thread; foreign errors pass through."""
    inputs = [_infer_input(tensor) for tensor in request.tensors]
    began = time.perf_counter()
    result = client.infer(
        request.model,
        inputs,
        model_version=request.version,
        headers=server.headers_for("inference") or None,
        **infer_arguments(config, request),
    )
    latency_us = (time.perf_counter() - began) * 1e6
    return _reply(result, latency_us)


def _check_tensor(config: ModelConfig, spec: TensorSpec, tensor: Tensor) -> None:
    if tensor.datatype != spec.datatype:
        raise InvalidRequest(f"{spec.name} wants {spec.datatype} and got {tensor.datatype}")
    if tensor.array.dtype != numpy_dtype(spec.datatype):
        raise InvalidRequest(f"{spec.name}: values of type {tensor.array.dtype} are not {spec.datatype}")
    batching = config.max_batch_size > 0
    shape = tensor.shape[1:] if batching else tensor.shape
    if len(shape) == len(spec.dims) and all(
        want in (-1, size) for size, want in zip(shape, spec.dims, strict=True)
    ):
        return
    wanted = show_shape((-1, *spec.dims) if batching else spec.dims)
    sentence = f"{spec.name} wants the shape {wanted} and got {show_shape(tensor.shape)}"
    if batching and len(tensor.shape) == len(spec.dims):
        sentence += f": add a batch dimension: {show_shape((1, *tensor.shape))}"
    elif not batching and len(tensor.shape) == len(spec.dims) + 1:
        sentence += f": remove the batch dimension: {show_shape(tensor.shape[1:])}"
    raise InvalidRequest(sentence)


def _check_rows(config: ModelConfig, request: InferenceRequest) -> None:
    if config.max_batch_size <= 0:
        return
    rows = {tensor.name: tensor.shape[0] for tensor in request.tensors}
    if len(set(rows.values())) > 1:
        counts = ", ".join(f"{name} {count}" for name, count in rows.items())
        raise InvalidRequest(f"All inputs need the same number of rows: {counts}")
    check_row_count(config, next(iter(rows.values()), 1))


def check_row_count(config: ModelConfig, rows: int) -> None:
    """Raise InvalidRequest unless 1 <= rows <= max_batch_size."""
    if rows > config.max_batch_size:
        raise InvalidRequest(f"At most {config.max_batch_size} rows per request (got {rows})")
    if rows < 1:
        raise InvalidRequest(f"At least 1 row per request (got {rows})")


def _infer_input(tensor: Tensor) -> InferInput:
    value = InferInput(tensor.name, list(tensor.shape), tensor.datatype)
    # Binary: JSON cannot carry FP16 and BF16, and cuts integers that do not fit.
    value.set_data_from_numpy(tensor.array, binary_data=True)
    return value


def infer_arguments(config: ModelConfig, request: InferenceRequest) -> dict[str, Any]:
    """Keyword arguments for tritonclient's `infer`: the place in the sequence, and the parameters.

    A model that keeps sequences gets one of a single request unless the request says otherwise; its own id
    disturbs no other sequence.
    """
    arguments: dict[str, Any] = {
        name: value for name, value in request.parameters.items() if name in UNDERSTOOD_BY_TRITON
    }
    others = {name: value for name, value in request.parameters.items() if name not in arguments}
    if others:
        arguments["parameters"] = others
    step = request.sequence
    if step is None and config.sequence_batching:
        step = SequenceStep(new_sequence_id(), start=True, end=True)
    if step is not None:
        arguments |= {"sequence_id": step.id, "sequence_start": step.start, "sequence_end": step.end}
    return arguments


def new_sequence_id() -> int:
    """An id nobody else uses: 63 random bits, never 0."""
    return (uuid.uuid4().int >> 65) or 1


def _reply(result: InferResult, latency_us: float) -> Reply:
    body = result.get_response()
    outputs = tuple(
        Tensor(row["name"], row["datatype"], result.as_numpy(row["name"])) for row in body.get("outputs", ())
    )
    return Reply(body.get("model_name", ""), str(body.get("model_version", "")), outputs, latency_us)
