"""Synthetic pages as an hour of history in a real Prometheus; the boards' queries, asked as Grafana asks."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from collectors.exposition import read_page
from grafana import promql
from grafana.board import all_panels
from tests.prometheus_server import PROMTOOL, PrometheusServer

FIXTURES = Path(__file__).parent / "fixtures"
TRITON = ("metrics_SYNTHETIC_gpu_26x.txt", "boards_SYNTHETIC_more.prom")
EXPORTER, DCGM = "boards_SYNTHETIC_exporter.prom", "boards_SYNTHETIC_dcgm.prom"
LLM = "boards_SYNTHETIC_llm.prom"
ALERT = 'ALERTS{alertname="ModelHung",alertstate="firing",severity="page",model="resnet"} 1\n'
HOUR = 3600
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Target:
    """A target's page, the labels Prometheus adds, and names it gives the page's own labels."""

    page: str
    labels: Labels
    renamed: Labels = field(default_factory=dict)


def page(*names: str) -> str:
    """The text of some fixtures as one page."""
    return "\n".join((FIXTURES / name).read_text(encoding="utf-8") for name in names)


def lines_of(target: Target, ticks: int) -> Iterator[list[str]]:
    """For each tick the target's samples as lines without a time. Counters grow from 0 to what the page says.

    `tokenizer` is unloaded between a third and a half of the time; `resnet` is reloaded after three quarters.
    """
    found = read_page(target.page)
    kinds = {name: family.kind for name, family in found.families.items()}
    series = [
        (_text(one.name, {**dict(one.labels)}, target), one, value, _grows(one.name, kinds))
        for one, value in zip(found.samples.series, found.samples.values.tolist(), strict=True)
    ]
    gone, back, reloaded = ticks // 3, ticks // 2, 3 * ticks // 4
    for tick in range(ticks):
        lines = []
        for text, one, value, grows in series:
            begin, model = 0, one.label("model")
            own = one.name.startswith("nv_") and "failure" not in one.name
            if own and model == "tokenizer" and tick >= gone:
                if tick < back:
                    continue
                begin = back
            if own and model == "resnet" and tick >= reloaded:
                begin = reloaded
            if one.name == "tritonscope_model_state" and model == "tokenizer" and gone <= tick < back:
                value = float(one.label("state") == "UNAVAILABLE")
            lines.append(f"{text} {value * (tick - begin) / ticks if grows else value!r}")
        yield lines


def _grows(name: str, kinds: Mapping[str, Any]) -> bool:
    family = re.sub(r"_(bucket|sum|count)$", "", name)
    summed = name != family and str(kinds.get(family)) in ("summary", "histogram")
    return summed or str(kinds.get(name)) == "counter"


def _text(name: str, own: dict[str, str], target: Target) -> str:
    # A label of the page that the target has too is renamed, as Prometheus does without honor_labels.
    labels = {
        target.renamed.get(key, f"exported_{key}" if key in target.labels else key): own[key] for key in own
    }
    listed = ",".join(f'{key}="{value}"' for key, value in {**labels, **target.labels}.items())
    return f"{name}{{{listed}}}"


def backfill(folder: Path, targets: Sequence[Target], end: int, every_seconds: int) -> None:
    """An hour of history before `end` in the data folder of a PrometheusServer that is not started yet."""
    ticks = HOUR // every_seconds + 1
    streams = [lines_of(target, ticks) for target in targets]
    file = folder / "history.om"
    with file.open("w", encoding="utf-8") as out:
        for tick, lines in enumerate(zip(*streams, strict=True)):
            at = end - HOUR + tick * every_seconds
            out.writelines(f"{line} {at}\n" for stream in lines for line in stream)
        out.write("# EOF\n")
    command = [str(PROMTOOL), "tsdb", "create-blocks-from", "openmetrics", str(file), str(folder / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    file.unlink()


@dataclass(frozen=True, slots=True)
class Asked:
    """One query of a board: where it stands, its text, and how it is asked: range, instant or labels."""

    board: str
    place: str
    text: str
    how: str
    label: str = ""


def asked(board: dict[str, Any]) -> Iterator[Asked]:
    """Every query of a board."""
    name = board["uid"]
    for panel in all_panels(board):
        for target in panel.get("targets", ()):
            how = "instant" if target.get("instant") else "range"
            yield Asked(name, f"{panel['title']} {target['refId']}", target["expr"], how)
    for one in board["annotations"]["list"]:
        yield Asked(name, one["name"], one["target"]["expr"], "range")
    for one in board["templating"]["list"]:
        if one["type"] == "query":
            text = one["query"]["query"]
            label = re.search(r",\s*(\w+)\)$", text) if text.startswith("label_values") else None
            how = "labels" if label else "instant"
            yield Asked(
                name, f"${one['name']}", promql.query_of_variable(text), how, label[1] if label else ""
            )


@dataclass(frozen=True, slots=True)
class Reader:
    """Asks as Grafana would: choices in place of variables.

    `$__rate_interval` is `window_seconds`, else four scrapes.
    """

    prometheus: PrometheusServer
    start: float
    end: float
    every_seconds: int
    window_seconds: int = 0

    def values(self, one: Asked, **choices: str) -> list[dict[str, Any]]:
        """Series with at least one number; for a chain variable its values."""
        built_in = {
            "__rate_interval": f"{self.window_seconds or 4 * self.every_seconds}s",
            "__range": f"{round(self.end - self.start)}s",
            "top": "10",
        }
        text = promql.filled_in(one.text, {**built_in, **choices})
        if one.how == "labels":
            return self._labels(one.label, text)
        if one.how == "instant":
            rows = self.prometheus.query(text, self.end)
            return [row for row in rows if row["value"][1] != "NaN"]
        rows = self.prometheus.query_range(text, self.start, self.end, self.every_seconds)
        return [row for row in rows if any(value != "NaN" for _, value in row["values"])]

    def _labels(self, label: str, text: str) -> list[dict[str, Any]]:
        parameters: dict[str, str | float] = {"match[]": text, "start": self.start, "end": self.end}
        url = f"{self.prometheus.url}/api/v1/label/{label}/values"
        answer = requests.get(url, params=parameters, timeout=20).json()
        assert answer["status"] == "success", f"{text}: {answer.get('error')}"
        return [{"value": value} for value in answer["data"]]
