"""A request as the bytes that go out: one complete HTTP/1.1 message, built once and sent many times."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from tritonclient.http import InferenceServerClient, InferInput

from control.generate import check_generate, generate_body, generate_path
from control.inference import InferenceRequest, SequenceStep, Way, infer_arguments, new_sequence_id
from telemetry.errors import InvalidRequest
from telemetry.facts import ModelConfig
from telemetry.identity import Server
from telemetry.transport import JSON, USER_AGENT, check_headers

WAYS = (Way.INFER, Way.GENERATE)
"""Ways with one answer to one request over HTTP/1.1."""
_PORTS = {"http": 80, "https": 443}


def check_way(config: ModelConfig, request: InferenceRequest) -> None:
    """Raise InvalidRequest for a way that a load run does not send."""
    if request.way not in WAYS:
        raise InvalidRequest(
            f"A load run sends {' or '.join(WAYS)}, not {request.way.value}: choose one of them"
        )
    check_generate(config, request)


def messages(server: Server, config: ModelConfig, request: InferenceRequest, count: int) -> list[bytes]:
    """The message for each of `count` connections; one alone where all send the same.

    Connections to a model that keeps sequences each send whole sequences of one request under an id of their
    own, so that they never disturb each other's. Raises SettingsError for headers that cannot be sent.
    """
    if not config.sequence_batching:
        return [_message(server, config, request)]
    steps = (SequenceStep(new_sequence_id(), start=True, end=True) for _ in range(count))
    return [_message(server, config, replace(request, sequence=step)) for step in steps]


def host_and_port(server: Server) -> tuple[str, int, bool]:
    """Host, port and whether it is TLS."""
    parts = urlsplit(server.http_url or "")
    if not parts.hostname:
        raise InvalidRequest(f"{server.id} has no HTTP address in the settings")
    return parts.hostname, parts.port or _PORTS[parts.scheme], parts.scheme == "https"


def _message(server: Server, config: ModelConfig, request: InferenceRequest) -> bytes:
    headers = dict(server.headers_for("inference"))
    check_headers(headers)
    path, body, own = _infer(config, request) if request.way is Way.INFER else _generate(config, request)
    parts = urlsplit(server.http_url or "")
    head = {"Host": parts.netloc, "User-Agent": USER_AGENT, **own, "Content-Length": str(len(body))}
    lines = [f"POST {parts.path}{path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in (head | headers).items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def _infer(config: ModelConfig, request: InferenceRequest) -> tuple[str, bytes, dict[str, str]]:
    inputs = []
    for tensor in request.tensors:
        value = InferInput(tensor.name, list(tensor.shape), tensor.datatype)
        value.set_data_from_numpy(tensor.array, binary_data=True)
        inputs.append(value)
    body, json_bytes = InferenceServerClient.generate_request_body(inputs, **infer_arguments(config, request))
    own = {"Content-Type": "application/octet-stream"}
    if json_bytes is not None:
        own["Inference-Header-Content-Length"] = str(json_bytes)
    version = f"/versions/{request.version}" if request.version else ""
    return f"/v2/models/{request.model}{version}/infer", bytes(body), own


def _generate(config: ModelConfig, request: InferenceRequest) -> tuple[str, bytes, dict[str, str]]:
    return generate_path(request), generate_body(config, request).encode(), {"Content-Type": JSON}
