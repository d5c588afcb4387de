"""Golden requests of the sandbox's example models, written into the run's folder at every start.

Values where the model computes them, shapes and finiteness where random weights do. The bounds are wide: the
machine may be busy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from control.expected_answers import Expected, ExpectedOutput, Mode
from control.inference import InferenceRequest, Tensor
from control.saved_requests import SavedRequests, saved_from
from control.tensors import AnyArray

BOUND_US = 5e6
TIMEOUT_SECONDS = 10.0
_NAME = "shipped with the sandbox"
_IMAGE = (1, 3, 224, 224)


def ship(folder: Path, server: str, models: Iterable[str]) -> None:
    """Write the golden requests of those of `models` that have one into this folder."""
    store = SavedRequests(folder, math.inf)
    for model in models:
        if model in _SHIPPED:
            tensors, expected = _SHIPPED[model]
            request = InferenceRequest(server, model, "", tensors, TIMEOUT_SECONDS)
            store.save(saved_from(_NAME, "the sandbox", (request,), expected))


def _floats(name: str, *rows: list[float]) -> Tensor:
    return Tensor(name, "FP32", np.array(rows, dtype=np.float32))


def _text(name: str, text: str) -> Tensor:
    array = np.empty((1, 1), dtype=object)
    array[0, 0] = text.encode()
    return Tensor(name, "BYTES", array)


def _expected(mode: Mode, *outputs: tuple[str, str, tuple[int, ...], AnyArray | None]) -> Expected:
    return Expected(mode, (tuple(ExpectedOutput(*output) for output in outputs),), latency_bound_us=BOUND_US)


def _values(*rows: list[float]) -> AnyArray:
    return np.array(rows, dtype=np.float32)


def _one_hot(place: int) -> list[float]:
    return [float(index == place) for index in range(1000)]


def _picture(name: str) -> Tensor:
    """Seeded values between 0 and 1, shape [1, 3, 224, 224]."""
    return Tensor(name, "FP32", np.random.default_rng(1).random(_IMAGE, dtype=np.float32))


_SHIPPED: dict[str, tuple[tuple[Tensor, ...], Expected]] = {
    "batch_add_model": (
        (_floats("INPUT_A", [1.5]), _floats("INPUT_B", [2.25])),
        _expected(Mode.TOLERANCE, ("OUTPUT_SUM", "FP32", (1, 1), _values([3.75]))),
    ),
    "batch_cost_model": (
        (_floats("INPUT", [1.0, 2.0, 3.0, 6.0]),),
        _expected(Mode.TOLERANCE, ("OUTPUT_MEAN", "FP32", (1, 1), _values([3.0]))),
    ),
    "resnet18": ((_picture("input"),), _expected(Mode.SHAPE, ("output", "FP32", (1, 1000), None))),
    "label_head": (
        (_floats("emb", _one_hot(7)),),
        _expected(Mode.EXACT, ("label", "INT64", (1, 1), np.array([[7]], dtype=np.int64))),
    ),
    "ensemble_pipeline": ((_picture("IMAGE"),), _expected(Mode.SHAPE, ("LABEL", "INT64", (1, 1), None))),
    "bert_qa": (
        (
            _text("QUESTION", "What colour is the sky?"),
            _text("CONTEXT", "Grass is green. The sky is blue on a clear day."),
        ),
        _expected(Mode.SHAPE, ("ANSWER", "BYTES", (1, 1), None), ("SCORE", "FP32", (1, 1), None)),
    ),
}
