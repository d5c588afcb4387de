"""What stands beside and below a model's charts: failures, steps, configuration, statistics, actions."""

from __future__ import annotations

from collections.abc import Mapping

import runtime
from charts.model import COUNTED_BY_SERVER
from charts.palette import model_color
from history.inventory import ModelFacts
from telemetry.facts import ModelConfig, ModelStatistics
from telemetry.identity import ModelKey
from telemetry.units import NOT_REPORTED, Unit, human, human_duration, us_from_ns
from ui.format import moment
from ui.html import Html, copy_button, div, join, link, span, tag
from ui.model_words import raw_text, settings
from ui.person import me
from ui.view import View

_REASONS = {
    "REJECTED": "timed out in the queue",
    "CANCELED": "given up by the client",
    "BACKEND": "the model or its backend reported an error",
    "OTHER": "inside Triton; an ensemble's failures are always here",
    "": "this server version gives no reason",
}


def failures(by_reason: Mapping[str, float], view: View) -> Html:
    """Failures of the time shown by reason, and what no counter of Triton shows."""
    over = human_duration(view.shown_seconds)
    rows = [
        _fact(reason or "failed", human(round(count), Unit.COUNT), _REASONS.get(reason, ""))
        for reason, count in sorted(by_reason.items(), key=lambda item: -item[1])
        if round(count)
    ]
    none = "0 of every reason: " + ", ".join(sorted(reason for reason in by_reason if reason))
    words = none.removesuffix(": ") if by_reason else "No failure counter is reported."
    body = tag("table", rows, class_="ts-facts") if rows else div(words, class_="ts-faint")
    return section(f"Failures, last {over}", body, note=COUNTED_BY_SERVER)


def _fact(name: str, value: str, meaning: str) -> Html:
    return tag("tr", tag("td", name), tag("td", value), tag("td", meaning, class_="ts-faint"))


def section(title: str, *body: Html, note: str = "") -> Html:
    """A part of the page under a small heading."""
    return div(div(title, span(note, class_="ts-faint") if note else None, class_="ts-h"), *body)


def steps(view: View, facts: ModelFacts) -> Html | None:
    """An ensemble's steps as a chain: mean time of each and its share; None for other models."""
    config = facts.config
    if config is None or not config.ensemble:
        return None
    rows = [
        (step.model_name, _step_us(view, facts.key.server, step.model_name)) for step in config.ensemble_steps
    ]
    total = sum(us for _, us in rows if us is not None)
    chain: list[Html] = []
    for name, us in rows:
        share = us / total if us is not None and total > 0 else None
        chain += [span("→", class_="ts-arrow"), _step(view, facts, name, us, share)]
    note = "a step's own page shows where its time goes"
    return section("Steps", div(chain, class_="ts-chain"), note=note)


def _step(view: View, facts: ModelFacts, name: str, us: float | None, share: float | None) -> Html:
    params = view.filters.params(server=facts.key.server, model=name)
    words = f"{human(us, Unit.US)} mean · {human(share, Unit.RATIO)} of the steps' time"
    bar = tag("i", style=f"width:{(share or 0.0) * 100:.1f}%;--ts-swatch:{model_color(name)}")
    return div(
        link(name, "model", params, class_="ts-name"),
        div(words, class_="ts-faint"),
        div(bar, class_="ts-share"),
        class_="ts-step",
    )


def _step_us(view: View, server: str, name: str) -> float | None:
    """Mean request time of a step, of the version with the most requests."""
    rows = [row for row in view.report.models if (row.key.server, row.key.name) == (server, name)]
    busiest = max(rows, key=lambda row: row.signals.number("requests_per_second") or 0.0, default=None)
    return None if busiest is None else busiest.signals.number("request_us_mean")


def used_by(view: View, facts: ModelFacts) -> Html | None:
    """The ensembles this model is a step of; None if there is none."""
    names = sorted(
        one.key.name
        for one in view.inventory.of_server(facts.key.server)
        if one.config is not None
        and facts.key.name in {step.model_name for step in one.config.ensemble_steps}
    )
    links = [link(name, "model", view.filters.params(server=facts.key.server, model=name)) for name in names]
    return span("step of ", join(links, between=", ")) if links else None


def configuration(config: ModelConfig | None, *, details: bool, from_afar: bool = False) -> Html:
    """The effective configuration explained, then as it is; `from_afar`: known by Prometheus alone.

    Without `details` the values of its parameters are masked.
    """
    if config is None and from_afar:
        why = (
            "Not reported: only the server itself or its exporter tells it, and Prometheus has no exporter's."
        )
        return section("Configuration", div(why, class_="ts-faint"))
    if config is None:
        why = "Not read yet, or the model is not loaded: Triton gives the configuration of ready models only."
        return section("Configuration", div(why, class_="ts-faint"))
    rows = [_fact(one.name, one.value, one.meaning) for one in settings(config)]
    if not config.raw:
        # Put together from what the exporter publishes: there is no path to the server itself.
        known = tag("table", [row for row, one in zip(rows, settings(config), strict=True)
                              if one.name != "backend"], class_="ts-facts")  # fmt: skip
        note = "what Prometheus has of it; the rest is known to the server alone"
        return section("Configuration", known, note=note)
    text = raw_text(config.raw, parameters=details)
    raw = tag(
        "details",
        tag("summary", "all of it, as the server gives it"),
        copy_button(text, "copy JSON"),
        tag("pre", text, class_="ts-pre"),
        class_="ts-fold",
    )
    note = "in effect now: completed by Triton, overrides included"
    return section("Configuration", tag("table", rows, class_="ts-facts"), raw, note=note)


def statistics(found: ModelStatistics | None) -> Html | None:
    """Triton's statistics since the load, folded; None where there are none."""
    if found is None:
        return None
    head = tag(
        "tr",
        [
            tag("th", name, class_="ts-right")
            for name in ("batch size", "executions", "input", "infer", "output")
        ],
    )
    rows = [
        tag("tr", [tag("td", cell, class_="ts-right") for cell in (
            str(one.batch_size),
            f"{one.executions:,}",
            _each(one.compute_input_ns, one.executions),
            _each(one.compute_infer_ns, one.executions),
            _each(one.compute_output_ns, one.executions),
        )])
        for one in found.batches
    ]  # fmt: skip
    counts = (
        f"{found.success_count:,} requests answered, {found.fail_count:,} failed, "
        f"{found.inference_count:,} inferences in {found.execution_count:,} executions since the load"
    )
    table = tag("table", tag("thead", head), tag("tbody", rows), class_="ts-table")
    return tag(
        "details",
        tag("summary", "statistics since the load, mean time of an execution"),
        tag("p", counts, class_="ts-faint"),
        div(table, class_="ts-scroll"),
        class_="ts-fold",
    )


def _each(ns: int, executions: int) -> str:
    return human(us_from_ns(ns / executions), Unit.US) if executions else NOT_REPORTED


def actions(key: ModelKey, now: float) -> Html | None:
    """What was done to the model through this app, newest first; None where nothing was."""
    records = runtime.current().records(key.server, key.name)[:6]
    details = me().sees_details(key.server)
    if not records:
        return None
    rows = [
        tag(
            "tr",
            tag("td", moment(one.started_at)),
            tag("td", one.action.kind.value),
            tag("td", one.summary(now) if details or one.running else str(one.outcome)),
        )
        for one in records
    ]
    return section("Recent actions", tag("table", rows, class_="ts-facts"))
