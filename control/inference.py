"""One inference request: checked before it is sent, sent binary over HTTP, its answer exact."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any

from tritonclient.http import InferenceServerClient, InferInput, InferResult

from control.policy import NOT_ADDRESSABLE
from control.tensors import AnyArray, numpy_dtype, show_shape
from control.triton_client import triton_client
from telemetry.errors import InvalidRequest
from telemetry.facts import ModelConfig, TensorSpec
from telemetry.identity import Server, is_http_addressable

DECOUPLED = "This model streams (decoupled); HTTP infer is not possible. Nothing was sent."
DEFAULT_TIMEOUT_SECONDS = 30.0


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
class InferenceRequest:
    """One request. `version` "" = the newest ready one. The time-out is for each step on the network."""

    server: str
    model: str
    version: str
    tensors: tuple[Tensor, ...]
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer. `latency_us` is what the client waited, over an open connection."""

    model: str
    version: str
    outputs: tuple[Tensor, ...]
    latency_us: float


def check_request(config: ModelConfig, request: InferenceRequest) -> None:
    """Raise InvalidRequest for what the server would refuse, or worse, take wrongly."""
    if not is_http_addressable(request.model):
        raise InvalidRequest(NOT_ADDRESSABLE)
    if config.decoupled:
        raise InvalidRequest(DECOUPLED)
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
        client.is_server_live(headers=dict(server.headers) or None)
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
        headers=dict(server.headers) or None,
        **_sequence(config),
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


def _sequence(config: ModelConfig) -> dict[str, Any]:
    """A model that keeps sequences gets one of a single request; its own id disturbs no other sequence."""
    if not config.sequence_batching:
        return {}
    return {"sequence_id": uuid.uuid4().int >> 65, "sequence_start": True, "sequence_end": True}


def _reply(result: InferResult, latency_us: float) -> Reply:
    body = result.get_response()
    outputs = tuple(
        Tensor(row["name"], row["datatype"], result.as_numpy(row["name"])) for row in body.get("outputs", ())
    )
    return Reply(body.get("model_name", ""), str(body.get("model_version", "")), outputs, latency_us)
