"""The request as commands somebody can run elsewhere: curl, Python with tritonclient, perf_analyzer.

Header values never stand in them: they are read from environment variables. What is too long for a text is a
file beside it, with its exact bytes.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from control.generate import NOT_IN_JSON, generate_body, generate_path
from control.inference import InferenceRequest, SequenceStep, Tensor, Way
from control.tensor_files import as_raw, is_text, json_values
from control.tensors import AnyArray
from telemetry.facts import ModelConfig
from telemetry.identity import Server

MAX_INLINE_BYTES = 16_384
"""A longer body is a file of its own."""
BINARY_HEADER = "Inference-Header-Content-Length"
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Code:
    """A text to copy, and the files (by name) it needs in the same folder."""

    text: str
    files: dict[str, bytes] = field(default_factory=dict)


def numbered(config: ModelConfig, requests: Sequence[InferenceRequest]) -> tuple[InferenceRequest, ...]:
    """The requests as they are shown: the steps of a sequence have an id that stays while they stay."""
    if not config.sequence_batching:
        return tuple(requests)
    mark = 0
    for request in requests:
        for tensor in request.tensors:
            mark = zlib.crc32(as_raw(tensor.datatype, tensor.array), mark)
    last = len(requests) - 1
    return tuple(
        replace(request, sequence=SequenceStep(mark or 1, start=place == 0, end=place == last))
        for place, request in enumerate(requests)
    )


def curl(server: Server, config: ModelConfig, requests: Sequence[InferenceRequest]) -> Code:
    """One curl command for each request; "" for gRPC, which curl does not speak."""
    commands, files = [], {}
    if requests[0].way.over_grpc:
        return Code("")
    for place, request in enumerate(numbered(config, requests)):
        name = f"request_{place + 1}.bin" if len(requests) > 1 else "request.bin"
        command, body = _curl(server, config, request, name)
        commands.append(command)
        if body is not None:
            files[name] = body
    return Code("\n".join(commands), files)


def infer_body(config: ModelConfig, request: InferenceRequest) -> tuple[bytes, int | None]:
    """The body of an infer call, and the length of its JSON part if binary data follow it (else None)."""
    as_text = all(_in_json(tensor) for tensor in request.tensors)
    head: dict[str, Any] = {"inputs": [_input(tensor, as_text) for tensor in request.tensors]}
    parameters: dict[str, Any] = dict(request.parameters)
    if (step := request.sequence) is not None:
        parameters |= {"sequence_id": step.id, "sequence_start": step.start, "sequence_end": step.end}
    if binary_answer(config):
        parameters["binary_data_output"] = True
    if parameters:
        head["parameters"] = parameters
    written = json.dumps(head).encode()
    if as_text:
        return written, None
    return written + b"".join(as_raw(tensor.datatype, tensor.array) for tensor in request.tensors), len(
        written
    )


def binary_answer(config: ModelConfig) -> bool:
    """True if Triton cannot write this model's outputs as JSON."""
    return any(spec.datatype in NOT_IN_JSON for spec in config.outputs)


def perf_analyzer(server: Server, config: ModelConfig, requests: Sequence[InferenceRequest]) -> Code:
    """A load with this request, 1 to 8 at a time. Rows and steps become entries of its input file."""
    first = requests[0]
    rows = first.tensors[0].shape[0] if config.max_batch_size > 0 and first.tensors else 1
    entries = [entry for request in requests for entry in _entries(config, request)]
    data = json.dumps({"data": [entries] if config.sequence_batching else entries})
    over_grpc = first.way.over_grpc or config.decoupled
    address = server.grpc_url or "HOST:8001" if over_grpc else urlsplit(server.http_url or "").netloc
    words = ["perf_analyzer", "-m", first.model, *(("-x", first.version) if first.version else ())]
    words += ["-u", address.removeprefix("grpcs://"), "-i", "grpc" if over_grpc else "http", "-b", str(rows)]
    words += ["--concurrency-range", "1:8", "--input-data", "input.json"]
    if config.decoupled:
        words.append("--streaming")
    if config.sequence_batching:
        words += ["--sequence-length", str(len(requests))]
    command = shlex.join(words) + "".join(f" -H {_header(name)}" for name in server.headers_for("inference"))
    if len(data) > MAX_INLINE_BYTES:
        return Code(command, {"input.json": data.encode()})
    return Code(f"cat > input.json <<'END'\n{data}\nEND\n{command}")


def variable_of(header: str) -> str:
    """The environment variable that stands for a header's value: TRITON_ADMIN_KEY for admin-key."""
    return "TRITON_" + re.sub(r"[^A-Z0-9]+", "_", header.upper()).strip("_")


def file_name_of(name: str, ending: str) -> str:
    """A harmless file name for a tensor, whatever its name."""
    return f"{_NO_NAME.sub('_', name).strip('.') or 'tensor'}.{ending}"


def _curl(
    server: Server, config: ModelConfig, request: InferenceRequest, file: str
) -> tuple[str, bytes | None]:
    if request.way.in_json:
        body, length, path = generate_body(config, request).encode(), None, generate_path(request)
    else:
        body, length = infer_body(config, request)
        version = f"/versions/{request.version}" if request.version else ""
        path = f"/v2/models/{request.model}{version}/infer"
    words = ["curl", "-sS", "--max-time", f"{request.timeout_seconds:g}"]
    if request.way is Way.GENERATE_STREAM:
        # Events are shown as they arrive.
        words.append("-N")
    words += ["--cacert", server.ca_file] if server.ca_file else []
    kind = "application/json" if length is None else "application/octet-stream"
    words += ["-H", f"Content-Type: {kind}"]
    words += ["-H", f"{BINARY_HEADER}: {length}"] if length is not None else []
    words += ["--output", "answer.bin"] if binary_answer(config) and not request.way.in_json else []
    command = shlex.join(words) + "".join(f" -H {_header(name)}" for name in server.headers_for("inference"))
    url = shlex.quote(f"{server.http_url}{path}")
    if len(body) > MAX_INLINE_BYTES:
        return f"{command} --data-binary @{file} {url}", body
    if length is None:
        return f"{command} -d {shlex.quote(body.decode())} {url}", None
    text = base64.encodebytes(body).decode().rstrip()
    return f"base64 -d <<'END' | {command} --data-binary @- {url}\n{text}\nEND", None


def _header(name: str) -> str:
    """A header whose value the shell takes from the environment."""
    return f'"{name}: ${{{variable_of(name)}}}"'


def _in_json(tensor: Tensor) -> bool:
    if tensor.datatype in NOT_IN_JSON:
        return False
    return tensor.datatype != "BYTES" or is_text(tensor.array)


def _input(tensor: Tensor, as_text: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": tensor.name, "shape": list(tensor.shape), "datatype": tensor.datatype
    }  # fmt: skip
    if as_text:
        return row | {"data": json_values(tensor.array)}
    return row | {"parameters": {"binary_data_size": len(as_raw(tensor.datatype, tensor.array))}}


def _entries(config: ModelConfig, request: InferenceRequest) -> list[dict[str, Any]]:
    if config.max_batch_size <= 0:
        return [{tensor.name: _content(tensor, tensor.array) for tensor in request.tensors}]
    rows = request.tensors[0].shape[0] if request.tensors else 0
    return [
        {tensor.name: _content(tensor, tensor.array[row]) for tensor in request.tensors}
        for row in range(rows)
    ]


def _content(tensor: Tensor, array: AnyArray) -> dict[str, Any]:
    """perf_analyzer takes lists, or base64 of the bytes as they travel."""
    if _in_json(tensor):
        return {"content": json_values(array), "shape": list(array.shape)}
    raw = base64.b64encode(as_raw(tensor.datatype, array)).decode()
    return {"content": {"b64": raw}, "shape": list(array.shape)}
