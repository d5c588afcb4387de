"""T(b) = a + c * b from what the statistics counted."""

from __future__ import annotations

import pytest

from signals.batch_time import SizeTime, fit_batch_time, size_times
from telemetry.facts import BatchSizeStatistics


def sizes(*rows: tuple[int, float, float]) -> list[SizeTime]:
    return [SizeTime(*row) for row in rows]


def test_the_time_of_a_size_is_all_three_parts_per_execution() -> None:
    rows = (
        BatchSizeStatistics(8, 10, 1_000_000, 20_000_000, 3_000_000),
        BatchSizeStatistics(1, 4, 0, 8_000_000, 0),
        BatchSizeStatistics(2, 0, 0, 0, 0),
    )
    assert size_times(rows) == (SizeTime(1, 4, 2000.0), SizeTime(8, 10, 2400.0))


def test_a_line_is_found_exactly() -> None:
    found = fit_batch_time(sizes((1, 100, 8300), (4, 50, 9200), (16, 400, 12800)))
    assert found is not None
    assert found.fixed_us == pytest.approx(8000) and found.per_row_us == pytest.approx(300)
    assert (found.smallest, found.largest, found.executions) == (1, 16, 550)
    assert found.us(8) == pytest.approx(10_400)
    # 2 instances, 8 rows each in 10.4 ms.
    assert found.capacity_per_second(8, 2) == pytest.approx(2 * 8 / 0.0104)
    assert found.error_ratio == 0.03


def test_one_size_far_off_does_not_bend_the_line() -> None:
    rows = [(size, 100.0, 8000.0 + 300.0 * size) for size in (1, 2, 4, 8, 12, 16)]
    rows[2] = (4, 100.0, 30_000.0)
    found = fit_batch_time(sizes(*rows))
    assert found is not None
    assert found.us(1) == pytest.approx(8300, rel=0.05) and found.us(16) == pytest.approx(12_800, rel=0.05)
    assert found.error_ratio is not None and found.error_ratio > 0.3


def test_rare_sizes_say_nothing_and_one_size_makes_no_line() -> None:
    assert fit_batch_time(sizes((1, 500, 8000))) is None
    assert fit_batch_time(sizes((1, 500, 8000), (2, 19, 50_000))) is None
    assert fit_batch_time([]) is None


def test_two_sizes_make_a_line_of_unknown_error() -> None:
    found = fit_batch_time(sizes((1, 100, 1000), (2, 100, 1500)))
    assert found is not None and found.error_ratio is None
    assert (found.fixed_us, found.per_row_us) == pytest.approx((500, 500))


def test_no_part_is_below_zero() -> None:
    falling = fit_batch_time(sizes((1, 100, 1000), (2, 100, 900)))
    assert falling is not None and falling.per_row_us == 0 and 900 < falling.fixed_us < 1000
    steep = fit_batch_time(sizes((1, 100, 100), (2, 100, 400)))
    assert steep is not None and steep.fixed_us == 0 and 100 < steep.per_row_us < 200
