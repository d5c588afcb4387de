"""Memory of processes that only an exporter can see, through a real Prometheus."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from history.memory_changes import MODEL_FAMILY
from history.protocol import Reduce, Vector
from tests.integration.conftest import Until
from tests.prometheus_jobs import configured, job, runtime_with
from tests.prometheus_server import TextPage

pytestmark = pytest.mark.integration

UUID = "GPU-1111"
BY = ("model", "version", "kind", "device")


def triton_page() -> str:
    return (
        'nv_inference_request_success{model="m",version="1"} 7\nnv_inference_count{model="m",version="1"} 7\n'
    )


def exporter_page() -> str:
    rows = {
        f'device="{UUID}",kind="GPU",source="process"': 3e9,
        'device="0",kind="CPU",source="process"': 7e7,
        'device="0",kind="GPU",source="reported"': 2e9,
    }
    return "".join(
        f'{MODEL_FAMILY}{{{labels},model="m",version="1"}} {size}\n' for labels, size in rows.items()
    )


def test_what_an_exporter_tells_of_processes_is_had_without_waiting(tmp_path: Path, until: Until) -> None:
    with TextPage(triton_page) as triton, TextPage(exporter_page) as exporter:
        jobs = [
            job("triton", triton.url, instance="t0:8002"),
            # Two of them, as where an exporter runs twice.
            job("tritonscope", exporter.url, instance="t0:8002"),
            job("tritonscope-two", exporter.url, instance="t0:8002"),
        ]
        with configured(tmp_path, jobs, "2s") as prometheus:
            until(prometheus.ready, 30.0)
            until(lambda: len(prometheus.query(MODEL_FAMILY, time.time())) == 6, 60.0)
            process = runtime_with(prometheus.url)
            process.start()
            try:
                until(lambda: [one.id for one in process.servers] == ["t0:8002"], 60.0)

                def told() -> Vector:
                    assert process.distant is not None
                    where = (("server", "t0:8002"), ("source", "process"))
                    began = time.monotonic()
                    found = process.distant.gauge(
                        MODEL_FAMILY, BY, time.time(), where=where, reduce=Reduce.MAX
                    )
                    assert time.monotonic() - began < 1.0
                    return found

                assert until(told, 60.0) == {("m", "1", "GPU", UUID): 3e9, ("m", "1", "CPU", "0"): 7e7}
            finally:
                process.stop()
