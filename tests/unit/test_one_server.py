"""Two servers behind one address are noticed; restarts and reloads of one are not taken for them."""

from __future__ import annotations

import numpy as np

from history.one_server import OneServer
from telemetry.errors import Unreachable
from telemetry.facts import ServerMetadata
from telemetry.scrape import Samples, Scrape, Series, Source

NAMES = ("nv_inference_request_success", "nv_inference_count")


def page(at: float, *values: float) -> Scrape:
    labels = (("model", "m"), ("version", "1"))
    series = tuple(Series(name, labels) for name in NAMES[: len(values)])
    return Scrape("a", Source.METRICS, at, 0.01, Samples(series, np.array(values)))


def name(at: float, called: str) -> Scrape:
    return Scrape("a", Source.METADATA, at, 0.01, payload=ServerMetadata(called, "2.51.0"))


def seen(*scrapes: Scrape) -> str:
    watch = OneServer()
    for scrape in scrapes:
        watch.accept(scrape)
    return watch.doubt("a")


def test_names_in_turn_are_two_servers_and_a_new_name_is_a_restart() -> None:
    assert "it calls itself one 2.51.0 and two 2.51.0 in turn" in seen(
        name(0, "one"), name(10, "two"), name(20, "one")
    )
    assert seen(name(0, "one"), name(10, "two"), name(20, "three")) == ""
    assert seen(name(0, "one"), name(10, "one"), name(20, "one")) == ""
    # Long ago is no reason any more.
    assert seen(name(0, "one"), name(1, "two"), name(2, "one"), name(900, "one"), page(900, 1, 1)) == ""


def test_counters_that_swing_are_two_servers() -> None:
    swinging = [page(2.0 * i, *((100 + i, 200 + i) if i % 2 else (5 + i, 6 + i))) for i in range(8)]
    doubt = seen(*swinging)
    assert doubt.startswith("Refused: two servers answer at the address of a in turn (its counters fell and")
    assert doubt.endswith("Give each replica its own address in the settings.")
    assert seen(*swinging[:4]) == ""


def test_reloads_and_restarts_are_one_server() -> None:
    # Five reverts in a minute: each begins at 0 again and counts on.
    reverted = [page(2.0 * i, 50.0 * (i % 6), 50.0 * (i % 6)) for i in range(36)]
    assert seen(*reverted) == ""
    down = Scrape("a", Source.METRICS, 3.0, 0.01, error=Unreachable("gone"))
    assert seen(page(0, 90, 90), down, page(5, 1, 1), down, page(9, 2, 2), page(11, 0, 0)) == ""
    assert OneServer().doubt("never seen") == ""
