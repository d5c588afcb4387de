"""The request as a Python script that runs anywhere with tritonclient, and prints the outputs exactly."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from control.generate import generate_body, generate_path
from control.grpc_client import RESTRICTED_PREFIX
from control.inference import InferenceRequest, Tensor, Way
from control.request_code import MAX_INLINE_BYTES, Code, file_name_of, numbered, variable_of
from control.request_parameters import UNDERSTOOD_BY_TRITON
from control.tensor_files import as_raw
from telemetry.facts import ModelConfig
from telemetry.identity import Server

# In two parts, since the script reads the environment and this module does not: that is checked by this name.
_ENVIRONMENT = "os." + "environ"
_LITERALS_UP_TO = 64
"""Elements that are written out; more are base64."""


def python_script(server: Server, config: ModelConfig, requests: Sequence[InferenceRequest]) -> Code:
    """The script, and the files with tensors that are too long for it."""
    steps = numbered(config, requests)
    if steps[0].way.in_json:
        return Code(_generate_script(server, config, steps[0]))
    files: dict[str, bytes] = {}
    over_grpc = steps[0].way.over_grpc
    arrays = [_array(tensor, place, files) for place, step in enumerate(steps) for tensor in step.tensors]
    library = "grpc" if over_grpc else "http"
    lines = [
        f'"""{_doc(steps[0].model)} Needs tritonclient[{library}]."""',
        "",
        *_imports(server, arrays, library, streams=steps[0].way.streams),
        "",
        f"client = triton.InferenceServerClient({_client_arguments(server, steps[0])})",
        *(["arrived = queue.Queue()", *_stream_start(server, steps[0])] if steps[0].way.streams else []),
    ]
    texts = iter(arrays)
    for step in steps:
        lines += ["", "inputs = []"]
        for tensor in step.tensors:
            lines += [
                f"value = triton.InferInput({tensor.name!r}, {list(tensor.shape)}, {tensor.datatype!r})",
                f"value.set_data_from_numpy({next(texts)}.reshape({list(tensor.shape)}))",
                "inputs.append(value)",
            ]
        lines += _call(server, step)
    return Code("\n".join(lines) + "\n", files)


def _doc(model: str) -> str:
    """The model in a docstring: nothing in its name may end it."""
    return f"A request to {model!a}, as Tritonscope sends it.".replace("\\", "\\\\").replace('"""', "'''")


def _imports(server: Server, arrays: list[str], library: str, *, streams: bool) -> list[str]:
    text = "\n".join(arrays)
    lines = ["import base64"] if "base64." in text else []
    lines += ["import os"] if server.headers_for("inference") else []
    lines += ["import queue"] if streams else []
    lines += ["from pathlib import Path"] if "Path(" in text else []
    lines += [""] if lines else []
    lines += ["import ml_dtypes"] if "ml_dtypes." in text else []
    return [*lines, "import numpy as np", f"import tritonclient.{library} as triton"]


def _client_arguments(server: Server, request: InferenceRequest) -> str:
    if request.way.over_grpc:
        address = server.grpc_url or "HOST:8001"
        ca = f", root_certificates={server.ca_file!r}" if server.ca_file else ""
        return repr(address.split("://")[-1]) + (f", ssl=True{ca}" if address.startswith("grpcs://") else "")
    parts = urlsplit(server.http_url or "")
    limit = f"connection_timeout={request.timeout_seconds:g}, network_timeout={request.timeout_seconds:g}"
    tls = ", ssl=True" if parts.scheme == "https" else ""
    ca = f', ssl_options={{"ca_certs": {server.ca_file!r}}}' if tls and server.ca_file else ""
    return f"{parts.netloc + parts.path!r}, {limit}{tls}{ca}"


def _stream_start(server: Server, request: InferenceRequest) -> list[str]:
    headers = _headers(server, over_grpc=request.way.over_grpc)
    more = f", headers={headers}" if headers else ""
    return [
        "client.start_stream(lambda result, error: arrived.put((result, error)), "
        f"stream_timeout={request.timeout_seconds:g}{more})"
    ]


def _call(server: Server, request: InferenceRequest) -> list[str]:
    arguments = [repr(request.model), "inputs"]
    if request.version:
        arguments.append(f"model_version={request.version!r}")
    if (step := request.sequence) is not None:
        arguments += [f"sequence_id={step.id}", f"sequence_start={step.start}", f"sequence_end={step.end}"]
    own = {name: value for name, value in request.parameters.items() if name not in UNDERSTOOD_BY_TRITON}
    arguments += [f"{name}={request.parameters[name]!r}" for name in request.parameters if name not in own]
    arguments += [f"parameters={own!r}"] if own else []
    if request.way is Way.GRPC_STREAM:
        return [f"client.async_stream_infer({', '.join(arguments)})", *_STREAM_END]
    headers = _headers(server, over_grpc=request.way.over_grpc)
    arguments += [f"headers={headers}"] if headers else []
    if request.way is Way.GRPC:
        arguments.append(f"client_timeout={request.timeout_seconds:g}")
        rows = "[(row.name, row.datatype, list(row.shape)) for row in result.get_response().outputs]"
    else:
        rows = '[(row["name"], row["datatype"], row["shape"]) for row in result.get_response()["outputs"]]'
    return [
        f"result = client.infer({', '.join(arguments)})",
        f"for name, datatype, shape in {rows}:",
        "    print(name, datatype, shape, result.as_numpy(name).tolist())",
    ]


_STREAM_END = [
    "client.stop_stream()  # no request follows: waits until all responses are there",
    "while not arrived.empty():",
    "    result, error = arrived.get()",
    "    if error is not None:",
    '        print("error:", error)',
    "        continue",
    "    for row in result.get_response().outputs:",
    "        print(row.name, row.datatype, list(row.shape), result.as_numpy(row.name).tolist())",
]


def _headers(server: Server, *, over_grpc: bool = False) -> str:
    names = list(server.headers_for("inference"))
    keys = {name: name for name in names}
    if over_grpc:
        # As control.grpc_client sends them: by their own name, and as the key of a restricted protocol.
        keys = {name.lower(): name for name in names}
        keys |= {RESTRICTED_PREFIX + name.lower(): name for name in names}
    pairs = [f"{key!r}: {_ENVIRONMENT}[{variable_of(name)!r}]" for key, name in keys.items()]
    return f"{{{', '.join(pairs)}}}" if pairs else ""


def _array(tensor: Tensor, place: int, files: dict[str, bytes]) -> str:
    """An expression for the flat array; long ones are read from a file that is added to `files`."""
    raw = as_raw(tensor.datatype, tensor.array)
    if tensor.datatype == "BYTES":
        return _bytes_array(tensor, place, files, len(raw))
    dtype = "ml_dtypes.bfloat16" if tensor.datatype == "BF16" else f'"{tensor.array.dtype.str}"'
    if len(raw) > MAX_INLINE_BYTES:
        name = file_name_of(f"{tensor.name}_{place + 1}" if place else tensor.name, "raw")
        files[name] = raw
        return f"np.frombuffer(Path({name!r}).read_bytes(), dtype={dtype})"
    if tensor.array.size > _LITERALS_UP_TO or tensor.datatype == "BF16":
        return f"np.frombuffer(base64.b64decode({base64.b64encode(raw).decode()!r}), dtype={dtype})"
    values = ", ".join(_literal(value) for value in tensor.array.reshape(-1).tolist())
    return f"np.array([{values}], dtype={dtype})"


def _bytes_array(tensor: Tensor, place: int, files: dict[str, bytes], size: int) -> str:
    values = tensor.array.reshape(-1).tolist()
    if size <= MAX_INLINE_BYTES:
        return f"np.array([{', '.join(repr(value) for value in values)}], dtype=object)"
    reads = []
    for index, value in enumerate(values):
        name = file_name_of(f"{tensor.name}_{place + 1}_{index + 1}", "bin")
        files[name] = value
        reads.append(f"Path({name!r}).read_bytes()")
    return f"np.array([{', '.join(reads)}], dtype=object)"


def _literal(value: Any) -> str:
    """A number as Python writes it: NaN and infinity have no literal."""
    text = repr(value)
    return f'float("{text}")' if text in ("nan", "inf", "-inf") else text


def _generate_script(server: Server, config: ModelConfig, request: InferenceRequest) -> str:
    headers = f", headers={_headers(server)}" if server.headers_for("inference") else ""
    verify = f", verify={server.ca_file!r}" if server.ca_file else ""
    lines = [
        f'"""{_doc(request.model)} Needs requests."""',
        "",
        "import json",
        *(["import os"] if server.headers_for("inference") else []),
        "",
        "import requests",
        "",
        f"url = {f'{server.http_url}{generate_path(request)}'!r}",
        f"body = {generate_body(config, request)!r}",
        f"answer = requests.post(url, data=body.encode(), stream=True, timeout={request.timeout_seconds:g}"
        f"{headers}{verify})",
        "for line in answer.iter_lines():",
        "    if line.strip():",
        '        print(json.loads(line.removeprefix(b"data:")))',
    ]
    return "\n".join(lines) + "\n"
