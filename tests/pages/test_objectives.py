"""Objectives on the overview and on the model page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fake_runtime import SMALL, runtime_of, small_repository, text

from runtime import Runtime

SLO = """
slo:
  - {model: flaky, errors: 99 %}
  - {model: fast_*, errors: 99.9 %, latency: 95 % under 200 ms}
  - {model: needs_onnx, errors: 99 %}
"""


def with_objectives(folder: Path) -> Runtime:
    path = folder / "tritonscope.yml"
    path.write_text(SLO)
    moments = ("1_idle", "2_under_load", "3_after_load")
    return runtime_of(
        [text(SMALL / f"summary_{moment}_metrics.txt") for moment in moments],
        indexes=[text(SMALL / f"summary_{moment}_index.json") for moment in moments],
        environ={"TRITONSCOPE_CONFIG": str(path)},
    )


def test_the_overview_says_how_fast_a_budget_is_used_up(open_page: Any, tmp_path: Path) -> None:
    page = open_page(with_objectives(tmp_path))
    head, *rows = page.rows("models")
    assert head[-1] == "budget"
    budgets = {row[0]: row[-1] for row in rows}
    assert budgets["flakyv1"] == "33 ×"
    assert budgets["fast_addv1"] == "0 ×"
    assert budgets["slow_addv1"] == "–"
    assert "no objective: write one under slo:" in page.panels["models"]
    assert (
        "errors: 33.1 % failed within the last hour, 1 % may fail (from the counters)"
        in page.panels["models"]
    )
    assert "latency: 0 % slow within the last hour, 5 % may be (from the summary)" in page.panels["models"]
    burning = [card for card in page.panels["findings"].split('role="article"') if "BURNING" in card]
    assert (
        len(burning) == 1 and "fails more than its objective allows" in burning[0] and "flaky" in burning[0]
    )


def test_without_objectives_there_is_no_such_column(open_page: Any) -> None:
    assert open_page(small_repository()).rows("models")[0][-1] == "VRAM"


def test_the_promised_time_is_a_line_on_the_charts(open_page: Any, tmp_path: Path) -> None:
    page = open_page(with_objectives(tmp_path), "model", model="fast_add")
    lined = [key for key, figure in page.charts.items() if b"objective: 95 % under 200 ms" in figure]
    assert len(lined) == 2, list(page.charts)
