"""Sparklines: a path small enough for a table row."""

from __future__ import annotations

import numpy as np

from telemetry.scrape import FloatArray

WIDTH, HEIGHT = 100.0, 24.0
"""Size of the drawing area the path is in."""

_POINTS = 48


def sparkline(values: FloatArray, top: float | None = None) -> tuple[str, str]:
    """(line, area) paths of `values` (n,) from 0 to `top` (default: their largest); gaps where there is none.

    Both are empty when no value is finite.
    """
    points = _thinned(values)
    finite = points[np.isfinite(points)]
    if not finite.size:
        return "", ""
    peak = max(top if top is not None else float(finite.max()) * 1.1, 1e-12)
    xs = np.linspace(0.0, WIDTH, len(points)) if len(points) > 1 else np.array([WIDTH])
    ys = HEIGHT - 1.0 - np.clip(points / peak, 0.0, 1.0) * (HEIGHT - 3.0)
    lines, areas = [], []
    for start, end in _runs(np.isfinite(points)):
        run = [f"{x:.1f},{y:.1f}" for x, y in zip(xs[start:end], ys[start:end], strict=True)]
        if len(run) == 1:
            run.append(f"{min(xs[start] + 1.5, WIDTH):.1f},{ys[start]:.1f}")
        lines.append("M" + "L".join(run))
        last_x = run[-1].partition(",")[0]
        areas.append(f"M{xs[start]:.1f},{HEIGHT:.0f}L{'L'.join(run)}L{last_x},{HEIGHT:.0f}Z")
    return "".join(lines), "".join(areas)


def _thinned(values: FloatArray) -> FloatArray:
    """At most 48 points: the mean of what is there in each stretch."""
    if len(values) <= _POINTS:
        return values
    means = []
    for stretch in np.array_split(values, _POINTS):
        finite = stretch[np.isfinite(stretch)]
        means.append(float(finite.mean()) if finite.size else np.nan)
    return np.array(means)


def _runs(filled: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], filled, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
