"""Ten people on the page cost Triton one scrape per interval, and the app less than one core."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.ports import free_ports
from sandbox.processes import end_group, start_bound
from tests.counting_proxy import CountingProxy
from tests.e2e.stack import ROOT, Stack, until
from tests.viewers import app_answers, watch

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]
SECONDS = 60.0
INTERVAL_SECONDS = 2.0
VIEWERS = 10


@pytest.fixture
def watched(stack: Stack, tmp_path: Path) -> Iterator[tuple[str, int, CountingProxy]]:
    """Address and process id of an app of its own that reads the metrics page through a counting proxy."""
    port = free_ports(1)[0]
    state = stack.state()
    with CountingProxy(state["metrics_url"].removesuffix("/metrics")) as proxy:
        environment = {
            **os.environ,
            "TRITONSCOPE_URL": state["http_url"],
            "TRITONSCOPE_METRICS_URL": f"{proxy.url}/metrics",
            "TRITONSCOPE_APP_PORT": str(port),
        }
        with (tmp_path / "app.log").open("wb") as log:
            process = start_bound(
                [sys.executable, "app.py"], folder=ROOT, environment=environment, output=log
            )
        url = f"http://127.0.0.1:{port}"
        try:
            until(lambda: app_answers(url, 2.0), "the app answers", 90)
            yield url, process.pid, proxy
        finally:
            end_group(process, 20.0)


def cpu_seconds(pid: int) -> float:
    """User and system time of one process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_ten_viewers_cost_one_scrape_per_interval(
    watched: tuple[str, int, CountingProxy], figure: Callable[[str], None]
) -> None:
    url, pid, proxy = watched
    scrapes, cpu = len(proxy.passed("GET", "/metrics")), cpu_seconds(pid)
    people = watch(url, "", VIEWERS, SECONDS)
    scraped = len(proxy.passed("GET", "/metrics")) - scrapes
    cores = (cpu_seconds(pid) - cpu) / SECONDS

    refreshes = [one.refreshes for one in people]
    figure(f"{VIEWERS} viewers, {SECONDS:g} s: {scraped} scrapes, {cores:.2f} cores, refreshes {refreshes}")
    assert not [text for one in people for text in one.exceptions]
    assert min(refreshes) >= 0.7 * SECONDS / INTERVAL_SECONDS, "a viewer was starved"
    assert SECONDS / INTERVAL_SECONDS - 3 <= scraped <= SECONDS / INTERVAL_SECONDS + 2
    assert cores < 1.0
