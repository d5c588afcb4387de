"""What changed between two readings of one source: pure comparisons, without a memory of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from history.inventory import NAMING_FAMILIES
from telemetry.catalogue import CATALOGUE, MODEL_FAMILIES, Kind
from telemetry.facts import IndexEntry, ModelState, ModelStatistics
from telemetry.scrape import FloatArray, Samples, Series

Row = tuple[str, str]
"""Model name and version as labelled."""

_FAILURES = "nv_inference_request_failure"
_NAMING = frozenset(NAMING_FAMILIES)
_MODEL_COUNTERS = frozenset(name for name in MODEL_FAMILIES if CATALOGUE[name].kind is Kind.COUNTER)
_SERVER_COUNTERS = frozenset(
    name
    for name in CATALOGUE
    # Triton types these as gauges although they only ever grow while the server runs.
    if name.startswith(("nv_cache_num_", "nv_energy_")) and not name.endswith(("_per_model", "_entries"))
)
_GROWING = _MODEL_COUNTERS | _SERVER_COUNTERS


@dataclass(frozen=True, slots=True)
class PageChange:
    """Between two metrics pages: models that came, went, or whose counters fell; a new server process."""

    came: tuple[Row, ...]
    went: tuple[Row, ...]
    fell: tuple[Row, ...]
    restarted: bool


def compare_pages(before: Samples, now: Samples, *, was_down: bool, whole: bool) -> PageChange:
    """`was_down`: readings failed in between; `whole`: the page now was read without a bad line.

    Failure counters outlive unload and reload, so only a new process makes them fall or, with the label
    `reason` (24.07 and later), vanish.
    """
    fallen = list(fallen_series(before, now))
    fell = {_row(series) for series in fallen if series.name in _MODEL_COUNTERS}
    restarted = any(series.name in _SERVER_COUNTERS or series.name == _FAILURES for series in fallen)
    came = went = frozenset[Row]()
    if before.series is not now.series:
        came, went = _models(now) - _models(before), _models(before) - _models(now)
        restarted = restarted or (whole and bool(_failures(before) - _failures(now)))
    if was_down and (fell or (went and whole)):
        restarted = True
    return PageChange(tuple(sorted(came)), tuple(sorted(went)), tuple(sorted(fell)), restarted)


def fallen_series(before: Samples, now: Samples) -> Iterator[Series]:
    """Counters whose value is lower than before."""
    if before.series is now.series:
        for position in np.flatnonzero(now.values < before.values).tolist():
            if now.series[position].name in _GROWING:
                yield now.series[position]
        return
    earlier = dict(zip(before.series, before.values.tolist(), strict=True))
    for series, value in zip(now.series, now.values.tolist(), strict=True):
        if series.name in _GROWING and value < earlier.get(series, value):
            yield series


def _row(series: Series) -> Row:
    return series.label("model"), series.label("version")


def _models(samples: Samples) -> frozenset[Row]:
    return frozenset(_row(series) for series in samples.series if series.name in _NAMING)


def _failures(samples: Samples) -> frozenset[Row]:
    return frozenset(
        _row(series) for series in samples.series if series.name == _FAILURES and series.label("reason")
    )


def fallen_statistics(before: Sequence[ModelStatistics], now: Sequence[ModelStatistics]) -> tuple[Row, ...]:
    """Models in both answers whose counts fell: they were loaded anew in between."""
    earlier = {(one.name, one.version): _counted(one) for one in before}
    return tuple(
        (one.name, one.version)
        for one in now
        if _counted(one) < earlier.get((one.name, one.version), _counted(one))
    )


def _counted(one: ModelStatistics) -> int:
    return sum(count or 0 for count in (one.execution_count, one.success_count, one.fail_count))


@dataclass(frozen=True, slots=True)
class StateChange:
    """One entry of the repository index before and now; None where it was not listed."""

    row: Row
    before: IndexEntry | None
    now: IndexEntry | None

    @property
    def loaded(self) -> bool:
        """It serves now and did not before."""
        return _serves(self.now) and not _serves(self.before)

    @property
    def unloaded(self) -> bool:
        """It served before and does not now."""
        return _serves(self.before) and not _serves(self.now)


def compare_indexes(before: Sequence[IndexEntry], now: Sequence[IndexEntry]) -> tuple[StateChange, ...]:
    """Entries whose state or reason changed, in the order of the index, then those that went.

    A model that was never loaded is listed without a version, and with its versions from its load on: that
    entry did not go.
    """
    old, new = _by_row(before), _by_row(now)
    named = {entry.name for entry in now}
    old = {row: entry for row, entry in old.items() if row in new or row[1] or row[0] not in named}
    rows: Collection[Row] = dict.fromkeys([*new, *old])
    return tuple(StateChange(row, old.get(row), new.get(row)) for row in rows if old.get(row) != new.get(row))


def _by_row(entries: Sequence[IndexEntry]) -> Mapping[Row, IndexEntry]:
    return {(entry.name, entry.version): entry for entry in entries}


def _serves(entry: IndexEntry | None) -> bool:
    return entry is not None and entry.state is ModelState.READY


def lasting_falls(values: FloatArray) -> int:
    """How many falls of a counter lasted: it climbed again, or not, until it fell the next time.

    `values` (n,) are its readings in the order of their times. A fall did not last if one reading brought
    back at least half of it and what there was before: then two counters are read in turn. The newest fall
    is not counted, nobody knows yet.
    """
    falls = np.flatnonzero(np.diff(values) < 0) + 1
    count = 0
    for fell, ends in pairwise(falls):
        before, low = values[fell - 1], values[fell]
        rest = values[fell:ends]
        back = (rest[1:] >= before) & (np.diff(rest) >= (before - low) / 2)
        count += not back.any()
    return count
