"""The first line of a page, its answer, and beneath it how we know: age, versions, control, badges."""

from __future__ import annotations

import re

import runtime
from telemetry.units import human_duration
from triage.context import ServerCoverage
from ui import remote_history
from ui.format import clock, day, utc
from ui.html import Child, Html, div, link, span
from ui.navigation import PAGES
from ui.panel import panel
from ui.view import View

_UNIT = re.compile(r"(?<=\d) (?=(?:%|[mµ]?s|min|h|[KMGT]?i?B|W|req/s)(?:\W|$))")
DOTS = {"hurt": "page", "look": "ticket", "fine": "ok", "unknown": "none"}
"""Shape and colour of each level of the verdict."""


def header(
    view: View, sentence: Child, level: str, *, key: str = "header", extra: Child = None, tools: Child = None
) -> None:
    """Show `sentence` (what the reader came for) with `level` (fine, look, hurt, unknown) and the facts.

    `extra` comes before the facts, `tools` (what can be taken along) after them.
    """
    panel(
        div(
            span(class_=f"ts-dot {DOTS[level]}", role="img", aria_label=level),
            span(_kept_together(sentence) if type(sentence) is str else sentence),
            class_="ts-verdict",
            role="heading",
            aria_level="1",
        ),
        div(extra, _facts(view), tools, class_="ts-sub"),
        key=key,
    )


def _kept_together(sentence: str) -> str:
    """A number and its unit stay on one line, however narrow it is."""
    return _UNIT.sub("\u00a0", sentence)


def _facts(view: View) -> list[Html | None]:
    badges = _badges(view)
    together = span(badges, class_="ts-badges") if badges else None
    return [_scraped(view), _versions(view), _control(view), remote_history.line(), together]


def _scraped(view: View) -> Html:
    ages = [one.age_seconds for one in view.coverage if one.age_seconds is not None]
    tip = "\n".join(_coverage_line(one) for one in view.coverage)
    if not ages:
        return span("not scraped yet", data_tip=tip or "No server is configured.")
    oldest = max(ages)
    stale = any(view.stale_seconds(one.server) is not None for one in view.coverage)
    # A frozen page's age would be wrong from the next second on.
    paused = view.filters.refresh_seconds is None or runtime.current().replayed is not None
    words = (
        f"figures of {clock(view.now, seconds=True)}" if paused else f"scraped {human_duration(oldest)} ago"
    )
    return span(words, class_="ts-warn" if stale else None, data_tip=f"{tip}\nfigures of {utc(view.now)}")


def _coverage_line(one: ServerCoverage) -> str:
    if one.age_seconds is None:
        return f"{one.server}: never answered. {one.sentence}".rstrip()
    state = "answers" if one.answering else f"does not answer. {one.sentence}"
    return f"{one.server}: {state}, last answer {human_duration(one.age_seconds)} ago"


def _versions(view: View) -> Html | None:
    versions = sorted({one.version for one in view.coverage if one.version})
    return span(f"Triton {', '.join(versions)}") if versions else None


def _control(view: View) -> Html | None:
    """How models can be loaded: known only after the server refused a load, since no endpoint reports it."""
    control = runtime.current().control
    if runtime.current().replayed is not None:
        return None
    if control is None:
        return span("read-only", data_tip="Control is off. Switch it on per server in tritonscope.yml.")
    if refusal := control.journal.refusal():
        return span("read-only", class_="ts-warn", data_tip=refusal)
    modes = {mode for one in view.coverage if (mode := control.control_mode(one.server))}
    return span(f"{', '.join(sorted(modes))} control mode") if modes else None


def _badges(view: View) -> list[Html]:
    badges = []
    if any(row.key.simulated for row in view.report.gpus):
        tip = "The sandbox has no GPU: utilization and memory follow its real executions, the GPU is made up."
        badges.append(span("simulated GPU", class_="ts-badge simulated", data_tip=tip))
    if any(runtime.current().is_sandbox(one.server) for one in view.coverage):
        tip = "This Triton was started by the app for trying things out; its traffic is its own."
        badges.append(span("sandbox", class_="ts-badge", data_tip=tip))
    replayed = runtime.current().replayed
    if replayed is not None:
        words = f"replay of {day(replayed.captured_at)} {clock(replayed.captured_at)}"
        badges.append(span(words, class_="ts-badge ticket", data_tip=utc(replayed.captured_at)))
    elif view.filters.refresh_seconds is None:
        badges.append(span("paused", class_="ts-badge ticket"))
    if view.filters.start is not None:
        start, end = view.range
        words = f"{clock(start)} to {clock(end)}"
        badges.append(
            span("charts ", words, class_="ts-badge ticket", data_tip=f"{utc(start)} to {utc(end)}")
        )
        live = view.filters.params()
        live = {name: value for name, value in live.items() if name not in ("from", "to")}
        badges.append(link("back to live", PAGES[0].address, live))
    return badges
