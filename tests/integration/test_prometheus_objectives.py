"""An objective over windows longer than the process is old, judged from what a real Prometheus remembers."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import Runtime
from settings import load_settings
from tests.integration.conftest import Until
from tests.prometheus_server import PROMTOOL, PrometheusServer
from triage.burn import HOUR
from triage.finding import Finding, Severity

pytestmark = pytest.mark.integration

HOURS, STEP_SECONDS = 8, 30
FAILED_RATIO = 0.008
"""Eight times what 99.9 % allows: too fast for six hours, not for one."""


def lines(now: float) -> Iterator[str]:
    """Ten requests a second for eight hours until now, as OpenMetrics."""
    labels = 'instance="t0:8002",job="triton",model="m",version="1"'
    times = [now - HOURS * HOUR + step for step in range(0, round(HOURS * HOUR) + 1, STEP_SECONDS)]
    for name, more, share in (
        ("nv_inference_request_success", "", 1 - FAILED_RATIO),
        ("nv_inference_request_failure", ',reason="BACKEND"', FAILED_RATIO),
    ):
        yield f"# TYPE {name} gauge"
        for at in times:
            yield f"{name}{{{labels}{more}}} {10 * share * (at - times[0]):.3f} {at:.3f}"
    yield "# EOF"


def test_a_process_that_has_just_started_judges_six_hours(tmp_path: Path, until: Until) -> None:
    past = tmp_path / "past.om"
    past.write_text("\n".join(lines(float(int(time.time())))) + "\n")
    command = [str(PROMTOOL), "tsdb", "create-blocks-from", "openmetrics", str(past), str(tmp_path / "data")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    settings = tmp_path / "tritonscope.yml"
    with PrometheusServer(tmp_path, {}) as prometheus:
        until(prometheus.ready, 60.0)
        settings.write_text(
            f"history:\n  prometheus:\n    url: {prometheus.url}\nslo:\n  - {{model: m, errors: 99.9 %}}\n"
        )
        process = Runtime(load_settings({}, settings))
        process.start()
        try:

            def burning() -> Finding | None:
                # What Prometheus answers meanwhile counts at the next reading; here there is none.
                process.ring.forget("nobody")
                found = [one for one in process.judgement().findings if one.rule == "SloErrorsBurn"]
                return found[0] if found and found[0].severity is Severity.PAGE else None

            finding = until(burning, 60.0)
            assert finding is not None
            assert finding.sentence.startswith(
                "m fails more than its objective allows: over the last 6 hours 8 times as much, "
                "over the last 30 minutes 8 times."
            )
            windows = {
                burn.window_seconds: burn.rate for burns in process.budgets().values() for burn in burns
            }
            assert windows[HOUR] == pytest.approx(8, rel=0.02)
            assert windows[6 * HOUR] == pytest.approx(8, rel=0.02)
        finally:
            process.stop()
