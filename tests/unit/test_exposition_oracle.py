"""prometheus_client's parser as oracle: same values and labels on real and on generated pages."""

import math
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from collectors.exposition import SeriesCache, read_page
from telemetry.catalogue import Kind

FIXTURES = Path(__file__).parent.parent / "fixtures"
REAL_PAGES = sorted(path.name for path in FIXTURES.glob("metrics_*.txt"))
SMALL_PAGES = sorted(f"small_repo/{path.name}" for path in FIXTURES.glob("small_repo/*_metrics.txt"))

Key = tuple[str, tuple[tuple[str, str], ...]]


def oracle(text: str) -> dict[Key, float]:
    """What prometheus_client reads; it renames counters of this format to `_total`, which is undone."""
    found: dict[Key, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name
            if f"# TYPE {family.name} counter" in text and name == f"{family.name}_total":
                name = family.name
            found.setdefault((name, tuple(sorted(sample.labels.items()))), float(sample.value))
    return found


def ours(text: str, cache: SeriesCache | None = None) -> dict[Key, float]:
    page = read_page(text, cache)
    assert not page.notices
    assert len(page.texts) == len(page.samples.series)
    for printed, value in zip(page.texts, page.samples.values, strict=True):
        assert same(float(printed), float(value))
    return {
        (series.name, series.labels): float(value)
        for series, value in zip(page.samples.series, page.samples.values, strict=True)
    }


def same(left: float, right: float) -> bool:
    return left == right or (math.isnan(left) and math.isnan(right))


def assert_equal(got: dict[Key, float], expected: dict[Key, float]) -> None:
    assert got.keys() == expected.keys()
    assert all(same(got[key], expected[key]) for key in expected)


def test_there_are_real_pages() -> None:
    assert len(REAL_PAGES) >= 9
    assert len(SMALL_PAGES) >= 8


@pytest.mark.parametrize("file", REAL_PAGES + SMALL_PAGES)
def test_real_pages_read_as_prometheus_client_reads_them(file: str) -> None:
    text = (FIXTURES / file).read_text()
    cache = SeriesCache()
    expected = oracle(text)
    assert_equal(ours(text, cache), expected)
    assert_equal(ours(text, cache), expected)


@pytest.mark.parametrize("file", REAL_PAGES)
def test_families_of_real_pages_have_the_type_and_help_prometheus_client_reads(file: str) -> None:
    text = (FIXTURES / file).read_text()
    families = read_page(text).families
    for family in text_string_to_metric_families(text):
        mine = families.get(family.name) or families[f"{family.name}_total"]
        assert mine.kind is (Kind.UNTYPED if family.type == "unknown" else Kind(family.type))
        assert mine.help == family.documentation


names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True)
label_names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True)
label_values = st.text(
    st.one_of(st.sampled_from('\\"\n{}=, #\t\u2028\u0085'), st.characters(exclude_categories=["Cs"])),
    max_size=12,
).filter(lambda value: "\r" not in value)
numbers = st.one_of(
    st.integers(-(2**63), 2**63).map(str),
    st.floats().map(repr),
    st.sampled_from(["Nan", "NaN", "nan", "+Inf", "-Inf", "Inf", "1e999", "+5", "-0", "5e-324", "1.7e+01"]),
)
blanks = st.sampled_from(["", " ", "\t", "  "])
gaps = st.sampled_from([" ", "\t", "  ", " \t"])


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@st.composite
def lines(draw: st.DrawFn) -> str:
    name = draw(names)
    labels = draw(st.dictionaries(label_names, label_values, max_size=4))
    inner = (draw(blanks) + ",").join(
        f'{draw(blanks)}{key}{draw(blanks)}={draw(blanks)}"{escaped(value)}"' for key, value in labels.items()
    )
    braces, gap = "", draw(gaps)
    if labels:
        braces = f"{draw(blanks)}{{{inner}{draw(st.sampled_from(['', ',']))}{draw(blanks)}}}"
        gap = draw(blanks)
    stamp = f"{draw(gaps)}{draw(st.integers(0, 2**42))}" if draw(st.booleans()) else ""
    return f"{name}{braces}{gap}{draw(numbers)}{stamp}{draw(blanks)}"


def join(parts: Iterable[str]) -> str:
    return "".join(f"{part}\n" for part in parts)


def is_unique(text: str) -> bool:
    """True for a page whose series differ and that the oracle can read: it refuses some valid ones."""
    try:
        keys = [
            (sample.name, tuple(sorted(sample.labels.items())))
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]
    except ValueError:
        return False
    return len(keys) == len(set(keys))


@settings(max_examples=300, deadline=None)
@given(st.lists(lines(), min_size=1, max_size=8).map(join).filter(is_unique))
@example('a{x="}"} 1\n')
@example('a{x="\\\\"} 1\n')
@example('a{x="\\n{"}1 5\n')
def test_generated_pages_read_as_prometheus_client_reads_them(text: str) -> None:
    cache = SeriesCache()
    expected = oracle(text)
    assert_equal(ours(text, cache), expected)
    assert_equal(ours(text, cache), expected)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.sampled_from('ab_:{}="\\ \t\n,#1.eNaIf+-\r'), max_size=60))
def test_nothing_raises_but_the_one_error_and_good_lines_around_survive(noise: str) -> None:
    page = read_page(f"first 1\n{noise}\nlast 2\n")
    got = {series.name: value for series, value in zip(page.samples.series, page.samples.values, strict=True)}
    assert got["first"] == 1
    assert got["last"] == 2
