"""The model page's first line: what is wrong with it, or where its time goes."""

from __future__ import annotations

from telemetry.facts import ModelState
from telemetry.identity import ModelKey
from telemetry.load_errors import explain_reason, remedy_of
from telemetry.units import Unit, human, human_duration
from triage.finding import Severity
from ui.drift import drift_badge
from ui.format import COLLECTING, since
from ui.html import Child, Html, join, span
from ui.model_panels import used_by
from ui.model_rows import STATES
from ui.model_words import batching_words
from ui.view import View

_LEVELS = {Severity.PAGE: "hurt", Severity.TICKET: "look", Severity.INFO: "fine"}


def answer_of(view: View, key: ModelKey) -> tuple[str, str]:
    """(sentence, level of the verdict) about one model."""
    found = view.findings_about(key)
    if found:
        return found[0].sentence, _LEVELS[found[0].severity]
    facts = view.facts(key)
    name = key.label()
    if facts is not None and facts.failed:
        why, remedy = explain_reason(facts.reason), remedy_of(facts.reason)
        return f"{name} failed to load: {why}. {remedy}.", "look"
    if facts is not None and facts.state not in (None, ModelState.READY):
        return f"{name} is {STATES[facts.state][0]}.", "unknown"
    age = view.stale_seconds(key.server)
    if age is not None:
        return f"{key.server} is silent: the figures of {name} are {human_duration(age)} old.", "unknown"
    if facts is not None and facts.queues_itself:
        return (
            f"{name} queues and batches inside its backend: Triton's figures do not show its work.",
            "unknown",
        )
    return _traffic(view, key)


def _traffic(view: View, key: ModelKey) -> tuple[str, str]:
    figures = view.figures(key)
    name = key.label()
    if view.collecting(key.server):
        return f"{name}: {COLLECTING}.", "unknown"
    if figures is None or figures.signals.number("requests_per_second") is None:
        return f"{name} has reported no figures yet.", "unknown"
    rate, mean = (figures.signals.number(signal) for signal in ("requests_per_second", "request_us_mean"))
    if not rate or mean is None:
        return (
            f"{name} is idle: no request finished in the last {view.report.window_seconds or 60:.0f} s.",
            "fine",
        )
    parts = _shares(view, key)
    split = f", {parts}" if parts else ""
    return (
        f"{name} answers {human(rate, Unit.NONE)} req/s in {human(mean, Unit.US)} on average{split}.",
        "fine",
    )


def _shares(view: View, key: ModelKey) -> str:
    """`62 % of it in the queue`: the largest part of the time."""
    figures = view.figures(key)
    mean = figures.signals.number("request_us_mean") if figures else None
    words = {
        "queue_us_mean": "waiting in the queue",
        "compute_input_us_mean": "preparing inputs",
        "compute_infer_us_mean": "executing",
        "compute_output_us_mean": "preparing outputs",
    }
    known = {signal: value for signal in words if (value := figures.signals.number(signal)) is not None}
    if not known or not mean:
        return ""
    largest = max(known, key=lambda signal: known[signal])
    share = min(1.0, known[largest] / mean)
    return f"{human(share, Unit.RATIO)} of it {words[largest]}"


def facts_line(view: View, key: ModelKey) -> list[Child]:
    """Server, state and since when, how it batches: the parts of the line under the sentence."""
    facts = view.facts(key)
    parts: list[Html | None] = [span(f"on {key.server}")]
    if facts is not None:
        if facts.state is not None:
            state = "failed to load" if facts.failed else STATES[facts.state][0]
            parts.append(span(join(state, " ", since(facts.since, view.now))))
        parts.append(span(batching_words(facts.config)) if facts.config is not None else None)
        parts.append(used_by(view, facts))
        if facts.state is ModelState.READY and facts.reason:
            tip = f"The version before still serves. {explain_reason(facts.reason)}"
            parts.append(span("update failed", class_="ts-badge ticket", data_tip=tip))
        parts.append(drift_badge(facts))
    return parts
