"""The memory panel of the Model page: every source, what loads and unloads did, growth across reloads."""

from __future__ import annotations

from history.inventory import ModelFacts
from history.memory_changes import MemoryChange, reload_growth
from signals.memory import Figure, ModelHolding
from telemetry.memory import CPU
from telemetry.units import NOT_REPORTED, Unit, human
from ui.format import clock, day, moment, raw_tip
from ui.gpu_panels import growth_words
from ui.html import Child, Html, div, link, span, tag
from ui.memory_bar import source_badge, trust
from ui.memory_view import changes, holdings_of
from ui.model_panels import section
from ui.view import View

_SHOWN = 6
_DAY_SECONDS = 20 * 3600.0


def model_memory(view: View, facts: ModelFacts) -> Html | None:
    """Nothing for an ensemble: it holds no memory, its steps do."""
    if facts.ensemble:
        return None
    held = holdings_of(view, facts.key)
    lines = [_figure(one, figure, view) for one in held for figure in one.figures]
    why = (
        "Nothing tells. ONNX Runtime and TensorRT report it with the memory tracker switched on; of Python "
        "models the processes tell where they can be seen: GPU & VRAM says how."
    )
    body = tag("table", lines, class_="ts-facts") if lines else div(why, class_="ts-faint")
    disagree = [div(one.disagreement, class_="ts-warn") for one in held if one.disagreement]
    done = changes(facts.key.server, facts.key.name)
    more = link("What else fits?", "capacity", view.filters.params(server=facts.key.server))
    return section(
        "Memory", body, *disagree, _growth(done), _changes(done, view.now), div(more, class_="ts-more")
    )


def _figure(one: ModelHolding, figure: Figure, view: View) -> Html:
    device = "machine" if one.device == CPU else one.device
    size = span(figure.text, data_tip=raw_tip(figure.bytes, Unit.BYTES))
    words = f"{figure.words}, {trust(figure, view.now)}"
    return tag(
        "tr",
        tag("td", device),
        tag("td", size),
        tag("td", source_badge(figure), " ", words, class_="ts-faint"),
    )


def _growth(done: tuple[MemoryChange, ...]) -> Html | None:
    found = reload_growth(done)
    if not found:
        return None
    words = f"It holds more after every load: {growth_words(found[0])}."
    return div(words, class_="ts-warn")


def _changes(done: tuple[MemoryChange, ...], now: float) -> Html | None:
    """Before and after of the last loads and unloads, the newest first."""
    lines = [_change(change, now) for change in reversed(done[-_SHOWN:])]
    known = [line for line in lines if line is not None]
    if not known:
        return None
    title = "Loads and unloads: memory before and after"
    return tag(
        "details",
        tag("summary", title),
        tag("table", known, class_="ts-facts"),
        class_="ts-fold",
    )


def _change(change: MemoryChange, now: float) -> Html | None:
    parts: list[Child] = []
    for device, sides in change.held.items():
        before, after = (_size(side) for side in (sides.before, sides.after))
        parts.append(f"its processes {before} → {after} ({'machine' if device == CPU else device})")
    for device, sides in change.used.items():
        if device != CPU and sides.grown_bytes is not None:
            before, after = (_size(side) for side in (sides.before, sides.after))
            parts.append(f"in use on {device} {before} → {after}")
    if not parts:
        return None
    words = " · ".join(str(part) for part in parts)
    if change.disturbed:
        words += f" · {change.disturbed}"
    ended = change.mark.ended
    when = f"{day(ended)} {clock(ended)}"
    by = "" if change.mark.ours else " (not through this app)"
    return tag(
        "tr",
        tag("td", when if now - ended > _DAY_SECONDS else moment(ended)),
        tag("td", change.mark.what + by),
        tag("td", words, class_="ts-faint"),
    )


def _size(value: float | None) -> str:
    return NOT_REPORTED if value is None else human(value, Unit.BYTES)
