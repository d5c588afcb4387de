"""The page of load runs: which kind, its form, its course, what it found, and the runs of before."""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path

import streamlit as st

import runtime
from control.performer import Job, Work
from experiments.report import RunReport
from experiments.session import Wanted
from experiments.store import FOLDER, RunStore, as_csv
from telemetry.actions import Action, ActionKind, Record
from telemetry.errors import ControlError
from telemetry.facts import ModelConfig
from telemetry.identity import ModelKey
from telemetry.units import Unit, human
from ui import journal, test_request
from ui import load_run_result as result
from ui import load_run_tables as tables
from ui.empty import empty_state
from ui.format import clock, utc
from ui.html import div, span
from ui.live import drawn, live
from ui.load_run_forms import WAYS, Order, Way
from ui.panel import panel
from ui.person import me
from ui.test_answer import while_running
from ui.test_request import Prepared, job_of, press, pressed, refused
from ui.view import View
from ui.writes import OFF

SESSION = "load_run_job"
KINDS = (ActionKind.LOAD_RUN, ActionKind.EXPERIMENT)
_LISTED = 30
_SECOND_CLICK_SECONDS = 0.5
_WAIT_SECONDS = 0.3
_LINE = "padding:.25rem 0;border-bottom:1px solid var(--line)"


@lru_cache(maxsize=4)
def _store_in(folder: Path | None) -> RunStore:
    return RunStore(folder)


def store() -> RunStore:
    """The runs kept by this process, beside its journal; in memory alone where it has no state folder."""
    file = runtime.current().settings.journal.path
    return _store_in(file.parent / FOLDER if file is not None else None)


def choose_way() -> Way:
    """Which kind of run, named in the address."""
    if st.session_state.get("run") not in WAYS:
        st.session_state["run"] = next(iter(WAYS))
    chosen = st.segmented_control(
        "Kind of run", list(WAYS), key="run", required=True, label_visibility="collapsed",
        format_func=lambda one: WAYS[one].name, width="stretch",
    )  # fmt: skip
    return WAYS[chosen]


def body(view: View, key: ModelKey, config: ModelConfig) -> None:
    """The form, below it the course and the result, at the end the runs of before."""
    way = choose_way()
    refusal = _refusal(key)
    panel(div(way.answers, class_="ts-faint"), journal.banners(view), key="load_run_answers")
    order = way.form(config)
    with st.expander("The request that is sent, again and again"):
        prepared = test_request.form(key, config)
    why = _reason(key)
    sure = _sure(view, key, way)
    job = _under_way(key.server)
    go, halt, words = st.columns([3, 1, 5], vertical_alignment="center")
    go.button(
        way.button, type="primary", key="load_run_go", on_click=press, args=("load_run",),
        width="stretch", help=refusal or None,
        disabled=bool(refusal) or prepared.request is None or job is not None or not sure,
    )  # fmt: skip
    if pressed("load_run"):
        _begin(prepared, way, order, why)
        # Drawn anew, so that the buttons know that it runs.
        st.rerun()
    halt.button(
        "Stop", width="stretch", key="load_run_stop", on_click=_stop, args=(key.server,),
        disabled=job is None, help="Ends the run; what was measured until then is shown.",
    )  # fmt: skip
    with words:
        panel(_words_before(refusal, prepared, way), key="load_run_before")
    _show(key, job, way)
    _before(key)


def _words_before(refusal: str, prepared: Prepared, way: Way):
    if refusal:
        return div(refusal, class_="ts-warn", role="alert")
    if prepared.request is None:
        return div(prepared.refusal, class_="ts-bad", role="alert")
    if way is WAYS["compare"]:
        return div(
            "The model serves on while configurations change; only at the end, when it is loaded from its "
            "files again, it is not served for a moment. If this app dies in between, its next start puts "
            "the configuration back.",
            class_="ts-faint", style="font-size:.88rem",
        )  # fmt: skip
    return None


def _join(server: str) -> None:
    """Show a run that somebody else began while this page stood open."""
    if _under_way(server) is not None:
        st.rerun()


def _refusal(key: ModelKey) -> str:
    control = runtime.current().control
    if control is None:
        return OFF
    kinds = [ActionKind.LOAD_RUN]
    if st.session_state.get("run") == "compare":
        kinds.append(ActionKind.OVERRIDE)
    decisions = [control.decide(key.server, kind, key.name, by=me()) for kind in kinds]
    return next((one.reason for one in decisions if not one.allowed), "")


def _sure(view: View, key: ModelKey, way: Way) -> bool:
    """True for the sandbox; elsewhere a person must say so, with what the model serves now before them."""
    if way is not WAYS["compare"] or runtime.current().is_sandbox(key.server):
        return True
    figures = view.figures(key)
    rate = figures.signals.number("requests_per_second") if figures is not None else None
    return st.checkbox(
        f"Change the configuration of {key.name} on {key.server} for the time of the comparison. It serves "
        f"{human(rate, Unit.PER_SECOND)} now.",
        key=f"load_run_sure {key.server} {key.name}",
    )


def _reason(key: ModelKey) -> str:
    control = runtime.current().control
    if control is None or not control.needs_reason(key.server, ActionKind.LOAD_RUN):
        return ""
    return st.text_input(
        "Why", key="load_run_why", help="The settings ask for a reason; the journal keeps it."
    )


def _begin(prepared: Prepared, way: Way, order: Order, why: str) -> None:
    """Start the run, once."""
    control, last = runtime.current().control, job_of(SESSION)
    if control is None or prepared.request is None:
        return
    if last is not None and time.time() - last.record.started_at < _SECOND_CLICK_SECONDS:
        return
    st.session_state.pop(f"{SESSION} refused", None)
    st.session_state.pop("load_run_shown", None)
    request = prepared.request
    try:
        work: Work = order.make(Wanted(control, prepared.config, request, store().save))
        action = Action(
            ActionKind.LOAD_RUN, request.server, request.model, request.version, why=why,
            parameters={"run": way.name.lower(), "load": order.words},
        )  # fmt: skip
        job = control.perform(action, work, by=me())
    except ControlError as error:
        st.session_state[f"{SESSION} refused"] = error.sentence
        return
    st.session_state[SESSION] = job.id
    job.wait(_WAIT_SECONDS)


def _under_way(server: str) -> Job | None:
    """The run under way on this server, whoever began it: there is one at a time."""
    control = runtime.current().control
    if control is None:
        return None
    running = next((one for one in control.records(server) if _is_run(one) and one.running), None)
    return control.job(running.id) if running is not None else None


def _is_run(record: Record) -> bool:
    return record.action.kind in KINDS


def _stop(server: str) -> None:
    job, control = _under_way(server), runtime.current().control
    if (
        job is not None
        and control is not None
        and control.decide(server, ActionKind.LOAD_RUN, by=me()).allowed
    ):
        job.stop()


# ---- the right half


def _show(key: ModelKey, job: Job | None, way: Way) -> None:
    if job is not None:
        if job.record.action.model == key.name:
            # Whoever looked on also sees how it ended.
            st.session_state[SESSION] = job.id
        while_running(job, lambda: drawn(lambda: result.course(job), name="load_run"), "load_run")
        return
    live(lambda: _join(key.server), name="load_run_join")
    if sentence := refused(SESSION):
        result.refusal(sentence)
        return
    shown = st.session_state.get("load_run_shown")
    if shown and (report := store().get(shown)) is not None and report.model == key.name:
        result.show(report)
        return
    mine = job_of(SESSION, key)
    if mine is not None and (not isinstance(mine.result, RunReport) or mine.result.kind is way.kind):
        result.ended(mine)
        return
    if (last := next((one for one in _kept(key) if one.kind is way.kind), None)) is not None:
        result.show(last)
        return
    panel(empty_state("Nothing has run yet.", f"{way.button}: what it finds appears here."), key="load_run")


def _kept(key: ModelKey) -> list[RunReport]:
    """Kept runs of the model, newest first; none for those who only view."""
    return store().reports(key.server, key.name)[:_LISTED] if me().sees_details(key.server) else []


# ---- the runs of before


def _before(key: ModelKey) -> None:
    """Runs of this model that were kept: to look at again, to compare, to export."""
    reports = _kept(key)
    if not reports:
        return
    panel(
        div(
            f"Runs of {key.name}", span(f"{len(reports)} kept", class_="ts-faint"), class_="ts-h",
            style="margin-top:1rem",
        ),
        key="load_run_kept_head",
    )  # fmt: skip
    which, export = st.columns([6, 2], vertical_alignment="bottom")
    chosen = which.multiselect(
        "Show one, or compare several", [one.id for one in reports], key=f"load_runs_chosen {key.name}",
        format_func=lambda one: _title(next(row for row in reports if row.id == one)),
        placeholder="choose runs", on_change=_chose, args=(key.name,),
    )  # fmt: skip
    picked = [one for one in reports if one.id in chosen] or reports
    export.download_button(
        "CSV of these" if chosen else "CSV of all", lambda: as_csv(picked), f"load_runs_{key.name}.csv",
        "text/csv", key="load_runs_csv", width="stretch", on_click="ignore",
    )  # fmt: skip
    if len(chosen) > 1:
        _side_by_side(picked)
        return
    rows = [
        div(
            span(clock(one.at, seconds=True), class_="ts-faint", data_tip=utc(one.at)), " ", one.sentence,
            span(f" · {one.who}", class_="ts-faint"), style=_LINE,
        )
        for one in reports[:8]
    ]  # fmt: skip
    panel(div(rows), key="load_run_kept")


def _chose(model: str) -> None:
    """One chosen run is shown above; several are compared below."""
    chosen = st.session_state.get(f"load_runs_chosen {model}") or []
    st.session_state["load_run_shown"] = chosen[0] if len(chosen) == 1 else None


def _side_by_side(reports: list[RunReport]) -> None:
    pairs = [(report, one) for report in reversed(reports) for one in report.measurements]
    titles = [f"{clock(report.at, seconds=True)} {one.label}".strip() for report, one in pairs]
    panel(tables.details(titles, [one for _, one in pairs]), key="load_run_kept")


def _title(report: RunReport) -> str:
    return f"{clock(report.at, seconds=True)} {report.kind.value}: {report.sentence[:70]}"
