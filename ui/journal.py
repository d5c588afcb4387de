"""What was done, by whom, why and how it ended: the journal as the page Repository shows and exports it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import streamlit as st

import runtime
from telemetry.actions import ActionKind, MemoryChange, Outcome, Record
from telemetry.memory import CPU
from telemetry.units import Unit, human, scale_for, significant
from ui.format import clock, counted, utc
from ui.html import Child, Html, div, join, span, tag
from ui.live import live
from ui.panel import panel
from ui.person import me
from ui.view import View

if TYPE_CHECKING:
    from control.facade import Control

SHOWN_RECORDS = 12
WITHOUT_FILTERS = 4
"""So few actions are read faster than searched."""
EVERYTHING = "all actions"
_KINDS = {EVERYTHING: tuple(ActionKind), **{kind.value: (kind,) for kind in ActionKind}}
_ENDS = {
    "any outcome": (None, *Outcome),
    "running": (None,),
    "done": (Outcome.DONE,),
    "failed": (Outcome.FAILED,),
    "unknown": (Outcome.UNKNOWN,),
    "not sent": (Outcome.REFUSED,),
    "stopped": (Outcome.STOPPED,),
}
_OUTCOMES = {
    None: ("RUNNING", "info"),
    Outcome.DONE: ("DONE", "info"),
    Outcome.REFUSED: ("NOT SENT", "ticket"),
    Outcome.FAILED: ("FAILED", "page"),
    Outcome.STOPPED: ("STOPPED", "info"),
    Outcome.UNKNOWN: ("UNKNOWN", "ticket"),
}


def section() -> None:
    """The journal of the servers looked at: filters, the newest actions, and the way to take it along."""
    process = runtime.current()
    count = len(seen(process, View.take()))
    if not count:
        return
    if (control := process.control) is None:
        # A replay: what was done is known, and nothing more is.
        panel(div("What was done", class_="ts-h"), key="journal_head")
        live(_listed, name="journal")
        return
    panel(div("What was done", _where(control), class_="ts-h"), key="journal_head")
    if count > WITHOUT_FILTERS:
        _filters(control)
    live(_listed, name="journal")
    if count <= WITHOUT_FILTERS:
        _downloads(control)


def _filters(control: Control) -> None:
    find, kind, end, take = st.columns([4, 2, 2, 2], vertical_alignment="bottom")
    find.text_input(
        "Find in the journal", key="journal_find", live=True, placeholder="Find a model, a person, a reason",
        label_visibility="collapsed", icon=":material/search:", type="search",
    )  # fmt: skip
    kind.selectbox("Action", list(_KINDS), key="journal_kind", label_visibility="collapsed")
    end.selectbox("Outcome", list(_ENDS), key="journal_end", label_visibility="collapsed")
    with take:
        _downloads(control)


def _listed() -> None:
    panel(records_list(runtime.current(), View.take()), key="journal")


def seen(process: runtime.Runtime, view: View) -> list[Record]:
    """The actions on servers that are looked at and that exist for this person, newest first."""
    return [
        record
        for record in process.records()
        if view.filters.shows(record.action.server) and me().sees(record.action.server)
    ]


def records_list(process: runtime.Runtime, view: View) -> Html:
    """The newest actions that fit what the reader looks for."""
    found = matching(
        seen(process, view),
        st.session_state.get("journal_find") or "",
        _KINDS[st.session_state.get("journal_kind") or EVERYTHING],
        _ENDS[st.session_state.get("journal_end") or "any outcome"],
    )
    if not found:
        return div("No action fits.", class_="ts-empty")
    now = runtime.current().clock()
    rest = len(found) - SHOWN_RECORDS
    return join(
        [_row(record, view, now) for record in found[:SHOWN_RECORDS]],
        div(f"and {counted(rest, 'older action')}: search, or download them", class_="ts-more")
        if rest > 0
        else None,
    )


def matching(
    records: Iterable[Record], text: str, kinds: Sequence[ActionKind], ends: Sequence[Outcome | None]
) -> list[Record]:
    """Records of these kinds and outcomes in which every word of `text` stands somewhere."""
    words = text.casefold().split()
    return [
        record
        for record in records
        if record.action.kind in kinds
        and record.outcome in ends
        and all(word in _haystack(record) for word in words)
    ]


def _haystack(record: Record) -> str:
    action = record.action
    # Who may not see a detail may not find out about it by searching either.
    details = (action.who, action.why) if me().sees_details(action.server) else ()
    return " ".join((action.model, action.server, action.kind.value, record.sentence, *details)).casefold()


def _row(record: Record, view: View, now: float) -> Html:
    action = record.action
    word, severity = _OUTCOMES[record.outcome]
    words = record.summary(now)
    # A stage begins in small letters, and so does a model's name: that one must stay as it is.
    words = words[:1].upper() + words[1:] if record.running else words
    details = me().sees_details(action.server)
    return div(
        span(word, class_="ts-tag"),
        div(
            words,
            _state_now(record, view),
            div(join(_facts(record, details), between=" · "), class_="ts-evidence"),
            div(join(_memory(record), between=" · "), class_="ts-evidence") if record.memory else None,
            class_="ts-sentence",
        ),
        div(span(_when(record.started_at, now), data_tip=utc(record.started_at)), class_="ts-since"),
        _fold(record) if details else None,
        class_=f"ts-finding {severity}", role="article", data_key=str(record.id),
    )  # fmt: skip


def _facts(record: Record, details: bool) -> list[Child]:
    action = record.action
    facts: list[Child] = [f"{action.kind.value} of {action.target} on {action.server}"]
    if details:
        facts.append(f"by {action.who}")
        if action.why:
            facts.append(f"because: {action.why}")
    if record.outcome not in (None, Outcome.REFUSED, Outcome.UNKNOWN):
        facts.append(f"took {human(record.seconds(0.0), Unit.SECONDS)}")
    return facts


def _memory(record: Record) -> Iterator[str]:
    """What stood in use before and after; of an unload also why a GPU may not have given everything back."""
    yield from map(_before_and_after, record.memory)
    unloaded = record.action.kind is ActionKind.UNLOAD and record.outcome is Outcome.DONE
    on_gpu = (one for one in record.memory if not one.where.endswith(f" {CPU}"))
    if unloaded and any(one.after_bytes for one in on_gpu):
        yield "The framework may keep memory of a GPU until the server restarts."


def _before_and_after(change: MemoryChange) -> str:
    """`all in use on GPU-1: 8.6 GiB before, 7.9 GiB after (-0.7 GiB)`."""
    sizes = (change.before_bytes, change.after_bytes)
    before, after = (human(one, Unit.BYTES) if one is not None else "not reported" for one in sizes)
    words = f"{change.where}: {before} before, {after} after"
    if None in sizes:
        return words
    # In the unit of the sizes: a difference of 717 MiB is not seen to be one of 8.6 and 7.9 GiB.
    divisor, unit = scale_for(max(sizes), Unit.BYTES)
    grown = (change.after_bytes - change.before_bytes) / divisor
    return f"{words} ({'+' if grown > 0 else ''}{significant(grown)} {unit})"


def _state_now(record: Record, view: View) -> Html | None:
    """Where the outcome is not known, what the server says now is what counts."""
    if record.outcome is not Outcome.UNKNOWN or not record.action.kind.changes_repository:
        return None
    server, model = record.action.server, record.action.model
    if not any(one.server == server and one.answering for one in view.coverage):
        return div("The server does not answer now: the model's state cannot be told.")
    states = sorted(
        {
            str(one.state)
            for one in view.inventory.models
            if (one.key.server, one.key.name) == (server, model) and one.state is not None
        }
    )
    words = " and ".join(states) if states else "nothing of this model"
    return div(f"The server's index now says: {words}.")


def _when(at: float, now: float) -> str:
    """The time of day, with the date where it was not today."""
    if now - at < 12 * 3600.0:
        return clock(at, seconds=True)
    return f"{datetime.fromtimestamp(at, UTC):%d %b} {clock(at)}"


def _fold(record: Record) -> Html | None:
    parameters = record.action.parameters
    given = ", ".join(f"{name}: {value}" for name, value in parameters.items())
    if not given and not record.detail:
        return None
    return tag(
        "details",
        tag("summary", "the server's text" if record.detail else "parameters"),
        div(f"with {given}", class_="ts-evidence") if given else None,
        tag("pre", record.detail, class_="ts-pre") if record.detail else None,
    )


def _where(control: Control) -> Html:
    store, damaged = control.journal.store, len(control.journal.notices)
    words = "since the app was started" if store is None else "the newest actions"
    if damaged:
        words += f"; {counted(damaged, 'line')} of the journal could not be read"
    notes = "\n".join(f"{one.source} line {one.line}: {one.text}" for one in control.journal.notices)
    return span(words, class_="ts-faint", data_tip=notes or None)


def _downloads(control: Control) -> None:
    servers = [server.id for server in runtime.current().servers if me().sees_details(server.id)]
    if not servers:
        return
    from control.journal_export import as_csv, as_json_lines

    def lines() -> list[dict]:
        return [line for line in control.journal.lines() if line.get("server") in servers]

    with st.popover("Download", icon=":material/download:"):
        st.download_button(
            "JSON lines", lambda: as_json_lines(lines()), "tritonscope-journal.jsonl",
            "application/x-ndjson", on_click="ignore", width="stretch", key="journal_jsonl",
        )  # fmt: skip
        st.download_button(
            "CSV, one row per action", lambda: as_csv(lines()), "tritonscope-journal.csv", "text/csv",
            on_click="ignore", width="stretch", key="journal_csv",
        )  # fmt: skip
        st.caption("Everything that is kept, of the servers you may act on.")


def banners(view: View) -> list[Html]:
    """What an earlier process left changed, until it is put back."""
    control = runtime.current().control
    made = []
    for pending in control.journal.open_restorations() if control is not None else ():
        what = pending.restoration
        if not pending.left_over or not view.filters.shows(what.server) or not me().sees(what.server):
            continue
        tried, again = control.repairs.outcome(pending.id), control.repairs.again_at(pending.id)
        then = "It is put back as soon as the server answers."
        if tried:
            next_try = f"Tried again at {clock(again)}." if again is not None else "Revert the model by hand."
            then = f"It could not be put back: {tried.removesuffix('.')}. {next_try}"
        made.append(
            div(
                span("LEFT OVER", class_="ts-tag"),
                div(pending.sentence, div(then, class_="ts-evidence"), class_="ts-sentence"),
                class_="ts-finding ticket",
                role="note",
            )
        )
    return made
