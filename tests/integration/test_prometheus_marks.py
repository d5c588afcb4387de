"""What happened before a process watched, told by a real Prometheus that did."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from history.events import EventKind
from history.protocol import Grid
from telemetry.identity import ModelKey
from tests.integration.conftest import Until
from tests.prometheus_jobs import configured, job, runtime_with
from tests.prometheus_server import TextPage

pytestmark = pytest.mark.integration

KEY = ModelKey("t0:8002", "m", "1")
PATIENCE_SECONDS = 60.0


class Page:
    """A Triton with one model that can go, come, and begin to count anew."""

    def __init__(self) -> None:
        self.there, self.count = True, 100

    def __call__(self) -> str:
        rows = ["nv_pinned_memory_pool_total_bytes 1000"]
        if self.there:
            rows.append(f'nv_inference_request_success{{model="m",version="1"}} {self.count}')
        return "".join(f"{row}\n" for row in rows)


def test_loads_unloads_and_resets_are_known_afterwards(tmp_path: Path, until: Until) -> None:
    page = Page()
    with (
        TextPage(page) as served,
        configured(tmp_path, [job("triton", served.url, instance="t0:8002")], "2s") as prometheus,
    ):
        until(prometheus.ready, PATIENCE_SECONDS)
        began = time.time()

        def value() -> float | None:
            rows = prometheus.query("nv_inference_request_success", time.time())
            return float(rows[0]["value"][1]) if rows else None

        until(lambda: value() == 100, PATIENCE_SECONDS)
        page.there = False
        until(lambda: value() is None, PATIENCE_SECONDS)
        page.there, page.count = True, 50
        until(lambda: value() == 50, PATIENCE_SECONDS)
        # Falls within one window of four scrapes are one.
        loaded = time.time()
        until(lambda: time.time() > loaded + 12, PATIENCE_SECONDS)
        page.count = 3
        until(lambda: value() == 3, PATIENCE_SECONDS)
        # So that the last of it lies within the grid.
        ended = time.time()
        until(lambda: time.time() > ended + 3, PATIENCE_SECONDS)
        process = runtime_with(prometheus.url)
        process.start()
        try:
            until(lambda: process.servers, PATIENCE_SECONDS)
            assert process.remote is not None
            grid = Grid(float(int(began)), float(int(ended) + 2), 2.0)

            remote, wanted = process.remote, [EventKind.UNLOAD, EventKind.LOAD, EventKind.RESET]

            def told() -> list[EventKind]:
                events = remote.events("t0:8002", KEY, grid, time.monotonic() + 5)
                return [event.kind for event in events if event.model == KEY]

            until(lambda: told() == wanted, PATIENCE_SECONDS)
        finally:
            process.stop()
