"""Fixtures of the integration tests: one real tritonserver per test session, shared by all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox import Sandbox, SandboxOptions


@pytest.fixture(scope="session")
def triton() -> Iterator[Sandbox]:
    """A real tritonserver with every example model and the simulated GPU, on free ports.

    A test that unloads a model or stops the server puts it right again, or starts a Sandbox of its own.
    """
    with Sandbox(SandboxOptions(http_port=0, grpc_port=0, metrics_port=0)) as server:
        yield server
