"""Test requests over gRPC, where the package grpcio is installed; it is imported at the first use only.

Everything foreign becomes one of our errors here. For streams the time-out is that of the whole stream.
"""

from __future__ import annotations

import importlib.util
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tritonclient.utils import InferenceServerException

from control.inference import InferenceRequest, Reply, Tensor, infer_arguments
from control.request_errors import infer_failure
from telemetry.errors import (
    ActionFailed,
    NoAnswer,
    Restricted,
    SettingsError,
    TlsFailed,
    TritonscopeError,
    Unreachable,
)
from telemetry.facts import ModelConfig
from telemetry.identity import Server
from telemetry.restricted import restricted_sentence
from telemetry.transport import check_headers

NOT_INSTALLED = "gRPC needs the package grpcio, which is not installed here: requirements/grpc.lock has it"
NO_ADDRESS = "has no gRPC address: write grpc_url at this server in tritonscope.yml"
MAX_RESPONSES = 10_000
RESTRICTED_PREFIX = "triton-grpc-protocol-"
"""What Triton puts before the key of a restricted protocol."""
_HTTP_STATUS = {
    "INVALID_ARGUMENT": 400, "ALREADY_EXISTS": 400, "CANCELLED": 400, "UNKNOWN": 400, "NOT_FOUND": 404,
    "INTERNAL": 500, "UNIMPLEMENTED": 501, "UNAVAILABLE": 503,
}  # fmt: skip
_END = object()


def installed() -> bool:
    """True if requests can be sent over gRPC."""
    return importlib.util.find_spec("grpc") is not None


def refusal(server: Server) -> str:
    """Why this server cannot be asked over gRPC; "" if it can."""
    if not installed():
        return NOT_INSTALLED
    return "" if server.grpc_url else f"{server.id} {NO_ADDRESS}"


def infer_over_grpc(server: Server, config: ModelConfig, request: InferenceRequest) -> Reply:
    """Send one request and wait; raises ActionFailed or a SourceError."""
    with _client(server, request) as (library, client):
        inputs = [_input(library, tensor) for tensor in request.tensors]
        # Opens the connection, whose cost is not the model's.
        client.is_server_live(headers=_metadata(server), client_timeout=request.timeout_seconds)
        began = time.perf_counter()
        result = client.infer(
            request.model,
            inputs,
            model_version=request.version,
            headers=_metadata(server),
            client_timeout=request.timeout_seconds,
            **infer_arguments(config, request),
        )
        return _reply(result, (time.perf_counter() - began) * 1e6)


def stream_over_grpc(server: Server, config: ModelConfig, request: InferenceRequest) -> Iterator[Reply]:
    """Send one request and yield its responses as they arrive; an error response is a Reply with `error`."""
    arrived: queue.Queue[Any] = queue.Queue()
    with _client(server, request) as (library, client):
        inputs = [_input(library, tensor) for tensor in request.tensors]
        client.is_server_live(headers=_metadata(server), client_timeout=request.timeout_seconds)
        client.start_stream(
            callback=lambda result, error: arrived.put((result, error, time.perf_counter())),
            stream_timeout=request.timeout_seconds,
            headers=_metadata(server),
        )
        began = time.perf_counter()
        client.async_stream_infer(
            request.model,
            inputs,
            model_version=request.version,
            enable_empty_final_response=True,
            **infer_arguments(config, request),
        )
        ending = threading.Thread(target=_end, args=(client, arrived), name="grpc-stream-end", daemon=True)
        ending.start()
        count = 0
        while (event := arrived.get()) is not _END:
            result, error, at = event
            reply = _streamed(result, error, (at - began) * 1e6)
            count += 1
            if reply is not None and count <= MAX_RESPONSES:
                yield reply
        ending.join()


def _end(client: Any, arrived: queue.Queue[Any]) -> None:
    """Say that no request follows, and wait until the server has sent all: not every stream says its last."""
    client.stop_stream()
    arrived.put(_END)


def _streamed(result: Any, error: Any, latency_us: float) -> Reply | None:
    if error is not None:
        if (error.status() or "").removeprefix("StatusCode."):
            raise error
        return Reply("", "", (), latency_us, error=error.message() or "")
    response = result.get_response()
    final = "triton_final_response" in response.parameters and (
        response.parameters["triton_final_response"].bool_param
    )
    # The end is often told by a response without outputs of its own.
    return None if final and not response.outputs else _reply(result, latency_us)


@contextmanager
def _client(server: Server, request: InferenceRequest) -> Iterator[tuple[Any, Any]]:
    why = refusal(server)
    if why or server.grpc_url is None:
        raise SettingsError(why)
    check_headers(server.headers)
    # Here, not above: the package is optional, and heavy.
    import tritonclient.grpc as library

    where = server.grpc_url.split("://")[-1]
    client = library.InferenceServerClient(
        where, ssl=server.grpc_url.startswith(("https://", "grpcs://")), root_certificates=server.ca_file
    )
    try:
        yield library, client
    except TritonscopeError:
        raise
    except InferenceServerException as error:
        raise grpc_error(error, where, request.timeout_seconds, request.model) from error
    finally:
        client.close()


def grpc_error(
    error: InferenceServerException, where: str, timeout_seconds: float, model: str
) -> TritonscopeError:
    """One of ours for what gRPC or the server said."""
    text, code = error.message() or "", (error.status() or "").removeprefix("StatusCode.")
    if code == "DEADLINE_EXCEEDED":
        return NoAnswer(
            f"No answer from {where} within {timeout_seconds:g} s (the server may still run the request). "
            "Wait longer with a larger time-out; a model whose execute returns nothing never answers",
            detail=text,
        )
    if code in ("PERMISSION_DENIED", "UNAUTHENTICATED") or "This protocol is restricted" in text:
        return Restricted(restricted_sentence(where, "inference", 403, text), detail=text, status=403)
    if code == "UNAVAILABLE" and "handshake" in text.lower():
        return TlsFailed(
            f"TLS with {where} failed: grpcs:// for a server without TLS, or a certificate nobody trusts",
            detail=text,
        )
    if code == "UNAVAILABLE" and ("failed to connect" in text or "Socket closed" in text):
        return Unreachable(
            f"{where} is not reachable over gRPC: is it the gRPC port, usually 8001?", detail=text
        )
    status = _HTTP_STATUS.get(code)
    return ActionFailed(infer_failure(model, text, status), detail=text or None, status=status)


def _metadata(server: Server) -> dict[str, str] | None:
    named = {name.lower(): value for name, value in server.headers_for("inference").items()}
    keys = {f"{RESTRICTED_PREFIX}{name}": value for name, value in named.items()}
    return {**named, **keys} or None


def _input(library: Any, tensor: Tensor) -> Any:
    value = library.InferInput(tensor.name, list(tensor.shape), tensor.datatype)
    value.set_data_from_numpy(tensor.array)
    return value


def _reply(result: Any, latency_us: float) -> Reply:
    response = result.get_response()
    outputs = tuple(Tensor(row.name, row.datatype, result.as_numpy(row.name)) for row in response.outputs)
    return Reply(response.model_name, response.model_version, outputs, latency_us)
