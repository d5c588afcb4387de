"""How well a server can be seen, from the first attempt on."""

from __future__ import annotations

import pytest

from history.ring import Ring
from telemetry.errors import Unreachable
from telemetry.identity import Server
from telemetry.scrape import Scrape, Source
from triage.coverage import server_coverage

SERVER = Server("a", "http://127.0.0.1:1", "http://127.0.0.1:2/metrics")


# The ring keeps milliseconds: the first attempt's own time may round to one that is later.
@pytest.mark.parametrize("at", [1000.0, 1000.0004, 1000.0006, 1000.9999])
def test_the_very_first_attempt_fails(at: float) -> None:
    ring = Ring()
    ring.accept(Scrape("a", Source.METRICS, at, 0.001, error=Unreachable("nobody listens")))
    found = server_coverage(ring, SERVER, at)
    assert found.answering is False
    assert found.sentence == "nobody listens"
    assert found.silent_seconds == pytest.approx(0.0, abs=0.001)
    assert found.age_seconds is None
