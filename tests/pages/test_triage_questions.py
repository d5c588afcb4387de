"""The page Triage: comparisons, and the questions about one model."""

from __future__ import annotations

import re

import pytest
from fake_runtime import runtime_of, small_repository
from triage_pages import COUNT, EVERY, STEP, page_after, stepped

from telemetry.identity import ModelKey
from triage.change_points import ChangePoint
from ui.triage_changes import Changed, why_words

# ---- comparison


def test_before_it_began_against_now_the_differences_first(open_page) -> None:
    page = open_page(stepped(), "triage", model="alpha")
    rows = {row[0]: row[1:] for row in page.rows("compared")[1:]}
    assert rows["Mean request time"] == ["100 ms", "4 ms", "× 25"]
    assert next(iter(rows)) in ("Mean request time", "Mean queue time")
    assert rows["Requests per second"][2] == "same" or "%" in rows["Requests per second"][2]


def test_a_time_that_was_fixed_is_compared_with_the_time_before_it(open_page) -> None:
    process = stepped()
    step = process.now() - (COUNT - 1 - STEP) * EVERY
    fixed = {"from": f"{step - 200:.0f}", "to": f"{step - 80:.0f}"}
    head, *rows = open_page(process, "triage", model="alpha", **fixed).rows("compared")
    assert re.fullmatch(r"\d\d:\d\d to \d\d:\d\d", head[1])
    # All of it was before the step: now, which is slow, is on neither side.
    assert {row[0]: row[1:] for row in rows}["Mean request time"] == ["4 ms", "4 ms", "same"]
    slow = {"from": f"{step + 60:.0f}", "to": f"{step + 180:.0f}", "before": "10 min ago"}
    words = open_page(process, "triage", model="alpha", **slow).words("compared")
    assert "Nothing was recorded then" in words


def test_where_nothing_began_it_is_said_what_is_compared_with(open_page) -> None:
    calm = [page_after(n, slow=False) for n in range(COUNT)]
    page = open_page(runtime_of(calm, every_seconds=EVERY), "triage", model="alpha")
    assert "no finding began: with the first minute recorded" in page.words("compared")
    assert "no finding began" not in open_page(stepped(), "triage", model="alpha").words("compared")


def test_of_a_process_that_watches_since_two_minutes_no_rate_is_over_five(open_page) -> None:
    young = [page_after(n, slow=False) for n in range(int(150 / EVERY))]
    page = open_page(runtime_of(young, every_seconds=EVERY), "triage", model="alpha")
    head, *rows = page.rows("compared")
    assert head[1] != "last 5 min"
    now, then, difference = {row[0]: row[1:] for row in rows}["Requests per second"]
    assert (now, difference) == (then, "same")
    other = open_page(runtime_of(young, every_seconds=EVERY), "triage", model="alpha", **{"with": "bravo"})
    assert {row[0]: row[1:] for row in other.rows("compared")[1:]}["Requests per second"][0] == now


def test_two_models_side_by_side(open_page) -> None:
    page = open_page(stepped(), "triage", model="alpha", **{"with": "bravo"})
    head, *rows = page.rows("compared")
    assert head[1:3] == ["alpha v1", "bravo v1"]
    assert {row[0]: row[1:] for row in rows}["Mean request time"] == ["96.8 ms", "2 ms", "× 48.4"]


@pytest.mark.parametrize("minutes", ["an hour ago", "nonsense"])
def test_a_time_that_was_not_recorded_has_no_numbers(open_page, minutes: str) -> None:
    page = open_page(stepped(), "triage", model="alpha", before=minutes)
    told = "Nothing was recorded then" in page.words("compared")
    assert told == (minutes == "an hour ago")


def failing_after(n: int) -> str:
    """Five requests a second to `alpha`, which all fail from STEP on."""
    good, bad = min(n, STEP) * 50, max(0, n - STEP) * 50
    lines = [
        f'nv_inference_{family}{{model="alpha",version="1"}} {good}'
        for family in ("request_success", "count", "exec_count")
    ]
    lines += [
        f'nv_inference_request_duration_us{{model="alpha",version="1"}} {good * 4000}',
        f'nv_inference_request_failure{{model="alpha",version="1",reason="BACKEND"}} {bad}',
    ]
    return "\n".join(lines) + "\n"


def test_requests_that_fail_are_requests_all_the_same(open_page) -> None:
    process = runtime_of([failing_after(n) for n in range(COUNT)], every_seconds=EVERY)
    page = open_page(process, "triage", model="alpha")
    assert "failed rose from 0 % to 100 %" in page.words("changed")
    assert "clients send as before (5 /s → 5 /s)" in page.words("changed")
    assert "May I unload it? No: 5 requests/s for it fail now on 127.0.0.1:1, so somebody asks" in page.words(
        "about"
    )


def test_clients_that_wait_send_less_because_it_is_slow() -> None:
    slow, fewer = (ChangePoint(100.0, 110.0, *values, 9.0) for values in ((4e3, 9e5), (9.8, 6.1)))
    key = ModelKey("a", "alpha", "1")
    waits = Changed(key, {"request_us_mean": slow, "requests_per_second": fewer}, 9.8, 6.1)
    words = "clients send less since then (9.8 /s → 6.1 /s)"
    assert why_words(waits, ()).endswith(f"{words}, as those do that wait for each answer.")
    alone = Changed(key, {"requests_per_second": fewer}, 9.8, 6.1)
    assert why_words(alone, ()).endswith(f"{words}: the load changed.")


def test_what_is_asked_about_a_model_of_a_silent_server_is_answered_by_the_silence(open_page) -> None:
    page = open_page(small_repository(down=True), "triage", model="fast_add")
    words = page.words("about")
    down = "127.0.0.1:1 does not answer (connection refused)"
    assert re.search(rf"since when\? {re.escape(down)}; .* It is so since \d\d:\d\d", words)
    assert f"Is it the server or the clients? It is the server: {down}" in words
    assert re.search(
        r"unload it\? That cannot be told: 127.0.0.1:1 is silent, its figures are \d\d s old\.", words
    )
    model = open_page(small_repository(down=True), "model", model="fast_add")
    assert model.words("header").startswith(down)
    assert "DOWN Clients of this server get connection errors" in model.words("findings")
