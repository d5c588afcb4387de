"""Fixtures of the integration tests: one real tritonserver per test session, shared by all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from sandbox import Sandbox, SandboxOptions

T = TypeVar("T")


class Until(Protocol):
    """Waits for a condition."""

    def __call__(self, condition: Callable[[], T], seconds: float = 10.0) -> T:
        """The first true value of the condition; the test fails if there is none in time."""


class SamplesOf(Protocol):
    """Reads the metrics page as an independent reader, not the product's."""

    def __call__(self, triton: Sandbox, name: str, **labels: str) -> list[float]:
        """The values of the series of this name that have these labels; none if it is not on the page."""


@pytest.fixture(scope="session")
def triton() -> Iterator[Sandbox]:
    """A real tritonserver with every example model and the simulated GPU, on free ports.

    A test that unloads a model or stops the server puts it right again, or starts a Sandbox of its own.
    """
    with Sandbox(SandboxOptions(http_port=0, grpc_port=0, metrics_port=0)) as server:
        yield server


@pytest.fixture(scope="session")
def until() -> Until:
    """`until(condition, seconds=10)` waits for what a real server does in its own time."""

    def wait(condition: Callable[[], T], seconds: float = 10.0) -> T:
        deadline = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                pytest.fail(f"not true within {seconds:g} s, last seen: {value!r}")
            time.sleep(0.05)

    return wait


@pytest.fixture(scope="session")
def samples() -> SamplesOf:
    """`samples(triton, name, label=value)` reads the metrics page with prometheus_client's parser."""

    def read(triton: Sandbox, name: str, **labels: str) -> list[float]:
        page = requests.get(triton.metrics_url, timeout=5).text
        return [
            sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            # The parser gives counters the ending that OpenMetrics wants and Triton omits.
            if sample.name.removesuffix("_total") == name and labels.items() <= sample.labels.items()
        ]

    return read
