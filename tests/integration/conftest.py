"""Fixtures of the integration tests: one real tritonserver per test session, shared by all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from sandbox import Sandbox, SandboxOptions
from tests.order import longest_first

T = TypeVar("T")

WAITING = (
    "test_alertmanager.py",
    "test_prometheus_parity.py",
    "test_laboratory.py",
    "test_prometheus_fleet.py",
    "test_replicas_changed.py",
    "test_live_cases.py",
    "test_prometheus_history.py",
    "test_trial.py",
    "test_incident.py",
    "test_killed_comparison.py",
    "test_request_failures.py",
    "test_servers_come_and_go.py",
    "test_prometheus_marks.py",
    "test_prometheus_devices.py",
    "test_alerts_of_others.py",
    "test_prometheus_objectives.py",
    "test_compose_prometheus.py",
    "test_polling_faults.py",
    "test_transport_faults.py",
)
"""Files that mostly wait, for scrapes, alerts and time-outs: tools/suite.sh runs them beside the others. The
longest first, but for the fourth: it is handed to the worker of the first and waits until that has ended."""
COMPUTING = (
    "test_load_runs.py",
    "test_sandbox_life.py",
    "test_control_override.py",
    "test_grafana_schema.py",
    "test_load_errors.py",
    "test_model_memory.py",
    "test_golden_requests.py",
    "test_request_ways.py",
    "test_grafana_queries.py",
)
"""Those of the others that last longest, the longest first."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that wait, and begins with what lasts longest."""
    here = Path(__file__).parent
    longest_first(items, here, (*WAITING, *COMPUTING))
    for item in items:
        if item.path.parent == here and item.path.name in WAITING:
            item.add_marker("waits")


class Until(Protocol):
    """Waits for a condition."""

    def __call__(self, condition: Callable[[], T], seconds: float = 30.0) -> T:
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
    """`until(condition, seconds=30)` waits for what a real server does in its own time."""

    def wait(condition: Callable[[], T], seconds: float = 30.0) -> T:
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
