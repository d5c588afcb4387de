""" "May I unload it?" while our own golden requests are the traffic, or part of it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import pytest
from fake_runtime import runtime_of

from signals.own_requests import Sent

EVERY = 60.0
COUNT = 13
GOLDEN = 2_000.0


class Prober:
    """What the pages ask of the real one."""

    def __init__(self, sent: Sequence[Sent]) -> None:
        self._sent, self.since = sent, 0.0

    def sent(self, server: str, since: float) -> list[Sent]:
        return [one for one in self._sent if one.ended >= since]

    def every_minutes(self, server: str) -> float:
        return 1.0

    def why_not(self, *_: object) -> str:
        return ""

    def stop(self) -> None:
        """Nothing runs."""


def page(count: int) -> str:
    return (
        "# HELP nv_inference_request_success Number of successful inference requests\n"
        "# TYPE nv_inference_request_success counter\n"
        f'nv_inference_request_success{{model="alpha",version="1"}} {count}\n'
    )


def statistics(last: float, count: int) -> str:
    success = {"success": {"count": count, "ns": count * 1000}}
    row = {"name": "alpha", "version": "1", "last_inference": int(last * 1e3), "inference_count": count}
    return json.dumps({"model_stats": [{**row, "execution_count": count, "inference_stats": success}]})


def watched(others: dict[int, int]):
    """Readings a minute apart; before each but the first one golden request, and `others` by reading."""
    now = time.time() // 4.0 * 4.0
    times = [now - EVERY * (COUNT - 1 - number) for number in range(COUNT)]
    sent = [Sent("alpha", at - 20.1, at - 20.0, 1, True) for at in times[1:]]
    pages, stats, count, last = [], [], 100, times[0] - 500.0
    for number, at in enumerate(times):
        if number:
            count, last = count + 1, at - 20.0
        if number in others:
            count, last = count + others[number], at - 5.0
        pages.append(page(count))
        stats.append(statistics(last, count))
    index = json.dumps([{"name": "alpha", "version": "1", "state": "READY"}])
    process = runtime_of(pages, statistics=stats, indexes=[index], every_seconds=EVERY)
    process.golden = Prober(sent)  # type: ignore[assignment]
    return process


GOLDEN_ONLY = "the 12 requests in the last 12 min were our own golden requests"
AMONG = (
    "12 of the 42 requests in the last 12 min were our own golden requests, the last of somebody else was "
)
YES = "Yes: nobody but Tritonscope asks for it now on {server} (last request 20 s ago; "


@pytest.mark.parametrize(
    ("others", "answer"),
    [
        ({}, f"{YES}{GOLDEN_ONLY}), and no ensemble uses it."),
        ({5: 30}, f"{YES}{AMONG}7 min ago), and no ensemble uses it."),
        ({12: 30}, f"No, it is in use: 0.5 requests/s now on {{server}} ({AMONG}5 s ago)."),
    ],
)
def test_may_i_unload_it_tells_our_own_requests_apart(open_page, others: dict[int, int], answer: str) -> None:
    process = watched(others)
    words = open_page(process, "triage", model="alpha").words("about")
    assert answer.format(server=process.servers[0].id) in words
