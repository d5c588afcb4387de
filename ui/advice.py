"""The advice card of the Model page: what other settings would bring, from what production showed."""

from __future__ import annotations

import threading
import time

import runtime
from history.inventory import ModelFacts
from signals.advice import Advice, Aim, Proposal, Range, advise, batcher_of, config_lines
from signals.advice_book import Checked
from signals.batch_time import LEAST_EXECUTIONS, BatchTime, SizeTime
from signals.batcher import BatcherConfig
from telemetry.identity import ModelKey
from telemetry.units import Unit, human
from ui.format import clock, counted
from ui.html import Child, Html, copy_button, div, link, span, tag
from ui.memory_view import holdings_of
from ui.model_panels import section
from ui.production import LEAST_TRAFFIC_SECONDS, TRAFFIC_SECONDS, batch_time, observed
from ui.view import View

KEEP_SECONDS = 30.0
"""An advice takes a good part of a second: it is worked out anew so often at most, for all viewers."""
_NOTE = "simulated from what executions took and the last minutes' traffic"
_lock = threading.Lock()
_kept: dict[tuple[ModelKey, BatcherConfig], tuple[float, Advice]] = {}


def advice_card(view: View, facts: ModelFacts) -> Html | None:
    """The card; None for models whose queue is not Triton's."""
    now = batcher_of(facts.config) if facts.config is not None else None
    if now is None:
        return None
    fitted, sizes = batch_time(view, facts.key)
    checked = _checked(view, facts.key, now)
    if fitted is None and (last := runtime.current().advice.last(facts.key)) is not None:
        # A reload begins the counting anew; how long an execution takes has not changed by another delay.
        fitted = last.time
    if fitted is None:
        return section("Advice", div(_unfitted(sizes, now), class_="ts-faint"), checked)
    advice = _advice(view, facts.key, now, fitted)
    if advice is None:
        why = f"No request in the last {TRAFFIC_SECONDS / 60:.0f} minutes: advice rests on traffic."
        return section("Advice", _curve(fitted), div(why, class_="ts-faint"), checked)
    return section(
        "Advice", _curve(fitted), _described(advice), *_proposals(advice, view, facts), checked, note=_NOTE
    )


def _advice(view: View, key: ModelKey, now: BatcherConfig, fitted: BatchTime) -> Advice | None:
    with _lock:
        known = _kept.get((key, now))
        if known is not None and time.monotonic() - known[0] < KEEP_SECONDS:
            return known[1]
        seen = observed(view, key, _since_change(view, key, now))
        if seen is None:
            return None
        advice = advise(fitted, now, seen)
        _kept[key, now] = (time.monotonic(), advice)
    runtime.current().advice.give(key, advice, view.now)
    return advice


def _since_change(view: View, key: ModelKey, now: BatcherConfig) -> float:
    """Traffic under another configuration is left out: seconds to look back."""
    prediction = runtime.current().advice.prediction(key, now, view.now)
    if prediction is None:
        return TRAFFIC_SECONDS
    return min(TRAFFIC_SECONDS, max(LEAST_TRAFFIC_SECONDS, view.now - prediction.since))


def _unfitted(sizes: tuple[SizeTime, ...], now: BatcherConfig) -> str:
    if now.max_batch_size < 2:
        return (
            "The model takes no batches (max_batch_size below 2), so only the number of instances is left to "
            "set: Capacity says how many a rate needs."
        )
    known = ", ".join(str(one.batch_size) for one in sizes) or "none"
    return (
        f"The time of an execution by batch size is not known yet: two sizes must have been executed "
        f"{LEAST_EXECUTIONS} times since the load (executed: {known}). A load run with several clients "
        "shows more sizes."
    )


def _curve(fitted: BatchTime) -> Html:
    error = f", ±{human(fitted.error_ratio, Unit.RATIO)}" if fitted.error_ratio is not None else ""
    takes = human(fitted.fixed_us, Unit.US)
    # A fit never says less than nothing a row: at 0 the size makes no difference that could be measured.
    row = f" + {human(fitted.per_row_us, Unit.US)} a row"
    takes += row if fitted.per_row_us > 0 else " whatever its size"
    words = f"An execution takes {takes} (sizes {fitted.smallest} to {fitted.largest}{error})."
    count = human(fitted.executions, Unit.COUNT)
    tip = f"T(b) = a + c·b over {count} executions of the last hour, or since the load"
    return div(words, data_tip=tip)


def _described(advice: Advice) -> Html:
    arrivals = advice.arrivals
    traffic = (
        f"about {counted(arrivals.clients, 'client')} waiting for each answer"
        if arrivals.clients is not None
        else f"random arrivals{_grouped(arrivals.group)}, {human(arrivals.rate_per_second, Unit.PER_SECOND)}"
    )
    queue = human(advice.observed.queue_us_mean, Unit.US)
    simulated = human(advice.described.queue_us_mean, Unit.US)
    return div(
        f"Taken as {traffic}: simulated queue {simulated}, measured {queue}.",
        class_="ts-faint",
        data_tip="Assumed: requests alike, none refused, instances do not slow each other down.",
    )


def _grouped(group: int) -> str:
    return f" of about {group} at once" if group > 1 else ""


def _proposals(advice: Advice, view: View, facts: ModelFacts) -> list[Html]:
    if not advice.trusted:
        off = human(advice.model_error_ratio, Unit.RATIO)
        words = (
            f"The simulation is {off} off the measured queue: requests come otherwise than assumed, or "
            "something else keeps them waiting (a busy machine, other models). Nothing is promised."
        )
        return [div(words, class_="ts-faint")]
    if not advice.proposals:
        return [div("No other setting would gain 10 % or more.", class_="ts-faint")]
    return [_proposal(one, advice, view, facts) for one in advice.proposals]


def _proposal(one: Proposal, advice: Advice, view: View, facts: ModelFacts) -> Html:
    lines = config_lines(one.config, advice.now, facts.config.instance_groups if facts.config else ())
    gains = [_gain("queue", advice.observed.queue_us_mean, one.queue_us, Unit.US)]
    if advice.aim is Aim.THROUGHPUT:
        rate = advice.observed.requests_per_second
        gains.insert(0, _gain("requests", rate, one.requests_per_second, Unit.PER_SECOND))
    price = _price(one, advice, view, facts)
    return div(
        div(", ".join(one.changes(advice.now)), class_="ts-name"),
        tag("table", gains, price, class_="ts-facts"),
        tag(
            "details",
            tag("summary", "config.pbtxt"),
            tag("pre", lines, class_="ts-pre"),
            copy_button(lines),
            class_="ts-fold",
        ),
        class_="ts-advice",
    )


def _gain(name: str, now: float, then: Range, unit: Unit) -> Html:
    words = f"{human(now, unit)} → {human(then.middle, unit)}"
    between = f"{human(then.low, unit)} to {human(then.high, unit)}"
    return tag("tr", tag("td", name), tag("td", words), tag("td", between, class_="ts-faint"))


def _price(one: Proposal, advice: Advice, view: View, facts: ModelFacts) -> Html | None:
    more = one.config.instances - advice.now.instances
    if more <= 0:
        return None
    held = [held for held in holdings_of(view, facts.key) if not held.estimated]
    sizes = [f"{human(more * one.shown.bytes / advice.now.instances, Unit.BYTES)}" for one in held]
    cost: Child = "+" + " and ".join(sizes) if sizes else "memory not known"
    fits = link("does it fit?", "capacity", view.filters.params(server=facts.key.server))
    return tag("tr", tag("td", "memory"), tag("td", cost), tag("td", fits))


def _checked(view: View, key: ModelKey, now: BatcherConfig) -> Html | None:
    """What was predicted of the configuration in force, against what came of it."""
    book = runtime.current().advice
    prediction = book.prediction(key, now, view.now)
    if prediction is None:
        return None
    since = view.now - prediction.since
    if since < LEAST_TRAFFIC_SECONDS:
        return div(
            "The configuration has just changed: its prediction is checked in a moment.", class_="ts-faint"
        )
    found = book.checked(key, now, observed(view, key, min(TRAFFIC_SECONDS, since)), view.now)
    return None if found is None else _verdict(found)


def _verdict(found: Checked) -> Html:
    promised, before = found.prediction.promised, found.prediction.before
    rate, queue = found.check.throughput_error_ratio, found.check.queue_error_ratio
    parts = [
        f"requests predicted {human(promised.requests_per_second.middle, Unit.PER_SECOND)}"
        + (f", {human(rate, Unit.RATIO)} off" if rate is not None else ""),
        f"queue predicted {human(promised.queue_us.middle, Unit.US)}"
        + (f", {human(queue, Unit.RATIO)} off" if queue is not None else ""),
    ]
    changed = ", ".join(promised.changes(before.now)) or "the configuration changed"
    since = clock(found.prediction.since)
    if found.check.other_traffic:
        return div(
            f"Not to be checked since {since}: the traffic is another one than the prediction was made for "
            f"({found.check.other_traffic}). {changed}; {'; '.join(parts)}."
        )
    verdict = "as predicted" if found.check.within else "not as predicted"
    return div(
        span(f"Checked since {since}: {verdict}.", class_=None if found.check.within else "ts-warn"),
        f" {changed}; {'; '.join(parts)}.",
    )
