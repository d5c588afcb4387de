"""The check of a board finds each mistake it is for: the real bad boards, and good ones made bad."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grafana import promql
from grafana.__main__ import main
from grafana.boards import BOARDS
from grafana.check import problems

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests/fixtures/cases"
Json = dict[str, Any]
GOOD: Json = json.loads((ROOT / "grafana/dashboards/model.json").read_text(encoding="utf-8"))


def test_a_board_with_inputs_is_flagged() -> None:
    found = problems(json.loads((CASES / "g01_ds_prometheus_input.json").read_text()))
    assert any(sentence.startswith("__inputs: ") for sentence in found)
    assert any("data source is '${DS_PROMETHEUS}'" in sentence for sentence in found)


def test_a_board_with_a_fixed_data_source_is_flagged() -> None:
    found = problems(json.loads((CASES / "g02_hardcoded_uid.json").read_text()))
    assert any("data source is 'P1809F7CD0C75ACF3'" in sentence for sentence in found)
    assert not any(sentence.startswith("__inputs") for sentence in found)


def first_chart(board: Json) -> Json:
    chart: Json = next(panel for panel in board["panels"] if panel["type"] == "timeseries")
    return chart


def asking(expr: str) -> Callable[[Json], None]:
    def change(board: Json) -> None:
        first_chart(board)["targets"][0]["expr"] = expr

    return change


def same_id(board: Json) -> None:
    board["panels"][2]["id"] = board["panels"][1]["id"]


def same_reference(board: Json) -> None:
    targets = first_chart(board)["targets"]
    targets[1]["refId"] = targets[0]["refId"]


def overlapping(board: Json) -> None:
    board["panels"][2]["gridPos"] = board["panels"][1]["gridPos"]


def too_wide(board: Json) -> None:
    first_chart(board)["gridPos"]["w"] = 25


def fixed_in_a_query(board: Json) -> None:
    first_chart(board)["targets"][0]["datasource"]["uid"] = "tritonscope-prometheus"


def fixed_in_a_variable(board: Json) -> None:
    board["templating"]["list"][1]["datasource"]["uid"] = "abc"


def without_description(board: Json) -> None:
    del first_chart(board)["description"]


def in_percent(board: Json) -> None:
    first_chart(board)["fieldConfig"]["defaults"]["unit"] = "percent"


def all_that_needs_the_label(board: Json) -> None:
    board["templating"]["list"][1]["allValue"] = ".+"


def models_from_failures(board: Json) -> None:
    [model] = [one for one in board["templating"]["list"] if one["name"] == "model"]
    model["query"]["query"] = model["query"]["query"].replace("_success", "_failure")


def link_to_nowhere(board: Json) -> None:
    board["links"][1]["url"] = "${tritonscope:raw}/overview"


SCOPE = 'cluster=~"$cluster", namespace=~"$namespace", job=~"$job", instance=~"$server"'
MODELS = f'{SCOPE}, model=~"$model", version=~"$version"'
MISTAKES: dict[str, tuple[Callable[[Json], None], str]] = {
    "same id": (same_id, "2 panels have the id 2"),
    "same refId": (same_reference, "queries need a refId each: ['A', 'A'"),
    "overlap": (overlapping, "panels 2 and 3 overlap"),
    "too wide": (too_wide, "does not fit into 24 columns"),
    "source in a query": (fixed_in_a_query, "data source is 'tritonscope-prometheus'"),
    "source in a variable": (fixed_in_a_variable, "variable cluster: the data source is 'abc'"),
    "no description": (without_description, "says what good looks like"),
    "percent": (in_percent, "the unit 'percent' is not one"),
    "All needs the label": (all_that_needs_the_label, "variable cluster: several values, and All as .*"),
    "models from failures": (models_from_failures, "failures outlive their model"),
    "link": (link_to_nowhere, "names tritonscope, no variable of this board"),
    "not PromQL": (asking(f"rate(nv_inference_count{{{MODELS}}})"), "not PromQL"),
    "unknown family": (
        asking(f"nv_inference_load_ratio_bucket{{{SCOPE}}}"), "nv_inference_load_ratio_bucket is not known",
    ),
    "unknown variable": (asking(f'up{{{SCOPE}, x="$node"}}'), "no variable node"),
    "fixed window": (asking(f"rate(nv_inference_count{{{MODELS}}}[1m])"), "the window [1m] is fixed"),
    "average": (asking(f"avg(nv_inference_request_summary_us{{{MODELS}}})"), "an average of series"),
    "no histogram": (
        asking(f"histogram_quantile(0.9, rate(nv_inference_request_duration_us{{{MODELS}}}[$__range]))"),
        "histogram_quantile of nv_inference_request_duration_us",
    ),
    "not the chosen models": (
        asking(f"nv_inference_pending_request_count{{{SCOPE}}}"),
        "nv_inference_pending_request_count leaves out $model, $version",
    ),
    "not the chosen servers": (asking("nv_cpu_utilization"), "out $cluster, $job, $namespace, $server"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str) -> None:
    change, sentence = MISTAKES[mistake]
    board = copy.deepcopy(GOOD)
    assert problems(board) == []
    change(board)
    assert any(sentence in found for found in problems(board)), problems(board)


def test_a_sum_over_models_need_not_carry_the_choice_of_models() -> None:
    board = copy.deepcopy(GOOD)
    asking(f"sum without (model, version) (nv_inference_pending_request_count{{{SCOPE}}})")(board)
    assert problems(board) == []


def test_variables_are_found_and_filled_in() -> None:
    text = 'rate(x{a=~"$job", b="${app:raw}", c="${__data.fields["m"]}"}[$__rate_interval]) * f(y, "$1")'
    assert promql.variables_in(text) == {"job", "app", "__data", "__rate_interval"}
    assert promql.filled_in('x{a=~"$job"}[$__range]', {"__range": "1h"}) == 'x{a=~".*"}[1h]'


def test_selectors_say_where_they_stand() -> None:
    found = promql.selectors('sum by (job) (rate(a{m=~"$model"}[$__range] @ end())) / on (x) topk($top, b)')
    assert [(one.families, one.over_models, one.functions) for one in found] == [
        (("a",), True, ("rate",)),
        (("b",), False, ()),
    ]
    assert found[0].window_seconds == 3600


def test_the_command_writes_the_boards_and_counts_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "--out",
                str(tmp_path),
                "--server-labels",
                "namespace,pod",
                "--app-url",
                "https://scope.example/",
            ]
        )
        == 0
    )
    assert {path.name for path in tmp_path.iterdir()} == set(BOARDS)
    assert capsys.readouterr().out.splitlines()[-1].startswith("4 boards, ")
    assert "https://scope.example/" not in (tmp_path / "fleet.json").read_text()
    assert main(["check", *(str(path) for path in sorted(tmp_path.iterdir()))]) == 0
    assert capsys.readouterr().out.count("no problems") == len(BOARDS)


def test_the_command_names_the_mistakes_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(CASES / "g02_hardcoded_uid.json")]) == 1
    assert "data source is 'P1809F7CD0C75ACF3'" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["not json", "[]", '{"panels": [{}]}'])
def test_what_is_no_board_is_said_in_one_line(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "board.json"
    file.write_text(content)
    assert main(["check", str(file)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "not a board that can be read" in said
