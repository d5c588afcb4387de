"""The reader of a metrics page: odd forms, bad lines, foreign pages, caching."""

import json
import math
from pathlib import Path

import pytest

from collectors.exposition import (
    MAX_NOTICES,
    MetricsPage,
    SeriesCache,
    family_of,
    not_metrics,
    read_page,
)
from telemetry.catalogue import Kind
from telemetry.errors import WrongContent
from telemetry.scrape import Series

FIXTURES = Path(__file__).parent.parent / "fixtures"
CASES = FIXTURES / "cases"


def page_of(name: str) -> MetricsPage:
    return read_page((CASES / name).read_bytes().decode(), source=name)


def values(page: MetricsPage, family: str, label: str = "model") -> dict[str, float]:
    """Values by one label of one family."""
    return {
        series.label(label): float(value)
        for series, value in zip(page.samples.series, page.samples.values, strict=True)
        if series.name == family
    }


def texts(page: MetricsPage) -> dict[str, str]:
    return {series.labels[0][1]: text for series, text in zip(page.samples.series, page.texts, strict=True)}


def lines_noticed(page: MetricsPage) -> list[int | None]:
    return [notice.line for notice in page.notices]


GOOD_FOUR = {
    "nv_inference_request_success": 20.0,
    "nv_inference_count": 50.0,
    "nv_inference_exec_count": 20.0,
    "nv_inference_queue_duration_us": 9000.0,
}


@pytest.mark.parametrize(
    ("file", "noticed"),
    [
        ("a02_counter_suffix.prom", []),
        ("a11_crlf.prom", []),
        ("a11_no_final_newline.prom", [12]),
        ("a12_truncated_scrape.prom", [15]),
        ("a12_comment_line.prom", []),
    ],
)
def test_a02_a11_a12_the_good_samples_are_kept_under_the_names_as_printed(
    file: str, noticed: list[int]
) -> None:
    page = page_of(file)
    got = {series.name: value for series, value in zip(page.samples.series, page.samples.values, strict=True)}
    got = {name: value for name, value in got.items() if name in GOOD_FOUR}
    assert got == GOOD_FOUR
    assert lines_noticed(page) == noticed


def test_a01_quantiles_are_nan_whatever_their_spelling() -> None:
    page = page_of("a01_quantiles_window_expired.prom")
    quantiles = values(page, "nv_inference_request_summary_us", "quantile")
    assert quantiles
    assert all(math.isnan(value) for value in quantiles.values())
    assert page.families["nv_inference_request_summary_us"].kind is Kind.SUMMARY
    assert not page.notices


def test_a03_families_without_samples_are_families() -> None:
    page = page_of("a03_families_without_samples.prom")
    assert page.families["nv_inference_request_success"].kind is Kind.COUNTER
    assert list(values(page, "nv_gpu_utilization", "gpu_uuid").values()) == [0.12]
    assert not [series for series in page.samples.series if series.name.startswith("nv_inference")]


def test_a10_label_values_are_read_literally() -> None:
    expected = json.loads((CASES / "a10_label_escapes.expected.json").read_text())
    page = page_of("a10_label_escapes.prom")
    assert values(page, "nv_inference_request_success") == expected
    assert not page.notices


def test_a11_odd_spacing_and_timestamps() -> None:
    page = page_of("a11_whitespace_timestamps.prom")
    assert values(page, "nv_inference_request_success") == {
        "nospace": 11,
        "spacebrace": 12,
        "inner": 13,
        "ts": 14,
        "trail": 15,
        "comma": 16,
        "sci": 17,
        "tab": 18,
    }
    assert list(page.texts) == ["11", "12", "13", "14", "15", "16", "1.7e+01", "18"]


def test_a11_a_page_without_final_line_break_says_so() -> None:
    (notice,) = page_of("a11_no_final_newline.prom").notices
    assert notice.text == "perhaps cut off: the page does not end with a line break"
    assert notice.source == "a11_no_final_newline.prom"


def test_a12_a_bad_line_costs_that_line_only() -> None:
    page = page_of("a12_bad_line_in_middle.prom")
    assert values(page, "nv_inference_request_success") == {"alpha": 20, "charlie": 30}
    assert values(page, "nv_inference_count") == {"alpha": 50}
    assert lines_noticed(page) == [3]
    assert page.notices[0].text.startswith("line not understood:")


def test_a12_text_as_value() -> None:
    page = page_of("a12_bad_value.prom")
    assert values(page, "nv_gpu_utilization", "gpu_uuid") == {"GPU-bbbb": 0.5}
    assert lines_noticed(page) == [2]
    assert page.notices[0].text == "line not understood: 'N/A' is not a number"


def test_a12_thousands_separator_as_value() -> None:
    page = page_of("a12_value_1_000.prom")
    assert len(page.samples.series) == 0
    assert lines_noticed(page) == [2]
    assert page.notices[0].text == "line not understood: '1_000' is not a number"


def test_a12_a_value_gone_bad_in_a_known_series_is_noticed_too() -> None:
    cache = SeriesCache()
    read_page("a 1\nb 2\nc 3\nd 4\n", cache)
    page = read_page("a 1_0\nb N/A\nc ３\nd 5\n", cache)
    assert lines_noticed(page) == [1, 2, 3]
    assert [series.name for series in page.samples.series] == ["d"]


def test_a14_custom_families() -> None:
    page = page_of("a14_custom_metrics.prom")
    assert page.families["app_lat_ms"].kind is Kind.HISTOGRAM
    assert family_of("app_lat_ms_bucket", page.families) == "app_lat_ms"
    assert family_of("app_lat_ms_sum", page.families) == "app_lat_ms"
    assert family_of("app_seen", page.families) == "app_seen"
    assert values(page, "app_seen", "path") == {'C:\\x "y"': 2.0}


def test_a18_three_thousand_models() -> None:
    names = [f"tenant{number:05d}_model" for number in range(3000)]
    lines = ["# TYPE nv_inference_request_success counter"]
    lines += [
        f'nv_inference_request_success{{model="{name}",version="1"}} {count}'
        for count, name in enumerate(names, 1)
    ]
    page = read_page("\n".join((*lines, "")))
    got = values(page, "nv_inference_request_success")
    assert sum(got.values()) == 4_501_500
    assert max(got, key=lambda name: got[name]) == "tenant02999_model"


def test_a20_extremes() -> None:
    page = page_of("a20_extremes.prom")
    got = values(page, "app_gauge", "k")
    assert len(got) == 11
    assert got["pinf"] == math.inf
    assert got["over"] == math.inf
    assert got["ninf"] == -math.inf
    assert all(math.isnan(got[name]) for name in ("nan", "nan2", "nan3"))
    assert got["small"] == 5e-324
    assert texts(page)["int53"] == "9007199254740993"
    assert texts(page)["plus"] == "+5"


@pytest.mark.parametrize(
    ("body", "content_type", "got"),
    [
        ((CASES / "a21_html_page.txt").read_text(), "text/html; charset=utf-8", "text/html"),
        ((CASES / "a21_html_page.txt").read_text(), "", "text/html"),
        ((CASES / "a21_json_404.txt").read_text(), "application/json", "application/json"),
        ((CASES / "a21_json_404.txt").read_text(), "text/plain", "application/json"),
        ("", "text/plain", "an empty answer"),
        ("\n \n", "text/plain", "an empty answer"),
        ("Bad gateway, sorry.\n", "text/plain; charset=utf-8", "text/plain"),
        ("Bad gateway, sorry.\n", "", "text that is not in the metrics format"),
    ],
)
def test_a21_what_is_no_metrics_page_says_what_it_is(body: str, content_type: str, got: str) -> None:
    with pytest.raises(WrongContent) as raised:
        read_page(body, content_type=content_type)
    assert raised.value.sentence == (
        f"This address does not serve Prometheus metrics (got {got}). "
        "Triton's usual is http://host:8002/metrics."
    )
    assert raised.value.sentence == not_metrics(got).sentence


def test_the_first_of_equal_series_counts() -> None:
    page = read_page('a{x="1",y="2"} 1\nb 5\na{ y="2", x="1" } 2\n')
    assert list(page.samples.values) == [1.0, 5.0]
    assert list(page.texts) == ["1", "5"]
    assert lines_noticed(page) == [3]
    assert "line 1 already" in page.notices[0].text


def test_many_bad_lines_are_counted_not_listed() -> None:
    page = read_page("good 1\n" + "bad line here now\n" * (MAX_NOTICES + 7))
    assert len(page.notices) == MAX_NOTICES + 1
    assert page.notices[-1].line == MAX_NOTICES + 2
    assert page.notices[-1].text == "7 more lines from here on were not used"


@pytest.mark.parametrize(
    "line",
    [
        'a{x="1"',
        "a{x=1} 1",
        'a{x="1" y="2"} 1',
        'a{x="1",x="2"} 1',
        "a",
        "a 1 2 3",
        "a 1 noon",
        "1a 5",
        "a-b 5",
        'a{x="1"}',
        "a 0x1p",
    ],
)
def test_lines_that_are_no_samples(line: str) -> None:
    page = read_page(f"good 1\n{line}\n")
    assert lines_noticed(page) == [2]
    assert [series.name for series in page.samples.series] == ["good"]


def test_known_series_are_the_same_objects_from_page_to_page() -> None:
    cache = SeriesCache()
    text = (FIXTURES / "metrics_2_under_load.txt").read_text()
    first = read_page(text, cache)
    again = read_page(text, cache)
    assert again.samples.series is first.samples.series
    assert list(again.texts) == list(first.texts)
    changed = read_page(text + "one_more 1\n", cache)
    assert changed.samples.series is not first.samples.series
    assert changed.samples.series[0] is first.samples.series[0]


def test_the_cache_is_bounded_and_keeps_what_is_in_use() -> None:
    cache = SeriesCache(limit=10)
    for generation in range(20):
        text = "".join(f'stays{{n="{n}"}} 1\n' for n in range(3))
        text += "".join(f'm{{g="{generation}",n="{n}"}} 1\n' for n in range(3))
        read_page(text, cache)
    assert len(cache) <= 12
    assert 'stays{n="2"}' in cache.raw


def test_labels_are_sorted_and_help_is_unescaped() -> None:
    page = read_page('# HELP a one\\ntwo \\\\ three\n# TYPE a gauge\na{z="1",b="2"} 1\n')
    assert page.samples.series[0] == Series("a", (("b", "2"), ("z", "1")))
    assert page.families["a"].help == "one\ntwo \\ three"


def test_synthetic_gpu_page_has_the_histogram() -> None:
    page = read_page((FIXTURES / "metrics_SYNTHETIC_gpu_26x.txt").read_text())
    family = "nv_inference_first_response_histogram_ms"
    assert page.families[family].kind is Kind.HISTOGRAM
    assert family_of(f"{family}_bucket", page.families) == family
