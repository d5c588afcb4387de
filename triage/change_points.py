"""When did a figure change, and what was done just before? Pure arithmetic on series.

A change point is a lasting step: the medians before and after differ by more than a share of themselves and
by more than the noise around them. Where the step lies is found by the cumulative sum of ranks (Pettitt
1979), which one wild reading does not move. It is looked for in stretches of every length (seeded binary
segmentation, Kovács et al. 2020), the shortest ones first: the whole of a rise and a fall shows neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from telemetry.scrape import FloatArray

LEAST_POINTS = 6
"""So many values on each side at least: fewer are a burst, not a change."""
LEAST_SHARE = 0.25
"""The medians must differ by this share of the one before."""
LEAST_DEVIATIONS = 3.0
"""And by so many deviations of the noise on both sides. A slope has 2.7: it is no step."""
LEAST_RANK_SUM = 1.7
"""Largest cumulative sum of ranks in units of its own deviation: 99.4 % of pure noise stays below."""
LEAST_BEYOND = 0.75
"""So large a share of each side must lie on its own side of the middle: a burst at an edge does not."""
_MAD_TO_DEVIATION = 1.4826
LEAD_SECONDS = 180.0
"""What was done so long before a change may be why."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """Between `after` and `until` (unix seconds) the median went from `before` to `now`.

    `deviations` says how far that is in units of the noise; inf without noise.
    """

    after: float
    until: float
    before: float
    now: float
    deviations: float

    @property
    def rising(self) -> bool:
        """True if it became more."""
        return self.now > self.before


def change_points(
    times: FloatArray, values: FloatArray, *, least: float = 0.0, least_share: float = LEAST_SHARE
) -> tuple[ChangePoint, ...]:
    """The change points of a series, in the order of time.

    `times` (n,) unix seconds, `values` (n,) with NaN where there is none; neighbours share no readings.
    `least` is the smallest difference that matters, in the values' unit.
    """
    known = np.isfinite(values)
    xs, ys = times[known], values[known]
    limits = _Limits(least, least_share, _noise(ys))
    cuts = [0, *_cuts(ys, limits), len(ys)]
    judged: list[tuple[float, float, float] | None] = []
    # Set against its whole neighbourhood a step found in a short stretch may be none.
    while True:
        judged = [limits.judged(ys[a:b], ys[b:c]) for a, b, c in zip(cuts, cuts[1:], cuts[2:], strict=False)]
        weak = [place for place, one in enumerate(judged) if one is None]
        if not weak:
            break
        del cuts[weak[0] + 1]
    return tuple(
        ChangePoint(float(xs[cut - 1]), float(xs[cut]), *one)
        for cut, one in zip(cuts[1:-1], judged, strict=True)
        if one is not None
    )


@dataclass(frozen=True, slots=True)
class _Limits:
    """What counts as a change; `noise` is the deviation from one value to the next over the whole series."""

    least: float
    share: float
    noise: float

    def judged(self, before: FloatArray, now: FloatArray) -> tuple[float, float, float] | None:
        """(median before, median now, deviations between them); None if that is no change."""
        if len(before) < LEAST_POINTS or len(now) < LEAST_POINTS:
            return None
        old, new = float(np.median(before)), float(np.median(now))
        step = abs(new - old)
        if step <= 0.0 or step < self.least or step < self.share * abs(old):
            return None
        middle = (old + new) / 2.0
        if min(np.mean((before < middle) == (old < middle)), np.mean((now < middle) == (new < middle))) < (
            LEAST_BEYOND
        ):
            return None
        noise = max(_deviation(before, old), _deviation(now, new), self.noise)
        deviations = step / noise if noise > 0.0 else float("inf")
        return (old, new, deviations) if deviations >= LEAST_DEVIATIONS else None


def _noise(ys: FloatArray) -> float:
    """Deviation of the noise from differences of neighbours: a few steps do not move it."""
    return _deviation(np.diff(ys), 0.0) / float(np.sqrt(2.0)) if len(ys) > 1 else 0.0


def _cuts(ys: FloatArray, limits: _Limits) -> list[int]:
    """Where steps are: the shortest stretch that shows one is believed, and those around it are left out."""
    found: list[int] = []
    for start, end in _stretches(len(ys)):
        if any(start < cut < end for cut in found):
            continue
        place = _steepest(ys[start:end])
        if place is not None and limits.judged(ys[start : start + place], ys[start + place : end]):
            found.append(start + place)
    return sorted(found)


def _stretches(count: int) -> list[tuple[int, int]]:
    """Stretches that overlap, the shortest first, each longer by the root of two."""
    found: list[tuple[int, int]] = []
    length = 4.0 * LEAST_POINTS
    while length < count:
        size = round(length)
        found += ((start, start + size) for start in range(0, count - size, max(1, size // 4)))
        found.append((count - size, count))
        length *= 1.41421356
    return [*found, (0, count)]


def _steepest(ys: FloatArray) -> int | None:
    """Where the values before and after differ most in rank; None where noise would do the same."""
    count = len(ys)
    if count < 2 * LEAST_POINTS:
        return None
    ranks = _ranks(ys)
    deviation = float(ranks.std())
    if deviation == 0.0:
        return None
    sums = np.abs(np.cumsum(ranks - ranks.mean()))[LEAST_POINTS - 1 : count - LEAST_POINTS]
    best = int(np.argmax(sums))
    # Of few values even a perfect step has a small sum.
    enough = min(LEAST_RANK_SUM, 0.3 * float(np.sqrt(count)))
    return best + LEAST_POINTS if float(sums[best]) / (deviation * np.sqrt(count)) >= enough else None


def _ranks(ys: FloatArray) -> FloatArray:
    """Ranks from 1, equal values with their mean rank."""
    _, inverse, counts = np.unique(ys, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    middle: FloatArray = last - (counts - 1) / 2.0
    return middle[inverse]


def _deviation(values: FloatArray, median: float) -> float:
    return _MAD_TO_DEVIATION * float(np.median(np.abs(values - median)))


# ---- what was done just before


@dataclass(frozen=True, slots=True)
class Done:
    """Something that happened at `at` (unix seconds) on `server`, to `model` ("" = the server as a whole)."""

    at: float
    server: str
    model: str
    kind: str
    text: str


def just_before(
    point: ChangePoint, happened: Iterable[Done], *, lead_seconds: float = LEAD_SECONDS
) -> tuple[Done, ...]:
    """What happened from `lead_seconds` before the change until it was seen, the nearest first."""
    near = [one for one in happened if point.after - lead_seconds <= one.at <= point.until]
    return tuple(sorted(near, key=lambda one: (abs(point.after - one.at), one.text)))


@dataclass(frozen=True, slots=True)
class Side:
    """One replica around a moment: medians before and after it, None without; `touched`: changed then."""

    server: str
    before: float | None
    now: float | None
    touched: bool

    @property
    def share(self) -> float | None:
        """By which share of itself it changed; None where that is not known."""
        if self.before is None or self.now is None or self.before == 0.0:
            return None
        return (self.now - self.before) / self.before


def sides(
    times: FloatArray, columns: Mapping[str, FloatArray], at: float, touched: Iterable[str]
) -> tuple[Side, ...]:
    """Every replica before and after `at`, those that were touched first; `columns` are (n,) by server."""
    changed = set(touched)
    found = [
        Side(server, median(values[times <= at]), median(values[times > at]), server in changed)
        for server, values in columns.items()
    ]
    return tuple(sorted(found, key=lambda one: (not one.touched, one.server)))


def told_apart(replicas: Sequence[Side]) -> bool | None:
    """True if replicas that were touched changed and the others did not: then what was done is likely why.

    False if those that were not touched changed alike: then it is not. None if it cannot be compared.
    """
    with_change = [one.share for one in replicas if one.touched and one.share is not None]
    without = [one.share for one in replicas if not one.touched and one.share is not None]
    if not with_change or not without:
        return None
    mine, theirs = float(np.median(with_change)), float(np.median(without))
    if abs(mine) < LEAST_SHARE:
        return None
    if abs(theirs) < abs(mine) / 3.0:
        return True
    return False if theirs * mine > 0 and abs(theirs) > abs(mine) / 1.5 else None


def median(values: FloatArray) -> float | None:
    """The median of the finite values, None without one."""
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else None
