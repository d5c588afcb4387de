"""What changed just before: steps in latency, batch size and throughput, and what was done then."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import runtime
from history.protocol import Frame, Grid
from signals.definition import Level
from signals.definitions import definition
from signals.ranges import signal_range
from telemetry.identity import ModelKey
from telemetry.scrape import FloatArray
from telemetry.units import Unit, human
from triage.change_points import (
    LEAD_SECONDS,
    LEAST_SHARE,
    ChangePoint,
    Done,
    Side,
    change_points,
    just_before,
    median,
    sides,
    told_apart,
)
from triage.finding import Finding
from ui.format import clock, counted, moment
from ui.html import Html, div, join, link, span, tag
from ui.model_panels import section
from ui.triage_happened import Happened, happened
from ui.view import View

SIGNALS: dict[str, tuple[str, float]] = {
    "request_us_mean": ("latency", 500.0),
    "queue_us_mean": ("queue", 500.0),
    "batch_size_mean": ("batch size", 0.5),
    "requests_per_second": ("throughput", 0.5),
    "failed_ratio": ("failed", 0.01),
}
"""Signal -> its word, and the smallest difference that matters, in its unit."""
_RATES = ("requests_per_second", "failures_per_second")
"""What clients send: what is answered and what fails."""
MODELS = 4
"""So many models are looked through at most: those with findings, then those with most traffic."""
LEAST_STEP_SECONDS = 10.0
POINTS = 120
TOGETHER_SECONDS = 60.0
"""Steps of one model's figures so near to each other are one change."""
NEAR_SECONDS = 180.0
"""A step so near to the beginning of a finding belongs to it."""
SHOWN = 6
AROUND_SECONDS = 300.0
KEEP_SECONDS = 10.0
"""A model's series is looked through anew so often at most, for all viewers."""
_TOUCHED = " (something was done)"
_lock = threading.Lock()
_kept: dict[tuple[ModelKey, float, float], tuple[float, _Steps]] = {}


@dataclass(frozen=True, slots=True)
class _Steps:
    """The steps of one model's figures by signal, and what clients send per second at `times` (n,)."""

    points: dict[str, tuple[ChangePoint, ...]]
    times: FloatArray
    rates: FloatArray

    def rates_around(self, at: float) -> tuple[float | None, float | None]:
        """Median of what is sent per second within five minutes before and after."""
        before = self.rates[(self.times > at - AROUND_SECONDS) & (self.times <= at)]
        now = self.rates[(self.times > at) & (self.times <= at + AROUND_SECONDS)]
        return median(before), median(now)


@dataclass(frozen=True, slots=True)
class Changed:
    """One change of a model: the steps of its figures that came together, by signal.

    `rate_before` and `rate_now` are the requests per second around it, None where they are not known.
    """

    key: ModelKey
    points: dict[str, ChangePoint]
    rate_before: float | None = None
    rate_now: float | None = None

    @property
    def after(self) -> float:
        """The last time (unix seconds) at which nothing had changed yet."""
        return min(one.after for one in self.points.values())

    @property
    def until(self) -> float:
        """The first time at which all of it had."""
        return max(one.until for one in self.points.values())

    @property
    def point(self) -> ChangePoint:
        """All of it as one change, with the numbers of the first signal."""
        first = next(iter(self.points.values()))
        return ChangePoint(self.after, self.until, first.before, first.now, first.deviations)


def changes_section(view: View) -> Html:
    """The section: the newest changes of the models that matter, each with what was done just before."""
    keys = _looked_at(view)
    found = sorted((one for key in keys for one in changes_of(view, key)), key=lambda one: -one.after)
    note = "latency, queue, batch size, throughput and failures over the range"
    if not found:
        return section("What changed", div(_nothing(view, keys), class_="ts-faint"), note=note)
    done = happened(view, view.range[0] - LEAD_SECONDS, view.range[1])
    rows = [tag("li", _change(one, done, view), data_key=f"{one.key} {one.after}") for one in found[:SHOWN]]
    return section("What changed", tag("ol", rows, class_="ts-changes"), note=note)


def _nothing(view: View, keys: Sequence[ModelKey]) -> str:
    if not keys:
        return "No model had traffic in the time shown, so there is nothing that could have changed."
    names = ", ".join(key.label() for key in keys)
    return f"No lasting step in the figures of {names} since {clock(view.range[0])}."


def _looked_at(view: View) -> list[ModelKey]:
    """Models with findings in their order, then by traffic; those without figures have no series."""
    known = ((row.key, row.signals.number("requests_per_second")) for row in view.report.models)
    rates = {key: rate for key, rate in known if rate is not None}
    harmed = [key for key in view.harm if key in rates]
    busy = sorted((key for key, rate in rates.items() if rate > 0), key=lambda key: -rates[key])
    return list(dict.fromkeys((*harmed, *busy)))[:MODELS]


# ---- finding them


def changes_of(view: View, key: ModelKey) -> list[Changed]:
    """The changes of one model over the time shown, oldest first."""
    looked = _steps(view, key)
    steps = [(point, signal) for signal, points in looked.points.items() for point in points]
    found: list[Changed] = []
    for point, signal in sorted(steps, key=lambda step: step[0].after):
        if found and point.after - found[-1].after <= TOGETHER_SECONDS and signal not in found[-1].points:
            found[-1].points[signal] = point
        else:
            found.append(Changed(key, {signal: point}))
    return [_ordered(one, looked) for one in found]


def _ordered(one: Changed, looked: _Steps) -> Changed:
    """The change with its signals in their order, and how much was sent around it."""
    order = list(SIGNALS)
    points = dict(sorted(one.points.items(), key=lambda row: order.index(row[0])))
    return Changed(one.key, points, *looked.rates_around(one.after))


def _steps(view: View, key: ModelKey) -> _Steps:
    start, end = view.range
    place = (
        key,
        start if view.filters.start is not None else view.shown_seconds // KEEP_SECONDS,
        end // KEEP_SECONDS,
    )
    with _lock:
        known = _kept.get(place)
        if known is not None:
            return known[1]
        now = time.monotonic()
        for old in [one for one, (at, _) in _kept.items() if now - at > 6 * KEEP_SECONDS]:
            del _kept[old]
    found: dict[str, tuple[ChangePoint, ...]] = {}
    times = rates = np.empty(0)
    for signal in _RATES:
        frame = series(view, signal, key.name, key.version, key.server)
        column = frame.column((key.server, key.name, key.version))
        if column is not None:
            times, rates = frame.times, (np.nan_to_num(rates) + column if rates.size else column)
    for signal, (_, least) in SIGNALS.items():
        frame = series(view, signal, key.name, key.version, key.server)
        column = frame.column((key.server, key.name, key.version))
        found[signal] = change_points(frame.times, column, least=least) if column is not None else ()
    looked = _Steps(found, times, rates)
    with _lock:
        _kept[place] = (time.monotonic(), looked)
    return looked


def series(view: View, signal: str, model: str, version: str, server: str | None) -> Frame:
    """A signal in windows that do not overlap: neighbours that share readings would look like steps."""
    process = runtime.current()
    start, end = view.range
    interval = process.interval_seconds(server)
    step = max(LEAST_STEP_SECONDS, 4.0 * interval, float(round((end - start) / POINTS)))
    last = end // step * step
    grid = Grid(last - max(0.0, (last - start) // step) * step, last, step)
    if step >= process.window_seconds:
        return process.signal_range(
            signal,
            grid,
            level=Level.MODEL,
            server=server,
            model=model,
            version=version,
            deadline=view.deadline,
        )
    # What is shown by the step is remembered here: the live window would be longer than a step.
    return signal_range(
        process.ring, process.inventory(), signal, grid, step,
        level=Level.MODEL, server=server, model=model, version=version,
    )  # fmt: skip


# ---- telling them


def _change(one: Changed, done: Sequence[Happened], view: View) -> Html:
    start, end = one.after - 300.0, min(view.now, one.until + 300.0)
    params = view.filters.params(
        server=one.key.server, model=one.key.name, version=one.key.version,
        **{"from": f"{start:.0f}", "to": f"{end:.0f}"},
    )  # fmt: skip
    return join(
        div(
            span(moment(one.after), class_="ts-timeline-at"),
            tag("b", link(one.key.label(), "model", params)),
            f" on {one.key.server} " if len(view.coverage) > 1 else " ",
            "; ".join(step_words(signal, point) for signal, point in one.points.items()),
        ),
        div(why_words(one, done), class_="ts-faint"),
        _replicas(one, done, view),
    )


def step_words(signal: str, point: ChangePoint) -> str:
    """`latency rose from 4 ms to 1.9 s`."""
    unit = definition(signal, Level.MODEL).unit
    verb = "rose" if point.rising else "fell"
    failing = " (executions fail)" if signal == "batch_size_mean" and point.now < 1 else ""
    before, now = human(point.before, unit), human(point.now, unit)
    return f"{SIGNALS[signal][0]} {verb} from {before} to {now}{failing}"


def why_words(one: Changed, done: Sequence[Happened]) -> str:
    """What was done just before; without anything, what that means."""
    near = causes(one, done)
    if near:
        told = "; ".join(f"{clock(cause.at, seconds=True)} {cause.text}" for cause in near[:3])
        more = f"; and {len(near) - 3} more" if len(near) > 3 else ""
        return f"Just before: {told}{more}."
    return f"Nothing was done in the {LEAD_SECONDS / 60:.0f} min before{_load_words(one)}."


def _load_words(one: Changed) -> str:
    """Whether clients send as much as before; "" where that is not known."""
    before, now = one.rate_before, one.rate_now
    if before is None or now is None:
        return ""
    told = f"{human(before, Unit.PER_SECOND)} → {human(now, Unit.PER_SECOND)}"
    if abs(now - before) < LEAST_SHARE * before:
        return f", and clients send as before ({told})"
    latency = one.points.get("request_us_mean")
    if now < before and latency is not None and latency.rising:
        return f"; clients send less since then ({told}), as those do that wait for each answer"
    return f"; clients send {'more' if now > before else 'less'} since then ({told}): the load changed"


def just_before_words(view: View, finding: Finding) -> str:
    """What changed when a finding began, and what was done just before; "" where no step is near it."""
    if finding.model is None or finding.since is None or finding.model not in _looked_at(view):
        return ""
    near = [one for one in changes_of(view, finding.model) if abs(one.after - finding.since) <= NEAR_SECONDS]
    if not near:
        return ""
    one = min(near, key=lambda change: abs(change.after - finding.since))
    steps = "; ".join(step_words(signal, point) for signal, point in one.points.items())
    done = happened(view, one.after - LEAD_SECONDS, one.until)
    return f"{clock(one.after)} {steps}. {why_words(one, done)}"


def causes(one: Changed, done: Sequence[Happened]) -> tuple[Done, ...]:
    """What was done to the model or its server just before."""
    mine = (
        row.done for row in done if row.done.server == one.key.server and row.done.model in ("", one.key.name)
    )
    return just_before(one.point, mine)


def _replicas(one: Changed, done: Sequence[Happened], view: View) -> Html | None:
    """Replicas with what was done and without it, side by side; None where the model has no other replica."""
    process = runtime.current()
    mine = process.server(one.key.server)
    others = [
        server.id
        for server in process.servers
        if mine is not None and mine.workload and server.workload == mine.workload and view.sees(server.id)
    ]
    if len(others) < 2:
        return None
    signal = next(iter(one.points))
    frame = series(view, signal, one.key.name, one.key.version, None)
    near = frame.times[(frame.times > one.after - 600.0) & (frame.times < one.until + 600.0)]
    shown = np.isin(frame.times, near)
    columns = {key[0]: frame.values[shown, place] for place, key in enumerate(frame.keys) if key[0] in others}
    touched = {
        cause.server
        for cause in just_before(one.point, (row.done for row in done))
        if cause.model in ("", one.key.name) and cause.server in columns
    }
    return div(_side_words(sides(near, columns, one.after, touched), signal), class_="ts-faint")


def _side_words(replicas: Sequence[Side], signal: str) -> str:
    unit = definition(signal, Level.MODEL).unit
    told = ", ".join(
        f"{one.server}{_TOUCHED if one.touched else ''} {human(one.before, unit)} → {human(one.now, unit)}"
        for one in replicas[:6]
    )
    conclusion = {
        True: "only where something was done it changed: that is likely why.",
        False: "it changed alike where nothing was done: that is not why.",
        None: "that does not tell them apart.",
    }[told_apart(replicas)]
    return f"Replicas ({counted(len(replicas), 'server')}): {told}; {conclusion}"
