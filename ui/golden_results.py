"""How the models answer their golden requests: the newest results, on the pages Model and Repository.

Loads nothing that could send: a replay and a process without a write side show results as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import runtime
from telemetry.errors import ControlError
from telemetry.facts import ModelConfig, ModelState
from telemetry.identity import ModelKey
from telemetry.probe import ProbeCause, ProbeResult
from telemetry.units import Unit, human, human_duration
from ui.format import since, utc
from ui.html import Html, div, link, span, tag
from ui.person import me
from ui.view import View

_WORDS = {
    "": "as expected",
    ProbeCause.WRONG_ANSWER: "wrong answer",
    ProbeCause.NOT_FINITE: "not finite",
    ProbeCause.SLOW: "too slow",
    ProbeCause.ERROR: "error",
    ProbeCause.PROCESS_DEAD: "process dead",
    ProbeCause.QUEUE_FULL: "queue full",
    ProbeCause.REFUSED: "refused",
    ProbeCause.TIMEOUT: "no answer",
    ProbeCause.NOT_READY: "not ready",
    ProbeCause.UNREACHABLE: "server silent",
}
_SHOWN = 40
_SMALL = "font-size:.84rem"


@dataclass(frozen=True, slots=True)
class _Row:
    """A model with a golden request: its newest result, or why there is none."""

    server: str
    model: str
    result: ProbeResult | None
    why: str = ""


def golden_list(view: View) -> Html | None:
    """Every golden request of the servers looked at, failing ones first; None where there is none."""
    rows = sorted(_rows(view), key=lambda row: (_rank(row), row.model, row.server))
    if not rows:
        return None
    several = len({row.server for row in rows}) > 1
    asked = [row.result for row in rows if row.result is not None]
    good = sum(one.ok for one in asked)
    note = f"{good} of {len(asked)} answered as expected" if asked else "none was asked yet"
    more = len(rows) - _SHOWN
    return div(
        div("Golden requests", span(note, class_="ts-faint"), class_="ts-h"),
        tag("table", [_line(row, view, several) for row in rows[:_SHOWN]], class_="ts-facts"),
        div(f"and {more} more", class_="ts-more") if more > 0 else None,
        style="margin-top:1.1rem",
    )


def golden_of_model(view: View, key: ModelKey) -> Html | None:
    """The same for one model, with the way to save one where there is none; None where none can be."""
    row = next((one for one in _rows(view) if (one.server, one.model) == (key.server, key.name)), None)
    params = view.filters.params(server=key.server, model=key.name, version=key.version)
    if row is None:
        control = runtime.current().control
        if control is None or not control.golden.kept_for(key.server):
            return None
        page = link("Test request", "test_request", params)
        body = div("None is kept: an answer on the page ", page, " can be made one.", class_="ts-more")
    else:
        body = tag("table", _line(row, view, several=False, named=False), class_="ts-facts")
    return div(div("Golden request", class_="ts-h"), body)


def _rows(view: View) -> Iterator[_Row]:
    process = runtime.current()
    results = process.probes.results()
    shown = [one.server for one in view.coverage if view.filters.shows(one.server) and me().sees(one.server)]
    for server in shown:
        mine = {model: one for (owner, model), one in results.items() if owner == server}
        for model in sorted(mine.keys() | _kept(server)):
            result = mine.get(model)
            yield _Row(server, model, result, "" if result is not None else _why(view, server, model))


def _kept(server: str) -> set[str]:
    control = runtime.current().control
    if control is None:
        return set()
    try:
        return set(control.golden.of(server))
    except ControlError:
        # The results that are known stay shown; the page that saves says what is wrong with the folder.
        return set()


def _why(view: View, server: str, model: str) -> str:
    process = runtime.current()
    facts = [one for one in view.inventory.models if (one.key.server, one.key.name) == (server, model)]
    if not any(one.state is ModelState.READY for one in facts):
        return "not asked: the model is not loaded"
    if process.golden is None:
        return "not asked"
    config: ModelConfig | None = next((one.config for one in facts if one.config is not None), None)
    why = process.golden.why_not(server, model, config)
    return f"not asked: {why}" if why else "not asked yet"


def _rank(row: _Row) -> int:
    return 1 if row.result is None else 2 if row.result.ok else 0


def _line(row: _Row, view: View, several: bool, named: bool = True) -> Html:
    params = view.filters.params(server=row.server if several else view.filters.server, model=row.model)
    name = link(row.model, "model", params, class_="ts-name")
    where = span(f" on {row.server}", class_="ts-faint") if several else None
    cells = [tag("td", name, where) if named else tag("td", "last answer")]
    one = row.result
    if one is None:
        return tag(
            "tr", *cells, tag("td", span("–", class_="ts-none")), tag("td", row.why, class_="ts-faint")
        )
    word = span(_WORDS.get(one.cause, one.cause), class_=f"ts-state {'ok' if one.ok else 'page'}")
    return tag("tr", *cells, tag("td", word), tag("td", _told(one, view), class_="ts-faint"))


def _told(one: ProbeResult, view: View) -> Html:
    """When it was asked, what the answer took; of a failure since when, and its sentence."""
    when = span(f"{human_duration(max(0.0, view.now - one.at))} ago", data_tip=utc(one.at))
    took = f", {human(one.latency_us, Unit.US)}" if one.latency_us is not None else ""
    version = f" by v{one.version}" if one.version else ""
    known = None if one.ok else span(", ", since(one.since if one.since is not None else one.at, view.now))
    sentence = None
    if not one.ok and me().sees_details(one.server):
        sentence = div(one.sentence, style="overflow-wrap:anywhere")
    return div(
        span(f"asked {'' if one.ok else 'last '}"), when, f"{version}{took}", known, sentence, style=_SMALL
    )
