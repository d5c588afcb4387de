"""Tiles: one number each, with its course over the range and its change since the range began."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from charts.sparkline import HEIGHT, WIDTH, sparkline
from telemetry.scrape import FloatArray
from telemetry.units import Unit, human, human_duration
from ui.format import raw_tip, split_unit
from ui.html import Html, div, join, span, tag

_NOTICEABLE = 0.05
"""A change smaller than this share of the value is not called one."""
_MUCH = 2.0
"""Amber from this factor on: whether users are hurt is what findings say, not a tile."""
_BEGINNING = 0.1
"""The start of the range: its first tenth, averaged."""


class Better(StrEnum):
    """Which direction is good; NEITHER for figures that only describe."""

    LOWER = "lower"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Tile:
    """`value` and `course` (n,) in `unit`; `top` is the end of the course's scale where it is known.

    `why` says why there is no value, `formula` how it is computed. `suffix` stands after the unit
    ("of 24 GiB").
    """

    label: str
    value: float | None
    unit: Unit
    course: FloatArray
    range_seconds: float
    formula: str
    why: str
    better: Better = Better.NEITHER
    top: float | None = None
    suffix: str = ""
    stale: str = ""


def tiles(rows: list[Tile]) -> Html:
    """The tiles side by side; two in a row on a phone."""
    return div([_tile(row) for row in rows], class_="ts-tiles")


def _tile(tile: Tile) -> Html:
    number, unit = split_unit(tile.value, tile.unit)
    tip = tile.why if tile.value is None else raw_tip(tile.value, tile.unit, tile.formula)
    suffix = (
        tag("small", " ".join(part for part in (unit, tile.suffix) if part))
        if tile.value is not None
        else None
    )
    state = "ts-none" if tile.value is None else "ts-stale" if tile.stale else None
    return div(
        div(tile.label, class_="ts-label"),
        div(span(number, suffix, class_=state), class_="ts-value", data_tip=tip, tabindex="0"),
        _change(tile),
        spark(tile.course, tile.top),
        class_="ts-tile",
        data_key=tile.label,
    )


def _change(tile: Tile) -> Html:
    if tile.stale:
        return div(tile.stale, class_="ts-change")
    before = _before(tile.course)
    if tile.value is None or before is None:
        return div(class_="ts-change")
    over = human_duration(tile.range_seconds)
    if abs(tile.value - before) <= _NOTICEABLE * max(abs(before), abs(tile.value)):
        return div(f"steady for {over}", class_="ts-change")
    rising = tile.value > before
    much_worse = tile.better is Better.LOWER and tile.value >= _MUCH * before
    verdict = "warn" if much_worse else ""
    words = f"{'▲' if rising else '▼'} was {human(before, tile.unit)} {over} ago"
    return div(words, class_=f"ts-change {verdict}".rstrip())


def _before(course: FloatArray) -> float | None:
    """Mean of the values in the first tenth of the range, None where nothing was recorded then."""
    first = course[: max(1, int(len(course) * _BEGINNING))]
    finite = first[np.isfinite(first)]
    return float(finite.mean()) if finite.size else None


def spark(course: FloatArray, top: float | None = None) -> Html:
    """A sparkline; an empty drawing of the same size where there is no value."""
    line, area = sparkline(course, top)
    return tag(
        "svg",
        join(tag("path", d=area, class_="ts-spark-fill"), tag("path", d=line, class_="ts-spark"))
        if line
        else None,
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
