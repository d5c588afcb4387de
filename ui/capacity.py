"""What the Capacity page says: the device, what would fit, and the instances a target needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from history.inventory import ModelFacts
from signals.advice import batcher_of
from signals.batch_time import BatchTime
from signals.batcher import BatcherConfig
from signals.capacity import (
    RESERVE_BYTES,
    Answer,
    Budget,
    Fit,
    InstancesNeeded,
    Line,
    Need,
    answer,
    need_of_instance,
    need_of_weights,
)
from signals.memory import DeviceMemory, ModelHolding
from signals.memory_sources import RESERVING_BACKENDS
from telemetry.facts import ModelState
from telemetry.memory import CPU, MemorySource
from telemetry.units import Unit, human, significant
from ui.format import counted
from ui.html import Html, div, span, tag
from ui.memory_bar import attributed, bar, notes, rows
from ui.model_panels import section
from ui.view import View

_CLASSES = {Fit.FITS: "ok", Fit.TIGHT: "ticket", Fit.NO: "page", Fit.UNKNOWN: ""}
MIB = 2.0**20
EMPTY_ROW: dict[str, object] = dict.fromkeys(("model", "MiB an instance", "instances", "batch peak %"))


def device_name(device: DeviceMemory, *, several: bool) -> str:
    """`GPU GPU-1a2b… on gpu-1`, `machine`: as a person picks it."""
    name = "machine memory" if device.device == CPU else f"GPU {device.device.removeprefix('GPU-')}"
    return f"{name} on {device.server}" if several else name


def sentence(device: DeviceMemory | None, *, several: bool) -> tuple[str, str]:
    """The page's first line and its level: what is free where."""
    if device is None:
        return "Nothing is known about any memory yet.", "unknown"
    name = device_name(device, several=several)
    if device.free_bytes is None:
        return f"What is free of {name} is not reported.", "unknown"
    free, total = human(device.free_bytes, Unit.BYTES), human(device.total_bytes, Unit.BYTES)
    return f"{free} of {total} are free: {name}.", "fine"


def best_device(known: Sequence[DeviceMemory]) -> int:
    """The first GPU of which something is known, else whatever has models."""
    return next((place for place, one in enumerate(known) if one.models), 0)


def held(device: DeviceMemory, view: View) -> Html:
    """The device as it is: who holds it, and how far that is known."""
    known = attributed(device)
    words = "the system, other programs" if device.device == CPU else "contexts, caches, other programs"
    return section(
        "Held now",
        div(known, class_="ts-known") if known else None,
        bar(device, machine=device.device == CPU),
        tag("table", rows(device, view, rest_words=words), class_="ts-facts"),
        notes(device),
    )


def verdict(found: Answer, need: Need | None, *, title: str = "") -> Html:
    """Fits, tight, does not fit, unknown; with its numbers and what they rest on."""
    badge = span(found.fit.value, class_=f"ts-badge {_CLASSES[found.fit]} fit-{found.fit.name.lower()}")
    basis = f"Basis: {need.basis}." if need is not None and need.basis else ""
    return div(
        div(badge, " ", span(title, class_="ts-name") if title else None, class_="ts-h"),
        div(f"{found.sentence[:1].upper()}{found.sentence[1:]}."),
        div(basis, class_="ts-faint") if basis else None,
        class_="ts-answer",
    )


# ---- a second instance


@dataclass(frozen=True, slots=True)
class Instance:
    """A model that could get another instance on this device."""

    holding: ModelHolding
    facts: ModelFacts
    instances: int

    @property
    def label(self) -> str:
        """As a person picks it."""
        return self.holding.key.label()

    @property
    def need(self) -> Need:
        """One more instance: the share of one of those there are."""
        figure = self.holding.shown
        return need_of_instance(
            figure.bytes, self.instances, lower_bound=figure.lower_bound, basis=f"({figure.source.value})"
        )


def instances(device: DeviceMemory, view: View) -> list[Instance]:
    """Models of the device whose instances are known."""
    found = []
    for holding in device.models:
        facts = view.facts(holding.key)
        if facts is not None and facts.instance_count:
            found.append(Instance(holding, facts, facts.instance_count))
    return found


def second_instance(one: Instance, more: int, device: DeviceMemory) -> Html:
    """Do so many more instances fit?"""
    if reserves(one.facts):
        words = (
            "This backend takes a share of the card at start, whatever the model needs: what it holds is a "
            "reservation, and a second instance wants one of its own."
        )
        return verdict(Answer(Fit.UNKNOWN, words), None)
    need = one.need.times(more)
    words = f"{counted(more, 'instance')} more of {one.label}"
    return verdict(answer(need, device.free_bytes), need, title=words)


def reserves(facts: ModelFacts | None) -> bool:
    """True for backends that preallocate a share of the card."""
    return facts is not None and facts.config is not None and facts.config.backend in RESERVING_BACKENDS


# ---- another model


def another_model(weights_bytes: float, count: int, own_process: bool, device: DeviceMemory) -> Html:
    """Does a model with weights of so many bytes an instance fit?"""
    if weights_bytes <= 0:
        return verdict(answer(None, device.free_bytes), None)
    on_card = own_process and device.device != CPU
    need = need_of_weights(weights_bytes, own_process=on_card).times(count)
    words = f"{counted(count, 'instance')} of {human(weights_bytes, Unit.BYTES)} weights"
    return verdict(answer(need, device.free_bytes), need, title=words)


# ---- the whole budget


def budget_rows(device: DeviceMemory, view: View) -> list[dict[str, object]]:
    """The budget as it is measured, to be edited: MiB of one instance, instances, batch peak in percent."""
    found = []
    for holding in device.models:
        facts = view.facts(holding.key)
        count = (facts.instance_count if facts is not None else None) or 1
        # What a process or a card was measured to hold has its peak in it already; weights do not.
        measured = holding.shown.source in (MemorySource.PROCESS, MemorySource.DELTA, MemorySource.BACKEND)
        found.append(
            {
                "model": holding.key.label() + (" (reservation)" if reserves(facts) else ""),
                "MiB an instance": round(holding.shown.bytes / count / MIB, 1),
                "instances": count,
                "batch peak %": 0 if measured else 20,
                "source": holding.shown.source.value,
            }
        )
    return found


def budget(rows_: Sequence[dict[str, object]], total_bytes: float, reserve_bytes: float) -> Budget:
    """The edited rows as a budget; rows without a size or instances count as nothing."""
    lines = []
    for row in rows_:
        size, count = _number(row.get("MiB an instance")), _number(row.get("instances"))
        peak = _number(row.get("batch peak %")) / 100
        low = size * MIB * count
        if low > 0:
            lines.append(
                Line(str(row.get("model") or "unnamed"), int(count), Need(low, low * (1 + peak), ""))
            )
    return Budget(total_bytes, reserve_bytes, tuple(lines))


def _number(value: object) -> float:
    """A cell of the table: empty and NaN count as nothing."""
    return max(0.0, float(value)) if isinstance(value, int | float) and value == value else 0.0


def budget_verdict(made: Budget) -> Html:
    """Do all models go in together?"""
    found = made.answer
    lines = [
        ("total", made.total_bytes, ""),
        ("framework", made.reserve_bytes, "contexts and pools: 300 to 500 MB of a card, more on large ones"),
        ("available", made.available_bytes, "total - framework"),
    ]
    table = [
        tag("tr", tag("td", name), tag("td", human(size, Unit.BYTES)), tag("td", words, class_="ts-faint"))
        for name, size, words in lines
    ]
    return div(
        verdict(found, None, title=f"{counted(len(made.lines), 'model')} together"),
        tag("table", table, class_="ts-facts"),
    )


def default_reserve_bytes(device: DeviceMemory) -> float:
    """What the framework keeps: of a card as the rule says, of the machine what is no model's now."""
    if device.device != CPU or device.used_bytes is None:
        return RESERVE_BYTES
    return max(0.0, device.used_bytes - device.measured_bytes)


# ---- instances for a rate


def batching_models(view: View) -> list[ModelFacts]:
    """Ready models whose queue is Triton's."""
    return [
        facts
        for facts in view.inventory.models
        if facts.state in (None, ModelState.READY)
        and facts.config is not None
        and batcher_of(facts.config) is not None
    ]


def needed(
    found: InstancesNeeded, config: BatcherConfig, time: BatchTime, rate: float, queue_ms: float
) -> Html:
    """How many instances, what they would give, and what it rests on."""
    target = f"{human(rate, Unit.PER_SECOND)} at a queue of {significant(queue_ms)} ms"
    least = counted(found.at_least, "instance")
    bound = f"At least {least}: even with full batches fewer cannot serve this rate."
    assumed = (
        f"Assumed: random arrivals, requests alike, T(b) = {human(time.fixed_us, Unit.US)} + "
        f"{human(time.per_row_us, Unit.US)}·b, instances that do not slow each other down (on one GPU they "
        f"do), {_words(config)}."
    )
    if found.instances is None:
        why = "no number of instances reaches it"
        if found.outcome is not None:
            queue = human(found.outcome.queue_us_mean, Unit.US)
            why += f": with idle instances the mean queue is still {queue}, the delay of the batcher"
        badge = span("not reachable", class_="ts-badge page")
        return div(
            div(badge, " ", span(target, class_="ts-name"), class_="ts-h"),
            div(f"{why[:1].upper()}{why[1:]}."),
            div(assumed, class_="ts-faint"),
            class_="ts-answer",
        )
    now = config.instances
    change = "as there are now" if found.instances == now else f"there are {now} now"
    outcome = found.outcome
    gives = (
        f"Simulated: mean queue {human(outcome.queue_us_mean, Unit.US)}, 95 % within "
        f"{human(outcome.queue_us_p95, Unit.US)}, batches of {significant(outcome.batch_size_mean)}, "
        f"instances {human(outcome.busy_ratio, Unit.RATIO)} busy."
        if outcome is not None
        else ""
    )
    return div(
        div(
            span(counted(found.instances, "instance"), class_="ts-badge ok"),
            " ",
            span(f"{target} ({change})", class_="ts-name"),
            class_="ts-h",
        ),
        div(gives),
        div(bound, class_="ts-faint"),
        div(assumed, class_="ts-faint"),
        class_="ts-answer",
    )


def _words(config: BatcherConfig) -> str:
    if not config.dynamic:
        return "no dynamic batching"
    sizes = ", ".join(map(str, config.sizes))
    return f"delay {human(config.delay_us, Unit.US)}, preferred sizes {sizes}"
