"""Every family the servers report, as printed: what the page Explore lists and draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

import runtime
from charts.family import family as family_chart
from charts.spec import Spec
from collectors.exposition import MetricsPage, family_of
from history.protocol import Frame
from telemetry.catalogue import CATALOGUE, Kind
from telemetry.scrape import Source
from telemetry.units import Unit
from ui.marks import marks
from ui.sight import frame_of, sees_everything
from ui.view import View

DRAWN_SERIES = 8
"""Series drawn at most when a family has many: those with the highest values now."""
_ALL_AT_ONCE = 60


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a metrics page; `text` is the value exactly as printed."""

    server: str
    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    text: str


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """One family over all servers looked at."""

    name: str
    kind: Kind
    help: str
    custom: bool
    samples: tuple[Sample, ...]

    @property
    def unit(self) -> Unit:
        """Base unit from the catalogue; a plain number for families it does not know."""
        known = CATALOGUE.get(self.name)
        return known.unit if known is not None else Unit.NONE

    def matches(self, wanted: str) -> bool:
        """True if the text occurs in the name, the help or a label."""
        text = wanted.casefold()
        if text in self.name.casefold() or text in self.help.casefold():
            return True
        return any(text in f"{name}={value}".casefold() for one in self.samples for name, value in one.labels)


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """One metrics page as it was read; equal only to itself read once."""

    server: str
    page: MetricsPage

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Read) and self.page is other.page and self.server == other.server

    def __hash__(self) -> int:
        return hash((self.server, id(self.page)))


def families(view: View) -> tuple[FamilyRow, ...]:
    """All families on the last metrics pages of the servers looked at, by name; custom ones last."""
    return _families(tuple(_pages(view)))


@lru_cache(maxsize=4)
def _families(pages: tuple[_Read, ...]) -> tuple[FamilyRow, ...]:
    """The same for every part of the page and every viewer until a page is read again."""
    rows: dict[str, FamilyRow] = {}
    samples: dict[str, list[Sample]] = {}
    for server, page in ((read.server, read.page) for read in pages):
        for name, declared in page.families.items():
            if name not in rows or not rows[name].help:
                rows[name] = FamilyRow(name, declared.kind, declared.help, name not in CATALOGUE, ())
        for series, value, text in zip(
            page.samples.series, page.samples.values.tolist(), page.texts, strict=True
        ):
            name = family_of(series.name, page.families)
            rows.setdefault(name, FamilyRow(name, Kind.UNTYPED, "", name not in CATALOGUE, ()))
            samples.setdefault(name, []).append(Sample(server, series.name, series.labels, value, text))
    found = [replace(row, samples=tuple(samples.get(name, ()))) for name, row in rows.items()]
    return tuple(sorted(found, key=lambda row: (row.custom, row.name)))


def _pages(view: View) -> Iterable[_Read]:
    ring = runtime.current().ring
    for one in view.coverage:
        scrape = ring.last(one.server, Source.METRICS)
        if scrape is not None and isinstance(scrape.payload, MetricsPage):
            yield _Read(one.server, scrape.payload)


def chart_of(row: FamilyRow, view: View) -> Spec:
    """The family over the time shown: counters as rates per second, gauges and quantiles as they are."""
    sampled = _drawn_name(row)
    shown = [one for one in row.samples if one.name == sampled]
    # Summed over servers, a chart would count those that this person may not view.
    several = len({one.server for one in shown}) > 1 or not sees_everything()
    names = tuple(dict.fromkeys(name for one in shown for name, _ in one.labels))
    by = (*(("server",) if several or not names else ()), *names)
    counts = row.kind is Kind.COUNTER or sampled != row.name
    if len(shown) <= _ALL_AT_ONCE:
        frame = _course(sampled, by, view, counts, ())
        note = ""
    else:
        frame = _largest(shown, by, view, counts)
        note = f"{len(frame.keys)} of {len(shown):,} series: those with the highest values now"
    unit = Unit.PER_SECOND if counts and row.unit in (Unit.REQUESTS, Unit.NONE, Unit.COUNT) else row.unit
    spec = family_chart(
        frame, by, title=sampled, unit=unit, rate=counts, range_=view.range, marks=marks(view)
    )
    return replace(spec, note=note, help=row.help)


def _drawn_name(row: FamilyRow) -> str:
    """The series to draw: of histograms the count of observations, else those with the family's own name."""
    return f"{row.name}_count" if row.kind is Kind.HISTOGRAM else row.name


def _course(
    name: str, by: tuple[str, ...], view: View, counts: bool, where: tuple[tuple[str, str], ...]
) -> Frame:
    ring = runtime.current().ring
    if view.filters.server is not None:
        where = (*where, ("server", view.filters.server))
    if not counts:
        return _seen(ring.gauge_range(name, by, view.grid, where=where), by, view)
    window = max(runtime.current().settings.live_window_seconds, view.grid.step_seconds)
    frame = ring.increase_range(name, by, window, view.grid, where=where)
    return _seen(Frame(frame.times, frame.keys, frame.values / window), by, view)


def _seen(frame: Frame, by: tuple[str, ...], view: View) -> Frame:
    return frame_of(frame, view.sees) if by[:1] == ("server",) else frame


def _largest(shown: Sequence[Sample], by: tuple[str, ...], view: View, counts: bool) -> Frame:
    """The series with the highest values now, each asked for by its labels."""
    finite = [one for one in shown if np.isfinite(one.value)]
    top = sorted(finite, key=lambda one: -one.value)[:DRAWN_SERIES]
    frames = [_course(one.name, by, view, counts, (*one.labels, ("server", one.server))) for one in top]
    keys = tuple(key for frame in frames for key in frame.keys)
    values = (
        np.hstack([frame.values for frame in frames]) if frames else np.empty((len(view.grid.times()), 0))
    )
    return Frame(view.grid.times(), keys, values)
