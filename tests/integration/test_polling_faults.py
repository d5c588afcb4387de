"""The whole read side against one server that hangs and one that answers: neither waits for the other."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from runtime import Runtime
from settings import Settings
from telemetry.errors import NoAnswer, Unreachable
from telemetry.identity import Server
from telemetry.scrape import Source
from tests.misbehaving import answering, serving, silent

PAGE = b'# TYPE nv_inference_count counter\nnv_inference_count{model="m",version="1"} 5\n'
INTERVAL_SECONDS = 0.5


def await_true(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not true in time"
        time.sleep(0.02)


def test_a_server_that_hangs_delays_no_other_and_says_so_within_two_intervals() -> None:
    with serving(answering("200 OK", PAGE)) as good, serving(silent) as hanging:
        servers = (Server("good", None, good), Server("hanging", hanging, hanging))
        process = Runtime(Settings(servers=servers, refresh_seconds=INTERVAL_SECONDS))
        began = time.monotonic()
        process.start()
        await_true(lambda: process.ring.latest("hanging", Source.METRICS))
        assert time.monotonic() - began < 2 * INTERVAL_SECONDS + 0.5
        await_true(lambda: process.poller.health()["good", Source.METRICS].rounds >= 6)
        taken = time.monotonic() - began
        coverage = {one.server: one for one in process.coverage()}
        stopping = time.monotonic()
        process.stop()
        assert time.monotonic() - stopping < 2
    assert taken < 6 * INTERVAL_SECONDS + 1
    failed = process.ring.latest("hanging", Source.METRICS)
    assert failed is not None
    assert isinstance(failed.error, NoAnswer)
    assert coverage["good"].answering
    assert not coverage["hanging"].answering
    assert "gave no answer within" in coverage["hanging"].sentence


def test_a_server_that_goes_and_comes_back_is_read_again_by_itself() -> None:
    behave = answering("200 OK", PAGE)
    with serving(behave) as url:
        port = int(url.rsplit(":", 1)[1])
        process = Runtime(Settings(servers=(Server("s", None, url),), refresh_seconds=INTERVAL_SECONDS))
        process.start()
        await_true(lambda: process.ring.last("s", Source.METRICS))

    def refused() -> bool:
        latest = process.ring.latest("s", Source.METRICS)
        return latest is not None and isinstance(latest.error, Unreachable)

    await_true(refused)
    with serving(behave, port=port):
        await_true(lambda: not refused())
        process.stop()
    kinds = [str(event.kind) for event in process.events.events()]
    assert kinds[:2] == ["down", "up"]


@pytest.mark.parametrize("address", ["http://127.0.0.1:9"])
def test_a_server_that_never_was_there_has_no_figures_and_a_reason(address: str) -> None:
    process = Runtime(Settings(servers=(Server("s", address, address),), refresh_seconds=INTERVAL_SECONDS))
    process.start()
    await_true(lambda: process.ring.latest("s", Source.METRICS) and process.ring.latest("s", Source.INDEX))
    process.stop()
    (coverage,) = process.coverage()
    assert (coverage.answering, coverage.age_seconds) == (False, None)
    assert coverage.sentence == "127.0.0.1:9 is not reachable: connection refused"
    assert process.report().models == ()
    assert process.health()["servers"] == {"s": None}
