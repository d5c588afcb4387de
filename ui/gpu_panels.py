"""What the GPU page says: who holds the memory of each GPU, why figures are missing, and the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import runtime
from history.memory_changes import ReloadGrowth
from signals.memory import DeviceMemory
from signals.report import GpuSignals, ServerSignals
from telemetry.facts import ModelState
from telemetry.memory import CPU
from telemetry.scrape import Source
from telemetry.units import NOT_REPORTED, Unit, human, human_duration
from ui.empty import empty_state, nobody_answers, reasons, silent
from ui.format import clock, day
from ui.html import Html, div, link, span, tag
from ui.memory_bar import NO_PROCESS, bar, known, rows
from ui.model_panels import section
from ui.view import View

_NAMED = 5
_OVERHEAD_RATIO = 0.1
"""A GPU without models below this fill holds only what each process costs on every visible GPU."""


@dataclass(frozen=True, slots=True)
class GpuCard:
    """One GPU: its number in the order of the report, its figures, and who holds its memory."""

    number: int
    figures: GpuSignals
    several: bool
    memory: DeviceMemory
    placed: bool | None
    """Whether a model runs here; None = nothing tells."""
    view: View

    @property
    def name(self) -> str:
        """`GPU 0`, with its server where it matters and what is simulated said."""
        return f"GPU {self.number}" + (" (simulated)" if self.figures.key.simulated else "")

    def number_of(self, signal: str) -> float | None:
        """One of its signals, None = not reported."""
        return self.view.gpu_figure(self.figures, signal)

    @property
    def stale(self) -> str:
        """Age of the figures while the server is silent, "" while they are fresh."""
        age = self.view.stale_seconds(self.figures.key.server)
        return "" if age is None else f"{human_duration(age)} old"


def gpu_cards(view: View, known: Sequence[DeviceMemory]) -> list[GpuCard]:
    """The GPUs that Triton reports, each with who holds its memory (`known`)."""
    gpus = view.report.gpus
    by_device = {(one.server, one.device): one for one in known}
    cards = []
    for server in dict.fromkeys(row.key.server for row in gpus):
        mine = [row for row in gpus if row.key.server == server]
        used = _used_uuids(server)
        for number, row in enumerate(mine):
            memory = by_device.get((server, row.key.uuid)) or DeviceMemory(server, row.key.uuid, None, None)
            placed = (
                True if memory.models else (row.key.uuid in used) if used else _placed(view, server, number)
            )
            cards.append(GpuCard(number, row, len(mine) > 1, memory, placed, view))
    return cards


def _used_uuids(server: str) -> set[str]:
    """GPUs that Triton names in its models' own series; empty where it names none."""
    labelled = runtime.current().ring.labels("nv_inference_request_success")
    return {series.label("gpu_uuid") for owner, series in labelled if owner == server} - {""}


def _placed(view: View, server: str, number: int) -> bool | None:
    """From the configurations: does an instance group name this GPU? None without any such group."""
    groups = [
        group
        for facts in view.inventory.of_server(server)
        if facts.config is not None
        for group in facts.config.instance_groups
        if group.kind == "KIND_GPU" and group.gpus
    ]
    return any(number in group.gpus for group in groups) if groups else None


def unread(view: View) -> bool:
    """True if no metrics page of these servers can be read: then nothing is known, not even an absence."""
    return all(not one.answering or Source.METRICS in one.failed_sources for one in view.coverage)


def gpu_sentence(cards: Sequence[GpuCard], view: View) -> str:
    """The page's first line: the fullest GPU and what is on it."""
    if not cards:
        return "Nothing is known about the GPUs." if unread(view) else "Triton reports no GPU metrics."
    card = max(cards, key=lambda one: one.number_of("memory_used_ratio") or 0.0)
    used, total = card.number_of("memory_used_bytes"), card.number_of("memory_total_bytes")
    busy = card.number_of("utilization_ratio")
    parts = []
    if used is not None and total:
        share = human(used / total, Unit.RATIO)
        parts.append(f"holds {human(used, Unit.BYTES)} of {human(total, Unit.BYTES)} ({share})")
    if busy is not None:
        parts.append(f"is {human(busy, Unit.RATIO)} busy")
    which = (
        f"The fullest of {len(cards)} GPUs, {card.name} on {card.figures.key.server},"
        if len(cards) > 1
        else card.name
    )
    if not parts:
        return f"{card.name} reports neither memory nor utilization."
    return f"{card.stale + ': ' if card.stale else ''}{which} {' and '.join(parts)}."


def gpu_level(cards: Sequence[GpuCard]) -> str:
    """Grey without fresh figures, else green: GPUs are meant to be full; rules judge, not this page."""
    return "fine" if cards and not any(card.stale for card in cards) else "unknown"


def without_gpus(view: View) -> Html:
    """Why there may be no GPU figures."""
    if silent(view.coverage):
        return nobody_answers(view.coverage, "nothing is known about the GPUs")
    if unread(view):
        return empty_state(
            "The metrics page could not be read, so nothing is known about the GPUs.",
            *reasons(view.coverage, Source.METRICS),
            todo=("Check metrics_url of this server in tritonscope.yml, or TRITONSCOPE_METRICS_URL.",),
        )
    return empty_state(
        "Triton reports no GPU metrics.",
        "No family nv_gpu_* is on its metrics page: nothing is known about the GPUs, neither busy nor free.",
        "The known causes:",
        todo=(
            "The machine has no GPU, or Triton sees no driver.",
            "MIG mode is on: Triton reports no figures of MIG instances. Use dcgm-exporter.",
            "Another DCGM agent (dcgm-exporter, nv-hostengine) holds the GPU's counters.",
            "DCGM failed to start or failed three times in a row: Triton only writes it into its log.",
            "Triton was started with --allow-gpu-metrics=false, or without --allow-metrics.",
        ),
    )


def memory_bar(card: GpuCard, view: View) -> Html:
    """Head and memory bar of one GPU: models by source, known parts, the rest unattributed, what is free."""
    where = span(f"{card.figures.key.uuid} on {card.figures.key.server}", class_="ts-faint")
    return div(
        div(card.name, where, _badge(card), _age(card), class_="ts-h"),
        known(card.memory),
        bar(card.memory),
        tag("table", rows(card.memory, view, rest_words=_rest_words(card)), class_="ts-facts"),
        _numbers(card),
        div(link("What else fits on it?", "capacity", view.filters.params()), class_="ts-more"),
        class_="ts-stale" if card.stale else None,
        data_key=card.figures.key.uuid,
    )


def _rest_words(card: GpuCard) -> str:
    ratio = card.number_of("memory_used_ratio")
    if card.placed is False and ratio is not None and ratio < _OVERHEAD_RATIO:
        return f"no model placed here; process overhead ({human(ratio, Unit.RATIO)} of the GPU)"
    if card.memory.others:
        return NO_PROCESS
    if card.several:
        return "models, contexts and other processes"
    if not card.memory.models:
        return "models too: no backend reports the memory of its models"
    return "contexts, caches, growth since the load, other processes"


def _age(card: GpuCard) -> Html | None:
    return span(card.stale, class_="ts-badge ticket") if card.stale else None


def _badge(card: GpuCard) -> Html | None:
    if not card.figures.key.simulated:
        return None
    return span(
        "simulated",
        class_="ts-badge simulated",
        data_tip="The sandbox's GPU is made up; it follows the real executions.",
    )


def _numbers(card: GpuCard) -> Html:
    power, limit = card.number_of("power_watts"), card.number_of("power_limit_watts")
    of = f" of {human(limit, Unit.WATTS)}" if limit is not None else ""
    busy = human(card.number_of("utilization_ratio"), Unit.RATIO)
    return div(
        span(f"utilization {busy}"), span(f"power {human(power, Unit.WATTS)}{of}"), class_="ts-legend-line"
    )


def host(rows: Sequence[ServerSignals]) -> Html:
    """CPU and memory of the machines, as Triton sees them."""
    shown = [line for row in rows for line in _host_rows(row, several=len(rows) > 1)]
    if not shown:
        words = "The servers report no CPU figures now."
        return section("Host", div(words, class_="ts-faint"))
    return section(
        "Host",
        tag("table", shown, class_="ts-facts"),
        note="the whole machine as seen by Triton, not a container's limit",
    )


def _host_rows(row: ServerSignals, *, several: bool) -> list[Html]:
    number = row.signals.number
    where = f" of {row.server}" if several else ""
    lines = [
        (
            f"CPU{where}",
            human(number("cpu_ratio"), Unit.RATIO),
            "whole machine as seen by Triton, between two of its readings",
        ),
        (f"memory{where}", _of(number("memory_used_bytes"), number("memory_total_bytes")), "whole machine"),
        (
            f"pinned memory{where}",
            _of(number("pinned_memory_used_bytes"), number("pinned_memory_total_bytes")),
            "Triton's pool for copies to GPUs",
        ),
    ]
    return [
        tag("tr", tag("td", name), tag("td", value), tag("td", words, class_="ts-faint"))
        for name, value, words in lines
        if value != NOT_REPORTED
    ]


def _of(used: float | None, total: float | None) -> str:
    if used is None:
        return NOT_REPORTED
    if not total:
        return human(used, Unit.BYTES)
    return f"{human(used, Unit.BYTES)} of {human(total, Unit.BYTES)} ({human(used / total, Unit.RATIO)})"


def other_gpus(view: View, found: Sequence[DeviceMemory]) -> Html | None:
    """GPUs that Triton gives no figures of: known by the number a backend reports, or by NVML."""
    if not found:
        return None
    parts: list[Html | None] = []
    for one in found:
        parts += [
            div(one.device, span(f"on {one.server}", class_="ts-faint"), class_="ts-h"),
            known(one),
            bar(one),
            tag("table", rows(one, view, rest_words="contexts, caches, other programs"), class_="ts-facts"),
        ]
    return section("GPUs without figures of Triton", *parts)


def machine_memory(view: View, machines: Sequence[DeviceMemory]) -> Html:
    """Memory of the models on the machines themselves, where anything is known of it."""
    shown = [one for one in machines if one.models or one.others]
    if not shown:
        found = [note for one in machines for note in one.notes]
        why = found[0] if found else "No model is known, so none reports it."
        return section("Memory of models on the machine", div(why, class_="ts-faint"))
    parts: list[Html | None] = []
    for one in shown:
        words = "machine-wide: the system, its caches, other programs"
        parts += [
            div(f"on {one.server}", class_="ts-faint") if len(shown) > 1 else None,
            known(one),
            bar(one, machine=True),
            tag("table", rows(one, view, rest_words=words), class_="ts-facts"),
        ]
    return section("Memory of models on the machine", *parts)


def untold(view: View, known: Sequence[DeviceMemory]) -> Html | None:
    """Which models' memory nobody tells, on whatever device."""
    told = {model.key for one in known for model in one.models}
    ready = [
        one for one in view.inventory.models if one.state in (None, ModelState.READY) and not one.ensemble
    ]
    silent = [one.key for one in ready if one.key not in told]
    if not silent:
        return None
    names = ", ".join(key.label() for key in silent[:_NAMED])
    more = f" and {len(silent) - _NAMED} more" if len(silent) > _NAMED else ""
    words = f"{len(silent)} of {len(ready)} models: nothing tells what they hold ({names}{more})."
    return div(words, class_="ts-more")


def growth(found: Sequence[ReloadGrowth], view: View) -> Html | None:
    """Models that hold more after each load than after the one before."""
    if not found:
        return None
    lines = [
        tag(
            "tr",
            tag("td", link(one.model, "model", view.filters.params(server=one.server, model=one.model))),
            tag("td", f"+{human(one.grown_bytes, Unit.BYTES)}"),
            tag("td", growth_words(one), class_="ts-faint"),
        )
        for one in found
    ]
    note = "its own processes hold more after each load than after the one before"
    return section("Memory grows with reloads", tag("table", lines, class_="ts-facts"), note=note)


def growth_words(one: ReloadGrowth) -> str:
    """`217 MiB after the first of 4 loads (14:02), 367 MiB after the last (15:10), on the machine`."""
    where = "on the machine" if one.device == CPU else f"on {one.device}"
    first, last = human(one.first_bytes, Unit.BYTES), human(one.last_bytes, Unit.BYTES)
    since, until = clock(one.since), clock(one.until)
    if day(one.since) != day(one.until):
        since, until = f"{day(one.since)} {since}", f"{day(one.until)} {until}"
    return f"{first} after the first of {one.loads} loads ({since}), {last} after the last ({until}), {where}"
