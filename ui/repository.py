"""The repository as people see it: every model version, its state in words, and what can be done to it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import runtime
from history.inventory import ModelFacts
from telemetry.actions import ActionKind, Outcome, Record
from telemetry.ensembles import missing_steps
from telemetry.facts import ModelState
from telemetry.identity import ModelKey, version_number
from telemetry.load_errors import POLL_FAILED, explain_reason, load_error, poll_failure, remedy_of
from telemetry.units import NOT_REPORTED, Unit, human, human_duration
from ui import confirm
from ui.drift import drift_badge, drift_of_model
from ui.format import raw_tip, since, utc
from ui.html import Child, Html, div, join, link, span, tag
from ui.model_rows import STATES, failed_class
from ui.person import me
from ui.swatch import swatch
from ui.view import View
from ui.writes import REPLAYED

OFF = "Control is switched off in the settings: this page only shows."
PAGE_ROWS = 100
_LABELS = {ActionKind.OVERRIDE: "configure"}
_SMALL = "font-size:.84rem;font-weight:400"
_COLUMNS = (("model", "21%"), ("state", "15%"), ("reason", "24%"))


@dataclass(frozen=True, slots=True)
class RepositoryRow:
    """One model version. `first` marks the row that carries the model's buttons: they act on all versions."""

    facts: ModelFacts
    first: bool
    state: str
    state_class: str
    why: str
    requests_per_second: float | None
    pending: float | None
    running: Record | None

    @property
    def key(self) -> ModelKey:
        """Who it is."""
        return self.facts.key


def answer(view: View) -> tuple[str, str]:
    """The first line of the page and its level: how much of the repository serves."""
    models = {(one.key.server, one.key.name): False for one in view.inventory.models}
    for one in view.inventory.models:
        models[one.key.server, one.key.name] |= one.state is ModelState.READY
    if not models:
        return "No model is known yet.", "unknown"
    ready = sum(models.values())
    failed = sorted({one.key.name for one in view.inventory.models if one.failed})
    words = confirm.ready_words(ready, len(models))
    if gone := [one.server for one in view.coverage if not one.answering]:
        return f"{words}, as {', '.join(gone)} told before it stopped answering.", "unknown"
    if failed:
        return f"{words}; {', '.join(failed)} could not be loaded.", "look"
    return f"{words}.", "fine" if ready else "look"


def rows(view: View, wanted: str) -> list[RepositoryRow]:
    """All versions whose model's name contains `wanted`, by server and name, the newest version first."""
    figures = {row.key: row for row in view.report.models}
    ready = {(one.key.server, one.key.name) for one in view.inventory.models if one.state is ModelState.READY}
    models = sorted(
        (one for one in view.inventory.models if wanted.casefold() in one.key.name.casefold()),
        key=lambda one: (one.key.server, one.key.name, -version_number(one.key.version)),
    )
    control = runtime.current().control
    unsaid = _why_not_loaded(models)
    made, seen = [], set()
    for one in models:
        model = (one.key.server, one.key.name)
        signals = figures[one.key].signals if one.key in figures else None
        running = control.running(*model) if control is not None and model not in seen else None
        state, class_, why = words_of(one, {name for server, name in ready if server == one.key.server})
        why = unsaid.get(model, why)
        if one.failed:
            class_ = failed_class(view.harm.get(one.key))
        made.append(
            RepositoryRow(
                one, model not in seen, state, class_, why,
                signals.number("requests_per_second") if signals is not None else None,
                signals.number("pending") if signals is not None else None, running,
            )
        )  # fmt: skip
        seen.add(model)
    return made


def _why_not_loaded(models: Sequence[ModelFacts]) -> dict[tuple[str, str], str]:
    """Why the last load failed, for models whose index entry says nothing: from the journal and the log."""
    process, person, found = runtime.current(), me(), {}
    unsaid = [one.key for one in models if one.state is ModelState.NEVER_LOADED]
    logs = {server: process.files.log_tail(server) or "" for server in {key.server for key in unsaid}}
    for key in unsaid:
        records = process.records(key.server, key.name)
        last = next((one for one in records if one.action.kind.changes_repository), None)
        logged = poll_failure(logs[key.server], key.name)
        if last is not None and last.outcome is Outcome.FAILED and person.sees_details(key.server):
            found[key.server, key.name] = f"the last load failed: {last.sentence}"
        elif logged is not None:
            error = load_error(key.name, POLL_FAILED, logged)
            found[key.server, key.name] = f"refused when it was last read: {error.what}. {error.remedy}"
    return found


def words_of(facts: ModelFacts, ready: set[str]) -> tuple[str, str, str]:
    """State in a word, its colour, and the reason in words ("" where the word says it all)."""
    if facts.state is None:
        return "state not reported", "off", "the repository index could not be read"
    word, class_ = STATES[facts.state]
    if facts.failed:
        return "failed to load", "ticket", explain_reason(facts.reason)
    if facts.state is ModelState.READY and facts.reason:
        why = f"an update failed, the version loaded before serves on: {explain_reason(facts.reason)}"
        return word, "ticket", why
    if facts.state is ModelState.NEVER_LOADED:
        return word, class_, "never loaded, or its config was refused: Triton does not tell them apart"
    missing = missing_steps(facts.config, ready) if facts.state is ModelState.UNAVAILABLE else ()
    if missing:
        return word, class_, f"an ensemble, and not loaded of its steps: {', '.join(missing)}"
    return word, class_, "in no answer of the server any more" if facts.gone else ""


def repository_table(found: Sequence[RepositoryRow], view: View) -> Html:
    """The rows as a table on wide screens and as cards on narrow ones."""
    several = len({row.key.server for row in found}) > 1
    shown = found[:PAGE_ROWS]
    # Fixed widths: the columns stay where they are while states and reasons change.
    heads = [tag("th", name, style=f"width:{width}") for name, width in _COLUMNS]
    heads += [tag("th", name, class_="ts-right") for name in ("req/s", "pending", "last request")]
    table = tag(
        "table",
        tag("thead", tag("tr", heads, tag("th", span("what you can do", class_="ts-faint")))),
        tag("tbody", [_row(row, view, several) for row in shown]),
        class_="ts-table",
    )
    more = len(found) - len(shown)
    return join(
        div(table, class_="ts-scroll ts-wide"),
        div([_card(row, view, several) for row in shown], class_="ts-cards"),
        div(f"and {more} more: search to find them", class_="ts-more") if more > 0 else None,
    )


def banners(view: View) -> list[Html]:
    """Why something is switched off, for each server looked at; nothing where everything is allowed."""
    control = runtime.current().control
    if control is None:
        return [] if runtime.current().replayed is not None else [_banner("READ-ONLY", OFF)]
    made, said = [], set()
    for one in view.coverage:
        decision = control.decide(one.server, ActionKind.LOAD, by=me())
        if decision.allowed:
            continue
        refused = control.control_mode(one.server) == "none or poll"
        if decision.reason in said and not refused:
            # A journal that is held switches off every server for the same reason.
            continue
        said.add(decision.reason)
        again = view.filters.params(do=confirm.ASK_AGAIN, on=one.server)
        made.append(
            _banner(
                "REFUSED" if refused else "READ-ONLY",
                decision.reason,
                link("ask it again", "repository", again, class_="ts-copy ts-nowrap") if refused else None,
            )
        )
    return made


def told() -> Html | None:
    """The last click of this session that was not sent, and why."""
    last = confirm.told()
    return None if last is None else _banner("NOT SENT", last.sentence, severity="ticket")


def log_levels(view: View) -> Html | None:
    """One line per server whose log level may be set: what is set for a while, and the way to set it."""
    control = runtime.current().control
    if control is None:
        return None
    from ui.log_level import returning

    lines = []
    for one in view.coverage:
        if control.decide(one.server, ActionKind.LOG_LEVEL, by=me()).allowed:
            label = f"log level of {one.server}"
            change = confirm.button(label, ActionKind.LOG_LEVEL.value, one.server, "", view.filters)
            lines.append(div(change, " ", span(returning(one.server), class_="ts-faint")))
    return div(lines, style="margin-top:.75rem") if lines else None


def _banner(word: str, sentence: str, extra: Child = None, severity: str = "info") -> Html:
    return div(
        span(word, class_="ts-tag"), div(sentence, class_="ts-sentence"), div(extra, class_="ts-since"),
        class_=f"ts-finding {severity}", role="note",
    )  # fmt: skip


def _row(row: RepositoryRow, view: View, several: bool) -> Html:
    cells = [
        tag("td", _name(row, view, several)),
        tag("td", _state(row, view)),
        tag("td", _why(row), class_="ts-why"),
        *(tag("td", value, class_="ts-right") for _, value in _traffic(row, view)),
        tag("td", div(list(_buttons(row, view)), style="display:flex;gap:.35rem;flex-wrap:wrap")),
    ]
    return tag("tr", cells, class_=_harm(row, view), data_key=_key(row))


def _harm(row: RepositoryRow, view: View) -> str | None:
    """Amber or red as everywhere else: what a failed load costs users decides, not that it failed."""
    harm = view.harm.get(row.key)
    if harm is not None:
        return harm[1].value
    return "ticket" if row.facts.failed else None


def _card(row: RepositoryRow, view: View, several: bool) -> Html:
    why = _why(row)
    numbers = [div(tag("dt", name), tag("dd", value)) for name, value in _traffic(row, view)]
    return div(
        tag("header", _name(row, view, several), _state(row, view)),
        div(why, class_="ts-why") if why else None,
        tag("dl", numbers) if row.facts.state is ModelState.READY else None,
        div(list(_buttons(row, view)), style="display:flex;gap:.5rem;flex-wrap:wrap;margin-top:.5rem"),
        class_=f"ts-card {_harm(row, view) or ''}".rstrip(),
        data_key=_key(row),
    )


def _name(row: RepositoryRow, view: View, several: bool) -> Html:
    key = row.key
    params = view.filters.params(
        server=key.server if several else view.filters.server, model=key.name, version=key.version
    )
    version = f"v{key.version}" if key.version else ""
    return span(
        swatch(key.name),
        link(key.name, "model", params, class_="ts-name", data_tip=key.name if len(key.name) > 30 else None),
        span(f"{version} on {key.server}".strip() if several else version, class_="ts-faint"),
        drift_badge(row.facts),
        class_="ts-model",
    )  # fmt: skip


def _state(row: RepositoryRow, view: View) -> Html:
    facts = row.facts
    if row.running is not None:
        word = f"{row.running.action.kind.doing} {row.running.seconds(time.time()):.0f} s"
        index = div(f"the index says {row.state}", class_="ts-faint", style=_SMALL)
        return div(span(word, class_="ts-state moving"), index)
    if facts.state in (ModelState.LOADING, ModelState.UNLOADING) and facts.since is not None:
        return span(f"{row.state} {human_duration(view.now - facts.since)}", class_="ts-state moving")
    if facts.state is None or facts.since is None:
        # Said of every row it would be no news.
        tip = "It was so when this app began to look." if facts.state is not None else None
        return span(row.state, class_=f"ts-state {row.state_class}", data_tip=tip)
    when = div(since(facts.since, view.now), class_="ts-faint", style=_SMALL)
    return div(span(row.state, class_=f"ts-state {row.state_class}"), when)


def _why(row: RepositoryRow) -> Child:
    if row.running is not None:
        return row.running.stage
    remedy = remedy_of(row.facts.reason) if row.facts.state is not None else ""
    if not remedy:
        return row.why
    whole = None
    if me().sees_details(row.key.server):
        text = tag("pre", row.facts.reason, class_="ts-pre")
        whole = tag("details", tag("summary", "the server's text"), text)
    return join(row.why, div(remedy, class_="ts-faint", style=_SMALL), whole)


def _traffic(row: RepositoryRow, view: View) -> Iterator[tuple[str, Html]]:
    served = row.facts.state is ModelState.READY
    why = "not reported" if served else f"the model is {row.state}"
    yield "req/s", _number(row.requests_per_second, "requests_per_second", why)
    yield "pending", _number(row.pending, "pending: requests waiting to execute", why)
    statistics = row.facts.statistics
    at = statistics.last_inference_ms if statistics is not None else None
    if at:
        seconds = at / 1e3
        yield "last request", span(f"{human_duration(view.now - seconds)} ago", data_tip=utc(seconds))
    else:
        never = "no request since it was loaded" if at == 0 else why
        yield "last request", span("never" if at == 0 else NOT_REPORTED, class_="ts-none", data_tip=never)


def _number(value: float | None, formula: str, why: str) -> Html:
    if value is None:
        return span(NOT_REPORTED, class_="ts-none", data_tip=why)
    return span(human(value, Unit.NONE), data_tip=raw_tip(value, Unit.NONE, formula))


def _buttons(row: RepositoryRow, view: View) -> Iterator[Html]:
    if not row.first:
        return
    key, control = row.key, runtime.current().control
    for kind in _offers(row, view):
        if control is None:
            refusal = REPLAYED if runtime.current().replayed is not None else OFF
        elif row.running is not None:
            refusal = f"{row.running.action.kind.doing} it is under way"
        else:
            decision = control.decide(key.server, kind, key.name, by=me())
            refusal = "" if decision.allowed else decision.reason
        yield confirm.button(
            _LABELS.get(kind, kind.value), kind.value, key.server, key.name, view.filters, refusal
        )
    if row.facts.state is ModelState.READY:
        params = view.filters.params(model=key.name, version=key.version)
        yield link("test", "test_request", params, class_="ts-copy ts-nowrap", aria_label=f"test {key.name}")


def _offers(row: RepositoryRow, view: View) -> tuple[ActionKind, ...]:
    """What makes sense for the model: any ready version counts."""
    states = {
        one.state
        for one in view.inventory.models
        if (one.key.server, one.key.name) == (row.key.server, row.key.name)
    }
    if ModelState.READY in states:
        back = (ActionKind.REVERT,) if drift_of_model(row.key.server, row.key.name) is not None else ()
        return (ActionKind.UNLOAD, ActionKind.RELOAD, ActionKind.OVERRIDE, *back)
    if ModelState.LOADING in states or ModelState.UNLOADING in states:
        return (ActionKind.UNLOAD,)
    return (ActionKind.LOAD,)


def _key(row: RepositoryRow) -> str:
    return "\n".join((row.key.server, row.key.name, row.key.version))
