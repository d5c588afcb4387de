"""What the reader chose to look at: server, time, refresh. All of it stands in the address, so links work."""

from __future__ import annotations

import datetime as dt
import math
import time
from dataclasses import dataclass

import streamlit as st

from history.protocol import Grid
from ui.person import me

ALL_SERVERS = "all"
RANGES = {"5m": 300.0, "15m": 900.0, "1h": 3600.0}
"""Choices of the range, in seconds, that the process remembers itself."""
LONG_RANGES = {"6h": 6 * 3600.0, "24h": 86400.0, "7d": 7 * 86400.0, "30d": 30 * 86400.0}
"""Further choices where there is a Prometheus to ask."""
ALL_RANGES = RANGES | LONG_RANGES
REFRESH = {"pause": None, "2s": 2.0, "10s": 10.0}
"""Choices of the refresh, in seconds; None = no refresh."""
DEFAULT_RANGE, DEFAULT_REFRESH = "15m", "2s"
KEYS = ("server", "range", "refresh")
"""Keys of the choices in the session and in the address."""

_MAX_POINTS = 300
_LONG_STEPS = (30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Steps of charts that are longer than an hour, seconds: times of day that people name."""
_LEAST_SECONDS = 60.0
_LEAST_MOVE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Filters:
    """One reader's choice. `server` None is all of them; `start` and `end` (unix seconds) fix the time."""

    server: str | None = None
    range_name: str = DEFAULT_RANGE
    refresh_name: str = DEFAULT_REFRESH
    start: float | None = None
    end: float | None = None

    @property
    def refresh_seconds(self) -> float | None:
        """Seconds between refreshes, None when paused."""
        return REFRESH[self.refresh_name]

    @property
    def range_seconds(self) -> float:
        """Length of the time shown, seconds."""
        if self.start is not None and self.end is not None:
            return self.end - self.start
        return ALL_RANGES[self.range_name]

    def window(self, now: float, oldest: float | None = None) -> tuple[float, float]:
        """The time to show, unix seconds: the fixed one, or the last `range_seconds` before `now`.

        Time before the `oldest` reading is left out, but a minute at least is shown.
        """
        if self.start is not None:
            return self.start, self.end if self.end is not None else now
        start = now - self.range_seconds
        return (start if oldest is None else max(start, min(oldest, now - _LEAST_SECONDS))), now

    def grid(self, now: float, oldest: float | None = None) -> Grid:
        """Times to draw, on multiples of the step, so that points keep their places between refreshes."""
        start, end = self.window(now, oldest)
        step = max(2.0, round((end - start) / _MAX_POINTS))
        if end - start > RANGES["1h"]:
            step = float(next((one for one in _LONG_STEPS if one >= step), step))
        # The last point is as near to now as is worth asking Prometheus for all of them again.
        unit = min(step, max(_LEAST_MOVE_SECONDS, step / 12)) if step > _LEAST_MOVE_SECONDS else step
        last = end // unit * unit
        count = math.ceil((last - start) / step)
        return Grid(start=last - count * step, end=last, step_seconds=step)

    def choices(self) -> dict[str, str | None]:
        """The choices by key; None for a default, which needs no place in an address."""
        return {
            "server": self.server,
            "range": self.range_name if self.range_name != DEFAULT_RANGE else None,
            "refresh": self.refresh_name if self.refresh_name != DEFAULT_REFRESH else None,
        }

    def params(self, **changes: str | None) -> dict[str, str]:
        """Query parameters of a link that keeps this choice; a change to None leaves one out."""
        kept = self.choices() | {"from": _seconds(self.start), "to": _seconds(self.end)} | changes
        return {key: value for key, value in kept.items() if value}

    def shows(self, server: str) -> bool:
        """True if this server is among those looked at; one that the person may not view never is."""
        return (self.server is None or self.server == server) and me().sees(server)


def controls(servers: tuple[str, ...], *, long_ranges: bool = False, refreshes: bool = True) -> None:
    """The choice itself, in the sidebar: drawn once per full run, in the same place on every page."""
    offered = (ALL_SERVERS, *servers)
    ranges = tuple(ALL_RANGES if long_ranges else RANGES)
    _settle("server", offered, ALL_SERVERS)
    _settle("range", ranges, DEFAULT_RANGE)
    _settle("refresh", tuple(REFRESH), DEFAULT_REFRESH)
    if len(servers) > 1:
        st.selectbox("Server", offered, key="server")
    st.segmented_control("Range", ranges, required=True, key="range")
    if not refreshes:
        st.session_state["refresh"] = "pause"
        return
    st.segmented_control(
        "Refresh",
        tuple(REFRESH),
        required=True,
        key="refresh",
        help="Pause freezes what you see. The measuring goes on.",
    )


def _settle(key: str, offered: tuple[str, ...], default: str) -> None:
    """A choice the address should not hold becomes the default; before the widget is drawn."""
    if st.session_state.get(key) not in offered:
        st.session_state[key] = default


def current() -> Filters:
    """The choice of this session."""
    state = st.session_state
    server = state.get("server", ALL_SERVERS)
    start, end = _time(st.query_params.get("from")), _time(st.query_params.get("to"))
    if start is not None and (start >= time.time() or (end is not None and end <= start)):
        start = end = None
    range_name = state.get("range")
    refresh_name = state.get("refresh")
    return Filters(
        server=None if server in ("", ALL_SERVERS) else server,
        range_name=range_name if range_name in ALL_RANGES else DEFAULT_RANGE,
        refresh_name=refresh_name if refresh_name in REFRESH else DEFAULT_REFRESH,
        start=start,
        end=end if start is not None else None,
    )


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.0f}"


def _time(text: str | None) -> float | None:
    """Unix seconds from seconds, Grafana's milliseconds, or an ISO time; None for anything else."""
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        try:
            return dt.datetime.fromisoformat(text).timestamp()
        except ValueError:
            return None
    return number / 1e3 if number > 1e11 else number
