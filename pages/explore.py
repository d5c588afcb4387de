"""Every family the servers report, as printed."""

from math import inf

import streamlit as st

from telemetry.scrape import Source
from ui import shell
from ui.empty import CHECK_ADDRESSES, empty_state, reasons, silent
from ui.families import chart_of, families
from ui.family_table import family_table, sample_table
from ui.header import header
from ui.html import div
from ui.live import live
from ui.panel import panel
from ui.plot import figure
from ui.view import View

shell.guard()


def found_text() -> str:
    return (st.session_state.get("find") or "").strip()


def answer() -> None:
    view = View.take()
    rows = families(view)
    total = sum(len(row.samples) for row in rows)
    custom = sum(row.custom for row in rows)
    if not rows:
        header(view, "No metrics page has been read yet.", "unknown")
        why = reasons(view.coverage, Source.METRICS)
        port = "Triton's metrics are on port 8002 unless it was started with --metrics-port; see metrics_url."
        todo = CHECK_ADDRESSES if silent(view.coverage) else (port,)
        panel(empty_state("Nothing to explore.", *why, todo=todo), key="nothing")
        return
    words = f"{len(rows)} families with {total:,} samples on the servers' metrics pages"
    header(view, f"{words}, {custom} of them custom." if custom else f"{words}.", "fine")


def table() -> None:
    view = View.take()
    rows = families(view)
    found = [row for row in rows if row.matches(found_text())]
    if not rows:
        return
    if not found:
        panel(empty_state(f"No family, help text or label contains {found_text()!r}."), key="families")
        return
    panel(family_table(found, st.session_state.get("family"), view, found_text()), key="families")


def chosen() -> None:
    view = View.take()
    name = st.session_state.get("family")
    row = next((one for one in families(view) if one.name == name), None)
    if row is None:
        if name:
            panel(empty_state(f"No server reports the family {name!r} now."), key="chosen")
        return
    text = found_text().casefold()
    matching = [one for one in row.samples if any(text in f"{k}={v}".casefold() for k, v in one.labels)]
    samples = sorted(matching or row.samples, key=lambda one: -one.value if one.value == one.value else inf)
    figure(chart_of(row, view), key="family", group="explore")
    several = len({one.server for one in row.samples}) > 1
    if samples:
        panel(sample_table(row, samples, several_servers=several), key="samples")
    else:
        panel(
            div("The family is declared on the page and has no sample now.", class_="ts-more"), key="samples"
        )


live(answer, name="answer")
st.text_input(
    "Find a family", key="find", live=True, placeholder="Find a family, a label or a model", type="search",
    label_visibility="collapsed", icon=":material/search:",
)  # fmt: skip
live(table, name="families")
live(chosen, name="chosen")
