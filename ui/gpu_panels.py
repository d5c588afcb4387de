"""What the GPU page says: who holds the memory of each GPU, why figures are missing, and the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import runtime
from charts.palette import model_color
from signals.report import GpuSignals, ServerSignals
from telemetry.identity import ModelKey
from telemetry.scrape import Source
from telemetry.units import NOT_REPORTED, Unit, human, human_duration
from ui.empty import empty_state, nobody_answers, reasons, silent
from ui.format import raw_tip
from ui.html import Html, div, link, span, tag
from ui.model_panels import section
from ui.view import View

_OVERHEAD_RATIO = 0.1
"""A GPU without models below this fill holds only what each process costs on every visible GPU."""


@dataclass(frozen=True, slots=True)
class GpuCard:
    """One GPU: its number in the order of the report, its figures, the models that report memory on it."""

    number: int
    figures: GpuSignals
    several: bool
    by_model: dict[ModelKey, float]
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


def gpu_cards(view: View) -> list[GpuCard]:
    """The GPUs of the view; models' memory is put on one only where there is no other it could be on."""
    gpus = view.report.gpus
    cards = []
    for server in dict.fromkeys(row.key.server for row in gpus):
        mine = [row for row in gpus if row.key.server == server]
        alone = len(mine) == 1
        by_model = _memory_by_model(view, server) if alone else {}
        used = _used_uuids(server)
        for number, row in enumerate(mine):
            placed = True if by_model else (row.key.uuid in used) if used else _placed(view, server, number)
            cards.append(GpuCard(number, row, not alone, by_model, placed, view))
    return cards


def _memory_by_model(view: View, server: str) -> dict[ModelKey, float]:
    found = {}
    for row in view.report.models:
        devices = row.signals.mapping("memory_bytes_by_device") or {}
        size = sum(value for device, value in devices.items() if device.upper().startswith("GPU"))
        if row.key.server == server and size:
            found[row.key] = size
    return dict(sorted(found.items(), key=lambda item: -item[1]))


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
    """Head and memory bar of one GPU: models as reported, the rest unattributed, what is free."""
    used, total = card.number_of("memory_used_bytes"), card.number_of("memory_total_bytes")
    known = sum(card.by_model.values())
    parts: list[Html] = []
    rows: list[Html] = []
    for key, size in card.by_model.items():
        parts.append(
            _part(size, total, f"{key.label()}: {human(size, Unit.BYTES)}", color=model_color(key.name))
        )
        rows.append(_line(key, size, view))
    if used is not None:
        rest = max(used - known, 0.0)
        parts.append(_part(rest, total, f"unattributed: {human(rest, Unit.BYTES)}", class_="unattributed"))
        rows.append(_plain_line("unattributed", rest, _rest_words(card)))
        if total:
            rows.append(_plain_line("free", max(total - used, 0.0), ""))
    where = span(f"{card.figures.key.uuid} on {card.figures.key.server}", class_="ts-faint")
    bar = div(parts, class_="ts-bar", role="img", aria_label="memory by what holds it")
    return div(
        div(card.name, where, _badge(card), _age(card), class_="ts-h"),
        bar if used is not None and total else None,
        tag("table", rows, class_="ts-facts"),
        _numbers(card),
        div(_several_words(), class_="ts-more") if card.several else None,
        class_="ts-stale" if card.stale else None,
        data_key=card.figures.key.uuid,
    )  # fmt: skip


def _part(size: float, total: float | None, tip: str, *, color: str = "", class_: str | None = None) -> Html:
    width = 100 * size / total if total else 0
    style = f"width:{width:.2f}%" + (f";--ts-swatch:{color}" if color else "")
    return tag("i", class_=class_, style=style, data_tip=tip)


def _line(key: ModelKey, size: float, view: View) -> Html:
    params = view.filters.params(server=key.server, model=key.name, version=key.version)
    name = span(
        tag("i", class_="ts-swatch", style=f"--ts-swatch:{model_color(key.name)}"),
        " ",
        link(key.label(), "model", params),
    )
    return tag(
        "tr",
        tag("td", name),
        tag("td", human(size, Unit.BYTES)),
        tag("td", "measured by its backend at load", class_="ts-faint"),
    )


def _plain_line(name: str, size: float, words: str) -> Html:
    number = span(human(size, Unit.BYTES), data_tip=raw_tip(size, Unit.BYTES))
    return tag("tr", tag("td", name), tag("td", number), tag("td", words, class_="ts-faint"))


def _rest_words(card: GpuCard) -> str:
    ratio = card.number_of("memory_used_ratio")
    if card.placed is False and ratio is not None and ratio < _OVERHEAD_RATIO:
        return f"no model placed here; process overhead ({human(ratio, Unit.RATIO)} of the GPU)"
    if card.several:
        return "models, contexts and other processes"
    if not card.by_model:
        return "models too: no backend reports the memory of its models"
    return "contexts, caches, growth since the load, other processes"


def _several_words() -> str:
    return (
        "Triton reports models' memory by device number and GPUs by uuid; which is which is not reported, "
        "so models are not put on one of several GPUs here."
    )


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


def model_memory(view: View) -> Html:
    """Memory of every model by device as reported, for servers with several GPUs or none."""
    rows = []
    for row in view.report.models:
        devices = row.signals.mapping("memory_bytes_by_device") or {}
        rows += [
            tag("tr", tag("td", link(row.key.label(), "model", view.filters.params(model=row.key.name))),
                tag("td", human(size, Unit.BYTES)), tag("td", device, class_="ts-faint"))
            for device, size in devices.items()
        ]  # fmt: skip
    without = sum(1 for row in view.report.models if not row.signals.mapping("memory_bytes_by_device"))
    note = f"{without} of {len(view.report.models)} models: not reported by their backend" if without else ""
    if not view.report.models:
        return section("Memory per model", div("No model is known, so none reports it.", class_="ts-faint"))
    body = tag("table", rows, class_="ts-facts") if rows else div(
        "No backend reports it. ONNX Runtime and TensorRT do when Triton runs with "
        "--backend-config=onnxruntime,triton-backend-memory-tracker=true.", class_="ts-faint"
    )  # fmt: skip
    return section("Memory per model", body, note=note)
