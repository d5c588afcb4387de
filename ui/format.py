"""Values, ages and times as a person reads them, with the raw value and the reason behind them."""

from __future__ import annotations

import datetime as dt
import re
import time
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from signals.definition import Level
from signals.definitions import definition
from telemetry.units import NOT_REPORTED, Unit, human, human_duration
from ui.html import Html, span

_UTC = dt.UTC
NO_BATCH = "executions failed: they are counted, the inferences in them are not, so this is no batch size"
"""Why inferences / executions may be below 1, where no execution can have less than one inference."""
COLLECTING = "collecting: a rate needs two readings"
"""Why there are no rates right after the start."""


def value(
    number: float | None, unit: Unit, *, why: str, formula: str = "", class_: str | None = None
) -> Html:
    """One number with its unit; the tooltip holds the raw value and the formula.

    Not reported (None) is an en dash whose tooltip is `why`, never 0.
    """
    if number is None:
        return span(NOT_REPORTED, class_="ts-none", data_tip=why, tabindex="0")
    return span(human(number, unit), class_=class_, data_tip=raw_tip(number, unit, formula))


def raw_tip(number: float, unit: Unit, formula: str = "") -> str:
    """Tooltip of a number: the value in its base unit and how it was computed."""
    return "\n".join(part for part in (f"{number:.12g} {unit.value}".rstrip(), formula) if part)


def split_unit(number: float | None, unit: Unit) -> tuple[str, str]:
    """Number and unit apart, for large type: ("18.2", "GiB")."""
    shown, _, suffix = human(number, unit).partition(" ")
    return shown, suffix


def zone() -> dt.tzinfo:
    """The reader's time zone as the browser tells it; UTC where it does not."""
    name = st.context.timezone
    try:
        return ZoneInfo(name) if name else _UTC
    except (ZoneInfoNotFoundError, ValueError):
        return _UTC


def label_text(name: str) -> str:
    """A name from a server in a widget's label, which Streamlit reads as Markdown: only plain letters.

    Markdown could fetch a picture from elsewhere. The name itself stands beside the widget, unchanged.
    """
    return re.sub(r"[^\w .-]", "·", name)


def counted(count: int, noun: str) -> str:
    """`1 model`, `3 models`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def clock(at: float, *, seconds: bool = False) -> str:
    """Local time of day of a unix time: `14:02`."""
    return dt.datetime.fromtimestamp(at, zone()).strftime("%H:%M:%S" if seconds else "%H:%M")


def day(at: float) -> str:
    """Local day of a unix time: `30 Nov 2026`."""
    return dt.datetime.fromtimestamp(at, zone()).strftime("%d %b %Y")


def utc(at: float) -> str:
    """A unix time in UTC, in full."""
    return dt.datetime.fromtimestamp(at, _UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def moment(at: float) -> Html:
    """Local time of day with UTC in the tooltip; of another day than today with the day."""
    today = day(at) == day(time.time())
    # Day and month stay on one line, however narrow the column is.
    of_day = day(at)[:6].replace(" ", "\u00a0")
    return span(clock(at) if today else f"{of_day} {clock(at)}", data_tip=utc(at))


def since(at: float | None, now: float) -> Html:
    """`since 14:02 (6 min)`; None = it began before anything was recorded."""
    if at is None:
        return span("since before the recording", data_tip="It was so when this app began to look.")
    return span(f"since {clock(at)} ({human_duration(now - at)})", data_tip=utc(at))


def formula(signal: str, level: Level) -> str:
    """Name and formula of a signal, as its tooltip says it."""
    return f"{signal} = {definition(signal, level).formula}"
