from __future__ import annotations

import json
import struct

from fake_runtime import case, runtime_of, small_repository, wrong_metrics_page


def header_of(chart: bytes) -> dict:
    (length,) = struct.unpack_from("<I", chart)
    return json.loads(chart[4 : 4 + length])


def test_every_family_is_listed_with_type_series_and_help(open_page) -> None:
    page = open_page(small_repository(), "explore")
    assert page.words("header").startswith("20 families with 201 samples on the servers")
    rows = {row[0]: row[1:] for row in page.rows("families")}
    assert rows["nv_inference_count"] == [
        "counter", "4", "Number of inferences performed (does not include cached requests)",
    ]  # fmt: skip
    assert rows["nv_inference_request_summary_us"][:2] == ["summary", "28"]


def test_the_chosen_family_is_drawn_and_listed_as_printed(open_page) -> None:
    page = open_page(small_repository(), "explore", family="nv_inference_request_success")
    chart = header_of(page.charts["family"])
    assert chart["title"] == "nv_inference_request_success"
    assert chart["unit"] == "per second"
    assert chart["legend"][0]["name"] == "model=fast_add, version=1"
    assert ["model=fast_add version=1", "17231", "17,231", "copy"] in [
        [cell.replace("version", " version").replace("  ", " ") for cell in row]
        for row in page.rows("samples")
    ]


def test_the_search_finds_labels_too(open_page) -> None:
    page = open_page(small_repository(), "explore", find="reason=rejected")
    assert [row[0] for row in page.rows("families")[1:]] == ["nv_inference_request_failure"]


def test_a_search_without_a_hit_says_so_literally(open_page) -> None:
    page = open_page(small_repository(), "explore", find="<i>")
    assert "contains &#x27;&lt;i&gt;&#x27;" in page.panels["families"]


def test_custom_families_are_marked_and_their_labels_literal(open_page) -> None:
    page = open_page(case("a14_custom_metrics.prom"), "explore", family="app_seen")
    assert "app_seencustom" in {row[0] for row in page.rows("families")}
    assert "C:\\x &quot;y&quot;" in page.panels["samples"]
    assert page.rows("samples")[1][1] == "2"
    assert "custom" in page.words("header")


def test_a_value_that_is_no_number_is_said_in_words(open_page) -> None:
    page = open_page(case("a14_custom_metrics.prom"), "explore", family="app_temp")
    assert page.rows("samples")[1][2] == "n/a"


def test_extreme_values_are_kept_as_printed(open_page) -> None:
    process = case("a20_extremes.prom")
    families = {row[0].removesuffix("custom") for row in open_page(process, "explore").rows("families")[1:]}
    cells = [
        row for name in families for row in open_page(process, "explore", family=name).rows("samples")[1:]
    ]
    assert len(cells) == 11
    assert "9007199254740993" in {row[1] for row in cells}
    assert "∞" in {row[2] for row in cells}
    assert "n/a" in {row[2] for row in cells}


def test_before_the_first_page_was_read_there_is_a_reason(open_page) -> None:
    page = open_page(runtime_of(down=True), "explore")
    assert "No metrics page has been read yet." in page.words("header")
    assert "connection refused" in page.words("nothing")


def test_a_server_whose_metrics_page_is_not_there_has_the_reason(open_page) -> None:
    process = runtime_of(indexes=["[]"])
    process.accept(wrong_metrics_page(process.servers[0].id))
    words = open_page(process, "explore").words("nothing")
    assert "answered 404" in words and "metrics_url" in words
