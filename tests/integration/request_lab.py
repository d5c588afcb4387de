"""What the tests of test requests share: a real server with a model for every way, and gRPC."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from control.inference import Tensor
from sandbox.environment import find_install
from sandbox.errors import SandboxError
from tests.integration.write_lab import Lab, started_lab

MODELS = ("identity", "short_queue", "sequence_sum", "repeat_text", "moods", "moods_pipeline")


@contextmanager
def started_request_lab() -> Iterator[Lab]:
    """The lab with its models."""
    with started_lab("batch_add_model", extra=MODELS) as lab:
        yield lab


def find_grpc(folder: Path) -> bool:
    """Make `import grpc` possible: installed, or lent by the embedded server's environment.

    The package is an optional one of the product; its code is the same wherever it lies.
    """
    if importlib.util.find_spec("grpc") is not None:
        return True
    try:
        install = find_install()
    except SandboxError:
        return False
    lent = install.site_packages / "grpc"
    if install.python_version != f"{sys.version_info.major}.{sys.version_info.minor}" or not lent.is_dir():
        return False
    (folder / "grpc").symlink_to(lent)
    sys.path.append(str(folder))
    importlib.invalidate_caches()
    return importlib.util.find_spec("grpc") is not None


def text(name: str, *values: bytes) -> Tensor:
    """A BYTES tensor of these elements."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return Tensor(name, "BYTES", array)


def number(name: str, datatype: str, *values: int) -> Tensor:
    """A flat tensor of whole numbers."""
    return Tensor(name, datatype, np.array(values, dtype=datatype.lower()))
