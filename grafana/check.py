"""What is wrong with a board, found without a Grafana: `problems(board)`; `python -m grafana check FILE`."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

from grafana import promql
from grafana.board import COLUMNS, all_panels
from grafana.families import SERIES
from grafana.grafana_units import CELSIUS, GRAFANA_UNIT, MEGAHERTZ, TOKENS_PER_SECOND

Json = dict[str, Any]
UNITS = {*GRAFANA_UNIT.values(), CELSIUS, MEGAHERTZ, TOKENS_PER_SECOND}
_GLOBAL = {
    "__rate_interval",
    "__range",
    "__interval",
    "__from",
    "__to",
    "__url_time_range",
    "__all_variables",
}
_FOR_VALUES = {"__field", "__data", "__value", "__series"}
_WITHOUT_QUERIES = {"row", "text"}
_MAX_UID = 40


def problems(board: Json) -> list[str]:
    """A sentence for each mistake, none for a good board."""
    checks = (_inputs, _identities, _sources, _places, _panels, _queries, _variables)
    return [sentence for check in checks for sentence in check(board)]


def targets(board: Json) -> Iterator[tuple[str, str]]:
    """Name and PromQL of every query: of variables, of panels, of annotations."""
    for variable in _variables_of(board, "query"):
        yield f"variable {variable['name']}", promql.query_of_variable(_variable_query(variable))
    for panel in all_panels(board):
        for target in panel.get("targets", ()):
            yield f"panel {panel.get('title', panel.get('id'))!r} {target.get('refId', '')}", target["expr"]
    for annotation in board.get("annotations", {}).get("list", ()):
        expr = annotation.get("expr") or annotation.get("target", {}).get("expr")
        if expr:
            yield f"annotation {annotation['name']!r}", expr


def _variables_of(board: Json, *kinds: str) -> list[Json]:
    listed: list[Json] = board.get("templating", {}).get("list", [])
    return [variable for variable in listed if not kinds or variable["type"] in kinds]


def _variable_query(variable: Json) -> str:
    query = variable["query"]
    return str(query["query"] if isinstance(query, dict) else query)


def _inputs(board: Json) -> Iterator[str]:
    if "__inputs" in board:
        yield "__inputs: provisioning fills none in, so every panel fails; use a data source variable"


def _identities(board: Json) -> Iterator[str]:
    uid = board.get("uid") or ""
    if not 0 < len(uid) <= _MAX_UID:
        yield f"the uid must have 1 to {_MAX_UID} characters, so that links stay right: {uid!r}"
    for identity, count in Counter(panel.get("id") for panel in all_panels(board)).items():
        if count > 1 or identity is None:
            yield f"{count} panels have the id {identity}"
    for name, count in Counter(variable["name"] for variable in _variables_of(board)).items():
        if count > 1:
            yield f"{count} variables are called {name}"
    for panel in all_panels(board):
        references = [target.get("refId") or "" for target in panel.get("targets", ())]
        if len(set(references)) < len(references) or "" in references:
            yield f"panel {panel.get('id')}: queries need a refId each: {references}"


def _sources(board: Json) -> Iterator[str]:
    offered = {f"${{{variable['name']}}}" for variable in _variables_of(board, "datasource")}
    for place, source in _all_sources(board):
        uid = source.get("uid") if isinstance(source, dict) else source
        if uid not in offered:
            yield f"{place}: the data source is {uid!r}, not a data source variable of this board"


def _all_sources(board: Json) -> Iterator[tuple[str, Any]]:
    for panel in all_panels(board):
        if panel["type"] not in _WITHOUT_QUERIES:
            yield f"panel {panel['id']}", panel.get("datasource")
        for target in panel.get("targets", ()):
            if "datasource" in target:
                yield f"panel {panel['id']} query {target.get('refId')}", target["datasource"]
    for variable in _variables_of(board, "query"):
        yield f"variable {variable['name']}", variable.get("datasource")
    for annotation in board.get("annotations", {}).get("list", ()):
        if not annotation.get("builtIn"):
            yield f"annotation {annotation['name']!r}", annotation.get("datasource")


def _places(board: Json) -> Iterator[str]:
    groups = [board.get("panels", ()), *(panel.get("panels", ()) for panel in board.get("panels", ()))]
    for group in groups:
        placed = [(panel["id"], panel["gridPos"]) for panel in group if "gridPos" in panel]
        for identity, place in placed:
            if place["x"] < 0 or place["x"] + place["w"] > COLUMNS or place["w"] <= 0 or place["h"] <= 0:
                yield f"panel {identity} does not fit into {COLUMNS} columns: {place}"
        for (one, here), (other, there) in itertools.combinations(placed, 2):
            if _overlap(here, there):
                yield f"panels {one} and {other} overlap"


def _overlap(here: Json, there: Json) -> bool:
    return bool(
        here["x"] < there["x"] + there["w"]
        and there["x"] < here["x"] + here["w"]
        and here["y"] < there["y"] + there["h"]
        and there["y"] < here["y"] + here["h"]
    )


def _panels(board: Json) -> Iterator[str]:
    for panel in all_panels(board):
        if panel["type"] in _WITHOUT_QUERIES:
            continue
        name = f"panel {panel['id']}"
        if not panel.get("title") or "good" not in panel.get("description", "").lower():
            yield f"{name}: a title, and a description that says what good looks like"
        if not panel.get("targets"):
            yield f"{name}: no query"
        unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit")
        if unit not in UNITS:
            yield f"{name}: the unit {unit!r} is not one of those that grafana_units.py gives"


def _queries(board: Json) -> Iterator[str]:
    offered = {variable["name"] for variable in _variables_of(board)}
    for name, text in targets(board):
        unknown = promql.variables_in(text) - offered - _GLOBAL
        if unknown:
            yield f"{name}: no variable {', '.join(sorted(unknown))} on this board"
        try:
            found = promql.selectors(text)
        except ValueError as error:
            yield f"{name}: not PromQL: {error}"
            continue
        if "avg" in promql.aggregations(text):
            yield f"{name}: an average of series; divide sums by sums"
        # A variable's query can carry those before it in the chain.
        chain = [variable["name"] for variable in _variables_of(board)]
        own = name.removeprefix("variable ")
        before = set(chain[: chain.index(own)]) if own in chain else offered
        for selector in found:
            yield from (f"{name}: {what}" for what in _selector_problems(selector, before))
        if not name.startswith("variable"):
            yield from (f"{name}: {what}" for what in _windows(text))


def _windows(text: str) -> Iterator[str]:
    for window in set(promql.WINDOW.findall(text)):
        if window not in ("$__rate_interval", "$__range", "1d"):
            yield f"the window [{window}] is fixed and may hold too few scrapes; use $__rate_interval"


def _selector_problems(selector: promql.Selector, offered: set[str]) -> Iterator[str]:
    for family in selector.families:
        if family not in SERIES:
            yield f"the family {family} is not known"
            return
    if "histogram_quantile" in selector.functions and not selector.families[0].endswith("_bucket"):
        yield f"histogram_quantile of {selector.families[0]}, which is no histogram"
    chosen = promql.variables_in(" ".join(selector.matchers.values()))
    missing = _due(selector) & offered - chosen
    if missing:
        yield f"{selector.families[0]} leaves out {', '.join(sorted(f'${name}' for name in missing))}"


def _due(selector: promql.Selector) -> set[str]:
    """Variables that a selector must carry: those its family has labels for."""
    family = selector.families[0]
    labels = SERIES[family].labels
    if family.startswith("DCGM_"):
        return {"cluster", "gpu"}
    if family == "ALERTS":
        return {"cluster", "namespace"}
    due = {"cluster", "namespace", "server", "exporter_job" if family.startswith("tritonscope_") else "job"}
    if not (selector.over_models or selector.of_steps):
        due |= {"model", "version"} & set(labels)
    return due | ({"gpu"} if labels == ("gpu_uuid",) else set())


def _variables(board: Json) -> Iterator[str]:
    for variable in _variables_of(board, "query"):
        if not (variable.get("multi") and variable.get("includeAll") and variable.get("allValue") == ".*"):
            yield f"variable {variable['name']}: several values, and All as .*, or absent labels do not match"
        if variable["name"] == "model" and "failure" in _variable_query(variable):
            yield "variable model: failures outlive their model; take nv_inference_request_success"
    links = [link.get("url") or "" for link in board.get("links", ())]
    offered = {variable["name"] for variable in _variables_of(board)} | _GLOBAL | _FOR_VALUES
    for panel in all_panels(board):
        links += [link["url"] for link in panel.get("fieldConfig", {}).get("defaults", {}).get("links", ())]
    for url in links:
        if unknown := promql.variables_in(url) - offered:
            yield f"the link {url} names {', '.join(sorted(unknown))}, no variable of this board"
