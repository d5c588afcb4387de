"""Load failures by class, on the texts of a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from telemetry.reasons import ReasonClass, reason_class, reason_line

INDEX = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "repository_index_broken.json").read_text(encoding="utf-8")
)
REASONS = {row["name"]: row["reason"] for row in INDEX if row.get("reason")}


def test_every_reason_of_the_broken_repository_gets_its_class() -> None:
    assert {name: reason_class(text) for name, text in REASONS.items()} == {
        "badwarm": ReasonClass.WARMUP_FAILED,
        "exitinit": ReasonClass.STUB_DIED,
        "gpukind": ReasonClass.GPU_PLACEMENT,
        "gpukind7": ReasonClass.GPU_PLACEMENT,
        "importfail": ReasonClass.IMPORT_FAILED,
        "initraise": ReasonClass.INITIALIZE_FAILED,
        "noclass": ReasonClass.IMPORT_FAILED,
        "onnx": ReasonClass.BACKEND_MISSING,
        "onnxnocfg": ReasonClass.BACKEND_MISSING,
        "oominit": ReasonClass.OUT_OF_MEMORY,
        "partial": ReasonClass.INITIALIZE_FAILED,
        "syntax": ReasonClass.IMPORT_FAILED,
        "trtplat": ReasonClass.BACKEND_MISSING,
    }
    assert reason_class("model appears in two or more repositories") is ReasonClass.DUPLICATE_NAME
    assert reason_class("something nobody has seen") is ReasonClass.OTHER


@pytest.mark.parametrize(
    "text",
    [
        "Internal: onnx runtime error 6: Failed to allocate memory for requested buffer of size 4294967296",
        "Internal: unable to create TensorRT context: CUDA error 2: out of memory",
        "Internal: std::bad_alloc",
    ],
)
def test_memory_runs_out_in_many_words(text: str) -> None:
    assert reason_class(text) is ReasonClass.OUT_OF_MEMORY


def test_the_line_is_what_the_model_said() -> None:
    assert reason_line(REASONS["initraise"]) == "RuntimeError: cannot find weights"
    assert reason_line(REASONS["badwarm"]).startswith("expected 2 inputs but got 0 inputs")
    assert reason_line("") == ""
