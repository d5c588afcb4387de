"""What each load and unload did to memory: before and after, of the devices and of the model's processes.

Pure: from a history and from what is known of loads. `history.memory_ledger` keeps the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from history.protocol import Grid, History, Matchers
from telemetry.memory import CPU, MemorySource

READINGS = 3
"""So many readings on each side of a load; their median counts."""
STEADY_BYTES = 4 * 2**20
"""Device figures come in steps of 1 MiB and rattle by one or two."""
STEADY_RATIO = 0.005
MODEL_FAMILY = "tritonscope_model_memory_bytes"
_PROCESS = ("source", MemorySource.PROCESS.value)


@dataclass(frozen=True, slots=True, order=True)
class LoadMark:
    """One load, reload or unload of a whole model, `began` to `ended` unix seconds.

    `ours`: done through us, so that the times are exact; else `began` is the last reading that did not show
    it yet.
    """

    began: float
    ended: float
    server: str
    model: str
    what: str
    ours: bool

    @property
    def unload(self) -> bool:
        """True if the model is gone afterwards."""
        return self.what == "unload"


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """Bytes before and after; None where nothing was held or nothing is known."""

    before: float | None
    after: float | None

    @property
    def grown_bytes(self) -> float | None:
        """After minus before, None unless both are known."""
        return None if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """Memory around one mark, bytes by device ("CPU" or a GPU's uuid).

    `used`: by everybody on the device. `held`: by the model's own processes, None = it had none.
    `disturbed`: why the growth of `used` may not be this model's, "" if nothing else was seen to happen.
    """

    mark: LoadMark
    used: Mapping[str, BeforeAfter] = field(default_factory=dict)
    held: Mapping[str, BeforeAfter] = field(default_factory=dict)
    disturbed: str = ""


def memory_change(
    history: History, mark: LoadMark, others: Iterable[LoadMark], interval_seconds: float, now: float
) -> MemoryChange:
    """The change around `mark`, seen from `now` (unix seconds), at least two intervals after its end."""
    before = Grid(mark.began - (READINGS - 1) * interval_seconds, mark.began, interval_seconds)
    after_start = max(mark.ended, now - (READINGS - 1) * interval_seconds)
    after = Grid(after_start, now, interval_seconds)
    used: dict[str, BeforeAfter] = {}
    unsteady = []
    for device, family, by, where in _devices(history, mark.server):
        sides = [_steady(history, family, by, where, grid) for grid in (before, after)]
        used[device] = BeforeAfter(sides[0][0], sides[1][0])
        # The machine's own memory is never quiet, and nobody attributes it by its growth.
        if device != CPU and not (sides[0][1] and sides[1][1]):
            unsteady.append(device)
    return MemoryChange(
        mark,
        used,
        _held(history, mark, now),
        _disturbed(mark, others, before.start, now, unsteady),
    )


def _devices(history: History, server: str) -> list[tuple[str, str, tuple[str, ...], Matchers]]:
    """Device, family, labels to group by and matchers of every device whose use is reported."""
    here = ("server", server)
    found: dict[str, tuple[str, str, tuple[str, ...], Matchers]] = {}
    for owner, series in history.labels("nv_gpu_memory_used_bytes"):
        if owner == server and (uuid := series.label("gpu_uuid")):
            found[uuid] = (uuid, series.name, ("gpu_uuid",), (here, ("gpu_uuid", uuid)))
    family = "nv_cpu_memory_used_bytes"
    if any(owner == server for owner, _ in history.labels(family)):
        found[CPU] = (CPU, family, ("server",), (here,))
    return list(found.values())


def _steady(
    history: History, family: str, by: tuple[str, ...], where: Matchers, grid: Grid
) -> tuple[float | None, bool]:
    """Median over the grid, and whether the values hardly differ."""
    frame = history.gauge_range(family, by, grid, where=where)
    values = frame.values[np.isfinite(frame.values)] if frame.keys else np.empty(0)
    if not values.size:
        return None, False
    middle = float(np.median(values))
    return middle, float(np.ptp(values)) <= max(STEADY_BYTES, STEADY_RATIO * middle)


def _held(history: History, mark: LoadMark, now: float) -> dict[str, BeforeAfter]:
    where: Matchers = (("server", mark.server), ("model", mark.model), _PROCESS)
    sides = [history.gauge(MODEL_FAMILY, ("kind", "device"), at, where=where) for at in (mark.began, now)]
    devices = dict.fromkeys([*sides[0], *sides[1]])
    return {
        (CPU if kind == CPU else device): BeforeAfter(
            sides[0].get((kind, device)), sides[1].get((kind, device))
        )
        for kind, device in devices
    }


def _disturbed(
    mark: LoadMark, others: Iterable[LoadMark], begin: float, end: float, unsteady: Sequence[str]
) -> str:
    names = sorted(
        {
            f"{other.what} of {other.model}"
            for other in others
            if other != mark and other.began <= end and other.ended >= begin
        }
    )
    if names:
        return f"{', '.join(names)} at the same time"
    return "the memory in use moved by itself before or after" if unsteady else ""


@dataclass(frozen=True, slots=True)
class ReloadGrowth:
    """The model held more memory after each of its `loads`: `first_bytes` after the first, `last_bytes` after
    the last, at `since` and `until`.

    Times are unix seconds; `device` is "CPU" or a GPU's uuid.
    """

    server: str
    model: str
    device: str
    loads: int
    since: float
    until: float
    first_bytes: float
    last_bytes: float

    @property
    def grown_bytes(self) -> float:
        """Growth from the first to the last load."""
        return self.last_bytes - self.first_bytes


LEAST_LOADS = 3
LEAST_GROWTH_BYTES = 16 * 2**20
LEAST_GROWTH_RATIO = 0.05
APART_SECONDS = 3 * 86400.0
"""Loads further apart than this tell of releases, not of what a load leaves behind."""


def reload_growth(changes: Iterable[MemoryChange]) -> tuple[ReloadGrowth, ...]:
    """Models whose own processes hold more after every load than after the one before it.

    At least three loads; together 16 MiB and 5 % at the least. A step down ends it: then memory was given
    back, and counting begins anew. So it does after more than three days without a load.
    """
    courses: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for change in sorted(changes, key=lambda one: one.mark):
        if change.mark.unload:
            continue
        for device, sides in change.held.items():
            if sides.after is None:
                continue
            course = courses.setdefault((change.mark.server, change.mark.model, device), [])
            if course and (sides.after <= course[-1][1] or change.mark.ended - course[-1][0] > APART_SECONDS):
                course.clear()
            course.append((change.mark.ended, sides.after))
    found = []
    for (server, model, device), course in courses.items():
        if len(course) < LEAST_LOADS:
            continue
        (since, first), (until, last) = course[0], course[-1]
        if last - first >= max(LEAST_GROWTH_BYTES, LEAST_GROWTH_RATIO * first):
            found.append(ReloadGrowth(server, model, device, len(course), since, until, first, last))
    return tuple(sorted(found, key=lambda one: -one.grown_bytes))
