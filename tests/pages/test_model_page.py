from __future__ import annotations

import json
import struct

from fake_runtime import CASES, SMALL, case, runtime_of, small_repository, text

from telemetry.identity import ModelKey
from ui.model_choice import pick
from ui.model_rows import ModelRow


def header_of(chart: bytes) -> dict:
    (length,) = struct.unpack_from("<I", chart)
    return json.loads(chart[4 : 4 + length])


def overload() -> object:
    return runtime_of(
        [text(CASES / "b07_overload_t0.prom"), text(CASES / "b07_overload_t1.prom")],
        configs=[text(CASES / "b07.config.json")],
        every_seconds=10.0,
    )


def test_the_first_line_says_where_the_time_goes(open_page) -> None:
    words = open_page(small_repository(), "model", model="fast_add").words("header")
    assert words.startswith(
        "fast_add v1 answers 287 req/s in 658 µs on average, 40 % of it waiting in the queue."
    )
    assert "batches up to 8, prefers 4 and 8, waits up to 2 ms for one; 2 instances on CPU" in words
    assert "step of pipeline" in words


def test_a_finding_is_the_first_line_and_its_card_adds_the_impact(open_page) -> None:
    page = open_page(small_repository(), "model", model="slow_add")
    assert page.words("header").startswith("slow_add waits 933 ms in the queue, although on average only")
    assert "slow_add waits 933 ms" not in page.words("findings")
    assert "Every request to this model pays the waiting time" in page.words("findings")


def test_the_charts_carry_the_models_figures(open_page) -> None:
    charts = {
        key: header_of(one)
        for key, one in open_page(small_repository(), "model", model="fast_add").charts.items()
    }
    budget = charts["budget"]
    assert [(one["name"], one["last"]) for one in budget["legend"]] == [
        ("queue", "263 µs"),
        ("input", "34.3 µs"),
        ("infer", "255 µs"),
        ("output", "82.9 µs"),
    ]
    assert budget["note"] == "max_queue_delay 2 ms is off the chart"
    assert charts["Throughput and failures"]["legend"][0]["last"] == "287 /s"
    assert [one["text"] for one in charts["Batch size"]["layout"]["annotations"]] == ["preferred 4", "max 8"]
    assert charts["histogram"]["traces"][0]["x"] == ["1", "2", "3", "4"]
    assert charts["histogram"]["traces"][0]["text"] == [
        "19 executions (0.438 %)",
        "19 executions (0.438 %)",
        "42 executions (0.967 %)",
        "4,262 executions (98.2 %)",
    ]
    assert {one["group"] for one in charts.values()} == {"model"}


def test_an_overloaded_model_waits_though_its_delay_is_a_microsecond(open_page) -> None:
    page = open_page(overload(), "model", model="alpha")
    assert "1.9 s" in page.words("header")
    budget = header_of(page.charts["budget"])
    assert budget["legend"][0] == {"name": "queue", "color": "#E8871E", "last": "1.9 s", "mark": "box"}
    assert budget["unit"] == "s per request, mean"
    assert header_of(page.charts["Batch size"])["legend"][0]["last"] == "4"


def test_an_idle_model_has_reasons_and_no_zeros(open_page) -> None:
    page = open_page(small_repository(), "model", model="never_loaded")
    assert page.words("header").startswith("never_loaded is not loaded.")
    for chart in ("budget", "histogram", "Pending", "Batch size"):
        assert header_of(page.charts[chart])["empty"] == "The model is not loaded: it serves nothing."
    assert "Triton gives the configuration of ready models only" in page.words("configuration")


def test_a_failed_load_is_told_with_the_servers_reason(open_page) -> None:
    page = open_page(small_repository(), "model", model="broken_init")
    words = page.words("header")
    assert "cannot find weights at /models/broken_init/1/weights.pt" in words
    assert "failed to load since" in words and "unloaded" not in words
    assert header_of(page.charts["Pending"])["empty"] == "The model failed to load: it serves nothing."


def test_an_ensemble_shows_its_steps_with_their_share(open_page) -> None:
    page = open_page(small_repository(), "model", model="pipeline")
    assert "ensemble of 2 steps (fast_add → slow_add)" in page.words("header")
    steps = page.words("failures").replace("&#x27;", "'")
    assert "→ fast_add 658 µs mean · 0.058 % of the steps' time → slow_add 1.13 s mean · 99.9 %" in steps


def test_what_follows_a_finding_keeps_its_place_when_the_finding_goes(open_page) -> None:
    """The browser would show it twice until the drawing has ended: where it was and where it is."""
    with_finding = open_page(small_repository(), "model", model="flaky")
    without = open_page(small_repository(), "model", model="fast_add")
    assert "findings" in with_finding.panels and "findings" not in without.panels
    for key in ("budget", "Pending", "configuration"):
        assert with_finding.place(key) == without.place(key)
    calm = open_page(runtime_of([text(SMALL / "summary_1_idle_metrics.txt")] * 2))
    assert "findings" not in calm.panels
    assert open_page(small_repository()).place("tiles") == calm.place("tiles")


def test_a_mean_below_one_is_told_from_a_batch_size(open_page) -> None:
    notes = {
        model: header_of(open_page(small_repository(), "model", model=model).charts["Batch size"])["note"]
        for model in ("flaky", "fast_add")
    }
    assert notes["flaky"] == "below 1: executions failed"
    assert "below 1" not in notes["fast_add"]


def test_failures_are_listed_by_reason_with_what_no_counter_shows(open_page) -> None:
    words = open_page(small_repository(), "model", model="flaky").words("failures")
    assert "refused for a full queue" in words
    assert "BACKEND" in words and "the model or its backend reported an error" in words
    assert "REJECTED" not in words


def test_no_failure_is_not_claimed_where_refusals_are_not_counted(open_page) -> None:
    page = open_page(case("b08_rejected_not_counted.prom"), "model")
    assert "are in no counter of Triton" in page.words("failures")
    assert "no request failed" not in page.markup.casefold()


def test_a_server_without_the_pending_gauge_is_not_called_empty(open_page) -> None:
    page = open_page(case("b03_no_pending_family.prom"), "model")
    assert "not reported" in header_of(page.charts["Pending"])["empty"]


def test_quantiles_are_drawn_where_the_server_reports_them(open_page) -> None:
    charts = open_page(small_repository(), "model", model="slow_add").charts
    assert {one["name"] for one in header_of(charts["quantiles"])["legend"]} == {
        "p50",
        "p90",
        "p95",
        "p99",
        "p99.9",
    }


def test_quantiles_of_a_model_never_used_are_left_out(open_page) -> None:
    assert "quantiles" not in open_page(case("a01_quantiles_never_used.prom"), "model").charts


def test_secrets_in_the_configuration_are_masked(open_page) -> None:
    config = json.loads(text(SMALL / "config_fast_add.json"))
    config["parameters"] = {"HF_TOKEN": {"string_value": "hf_abc"}, "mode": {"string_value": "fast"}}
    process = runtime_of([text(SMALL / "default_2_under_load_metrics.txt")] * 2, configs=[json.dumps(config)])
    markup = open_page(process, "model", model="fast_add").markup
    assert "hf_abc" not in markup
    assert "it looks like a secret" in markup
    assert "fast" in markup


def test_a_link_to_an_unknown_model_says_so_and_shows_another(open_page) -> None:
    page = open_page(small_repository(), "model", model="![<i>nobody](http://127.0.0.1:1/x.png)")
    assert "is not known to any server looked at" in page.words("unknown_model")
    assert "![&lt;i&gt;nobody](http://127.0.0.1:1/x.png)" in page.panels["unknown_model"]
    assert page.app.session_state["model"] == "flaky"


def test_without_models_the_page_says_where_to_load_one(open_page) -> None:
    page = open_page(runtime_of(indexes=["[]"]), "model")
    assert "No model is known yet." in page.words("header")
    assert "Repository" in page.words("no_model")


def test_without_an_answer_the_page_does_not_blame_the_repository(open_page) -> None:
    page = open_page(runtime_of(down=True), "model")
    assert "No model is known yet." in page.words("header")
    assert page.words("no_model").startswith(
        "No server answers, so there is no model to show. triton-a is not reachable: connection refused"
    )


def test_a_time_before_the_record_is_not_called_one_without_requests(open_page) -> None:
    page = open_page(
        small_repository(), "model", model="fast_add", **{"from": "1700000000", "to": "1700000600"}
    )
    assert header_of(page.charts["budget"])["empty"].startswith(
        "Nothing was recorded then: the oldest figures"
    )


def model_row(name: str, version: str, state_class: str = "ok") -> ModelRow:
    return ModelRow(ModelKey("a", name, version), "", state_class, None, "", None, None, "")


def test_a_model_that_gets_its_version_by_being_loaded_stays_on_the_page() -> None:
    rows = [model_row("other", "1"), model_row("slow", "1", "moving")]
    assert pick(rows, "slow", "") == ModelKey("a", "slow", "1")


def test_a_version_that_went_away_gives_way_to_the_highest_ready_one() -> None:
    rows = [model_row("slow", "10", "off"), model_row("slow", "9"), model_row("slow", "2")]
    assert pick(rows, "slow", "3") == ModelKey("a", "slow", "9")
    assert pick(rows, "slow", "2") == ModelKey("a", "slow", "2")
    assert pick(rows, "gone", "1") is None


def test_memory_says_who_could_tell_and_advice_what_it_rests_on(open_page) -> None:
    page = open_page(small_repository(), "model", model="fast_add")
    words = page.words("memory")
    assert "Nothing tells. ONNX Runtime and TensorRT report it" in words
    # Both executed sizes took 360 us.
    assert "An execution takes 360 µs whatever its size (sizes 3 to 4)." in words
    assert "Taken as" in words and "measured 263 µs." in words


def test_an_ensemble_has_no_memory_and_no_advice_of_its_own(open_page) -> None:
    words = open_page(small_repository(), "model", model="pipeline").words("memory")
    assert "Memory" not in words and "Advice" not in words
