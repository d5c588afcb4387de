"""Inference requests of the example models, as bytes for POST /v2/models/<model>/infer (binary protocol)."""

from __future__ import annotations

import array
import json
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_IMAGE_VALUES = 3 * 224 * 224
_IMAGES_KEPT = 4

_QUESTIONS_AND_CONTEXTS = (
    (
        "Which port serves the metrics?",
        "Triton listens on three ports. Requests over HTTP go to port 8000 and over gRPC to port 8001. "
        "Prometheus metrics are exposed on port 8002.",
    ),
    (
        "What does dynamic batching do?",
        "A model can run in several instances. Dynamic batching joins requests that arrive close together "
        "into one execution. The response cache answers a repeated request without running the model.",
    ),
    (
        "How long may a request wait for others?",
        "The largest batch is limited by the memory of the card. A request waits at most the configured "
        "queue delay for others to join it. Versions are folders named by a number.",
    ),
    (
        "Why was the model refused?",
        "The server was started on Monday. The second model needed more memory than was left and failed to "
        "load. Everyone else kept working.",
    ),
)

_FILES = (
    '#!/bin/bash\nset -euo pipefail\nfor name in *.txt; do\n  echo "$name"\ndone\nexit 0\n',
    "import sys\n\n\ndef main():\n    for line in sys.stdin:\n        print(line.strip())\n\n\nmain()\n",
    '{"name": "resnet18", "versions": ["1"], "platform": "onnxruntime", "inputs": [{"name": "input"}]}\n',
    "<!DOCTYPE html>\n<html><head><title>Hello</title></head><body><p>Hello, world</p></body></html>\n",
    "SELECT model, count(*) FROM requests WHERE seen > now() - interval '1 hour' GROUP BY model;\n",
)


@dataclass(frozen=True, slots=True)
class InferRequest:
    """One request: its body and the headers that tell Triton where the JSON ends and the tensors begin."""

    body: bytes
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Tensor:
    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes


def infer_request(model: str, rows: int, chance: random.Random) -> InferRequest:
    """A valid request of one of the example models with so many rows; KeyError for an unknown model."""
    return _encode(_TENSORS[model](rows, chance))


def known_models() -> tuple[str, ...]:
    """The models requests can be made for."""
    return tuple(_TENSORS)


def _encode(tensors: Sequence[_Tensor]) -> InferRequest:
    inputs = [
        {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": tensor.shape,
            "parameters": {"binary_data_size": len(tensor.data)},
        }
        for tensor in tensors
    ]
    header = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    headers = {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(header)),
    }
    return InferRequest(header + b"".join(tensor.data for tensor in tensors), headers)


def _float_tensor(name: str, shape: tuple[int, ...], values: Sequence[float]) -> _Tensor:
    return _Tensor(name, "FP32", shape, array.array("f", values).tobytes())


def _text_tensor(name: str, texts: Sequence[str]) -> _Tensor:
    encoded = [text.encode() for text in texts]
    data = b"".join(struct.pack("<I", len(text)) + text for text in encoded)
    return _Tensor(name, "BYTES", (len(texts), 1), data)


def _sum(rows: int, chance: random.Random) -> list[_Tensor]:
    return [
        _float_tensor(name, (rows, 1), [chance.uniform(0, 100) for _ in range(rows)])
        for name in ("INPUT_A", "INPUT_B")
    ]


def _mean(rows: int, chance: random.Random) -> list[_Tensor]:
    return [_float_tensor("INPUT", (rows, 4), [chance.uniform(0, 100) for _ in range(rows * 4)])]


class _Images:
    """A few random images, made once: drawing 150,000 numbers a request would cost more than sending them."""

    def __init__(self) -> None:
        self._images: list[bytes] = []

    def rows(self, rows: int, chance: random.Random) -> bytes:
        while len(self._images) < _IMAGES_KEPT:
            # Normalised pixel values, evenly spread.
            pixels = array.array("f", (chance.uniform(-2, 2) for _ in range(_IMAGE_VALUES)))
            self._images.append(pixels.tobytes())
        return b"".join(chance.choices(self._images, k=rows))


_images = _Images()


def _image(name: str) -> Callable[[int, random.Random], list[_Tensor]]:
    return lambda rows, chance: [_Tensor(name, "FP32", (rows, 3, 224, 224), _images.rows(rows, chance))]


def _question(rows: int, chance: random.Random) -> list[_Tensor]:
    pairs = chance.choices(_QUESTIONS_AND_CONTEXTS, k=rows)
    return [
        _text_tensor("QUESTION", [question for question, _ in pairs]),
        _text_tensor("CONTEXT", [context for _, context in pairs]),
    ]


def _file(rows: int, chance: random.Random) -> list[_Tensor]:
    return [_text_tensor("DATA", chance.choices(_FILES, k=rows))]


_TENSORS: dict[str, Callable[[int, random.Random], list[_Tensor]]] = {
    "batch_add_model": _sum,
    "batch_cost_model": _mean,
    "resnet18": _image("input"),
    "ensemble_pipeline": _image("IMAGE"),
    "bert_qa": _question,
    "filetype": _file,
}
