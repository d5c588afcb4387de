"""GPUs through a real Prometheus alone: Triton tells their uuids, a DCGM exporter the figures."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from history.protocol import Grid
from runtime import Runtime
from signals.definition import Level
from tests.integration.conftest import Until
from tests.prometheus_jobs import configured, job, runtime_with
from tests.prometheus_server import TextPage

pytestmark = pytest.mark.integration

ONE, TWO, OTHER = "GPU-1111", "GPU-2222", "GPU-9999"
MIB = 2.0**20


def triton_page(*uuids: str) -> str:
    """A Triton without GPU metrics, as it runs beside a DCGM exporter: only models name GPUs."""
    rows = [f'nv_inference_request_success{{model="m",version="1",gpu_uuid="{uuid}"}} 10' for uuid in uuids]
    rows.append('nv_inference_request_success{model="m",version="1"} 0')
    rows += [f'nv_inference_count{{model="m",version="1",gpu_uuid="{uuid}"}} 10' for uuid in uuids]
    return "".join(f"{row}\n" for row in rows)


def dcgm_page() -> str:
    """Three GPUs of one machine; of the first, two pods that share it."""
    rows = []
    for number, uuid in enumerate((ONE, TWO, OTHER)):
        pods = ("a", "b") if uuid == ONE else ("c",)
        for pod in pods:
            labels = f'gpu="{number}",UUID="{uuid}",Hostname="node",pod="{pod}",namespace="ml"'
            rows.append(f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {10 * (number + 1)}")
            rows.append(f"DCGM_FI_DEV_FB_USED{{{labels}}} {1000 * (number + 1)}")
            rows.append(f"DCGM_FI_DEV_FB_FREE{{{labels}}} 7000")
            rows.append(f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} {100 + number}")
    return "".join(f"{row}\n" for row in rows)


def figures(process: Runtime) -> dict[tuple[str, str], tuple[float | None, ...]]:
    names = ("utilization_ratio", "memory_used_bytes", "memory_total_bytes", "power_watts")
    return {
        (row.key.server, row.key.uuid): tuple(row.signals.number(name) for name in names)
        for row in process.report().gpus
    }


def test_a_server_has_the_figures_of_its_gpus_and_of_no_others(tmp_path: Path, until: Until) -> None:
    with (
        TextPage(lambda: triton_page(ONE, TWO)) as both,
        TextPage(lambda: triton_page(ONE)) as one,
        TextPage(dcgm_page) as dcgm,
    ):
        jobs = [
            {
                **job("triton", both.url),
                "static_configs": [
                    job("triton", page.url, instance=name)["static_configs"][0]
                    for page, name in ((both, "t0:8002"), (one, "t1:8002"))
                ],
            },
            job("dcgm-exporter", dcgm.url, instance="node:9400"),
        ]
        with configured(tmp_path, jobs, "2s") as prometheus:
            until(prometheus.ready, 30.0)
            until(lambda: len(prometheus.query("DCGM_FI_DEV_GPU_UTIL", time.time())) == 4, 60.0)
            until(lambda: len(prometheus.query("nv_inference_count", time.time())) == 3, 60.0)
            process = runtime_with(prometheus.url)
            process.start()
            try:
                until(lambda: len(figures(process)) == 3, 60.0)
                first = (0.1, 1000 * MIB, 8000 * MIB, 100.0)
                assert figures(process) == {
                    ("t0:8002", ONE): first,
                    ("t0:8002", TWO): (0.2, 2000 * MIB, 9000 * MIB, 101.0),
                    ("t1:8002", ONE): first,
                }
                _charts(process, until)
            finally:
                process.stop()


def _charts(process: Runtime, until: Until) -> None:
    """Also from the part of a chart that is older than the process' own memory."""
    everywhere = process.remote
    assert everywhere is not None

    def told() -> Grid | None:
        now = float(int(time.time()))
        grid = Grid(now - 4.0, now, 2.0)
        frame = everywhere.everywhere.gauge_range("DCGM_FI_DEV_FB_USED", ("server", "UUID"), grid)
        whole = bool(frame.keys) and bool(np.isfinite(frame.values).all())
        keys = {("t0:8002", ONE), ("t0:8002", TWO), ("t1:8002", ONE)}
        return grid if whole and set(frame.keys) == keys else None

    grid = until(told, 60.0)
    assert grid is not None
    frame = process.signal_range("memory_used_bytes", grid, level=Level.GPU, server="t0:8002")
    column = frame.column(("t0:8002", TWO))
    assert column is not None and column[-1] == 2000 * MIB
