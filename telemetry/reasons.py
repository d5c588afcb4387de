"""Why a model failed to load: a bounded class and one readable line from Triton's free text.

The texts are those of Triton's core and python backend; the class is what rules and exported series may
carry, since free text must not become a label.
"""

from __future__ import annotations

import re
from enum import StrEnum


class ReasonClass(StrEnum):
    """Kind of a load failure; OTHER for a text none of the patterns knows."""

    BACKEND_MISSING = "backend_missing"
    GPU_PLACEMENT = "gpu_placement"
    OUT_OF_MEMORY = "out_of_memory"
    IMPORT_FAILED = "import_failed"
    STUB_DIED = "stub_died"
    WARMUP_FAILED = "warmup_failed"
    DUPLICATE_NAME = "duplicate_name"
    SHAPES = "shapes"
    INITIALIZE_FAILED = "initialize_failed"
    OTHER = "other"


_PATTERNS: tuple[tuple[ReasonClass, re.Pattern[str]], ...] = (
    (
        ReasonClass.OUT_OF_MEMORY,
        re.compile(r"out of memory|MemoryError|bad_alloc|failed to allocate memory", re.IGNORECASE),
    ),
    (ReasonClass.BACKEND_MISSING, re.compile(r"unable to find (?:backend|shared) library")),
    (ReasonClass.GPU_PLACEMENT, re.compile(r"no GPUs are available|invalid or unsupported gpu id")),
    (ReasonClass.DUPLICATE_NAME, re.compile(r"appears in two or more repositories")),
    (
        ReasonClass.SHAPES,
        re.compile(
            r"the model expects \d+ dimensions|but the model configuration specifies|unexpected shape"
        ),
    ),
    (ReasonClass.STUB_DIED, re.compile(r"Stub process '.*' is not healthy")),
    (
        ReasonClass.WARMUP_FAILED,
        re.compile(r"expected \d+ inputs but got \d+ inputs|warm-?up", re.IGNORECASE),
    ),
    (
        ReasonClass.IMPORT_FAILED,
        re.compile(r"ModuleNotFoundError|ImportError|SyntaxError|has no attribute 'TritonPythonModel'"),
    ),
    (ReasonClass.INITIALIZE_FAILED, re.compile(r"\b[A-Za-z]+(?:Error|Exception)\b")),
)
_STATUS_PREFIX = re.compile(r"^(?:Internal|Invalid argument|Unavailable|Not found|Unsupported|Unknown): ")
_REQUEST_ID = re.compile(r"^\[request id: [^\]]*\] ")


def reason_class(reason: str) -> ReasonClass:
    """The class of the index's reason text."""
    return next((kind for kind, pattern in _PATTERNS if pattern.search(reason)), ReasonClass.OTHER)


def reason_line(reason: str) -> str:
    """The first line of the text without Triton's status word, request id and traceback."""
    first = next((line.strip() for line in reason.splitlines() if line.strip()), "")
    return _REQUEST_ID.sub("", _STATUS_PREFIX.sub("", first)).rstrip(" ;.")
