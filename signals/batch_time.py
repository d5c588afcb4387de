"""Time of one execution by its batch size: T(b) = a + c * b, fitted to what the statistics counted.

The statistics give, for each batch size, executions and their summed compute time (input, infer, output), so
the fit is over the means of the sizes, weighted by how often each was executed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from telemetry.facts import BatchSizeStatistics
from telemetry.scrape import FloatArray
from telemetry.units import us_from_ns

LEAST_EXECUTIONS = 20
"""A size executed less often says little: a cold start or one hiccup moves its mean."""
_HUBER = 1.345
_ROUNDS = 20
LEAST_ERROR_RATIO = 0.03
"""Means of a few sizes may fit better than the next execution ever will."""


@dataclass(frozen=True, slots=True)
class SizeTime:
    """`executions` of one batch size took `mean_us` each."""

    batch_size: int
    executions: float
    mean_us: float


@dataclass(frozen=True, slots=True)
class BatchTime:
    """T(b) = fixed_us + per_row_us * b, in us, between the sizes `smallest` and `largest` that were seen.

    `error_ratio` is the weighted root mean square of (measured - fitted) / fitted, at least 3 %; None with
    two sizes, which any line meets.
    """

    fixed_us: float
    per_row_us: float
    smallest: int
    largest: int
    executions: float
    error_ratio: float | None

    def us(self, batch_size: float) -> float:
        """Time of one execution of this many rows, us."""
        return self.fixed_us + self.per_row_us * batch_size

    def capacity_per_second(self, batch_size: float, instances: int = 1) -> float:
        """Rows per second when all instances always execute batches of this size: instances * b / T(b)."""
        return instances * batch_size / self.us(batch_size) * 1e6

    def scaled(self, factor: float) -> BatchTime:
        """The same curve, that much slower."""
        return BatchTime(
            self.fixed_us * factor,
            self.per_row_us * factor,
            self.smallest,
            self.largest,
            self.executions,
            self.error_ratio,
        )


def size_times(rows: Iterable[BatchSizeStatistics]) -> tuple[SizeTime, ...]:
    """Mean compute time of each size since the load, us; sizes without an execution are left out."""
    return tuple(
        SizeTime(
            row.batch_size,
            row.executions,
            us_from_ns(row.compute_input_ns + row.compute_infer_ns + row.compute_output_ns) / row.executions,
        )
        for row in sorted(rows, key=lambda one: one.batch_size)
        if row.executions > 0
    )


def fit_batch_time(sizes: Iterable[SizeTime]) -> BatchTime | None:
    """The line through the sizes executed at least 20 times; None with fewer than two of them.

    Weighted by executions; a size far off the others' line counts less (Huber's weights). Neither part is
    below zero: then the other one alone is fitted.
    """
    used = [one for one in sizes if one.executions >= LEAST_EXECUTIONS and one.mean_us > 0]
    if len(used) < 2:
        return None
    size = np.array([float(one.batch_size) for one in used])
    mean = np.array([one.mean_us for one in used])
    # The spread of a mean falls with its executions, but no faster than what differs between sizes.
    weight = np.sqrt(np.array([one.executions for one in used]))
    fixed, per_row = _robust(size, mean, weight)
    fitted = fixed + per_row * size
    off = (mean - fitted) / fitted
    error = math.sqrt(float(np.average(off**2, weights=weight)))
    return BatchTime(
        fixed_us=fixed,
        per_row_us=per_row,
        smallest=int(size[0]),
        largest=int(size[-1]),
        executions=float(sum(one.executions for one in used)),
        error_ratio=max(error, LEAST_ERROR_RATIO) if len(used) > 2 else None,
    )


def _robust(size: FloatArray, mean: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Iteratively re-weighted least squares on relative residuals."""
    trust = np.ones_like(weight)
    fixed, per_row = _line(size, mean, weight)
    for _ in range(_ROUNDS):
        off = np.abs(mean - (fixed + per_row * size)) / mean
        spread = float(np.median(off)) / 0.6745
        if spread <= 1e-9:
            break
        trust = np.minimum(1.0, _HUBER * spread / np.maximum(off, 1e-12))
        before = (fixed, per_row)
        fixed, per_row = _line(size, mean, weight * trust)
        if np.allclose(before, (fixed, per_row), rtol=1e-6):
            break
    return fixed, per_row


def _line(size: FloatArray, mean: FloatArray, weight: FloatArray) -> tuple[float, float]:
    # Relative residuals: a millisecond matters more where two are taken than where fifty are.
    relative = weight / mean**2
    at = float(np.average(size, weights=relative))
    level = float(np.average(mean, weights=relative))
    spread = float(np.average((size - at) ** 2, weights=relative))
    slope = float(np.average((size - at) * (mean - level), weights=relative)) / spread if spread else 0.0
    if slope < 0:
        return level, 0.0
    if level - slope * at < 0:
        return 0.0, float(np.sum(relative * size * mean) / np.sum(relative * size**2))
    return level - slope * at, slope
