"""Triton's generate extension: JSON over HTTP, one response or a stream of them, also of decoupled models.

What it cannot carry is refused before sending: FP16 and BF16, bytes that are not text, more than one
dimension or row. Its answers name neither datatypes nor shapes: they are read by the model's
configuration, as flat lists.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from control.inference import InferenceRequest, Reply, Tensor, Way
from control.request_errors import infer_failure
from control.tensors import AnyArray, array_of_values, show_shape
from telemetry.errors import ActionFailed, InvalidRequest, ServerRefused, SourceError, WrongContent
from telemetry.facts import ModelConfig
from telemetry.identity import Server
from telemetry.transport import Transport, host_of

NOT_IN_JSON = ("FP16", "BF16")
MAX_RESPONSES = 10_000
"""A stream longer than this is cut: nobody reads it, and it would fill the memory."""
_OWN_KEYS = frozenset({"model_name", "model_version", "id", "error"})
_DATA = "data:"


def check_generate(config: ModelConfig, request: InferenceRequest) -> None:
    """Raise InvalidRequest for what generate cannot carry; nothing to say of other ways."""
    if not request.way.in_json:
        return
    if config.sequence_batching:
        raise InvalidRequest(
            f"{request.model} keeps sequences, which generate cannot carry: use infer or gRPC"
        )
    for tensor in request.tensors:
        _check_tensor(tensor, batching=config.max_batch_size > 0)


def generate_body(config: ModelConfig, request: InferenceRequest) -> str:
    """The JSON of the request: `{"TEXT": "hello", "parameters": {...}}`; single values without brackets."""
    body: dict[str, object] = {tensor.name: _json_value(tensor.array) for tensor in request.tensors}
    if request.parameters:
        body["parameters"] = dict(request.parameters)
    return json.dumps(body)


def generate_path(request: InferenceRequest) -> str:
    """The path of the call: `/v2/models/M/generate_stream`."""
    version = f"/versions/{request.version}" if request.version else ""
    verb = "generate_stream" if request.way is Way.GENERATE_STREAM else "generate"
    return f"/v2/models/{request.model}{version}/{verb}"


def responses(server: Server, config: ModelConfig, request: InferenceRequest) -> Iterator[Reply]:
    """Send the request and yield the responses as they arrive; raises ActionFailed or SourceError.

    An error response in the middle of a stream is a Reply with its `error`; a first or only one is raised.
    """
    url = f"{server.http_url}{generate_path(request)}"
    transport = Transport(server, timeout_seconds=request.timeout_seconds)
    began = time.perf_counter()
    try:
        for count, event in enumerate(_events(transport, url, config, request)):
            if count >= MAX_RESPONSES:
                return
            reply = _reply(config, event, (time.perf_counter() - began) * 1e6, host_of(url))
            if reply.error and not request.way.streams:
                raise ActionFailed(
                    infer_failure(request.model, reply.error, 200), detail=reply.error, status=200
                )
            yield reply
    except (ServerRefused, SourceError) as error:
        raise _as_failure(error, request.model) from error
    finally:
        transport.close()


def _events(
    transport: Transport, url: str, config: ModelConfig, request: InferenceRequest
) -> Iterator[dict[str, Any]]:
    lines = transport.post_lines(url, generate_body(config, request), timeout_seconds=request.timeout_seconds)
    if not request.way.streams:
        yield _parsed("\n".join(lines), url)
        return
    for line in lines:
        if line.startswith(_DATA):
            yield _parsed(line.removeprefix(_DATA), url)


def _parsed(text: str, url: str) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongContent(f"{host_of(url)} sent an event that is not JSON", detail=text[:4000]) from error
    if not isinstance(event, dict):
        raise WrongContent(f"{host_of(url)} sent an event that is not an object", detail=text[:4000])
    return event


def _as_failure(error: SourceError, model: str) -> SourceError | ActionFailed:
    """An HTTP error answer in the words of the table; anything else is a sentence already."""
    if error.status in (None, 401, 403):
        return error
    text = (error.detail or "").strip().removeprefix(_DATA).strip()
    return ActionFailed(infer_failure(model, text, error.status), detail=text or None, status=error.status)


def _reply(config: ModelConfig, event: dict[str, Any], latency_us: float, where: str) -> Reply:
    error = event.get("error")
    model, version = str(event.get("model_name", config.name)), str(event.get("model_version", ""))
    if isinstance(error, str):
        return Reply(model, version, (), latency_us, error=error)
    known = {spec.name: spec.datatype for spec in config.outputs}
    outputs = []
    # In the order of the configuration: the answer sorts its keys.
    for name in (*known, *(key for key in event if key not in known and key not in _OWN_KEYS)):
        if name in event and name in known:
            values = event[name] if isinstance(event[name], list) else [event[name]]
            outputs.append(Tensor(name, known[name], _array(name, known[name], values, where)))
    return Reply(model, version, tuple(outputs), latency_us)


def _array(name: str, datatype: str, values: list[Any], where: str) -> AnyArray:
    try:
        return array_of_values(name, datatype, values)
    except InvalidRequest as error:
        raise WrongContent(f"{where} answered with other values than the model's configuration says: "
                           f"{error.sentence}") from error  # fmt: skip


def _check_tensor(tensor: Tensor, *, batching: bool) -> None:
    if tensor.datatype in NOT_IN_JSON:
        raise InvalidRequest(
            f"{tensor.name} is {tensor.datatype}, which generate cannot carry: use infer or gRPC"
        )
    rank = len(tensor.shape) - (1 if batching else 0)
    if rank > 1:
        raise InvalidRequest(
            f"{tensor.name} has the shape {show_shape(tensor.shape)}: generate carries single values and "
            "flat lists; use infer or gRPC"
        )
    if batching and tensor.shape[0] != 1:
        raise InvalidRequest(f"{tensor.name} has {tensor.shape[0]} rows: generate sends exactly one")
    if tensor.datatype == "BYTES":
        for value in tensor.array.reshape(-1).tolist():
            try:
                value.decode("utf-8")
            except UnicodeDecodeError:
                raise InvalidRequest(
                    f"{tensor.name} holds bytes that are no UTF-8 text: generate cannot carry them, infer can"
                ) from None


def _json_value(array: AnyArray) -> object:
    flat = [value.decode() if isinstance(value, bytes) else value for value in _plain(array)]
    return flat[0] if len(flat) == 1 else flat


def _plain(array: AnyArray) -> list[Any]:
    flat = array.reshape(-1)
    # float() of an FP32 is the same number as a double: nothing is lost on the way through JSON.
    return [float(value) for value in flat] if flat.dtype.kind == "f" else list(np.asarray(flat).tolist())
