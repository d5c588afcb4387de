"""The models as rows: what the table and the cards of the overview show, sorted by harm, then by traffic."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from history.inventory import ModelFacts
from signals.memory import ModelHolding
from signals.report import ModelSignals
from telemetry.facts import ModelState
from telemetry.identity import ModelKey
from telemetry.load_errors import explain_reason
from telemetry.memory import CPU
from telemetry.scrape import FloatArray
from telemetry.units import human_duration
from triage.burn import Burn
from triage.finding import Severity
from ui.format import COLLECTING
from ui.memory_view import devices
from ui.view import View

PARTS = ("queue", "input", "infer", "output")
"""Parts of latency in their order."""
_PART_SIGNALS = ("queue_us_mean", "compute_input_us_mean", "compute_infer_us_mean", "compute_output_us_mean")
_NO_COURSE = np.empty(0)

STATES = {
    ModelState.READY: ("ready", "ok"),
    ModelState.LOADING: ("loading", "moving"),
    ModelState.UNLOADING: ("unloading", "moving"),
    ModelState.UNAVAILABLE: ("unloaded", "off"),
    ModelState.NEVER_LOADED: ("not loaded", "off"),
    ModelState.GONE: ("gone", "off"),
    ModelState.UNKNOWN: ("state unknown", "off"),
}
"""Word and colour of each state of the repository index."""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model version. Values in the unit of their signal's name; None = not reported, `why` says why."""

    key: ModelKey
    state: str
    state_class: str
    severity: Severity | None
    reason: str
    facts: ModelFacts | None
    figures: ModelSignals | None
    stale: str
    collecting: bool = False
    queue_course: FloatArray = field(default_factory=lambda: _NO_COURSE)
    held: tuple[ModelHolding, ...] = ()
    """What it holds on GPUs, where that was measured."""
    budget: tuple[Burn, ...] | None = None
    """How its objectives fared within the last hour; None without an objective, () without requests."""

    def number(self, signal: str) -> float | None:
        """A number signal of the model, None when it is not reported."""
        return None if self.figures is None else self.figures.signals.number(signal)

    @property
    def split(self) -> tuple[float, ...] | None:
        """Shares of the four parts of latency, summing to 1; None when one of them is not reported."""
        parts = [self.number(signal) for signal in _PART_SIGNALS]
        known = [part for part in parts if part is not None]
        total = sum(known)
        return tuple(part / total for part in known) if len(known) == len(parts) and total > 0 else None

    @property
    def max_batch_size(self) -> int | None:
        """From the configuration; None without one, 0 where the model takes no batches."""
        config = self.facts.config if self.facts is not None else None
        return None if config is None else config.max_batch_size

    @property
    def gpu_memory_bytes(self) -> float | None:
        """Memory on GPUs as it was measured, whoever tells; None = nobody does."""
        return sum(one.shown.bytes for one in self.held) if self.held else None

    @property
    def idle(self) -> bool:
        """No request in the window, nothing waiting and nothing wrong."""
        return not self.number("requests_per_second") and not self.number("pending") and self.severity is None

    def why(self, signal: str) -> str:
        """Why a number is not there, for its tooltip."""
        if (
            self.facts is not None
            and self.facts.queues_itself
            and signal.startswith(("queue", "batch", "compute"))
        ):
            return "the backend queues and batches by itself: Triton's figures do not show its work"
        if (
            self.facts is not None
            and self.facts.ensemble
            and signal in ("batch_size_mean", "instance_busy_ratio")
        ):
            return "an ensemble executes nothing itself: look at its steps"
        if self.state_class != "ok" and self.facts is not None and self.facts.state is not None:
            return f"the model is {self.state}"
        if self.collecting and signal not in ("pending", "gpu_memory"):
            return COLLECTING
        if signal == "pending":
            return "not reported by this server version"
        if signal == "gpu_memory":
            return "nobody tells: not its backend, and its processes are not seen on a GPU"
        if self.number("requests_per_second") == 0:
            return "no request finished in the window"
        return "not reported"


def model_rows(view: View) -> list[ModelRow]:
    """All models of the view: first those with findings in triage's order, then by requests per second."""
    harm = view.harm
    keys = {row.key for row in view.report.models} | {facts.key for facts in view.inventory.models}
    figures = {row.key: row for row in view.report.models}
    facts = {one.key: one for one in view.inventory.models}
    course = view.model_courses("queue_us_mean")
    stale = {one.server: _stale_words(view, one.server) for one in view.coverage}
    rows = [
        _row(key, figures.get(key), facts.get(key), harm.get(key), stale.get(key.server, ""), course.get(key))
        for key in keys
    ]
    collecting = {one.server for one in view.coverage if view.collecting(one.server)}
    held = _held_on_gpus(view)
    rows = [
        replace(
            row,
            collecting=row.key.server in collecting,
            budget=view.budgets.get(row.key),
            held=held.get(row.key, ()),
        )
        for row in rows
    ]

    def place(row: ModelRow) -> tuple[float, float, ModelKey]:
        found = harm.get(row.key)
        return (inf if found is None else found[0], -(row.number("requests_per_second") or 0.0), row.key)

    return sorted(rows, key=place)


def failed_class(harm: tuple[int, Severity] | None) -> str:
    """Colour of a model that failed to load: red only where its finding says that users are hurt."""
    return "page" if harm is not None and harm[1] is Severity.PAGE else "ticket"


def _held_on_gpus(view: View) -> dict[ModelKey, tuple[ModelHolding, ...]]:
    found: dict[ModelKey, tuple[ModelHolding, ...]] = {}
    for device in devices(view):
        for model in device.models if device.device != CPU else ():
            if not model.estimated:
                found[model.key] = (*found.get(model.key, ()), model)
    return found


def _row(
    key: ModelKey,
    figures: ModelSignals | None,
    facts: ModelFacts | None,
    harm: tuple[int, Severity] | None,
    stale: str,
    course: FloatArray | None,
) -> ModelRow:
    state = facts.state if facts is not None else figures.state if figures is not None else None
    word, class_ = STATES[state] if state is not None else ("state not reported", "off")
    if facts is not None and facts.failed:
        word, class_ = "failed to load", failed_class(harm)
    if stale:
        word, class_ = f"was {word}", "off"
    return ModelRow(
        key=key,
        state=word,
        state_class=class_,
        severity=None if harm is None else harm[1],
        reason=explain_reason(facts.reason) if facts is not None and facts.reason != "unloaded" else "",
        facts=facts,
        figures=figures,
        stale=stale,
        queue_course=course if course is not None else _NO_COURSE,
    )


def _stale_words(view: View, server: str) -> str:
    age = view.stale_seconds(server)
    return "" if age is None else f"{human_duration(age)} old"
