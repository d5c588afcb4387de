from __future__ import annotations

import json
import re
import time
from dataclasses import replace

import pytest
from fake_runtime import CASES, case, runtime_of, small_repository, text

import runtime
from telemetry.identity import ModelKey
from triage.finding import Finding, Judgement, Severity
from ui.view import View


def many_models(count: int, times: int) -> str:
    """The page of case A18: model i counts (i + 1) per reading; only the last one has a waiting request."""
    families = ("request_success", "count", "exec_count", "request_duration_us", "queue_duration_us")
    lines = []
    for family in families:
        scale = 100 if family.endswith("_us") else 1
        lines.append(f"# TYPE nv_inference_{family} counter")
        lines += [
            f'nv_inference_{family}{{model="tenant{i:05d}_model",version="1"}} {times * (i + 1) * scale}'
            for i in range(count)
        ]
    lines.append("# TYPE nv_inference_pending_request_count gauge")
    lines += [
        f'nv_inference_pending_request_count{{model="tenant{i:05d}_model",version="1"}} {int(i == count - 1)}'
        for i in range(count)
    ]
    return "\n".join(lines) + "\n"


def test_the_first_line_is_the_verdict_and_the_findings_follow_by_harm(open_page) -> None:
    page = open_page(small_repository())
    assert page.words("header").startswith(
        "Users are hurt: flaky fails 33.1 % of its requests, slow_add keeps"
    )
    assert "Triton 2.51.0" in page.words("header")
    cards = page.panels["findings"].split('role="article"')[1:]
    assert [card.count("ts-tag") for card in cards] == [1] * len(cards)
    assert "FAILING" in cards[0] and "flaky" in cards[0]
    assert "WAITING" in cards[1] and "slow_add" in cards[1]
    assert "BROKEN" in cards[2]


def test_a_row_shows_what_the_server_reported_with_its_units(open_page) -> None:
    rows = {row[0]: row[1:] for row in open_page(small_repository()).rows("models")}
    assert rows["fast_addv1"] == ["ready", "287", "0", "263 µs", "658 µs", "", "3.97 / 8", "0", "–"]
    assert rows["flakyv1"][1:3] == ["1.65", "33.1 %"]
    assert rows["slow_addv1"][3] == "933 ms"
    assert rows["needs_onnxv1"] == [
        "failed to load",
        "the server has no backend &#x27;onnxruntime&#x27;",
    ]


def test_what_is_no_batch_size_is_not_shown_as_one(open_page) -> None:
    """Of 96 executions 32 failed: they are counted, the inferences in them are not."""
    page = open_page(small_repository())
    row = {row[0]: row for row in page.rows("models")}["flakyv1"]
    assert row[7] == "–" and "0.66" not in " ".join(row)
    assert "executions failed: they are counted" in page.panels["models"]


def test_a_failed_load_is_marked_as_bad_as_its_finding_says(open_page) -> None:
    page = open_page(small_repository())
    for model in ("broken_init", "needs_onnx"):
        row = re.search(rf'<tr class="(\w+)"[^>]*data-key="[^"]*{model}.*?</tr>', page.panels["models"], re.S)
        assert row is not None
        assert row[1] == "ticket" and 'class="ts-state ticket"' in row[0]
        assert "ts-state page" not in row[0]


def test_the_incident_file_is_offered_once(open_page) -> None:
    overview, model = open_page(small_repository()), open_page(small_repository(), "model", model="flaky")
    assert overview.words("header").count("Incident file") == 1 and "incident" not in overview.panels
    assert "Incident file" not in model.words("header")
    assert model.words("incident") == "Incident file summary"


def test_rows_are_sorted_by_harm_and_then_by_traffic(open_page) -> None:
    names = [row[0] for row in open_page(small_repository()).rows("models")[1:]]
    assert names[:4] == ["flakyv1", "slow_addv1", "broken_initv1", "needs_onnxv1"]
    assert names[4:6] == ["fast_addv1", "pipelinev1"]


def test_a_cause_stands_before_what_follows_from_it() -> None:
    follows = finding("zeta"), finding("alpha")
    judged = Judgement(0.0, 1, (replace(finding("mid"), follows=follows), finding("last")), ())
    view = View(**dict.fromkeys(View.__dataclass_fields__) | {"judgement": judged})  # type: ignore[arg-type]
    places = sorted(view.harm, key=lambda key: view.harm[key][0])
    assert [key.name for key in places] == ["mid", "zeta", "alpha", "last"]


def finding(model: str) -> Finding:
    key = ModelKey("a", model, "1")
    return Finding("R", Severity.TICKET, "X", "a", key, f"{model} waits.", None, (), "", "")


def test_the_latency_split_is_the_four_parts_of_the_whole(open_page) -> None:
    markup = open_page(small_repository()).panels["models"]
    split = re.search(
        r'data_key="[^"]*fast_add.*?ts-split(.*?)</span>'.replace("_key", "-key"), markup, re.DOTALL
    )
    assert split is not None
    widths = [
        (part, float(width)) for part, width in re.findall(r'class="(\w+)" style="width:([\d.]+)%"', split[1])
    ]
    assert widths == [("queue", 41.4), ("input", 5.4), ("infer", 40.1), ("output", 13.0)]


def test_tiles_say_what_is_not_reported_and_why(open_page) -> None:
    page = open_page(small_repository())
    assert page.words("tiles").startswith("Requests 289 /s Failed 0.281 % Mean latency 4.56 ms")
    assert "GPU utilization –" in page.words("tiles")
    assert "Triton reports no GPU metrics: no GPU, no driver, MIG mode" in page.panels["tiles"]


def test_a_tooltip_holds_the_raw_value_and_the_formula(open_page) -> None:
    tiles = open_page(small_repository()).panels["tiles"]
    assert "per second\nrequests_per_second = requests / window" in tiles


def test_a_server_that_went_away_is_said_first_and_its_figures_turn_grey(open_page) -> None:
    page = open_page(small_repository(down=True))
    assert "connection refused" in page.markup
    assert "s old" in page.words("tiles")
    row = next(row for row in page.rows("models") if row[0].startswith("fast_add"))
    assert row[2] != "0"
    assert 'class="ts-stale" data-row' in page.panels["models"]


def test_a_server_that_never_answered_shows_no_number_and_says_what_to_do(open_page) -> None:
    page = open_page(runtime_of(down=True))
    assert "No server answers, so no model is known." in page.words("models")
    assert "Check that Triton runs" in page.words("models")
    assert page.words("tiles").startswith("Requests – Failed – Mean latency –")


def test_a_server_without_models_is_not_called_down(open_page) -> None:
    page = open_page(case("a03_families_without_samples.prom"))
    assert "No model is loaded, or none has reported yet." in page.words("models")
    assert "GPU 0" in page.words("tiles") and "12 %" in page.words("tiles")


def test_after_the_first_reading_rates_are_collected_and_not_zero(open_page) -> None:
    page = open_page(runtime_of([text(CASES / "a02_counter_suffix.prom")]))
    assert page.words("tiles").startswith("Requests – Failed – Mean latency –")
    assert page.panels["tiles"].count("collecting: a rate needs two readings") == 4
    assert page.rows("models")[1][2:5] == ["–", "–", "–"]
    model = open_page(runtime_of([text(CASES / "a02_counter_suffix.prom")]), "model")
    assert model.words("header").startswith("alpha v1: collecting: a rate needs two readings.")


def test_odd_names_are_shown_literally_and_open_their_model(open_page) -> None:
    names = json.loads(text(CASES / "a10_label_escapes.expected.json"))
    page = open_page(case("a10_label_escapes.prom"))
    assert len(page.rows("models")) == 1 + len(names) == 13
    table = page.panels["models"]
    assert "<b>x</b>" not in table
    for shown in (
        "&lt;b&gt;x&lt;/b&gt;</a>",
        ">m_*x*_$y$</a>",
        ">new\nline</a>",
        ">q &quot;x&quot; y</a>",
        ">模é</a>",
    ):
        assert shown in table
    assert (
        'href="model?model=m_%2Ax%2A_%24y%24&amp;version=1&amp;refresh=pause"' not in table
    )  # order of a dict
    assert "model=m_%2Ax%2A_%24y%24" in table


def test_three_thousand_models_are_one_page_of_fifty_and_a_search(open_page) -> None:
    process = runtime_of([many_models(3000, 1), many_models(3000, 2)], every_seconds=10.0)
    runtime.install(process)
    process.judgement()
    start = time.perf_counter()
    page = open_page(process)
    assert time.perf_counter() - start < 3.0
    rows = page.rows("models")
    assert len(rows) == 51
    assert rows[1][0] == "tenant02999_modelv1"
    assert rows[1][7] == "1"
    assert "3,000 models, the first 50 by harm and traffic shown" in page.words("models")
    found = open_page(process, find="tenant00007")
    assert [row[0] for row in found.rows("models")[1:]] == ["tenant00007_modelv1"]
    assert "1 of 3,000 models" in found.words("models")


def test_idle_models_can_be_left_out(open_page) -> None:
    page = open_page(small_repository(), show="with traffic")
    names = [row[0] for row in page.rows("models")[1:]]
    assert "never_loaded" not in names
    assert "fast_addv1" in names


@pytest.mark.parametrize("value", ["1h", "nonsense"])
def test_the_range_is_taken_from_the_address_if_it_is_one(open_page, value: str) -> None:
    page = open_page(small_repository(), range=value)
    kept = {"1h": "1h"}.get(value)
    assert page.app.query_params.get("range") == kept
    assert page.app.session_state["range"] == (kept or "15m")
    assert ("range=1h" in page.panels["menu"]) == (kept == "1h")


def test_the_menu_counts_what_needs_a_look(open_page) -> None:
    assert "Overview 4 emergency" in open_page(small_repository()).words("menu")
    assert "Overview emergency" in open_page(case("a02_counter_suffix.prom")).words("menu")


def test_an_unread_setting_is_a_quiet_note(open_page, tmp_path) -> None:
    from settings import load_settings

    file = tmp_path / "tritonscope.yml"
    file.write_text("servers:\n  - url: http://127.0.0.1:1\n    colour: red\n", encoding="utf-8")
    page = open_page(runtime.Runtime(load_settings({}, path=file)))
    assert "1 note on the settings" in page.words("settings_notices")
    assert "line 3" in page.words("settings_notices")


def test_a_paused_page_says_of_when_its_figures_are(open_page) -> None:
    words = open_page(small_repository()).words("header")
    assert re.search(r"figures of \d\d:\d\d:\d\d", words)
    assert "scraped" not in words and "paused" in words


def test_a_start_in_the_future_is_no_time_to_show(open_page) -> None:
    page = open_page(small_repository(), **{"from": "4000000000"})
    assert "charts" not in page.words("header")
    assert "req/s" in page.words("models")


def test_of_several_silent_servers_each_is_named(open_page) -> None:
    process = runtime_of(down=True, environ={"TRITONSCOPE_SERVERS": "left=127.0.0.1:2"})
    first = process.servers[0].id
    assert f"{first}: triton-a is not reachable: connection refused" in open_page(process).words("changes")


def test_a_filter_without_a_hit_says_so_and_leads_back(open_page) -> None:
    page = open_page(case("a02_counter_suffix.prom"), show="with findings")
    assert page.words("models") == "No model has a finding now. Show all models"
    named = open_page(small_repository(), find="<b>zzz")
    assert "There is no model whose name contains &#x27;&lt;b&gt;zzz&#x27;." in named.panels["models"]
    assert "<table" not in named.panels["models"]


def test_a_number_in_the_first_line_stays_with_its_unit(open_page) -> None:
    markup = open_page(small_repository(), "model", model="fast_add").panels["header"]
    assert "287\u00a0req/s in 658\u00a0µs on average, 40\u00a0% of it" in markup


def test_an_address_without_a_search_empties_the_field(open_page) -> None:
    app = open_page(small_repository(), find="fast", show="with traffic").app
    assert app.text_input(key="find").value == "fast"
    del app.query_params["find"], app.query_params["show"]
    app.run()
    assert app.text_input(key="find").value == ""
    assert app.session_state["show"] == "all"
    # Popped from the session alone, the field in the browser would keep its text and the table its filter.
    assert app.text_input(key="find").proto.set_value


@pytest.mark.parametrize("show", ["nonsense", ""])
def test_a_choice_the_page_does_not_offer_shows_all(open_page, show: str) -> None:
    page = open_page(small_repository(), show=show)
    assert page.app.session_state["show"] == "all"
    assert "8 models" in page.words("models")
