"""The memory of one device as a bar and a table: each part with its source, age and confidence."""

from __future__ import annotations

from charts.palette import model_color
from signals.memory import DeviceMemory, Figure, ModelHolding
from telemetry.memory import MemorySource
from telemetry.units import Unit, human, human_duration
from ui.format import raw_tip
from ui.html import Child, Html, div, link, span, tag
from ui.view import View

SOURCES = {
    MemorySource.REPORTED: "The model's backend counted its own allocations at load: at least so much.",
    MemorySource.PROCESS: "Whole memory of the processes that run this model alone.",
    MemorySource.BACKEND: "The backend's own metrics.",
    MemorySource.DELTA: "Growth of the memory in use over a load done through this app.",
    MemorySource.ESTIMATE: "Not measured: size of the weights times the instances.",
}


NO_PROCESS = "held by no process that NVML names"
"""What is left where NVML names the processes on a card."""


def source_badge(figure: Figure) -> Html:
    """The source of a figure, with what it means."""
    lines = (SOURCES[figure.source], figure.detail, f"Confidence: {figure.confidence.value}.")
    tip = "\n".join(filter(None, lines))
    return span(figure.source.value, class_=f"ts-badge source-{figure.source.value}", data_tip=tip)


def trust(figure: Figure, now: float) -> str:
    """Confidence and age in words: `high confidence · 3 min old`."""
    age = human_duration(max(0.0, now - figure.at)) if figure.at is not None else ""
    if figure.source is MemorySource.REPORTED:
        when = f"at load, {age} ago" if age else "at load, before this app was started"
    else:
        when = f"{age} old" if age else "of unknown age"
    return f"{figure.confidence.value} confidence · {when}"


def known(device: DeviceMemory) -> Html | None:
    """First of all: how much of what is in use has an owner, and how more could be known."""
    words = attributed(device)
    return div(words, notes(device), class_="ts-known") if words or device.notes else None


def attributed(device: DeviceMemory) -> str:
    """`62 % of what is in use has an owner`; with a lower bound in it `At least 62 % ...`."""
    ratio = device.attributed_ratio
    if ratio is None:
        return "How much is in use is not reported." if device.models or device.others else ""
    words = f"{human(min(ratio, 1.0), Unit.RATIO)} of what is in use has an owner"
    if device.at_least and ratio < 1.0:
        words = f"At least {words}"
    if device.estimated_apart_bytes:
        words += f"; {human(device.estimated_apart_bytes, Unit.BYTES)} more are estimated"
    if device.excess_bytes:
        words += f"; the parts exceed it by {human(device.excess_bytes, Unit.BYTES)}"
    return words


def bar(device: DeviceMemory, *, machine: bool = False) -> Html | None:
    """The bar: models (hatched when estimated), known parts, the rest, what is free. None without a total.

    `machine`: of the machine's own memory, of which models hold little, what is free is left out.
    """
    whole = device.used_bytes if machine else device.total_bytes
    if not whole or device.used_bytes is None:
        return None
    whole = max(whole, device.attributed_bytes + device.estimated_apart_bytes)
    parts: list[Html] = []
    for model in device.models:
        figure = model.shown
        tip = f"{model.key.label()}: {figure.text} ({figure.source.value})"
        class_ = "estimated" if model.estimated else None
        parts.append(_part(figure.bytes, whole, tip, color=model_color(model.key.name), class_=class_))
    for part in device.others:
        tip = f"{part.name}: {human(part.bytes, Unit.BYTES)}"
        parts.append(_part(part.bytes - part.inside_bytes, whole, tip, class_="other"))
    rest = device.rest_bytes or 0.0
    parts.append(_part(rest, whole, f"unattributed: {human(rest, Unit.BYTES)}", class_="unattributed"))
    return div(parts, class_="ts-bar", role="img", aria_label="memory by what holds it")


def _part(size: float, whole: float, tip: str, *, color: str = "", class_: str | None = None) -> Html:
    style = f"width:{100 * size / whole:.2f}%" + (f";--ts-swatch:{color}" if color else "")
    return tag("i", class_=class_, style=style, data_tip=tip)


def rows(device: DeviceMemory, view: View, *, rest_words: str, several: bool = False) -> list[Html]:
    """One row for each part: name, size, source, and what it rests on."""
    lines = [_model(model, view, several=several) for model in device.models]
    lines += [_plain(part.name, part.bytes, part.words) for part in device.others]
    if device.rest_bytes is not None:
        # What models hold beyond their lower bounds is in it.
        lines.append(_plain("unattributed", device.rest_bytes, rest_words, most=device.at_least))
    if device.reserved_bytes:
        lines.append(_plain("driver", device.reserved_bytes, "kept by the driver, in no figure of use"))
    if device.free_bytes is not None:
        lines.append(_plain("free", device.free_bytes, ""))
    return lines


def notes(device: DeviceMemory) -> Html | None:
    """How more could be attributed."""
    if not device.notes:
        return None
    lines = [tag("li", note) for note in device.notes]
    return tag(
        "details",
        tag("summary", "How to know more"),
        tag("ul", lines, class_="ts-notes"),
        class_="ts-fold",
    )


def _model(model: ModelHolding, view: View, *, several: bool) -> Html:
    figure = model.shown
    params = view.filters.params(server=model.key.server, model=model.key.name, version=model.key.version)
    color = model_color(model.key.name)
    swatch = tag(
        "i", class_="ts-swatch" + (" estimated" if model.estimated else ""), style=f"--ts-swatch:{color}"
    )
    where = span(f" on {model.key.server}", class_="ts-faint") if several else None
    return tag(
        "tr",
        tag("td", span(swatch, " ", link(model.key.label(), "model", params), where)),
        tag("td", span(figure.text, data_tip=raw_tip(figure.bytes, Unit.BYTES))),
        tag("td", source_badge(figure), " ", _words(model, view.now), class_="ts-faint"),
    )


def _words(model: ModelHolding, now: float) -> list[Child]:
    figure = model.shown
    words: list[Child] = [f"{figure.words}, {trust(figure, now)}"]
    if model.disagreement:
        words.append(span(f" · {model.disagreement}", class_="ts-warn"))
    others = [one for one in model.figures[1:] if one.source is not MemorySource.ESTIMATE]
    if others and not model.disagreement:
        words.append(" · also " + ", ".join(f"{one.source.value} {one.text}" for one in others))
    return words


def _plain(name: str, size: float, words: str, *, most: bool = False) -> Html:
    number = span(("≤ " if most else "") + human(size, Unit.BYTES), data_tip=raw_tip(size, Unit.BYTES))
    return tag("tr", tag("td", name), tag("td", number), tag("td", words, class_="ts-faint"))
