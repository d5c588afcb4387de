"""Is anything wrong, and where?"""

import streamlit as st

from ui import incident, shell
from ui.changes import changes_and_coverage
from ui.empty import empty_state, nobody_answers, silent
from ui.findings import finding_cards
from ui.fleet import overview_tiles
from ui.fleet_view import fleet_panel
from ui.format import counted
from ui.header import header
from ui.html import div, link
from ui.live import live, slot
from ui.model_rows import model_rows
from ui.model_table import PAGE_ROWS, model_table
from ui.panel import panel
from ui.tiles import tiles
from ui.view import View

shell.guard()
SHOW = ("all", "with traffic", "with findings")


def answer() -> None:
    view = View.take()
    verdict = view.verdict()
    header(view, verdict.sentence, verdict.level.value, tools=incident.links())
    with slot():
        if view.judgement.findings:
            panel(finding_cards(view.judgement.findings, view.now, view.filters), key="findings")
    panel(changes_and_coverage(view), key="changes")
    panel(tiles(overview_tiles(view)), key="tiles")


def models() -> None:
    view = View.take()
    rows = model_rows(view)
    if not rows:
        panel(no_models(view), key="models")
        return
    wanted = st.session_state.get("find", "").casefold()
    show = st.session_state.get("show")
    found = [
        row
        for row in rows
        if wanted in row.key.name.casefold()
        and (show != "with traffic" or not row.idle)
        and (show != "with findings" or row.severity is not None)
    ]
    if not found:
        panel(nothing_found(view, wanted, show), key="models")
        return
    several = len({row.key.server for row in rows}) > 1
    table = model_table(found[:PAGE_ROWS], view.filters, several_servers=several)
    count = counted(len(rows), "model")
    if len(found) < len(rows):
        count = f"{len(found):,} of {count}"
    if len(found) > PAGE_ROWS:
        count += f", the first {PAGE_ROWS} by harm and traffic shown: search to find the others"
    panel(div(count, class_="ts-more"), table, key="models")


def nothing_found(view: View, wanted: str, show: str | None):
    named = f" whose name contains {wanted!r}" if wanted else ""
    has = {"with traffic": " had traffic in the window", "with findings": " has a finding now"}.get(show, "")
    return empty_state(
        f"No model{named}{has}." if has else f"There is no model{named}.",
        todo=(link("Show all models", "overview", view.filters.params()),),
    )


def no_models(view: View):
    if silent(view.coverage):
        return nobody_answers(view.coverage, "no model is known")
    return empty_state(
        "No model is loaded, or none has reported yet.",
        todo=("Load one on the page Repository.", "Start Triton with --load-model=NAME."),
    )


def replicas() -> None:
    panel(fleet_panel(View.take()), key="fleet")


live(answer, name="answer")
search, shown = st.columns([3, 2], vertical_alignment="center")
search.text_input(
    "Find a model", key="find", live=True, placeholder="Find a model", label_visibility="collapsed",
    icon=":material/search:", type="search",
)  # fmt: skip
if st.session_state.get("show") not in SHOW:
    st.session_state["show"] = SHOW[0]
shown.segmented_control(
    "Show", SHOW, required=True, key="show",
    label_visibility="collapsed",
)  # fmt: skip
live(models, name="models")
live(replicas, name="fleet")
