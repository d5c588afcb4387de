"""Panels about models that several boards have."""

from __future__ import annotations

from collectors.exporter_values import STATES
from grafana.links import to_model
from grafana.panels import AMBER, GREEN, GREY, RED, About, Drawn, Query, lines
from grafana.queries import NOT_NAN, Queries, shown
from telemetry.facts import ModelState
from telemetry.units import Unit

_COLOURS = {
    ModelState.READY: GREEN,
    ModelState.LOADING: AMBER,
    ModelState.UNLOADING: AMBER,
    ModelState.UNAVAILABLE: RED,
}
STATE_COLOURS = {state.value: _COLOURS.get(state, GREY) for state in STATES}
"""Name of each state that the exporter publishes -> its colour."""


def said(formula: str, good: str) -> str:
    """A panel's description: the signal's formula, and what good looks like."""
    return f"{formula[0].upper()}{formula[1:]}. {good}"


def model_lines(queries: Queries, name: str, good: str, width: int = 12, empty: str = "no requests") -> Drawn:
    """A signal of the models that stand out most in the shown range."""
    row = shown(name)
    quantile = "_us_p" in name
    more = " > 0" if name.startswith("failures") else f" {NOT_NAN}" if quantile else ""
    about = About(
        f"{row.title}, top $top",
        said(row.formula, good),
        row.unit,
        "no failures" if name.startswith("failures") else empty,
        width=width,
        links=to_model(queries),
    )
    return lines(about, [Query(queries.top(name, more=more), model_legend(queries))])


def model_legend(queries: Queries) -> str:
    """Name of a series of one model version on one server."""
    names = queries.parameters
    return f"{{{{{names.model}}}}} v{{{{{names.version}}}}} {{{{{names.instance}}}}}"


def model_states(queries: Queries) -> str:
    """For each model version the place of its state in STATE_COLOURS."""
    by, dialect = queries.model_labels, queries.models
    parts = [
        f"{place} * ({dialect.selector('tritonscope_model_state', (('state', state),))} == 1)"
        for place, state in enumerate(STATE_COLOURS)
    ]
    return f"max by ({', '.join(by)}) ({' or '.join(parts)})"


def memory(queries: Queries, series: str, width: int) -> Drawn:
    """Memory of models by device, with where the number is from."""
    names = queries.parameters
    by = f"{names.model}, {names.version}, {names.instance}, kind, device, source"
    legend = f"{model_legend(queries)} {{{{kind}}}} {{{{device}}}} ({{{{source}}}})"
    about = About(
        "Memory by model and source",
        "reported: what the backend says it allocated at load. process: what the driver says its "
        "process holds now. "
        "What no source tells is absent, not 0. Good: flat between loads.",
        Unit.BYTES,
        empty="no backend reports memory",
        width=width,
        links=to_model(queries),
    )
    return lines(about, [Query(f"max by ({by}) ({series})", legend)])
