"""The figures of `make soak`: growth is the middle slope, and only the second half counts."""

from __future__ import annotations

import pytest

from benchmarks.soak import MIB, Reading, faults, growth_per_hour, second_half, summary
from tests.viewers import Viewer


def reading(minute: float, mib: float, threads: int = 20, descriptors: int = 40) -> Reading:
    return Reading(minute * 60, mib * MIB, 2 * mib * MIB, threads, descriptors, None)


def test_growth_is_per_hour_and_one_odd_reading_moves_it_little() -> None:
    steady = [(60.0 * minute, 100.0 + 0.5 * minute) for minute in range(11)]
    assert growth_per_hour(steady) == pytest.approx(30.0)
    steady[5] = (300.0, 900.0)
    assert growth_per_hour(steady) == pytest.approx(30.0)


def test_one_reading_has_no_growth() -> None:
    with pytest.raises(ValueError, match="two moments"):
        growth_per_hour([(0.0, 1.0)])


def test_the_start_does_not_count() -> None:
    """Imports, first pages and an empty history: 100 MiB in the first half, then 1 MiB in five minutes."""
    readings = [reading(minute, 200.0 + 20.0 * minute) for minute in range(5)]
    readings += [
        reading(5.0 + step, 300.0 + 0.2 * step, threads=20 + step, descriptors=40 - step) for step in range(6)
    ]
    assert [one.at_seconds for one in second_half(readings)] == [300.0, 360.0, 420.0, 480.0, 540.0, 600.0]
    assert summary(readings) == {
        "minutes": 10.0,
        "resident_mib_first": 300.0,
        "resident_mib_last": 301.0,
        "resident_mib_per_hour": 12.0,
        "history_mib_per_hour": 24.0,
        "threads_least": 20,
        "threads_most": 25,
        "threads_per_hour": 60.0,
        "descriptors_least": 35,
        "descriptors_most": 40,
        "descriptors_per_hour": -60.0,
    }


def test_the_shortest_run_has_a_growth() -> None:
    """Its readings are never exactly a minute apart."""
    readings = [reading(0.0, 200.0), reading(0.99, 210.0), reading(2.01, 211.02)]
    assert summary(readings)["resident_mib_per_hour"] == pytest.approx(60.0)


def test_a_figure_that_is_not_reported_is_said_so_in_its_row() -> None:
    assert reading(3.0, 250.0).row().split() == ["3.0", "250.0", "500.00", "20", "40", "not", "reported"]


def test_exceptions_on_pages_and_tracebacks_in_the_log_are_faults() -> None:
    assert faults([Viewer(refreshes=3)], "sandbox: everything has ended") == []
    log = (
        "started\nTraceback (most recent call last):\n  File\n    1 / 0\nZeroDivisionError: by zero\n"
        '2 warnings\nTraceback (most recent call last):\n  File "a.py", line 1\nZeroDivisionError: by zero\n'
        "2026-11-30 Traceback (most recent call last):\n  File"
    )
    assert faults([Viewer(exceptions=["no such model"])], log) == [
        "the product logged: ZeroDivisionError: by zero (2 times)",
        "a page showed: no such model (1 times)",
        "the product logged: a traceback without an end (1 times)",
    ]
