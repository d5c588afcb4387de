"""Parts that pages are made of: escaping, words for a configuration, the reader's choices, errors in them."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace

import pytest
from fake_runtime import CASES, SMALL, small_repository, text
from streamlit.testing.v1 import AppTest

import runtime
from collectors.config import parse_config
from telemetry.facts import InstanceGroup, ModelConfig
from telemetry.units import Unit
from triage.finding import Finding, Severity
from ui import traffic
from ui.filters import Filters
from ui.findings import finding_cards
from ui.format import moment, value
from ui.html import copy_button, div, join, link, span
from ui.model_words import batching_words, settings
from ui.plot import script_address


def config(**changes: object) -> ModelConfig:
    return replace(parse_config(json.loads(text(SMALL / "config_fast_add.json"))), **changes)  # type: ignore[arg-type]


def meanings(found: ModelConfig) -> dict[str, tuple[str, str]]:
    return {one.name: (one.value, one.meaning) for one in settings(found)}


def test_text_is_escaped_wherever_it_is_put() -> None:
    evil = '<b onclick="x">&\'</b>'
    shown = "&lt;b onclick=&quot;x&quot;&gt;&amp;&#x27;&lt;/b&gt;"
    assert div(evil, data_tip=evil) == f'<div data-tip="{shown}">{shown}</div>'
    assert join([span(evil)], evil, between=evil) == f"<span>{shown}</span>{shown}{shown}"
    assert copy_button(evil).count(shown) == 2


def test_a_link_carries_names_that_are_no_address() -> None:
    made = link("a&b", "model", {"model": 'e{b},c="d" é/?&#', "version": "1"})
    assert 'href="model?model=e%7Bb%7D%2Cc%3D%22d%22+%C3%A9%2F%3F%26%23&amp;version=1"' in made
    assert made.endswith(">a&amp;b</a>")


def test_code_in_an_impact_is_code_and_nothing_else_is_markup() -> None:
    finding = Finding(
        "EnsembleWithoutStep", Severity.PAGE, "BROKEN", "a", None, "It is down.", None, (),
        "`/v2/health/ready` stays <b>OK</b>.", "Load it.",
    )  # fmt: skip
    shown = "<code>/v2/health/ready</code> stays &lt;b&gt;OK&lt;/b&gt;."
    for said in (True, False):
        cards = finding_cards([finding], 0.0, Filters(), said=said)
        assert shown in cards and "`" not in cards


def test_a_time_of_another_day_has_its_day() -> None:
    now = time.time()
    assert re.fullmatch(r"<span [^>]*>\d\d:\d\d</span>", moment(now))
    assert ">30\u00a0Nov 10:00</span>" in moment(1_796_032_800.0 - 365 * 86_400)


def test_a_cause_is_at_least_as_old_as_what_follows_from_it() -> None:
    cause = Finding("OneBadReplica", Severity.TICKET, "ODD", "a", None, "It is odd.", None, (), "", "")
    assert "since before the recording" in finding_cards([cause], 900.0, Filters())
    told = replace(cause, follows=(replace(cause, since=600.0), replace(cause, since=300.0)))
    assert "since 00:05 (10 min)</span> or before" in finding_cards([told], 900.0, Filters())
    assert "since 00:10 (5 min)</span></div>" not in finding_cards([told], 900.0, Filters())
    assert "or before" not in finding_cards([replace(told, since=600.0)], 900.0, Filters())


def test_attributes_that_are_absent_are_left_out() -> None:
    assert div(None, class_=None, hidden=True, open=False) == "<div hidden></div>"


def test_a_value_that_is_not_reported_is_a_dash_with_its_reason() -> None:
    assert value(None, Unit.US, why="no request yet") == (
        '<span class="ts-none" data-tip="no request yet" tabindex="0">–</span>'
    )
    assert value(1_900_000.0, Unit.US, why="", formula="queue time / requests") == (
        '<span data-tip="1900000 us\nqueue time / requests">1.9 s</span>'
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "batches up to 8, prefers 4 and 8, waits up to 2 ms for one; 2 instances on CPU"),
        (
            {"max_queue_delay_us": 0, "preferred_batch_sizes": (8,)},
            "batches up to 8, takes what waits when an instance is free; 2 instances on CPU",
        ),
        (
            {"max_batch_size": 16, "preferred_batch_sizes": (8, 16)},
            "batches up to 16, prefers 8 and 16, waits up to 2 ms for one; 2 instances on CPU",
        ),
        (
            {"dynamic_batching": False, "instance_groups": (InstanceGroup("g", "KIND_GPU", 2, (0, 1)),)},
            "batching is off: each request runs alone, with up to 8 rows of its own; "
            "4 instances on GPU 0, 1 (2 each)",
        ),
        ({"max_batch_size": 0}, "takes no batches (max_batch_size 0); 2 instances on CPU"),
        (
            {"decoupled": True},
            "streams its answers (decoupled): the backend queues and batches by itself; 2 instances on CPU",
        ),
        ({"sequence_batching": True}, "batches sequences, up to 8; 2 instances on CPU"),
    ],
)
def test_effective_batching_in_words(changes: dict[str, object], words: str) -> None:
    assert batching_words(config(**changes)) == words


def test_an_ensemble_says_what_it_passes_requests_on_to() -> None:
    found = parse_config(json.loads(text(SMALL / "config_pipeline.json")))
    assert (
        batching_words(found)
        == "ensemble of 2 steps (fast_add → slow_add): they queue and batch, it does not"
    )
    assert meanings(found) == {
        "platform": ("ensemble", "passes requests on to its steps; it executes nothing itself")
    }


def test_preferred_sizes_are_called_a_hint_and_no_mistake() -> None:
    size, meaning = meanings(config(max_batch_size=16, preferred_batch_sizes=(4, 8)))["preferred_batch_size"]
    assert size == "4, 8"
    assert "a hint, not enforced" in meaning


def test_a_queue_time_out_is_checked_when_the_model_is_free() -> None:
    found = meanings(config(queue_timeout_us=300_000, max_queue_size=2))
    assert found["default_timeout"][0] == "300 ms"
    assert "checked when the model is free" in found["default_timeout"][1]
    assert found["max_queue_size"][0] == "2"
    assert "counts these refusals nowhere" in found["max_queue_size"][1]


def test_a_delay_of_a_microsecond_is_shown_as_one() -> None:
    found = parse_config(json.loads(text(CASES / "b07.config.json")))
    assert meanings(found)["max_queue_delay"][0] == "1 µs"


def test_the_range_ends_now_and_leaves_out_time_before_the_recording() -> None:
    chosen = Filters(range_name="15m")
    assert chosen.window(10_000.0) == (9_100.0, 10_000.0)
    assert chosen.window(10_000.0, oldest=9_700.0) == (9_700.0, 10_000.0)
    assert chosen.window(10_000.0, oldest=9_999.0) == (9_940.0, 10_000.0)


def test_a_fixed_time_stays_where_it_is() -> None:
    chosen = Filters(start=1_000.0, end=1_600.0)
    assert chosen.window(10_000.0, oldest=9_000.0) == (1_000.0, 1_600.0)
    assert chosen.range_seconds == 600.0
    assert chosen.params() == {"from": "1000", "to": "1600"}


def test_points_of_a_chart_stay_on_multiples_of_the_step() -> None:
    grid = Filters(range_name="1h").grid(1_000_005.0)
    assert (grid.start % grid.step_seconds, grid.end % grid.step_seconds) == (0.0, 0.0)
    assert grid.step_seconds == 12.0
    assert len(grid.times()) <= 301


@pytest.mark.parametrize(
    ("start", "end", "shown"),
    [
        ("1796052600", "1796053200", (1796052600.0, 1796053200.0)),
        ("1796052600000", "1796053200000", (1796052600.0, 1796053200.0)),
        ("2026-11-30T15:30:00+00:00", "2026-11-30T15:40:00+00:00", (1796052600.0, 1796053200.0)),
        ("nonsense", "1796053200", (None, None)),
        ("1796053200", "1796052600", (None, None)),
    ],
)
def test_a_link_can_fix_the_time(open_page, start: str, end: str, shown: tuple) -> None:
    page = open_page(small_repository(), "overview", **{"from": start, "to": end})
    assert ("back to live" in page.words("header")) == (shown[0] is not None)
    if shown[0] is not None:
        assert f"from={shown[0]:.0f}" in page.panels["menu"]


def test_the_traffic_switch_says_whose_requests_they_are(tmp_path) -> None:
    state = tmp_path / "state.json"
    state.write_text(
        json.dumps({"traffic_wanted": "idle", "traffic_profiles": {"idle": "no requests", "burst": "many"}})
    )

    def script(path: str) -> None:
        from pathlib import Path

        from ui import traffic

        traffic.switch(Path(path))

    app = AppTest.from_function(script, args=(str(state),)).run()
    assert app.selectbox[0].value == "idle"
    assert app.caption[0].value == "The sandbox's own requests, from no user: no requests."
    app.selectbox[0].select("burst").run()
    assert json.loads((tmp_path / "traffic.json").read_text()) == {"profile": "burst"}
    assert [path.name for path in tmp_path.iterdir() if "traffic" in path.name] == ["traffic.json"]


def test_without_a_sandbox_there_is_no_switch(tmp_path) -> None:
    def script(path: str) -> None:
        from pathlib import Path

        from ui import traffic

        traffic.switch(Path(path))

    assert not AppTest.from_function(script, args=(str(tmp_path / "state.json"),)).run().selectbox
    traffic.choose(tmp_path, "idle")
    assert json.loads((tmp_path / "traffic.json").read_text()) == {"profile": "idle"}


def test_an_error_in_one_part_becomes_a_sentence_and_the_others_go_on(open_page, monkeypatch) -> None:
    process = small_repository()
    monkeypatch.setattr(process, "inventory", lambda: 1 / 0)
    runtime.install(process)
    page = open_page(process)
    assert "This part could not be drawn; the app&#x27;s log has the details." in page.panels["failed_answer"]
    assert "ZeroDivisionError" not in page.markup
    assert "Overview" in page.words("menu")


def test_an_error_outside_every_part_leaves_the_frame_and_a_sentence(open_page, monkeypatch) -> None:
    process = small_repository()
    monkeypatch.setattr(process, "inventory", lambda: 1 / 0)
    page = open_page(process, "model")
    assert "could not be drawn" in page.panels["failed_page"]
    assert "Overview" in page.words("menu")
    assert "ZeroDivisionError" not in page.markup


def test_the_chart_script_is_found_below_a_base_path(monkeypatch) -> None:
    import streamlit as st

    assert script_address() == "/plotly.min.js"
    monkeypatch.setattr(st, "get_option", lambda name: "/triton/")
    assert script_address() == "/triton/plotly.min.js"
