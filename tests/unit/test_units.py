"""Values as people read them: three significant digits, a unit, and nothing that was not reported."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.units import (
    Unit,
    base_value,
    bytes_from_mib,
    human,
    human_duration,
    joules_from_millijoules,
    ratio_from_percent,
    seconds_from_us,
    significant,
    us_from_ns,
    us_from_seconds,
)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1_900_000, Unit.US, "1.9 s"),
        (20_275, Unit.US, "20.3 ms"),
        (450, Unit.US, "450 µs"),
        (0.25, Unit.US, "0.25 µs"),
        (999.7, Unit.US, "1 ms"),
        (999.4, Unit.US, "999 µs"),
        (0, Unit.US, "0 s"),
        (0, Unit.MS, "0 s"),
        (1500, Unit.NS, "1.5 µs"),
        (2500, Unit.MS, "2.5 s"),
        (0.002, Unit.SECONDS, "2 ms"),
        (2 * 2**30, Unit.BYTES, "2 GiB"),
        (18.24 * 2**30, Unit.BYTES, "18.2 GiB"),
        (450 * 2**20, Unit.BYTES, "450 MiB"),
        (-0.7 * 2**30, Unit.BYTES, "-717 MiB"),
        (1, Unit.BYTES, "1 B"),
        (0.0654, Unit.RATIO, "6.54 %"),
        (0.62, Unit.RATIO, "62 %"),
        (1, Unit.RATIO, "100 %"),
        (0, Unit.RATIO, "0 %"),
        (1243.7, Unit.PER_SECOND, "1,240 /s"),
        (9995.4, Unit.PER_SECOND, "10,000 /s"),
        (4_501_500, Unit.REQUESTS, "4,501,500"),
        (2.5, Unit.BATCH, "2.5"),
        (250.04, Unit.WATTS, "250 W"),
        (1500, Unit.JOULES, "1.5 kJ"),
        (None, Unit.US, "–"),
        (math.nan, Unit.BYTES, "n/a"),
        (math.inf, Unit.SECONDS, "∞"),
        (-math.inf, Unit.NONE, "-∞"),
        (9.996, Unit.NONE, "10"),
        (0.0999996, Unit.NONE, "0.1"),
        (1e-9, Unit.NONE, "1.00e-09"),
        (2e15, Unit.COUNT, "2.00e+15"),
    ],
)
def test_values_as_people_read_them(value: float | None, unit: Unit, text: str) -> None:
    assert human(value, unit) == text


@given(st.floats(1e-6, 1e14), st.sampled_from([1, -1]))
def test_a_number_is_within_half_a_unit_of_its_third_digit(magnitude: float, sign: int) -> None:
    value = sign * magnitude
    shown = float(significant(value).replace(",", ""))
    assert abs(shown - value) <= 0.5000001 * 10 ** (math.floor(math.log10(magnitude)) - 2)


@given(st.floats(1e-3, 1e12), st.sampled_from([Unit.US, Unit.BYTES, Unit.RATIO, Unit.SECONDS]))
def test_what_is_shown_reads_back(value: float, unit: Unit) -> None:
    number, _, suffix = human(value, unit).partition(" ")
    assert base_value(float(number.replace(",", "")), suffix, unit) == pytest.approx(value, rel=0.006)


def test_a_suffix_of_another_unit_is_refused() -> None:
    assert base_value(10, "us", Unit.US) == 10
    with pytest.raises(ValueError, match="'GiB' is not a unit of us"):
        base_value(1, "GiB", Unit.US)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (-3, "0 s"), (119.9, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 d")],
)
def test_durations(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_conversions() -> None:
    assert us_from_ns(1500) == 1.5
    assert seconds_from_us(2_000_000) == 2
    assert us_from_seconds(2) == 2_000_000
    assert bytes_from_mib(2) == 2_097_152
    assert ratio_from_percent(87) == 0.87
    assert joules_from_millijoules(2500) == 2.5
