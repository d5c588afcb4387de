"""Times for sparklines: fewer of them, on whole steps, so that they stay where they are."""

from __future__ import annotations

import pytest

from history.protocol import Grid
from ui.view import COURSE_POINTS, sparse


@pytest.mark.parametrize(
    ("seconds", "step"), [(900.0, 3.0), (3600.0, 12.0), (86400.0, 300.0), (2592000.0, 10800.0)]
)
def test_a_range_in_a_fourth_or_fifth_of_the_points(seconds: float, step: float) -> None:
    end = 1_800_000_000.0 // step * step
    grid = Grid(end - seconds, end, step)
    coarse = sparse(grid)
    assert COURSE_POINTS <= len(coarse.times()) < 2 * COURSE_POINTS
    assert coarse.end % coarse.step_seconds == 0
    assert 0 <= end - coarse.end < coarse.step_seconds
    assert grid.start <= coarse.start < grid.start + coarse.step_seconds
    # The next grid has the same times and one more.
    later = sparse(Grid(end - seconds + coarse.step_seconds, end + coarse.step_seconds, step))
    assert later.times()[-2] == coarse.end


def test_few_points_stay_as_they_are() -> None:
    grid = Grid(0.0, 200.0, 2.0)
    assert sparse(grid) is grid
