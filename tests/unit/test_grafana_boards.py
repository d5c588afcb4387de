"""The committed boards: as the code writes them, as Grafana's SDK reads them, without a known mistake."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from charts.palette import INFER, INPUT, OUTPUT, QUEUE
from grafana import promql
from grafana.board import all_panels
from grafana.boards import BOARDS
from grafana.check import problems, targets
from grafana.families import SERIES
from grafana.parameters import MINIMUM_GRAFANA, Parameters
from signals.definition import Definition
from signals.definitions import DEFINITIONS
from tests.compose_stack import load_yaml

ROOT = Path(__file__).parents[2]
Json = dict[str, Any]
FILES = {
    name: json.loads((ROOT / "grafana/dashboards" / name).read_text(encoding="utf-8")) for name in BOARDS
}
CHOSEN = {"datasource", "cluster", "namespace", "job", "server", "model", "version", "exporter_job", "app"}
each = pytest.mark.parametrize("name", BOARDS)

register_default_plugins()


def variables(board: Json) -> dict[str, Json]:
    return {one["name"]: one for one in board["templating"]["list"]}


def panels(board: Json) -> list[Json]:
    return [panel for panel in all_panels(board) if panel["type"] != "row"]


# ---- the files


def test_the_folder_holds_the_boards_and_nothing_else() -> None:
    assert {path.name for path in (ROOT / "grafana/dashboards").iterdir()} == set(BOARDS)


@each
def test_the_committed_file_is_what_the_code_writes(name: str) -> None:
    assert FILES[name] == BOARDS[name](Parameters()).document(), "stale: run make boards"


@each
def test_nothing_is_wrong_with_it(name: str) -> None:
    assert problems(FILES[name]) == []


ADDED_BY_THE_SDK = {"auto", "auto_min", "auto_count", "placement", "footer"}
"""Defaults that the SDK writes unasked; the boards leave them out."""


def lost(mine: Any, theirs: Any, place: str = "") -> list[str]:
    """What is in a board and not in what the SDK made of it, or otherwise, or in addition."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        extra = [f"{place}/{key} added" for key in theirs.keys() - mine.keys() - ADDED_BY_THE_SDK]
        return extra + [line for key in mine for line in lost(mine[key], theirs.get(key), f"{place}/{key}")]
    if isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        pairs = enumerate(zip(mine, theirs, strict=True))
        return [line for at, (one, other) in pairs for line in lost(one, other, f"{place}/{at}")]
    return [] if mine == theirs else [f"{place}: {mine!r} became {theirs!r}"]


def through_the_sdk(board: Json) -> Json:
    again: Json = json.loads(json.dumps(Dashboard.from_json(copy.deepcopy(board)), cls=JSONEncoder))
    return again


@each
def test_the_sdk_reads_all_of_it(name: str) -> None:
    """A key with a typing mistake would be lost on the way."""
    board = {key: value for key, value in FILES[name].items() if key != "__requires"}
    assert lost(board, through_the_sdk(board)) == []


def test_a_typing_mistake_is_lost_in_the_sdk() -> None:
    board = {key: value for key, value in FILES["fleet.json"].items() if key != "__requires"}
    board = copy.deepcopy(board)
    board["panels"][1]["descripton"] = "x"
    assert lost(board, through_the_sdk(board)) == ["/panels/1/descripton: 'x' became None"]


def test_uids_and_titles_differ() -> None:
    assert len({board["uid"] for board in FILES.values()}) == len(FILES)
    assert len({board["title"] for board in FILES.values()}) == len(FILES)


@each
def test_it_names_the_oldest_grafana_and_no_input(name: str) -> None:
    required = {row["id"]: row["version"] for row in FILES[name]["__requires"]}
    assert required["grafana"] == MINIMUM_GRAFANA
    assert {panel["type"] for panel in panels(FILES[name])} <= set(required)
    assert "__inputs" not in FILES[name]


@each
def test_the_provisioned_data_source_is_named_nowhere(name: str) -> None:
    sources = load_yaml("grafana/provisioning/datasources/tritonscope.yml")["datasources"]
    text = json.dumps(FILES[name])
    assert all(source["uid"] not in text for source in sources)


# ---- variables


@each
def test_the_variables_are_chained_and_match_absent_labels(name: str) -> None:
    found = variables(FILES[name])
    assert found.keys() >= CHOSEN
    chain = [key for key in found if found[key]["type"] == "query"]
    for place, key in enumerate(chain):
        query = promql.query_of_variable(found[key]["query"]["query"])
        asked = promql.variables_in(query)
        assert asked <= set(chain[:place]), f"{key} asks for what comes after it"
        assert {"cluster", "namespace"} & set(chain[:place]) <= asked
        assert found[key]["allValue"] == ".*"
        assert found[key]["current"]["value"] == "$__all"
    assert found["app"]["type"] == "textbox"
    assert ("top" in found) is (name != "gpu.json")
    assert ("gpu" in found) is (name == "gpu.json")


@each
def test_models_are_listed_from_successes(name: str) -> None:
    for key in ("model", "version"):
        [selector] = promql.selectors(promql.query_of_variable(variables(FILES[name])[key]["query"]["query"]))
        assert selector.families == ("nv_inference_request_success",)


@each
def test_every_figure_of_models_is_that_of_the_chosen_ones(name: str) -> None:
    """All but the steps of ensembles, and on the fleet's board what is said of whole servers."""
    for place, text in targets(FILES[name]):
        if place.startswith("variable"):
            continue
        for selector in promql.selectors(text):
            labels = {label for family in selector.families for label in SERIES[family].labels}
            if (
                "model" in labels
                and not selector.of_steps
                and not (name == "fleet.json" and selector.over_models)
            ):
                assert "$model" in selector.matchers.values(), f"{place}: {selector}"


# ---- sections


@each
def test_what_triton_alone_does_not_report_is_in_collapsed_rows_that_say_so(name: str) -> None:
    for panel in FILES[name]["panels"]:
        if panel["type"] == "row":
            assert panel["collapsed"] is ("(needs " in panel["title"])
            assert bool(panel.get("panels")) is panel["collapsed"]
            continue
        for target in panel.get("targets", ()):
            own = [one for one in promql.selectors(target["expr"]) if not is_fact(one)]
            assert own, f"{panel['title']} needs the exporter"
            assert not any(family.startswith(("DCGM_", "ALERTS")) for one in own for family in one.families)


def is_fact(selector: promql.Selector) -> bool:
    """Facts refine figures of Triton's own families; without an exporter they change nothing."""
    return all(family.startswith("tritonscope_") for family in selector.families)


@each
def test_every_panel_says_what_good_looks_like_and_why_it_may_be_empty(name: str) -> None:
    for panel in panels(FILES[name]):
        if panel["type"] != "text":
            assert "Good: " in panel["description"]
            assert panel["fieldConfig"]["defaults"]["noValue"]


# ---- queries


def signals_in(text: str) -> list[Definition]:
    families = {family for selector in promql.selectors(text) for family in selector.families}
    return [
        row
        for row in DEFINITIONS
        if {family for one in promql.selectors(row.promql()) for family in one.families} <= families
    ]


@each
def test_queries_of_tritons_families_are_those_of_signals(name: str) -> None:
    """A panel that writes its own arithmetic over request counters would drift from the app."""
    for place, text in targets(FILES[name]):
        families = {family for one in promql.selectors(text) for family in one.families}
        if "nv_inference_request_duration_us" in families or "nv_inference_count" in families:
            assert signals_in(text), place


def test_the_parts_of_latency_have_the_apps_colours() -> None:
    [panel] = [one for one in panels(FILES["model.json"]) if one["title"].startswith("Latency budget")]
    colours = {
        override["matcher"]["options"]: override["properties"][0]["value"]["fixedColor"]
        for override in panel["fieldConfig"]["overrides"]
    }
    assert colours == {"queue": QUEUE, "input": INPUT, "infer": INFER, "output": OUTPUT}
    assert [target["legendFormat"] for target in panel["targets"]] == list(colours)
    assert panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"


def test_marks_are_of_loads_unloads_and_resets() -> None:
    marks = {one["name"]: one["target"]["expr"] for one in FILES["model.json"]["annotations"]["list"]}
    assert list(marks) == ["Models that appeared", "Models that went", "Counters that fell"]
    assert "resets(" in marks["Counters that fell"]


@each
def test_labels_may_be_called_otherwise(name: str) -> None:
    theirs = Parameters(
        server=("cluster", "namespace", "pod"), model="exported_model", version="exported_version",
        workload=("cluster", "namespace", "service"), app_url="https://scope.example",
    )  # fmt: skip
    board = BOARDS[name](theirs).document()
    assert problems(board) == []
    for place, text in targets(board):
        for selector in promql.selectors(text):
            assert not {"model", "version", "instance"} & selector.matchers.keys(), place
    assert variables(board)["app"]["query"] == "https://scope.example"
    assert "${__field.labels.exported_model}" in json.dumps(board) or name == "gpu.json"
