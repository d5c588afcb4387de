"""Readings that cannot be: taken out, with a notice that names them, instead of being shown or clipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from history.protocol import Frame, GroupKey
from signals.definition import LABELS, Level
from telemetry.scrape import FloatArray, Notice

_ROUNDING = 1.05
"""Ratios of two counters read a moment apart may be a little above 1."""
_LIMITS = {
    "failed_ratio": 1.0,
    "queue_ratio": _ROUNDING,
    "instance_busy_ratio": _ROUNDING,
    "utilization_ratio": 1.0,
    "memory_used_ratio": 1.0,
    "cpu_ratio": 1.0,
}
_NEVER_ZERO = frozenset(("memory_total_bytes", "power_limit_watts"))
"""Triton leaves a field at 0 when DCGM fails to read it again and again."""
_OF_TRUE_SIZE = frozenset(("memory_used_bytes",))
"""A pool of pinned memory may have the size 0, a device or a machine not."""
_EXACT = 1e-9
_OF_TOTAL = (
    ("memory_used_bytes", "memory_total_bytes"),
    ("pinned_memory_used_bytes", "pinned_memory_total_bytes"),
)
"""What is in use cannot be more than there is."""


def checked(level: Level, values: Mapping[str, Frame]) -> tuple[dict[str, Frame], list[Notice]]:
    """The frames without impossible values, and a notice for each value taken out."""
    kept, notices = dict(values), list[Notice]()
    for used, total in _OF_TOTAL:
        if used in kept and total in kept:
            kept[used], found = _within(level, used, kept[used], kept[total])
            notices += found
    for name, frame in kept.items():
        bad = _impossible(name, frame.values)
        if bad.any():
            notices += _notices(level, name, frame, bad)
            kept[name] = Frame(frame.times, frame.keys, np.where(bad, np.nan, frame.values))
    return kept, notices


def without_impossible(name: str, frame: Frame) -> Frame:
    """A range of one signal without impossible values: a gap in the chart."""
    bad = _impossible(name, frame.values)
    return Frame(frame.times, frame.keys, np.where(bad, np.nan, frame.values)) if bad.any() else frame


def _impossible(name: str, values: FloatArray) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    bad = np.isinf(values) | (values < -_EXACT)
    if name in _NEVER_ZERO:
        bad |= values == 0
    limit = _LIMITS.get(name)
    return bad if limit is None else bad | (values > limit + _EXACT)


def _within(level: Level, name: str, used: Frame, total: Frame) -> tuple[Frame, list[Notice]]:
    """Without what is more than there is; in use of a memory whose size is told as 0 is not known either."""
    size = {key: total.values[0, column] for column, key in enumerate(total.keys)}
    sizes = np.array([[size.get(key, np.inf) for key in used.keys]])
    over = used.values > sizes
    void = (sizes == 0) & (name in _OF_TRUE_SIZE)
    if not (over | void).any():
        return used, []
    notices = list(_notices(level, name, used, over, "more than there is"))
    return Frame(used.times, used.keys, np.where(over | void, np.nan, used.values)), notices


def _notices(
    level: Level,
    name: str,
    frame: Frame,
    bad: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    why: str = "cannot be",
) -> Iterator[Notice]:
    for column in np.flatnonzero(bad[0]).tolist():
        value = float(frame.values[0, column])
        text = f"{name} of {_row(level, frame.keys[column])} reads {value:.6g}, {why}: not reported"
        yield Notice(frame.keys[column][0], None, text)


def _row(level: Level, key: GroupKey) -> str:
    width = len(LABELS[level])
    if level is Level.MODEL:
        return f"{key[1]} v{key[2]}"
    return key[1] if level is Level.GPU and width > 1 else key[0]
