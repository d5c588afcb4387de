"""Every query of every board, asked in a real Prometheus: on synthetic histories, and on the sandbox."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from grafana.boards import BOARDS
from grafana.check import problems
from grafana.parameters import Parameters
from grafana.preview import Source
from tests.board_history import (
    ALERT,
    DCGM,
    EXPORTER,
    LLM,
    TRITON,
    Asked,
    Reader,
    Target,
    asked,
    backfill,
    page,
)
from tests.prometheus_server import PrometheusServer

pytestmark = pytest.mark.integration

UP = "up 1\n"
DOWN = "up 0\n"


class Until(Protocol):
    def __call__(self, condition: Any, seconds: float = 30.0) -> Any: ...


@dataclass(frozen=True)
class Layout:
    """Somebody's Prometheus: its targets, how often it scrapes, and the boards built for its labels."""

    targets: list[Target]
    every_seconds: int
    parameters: Parameters
    server: str
    cluster: str = ""


def plain() -> Layout:
    """This project's prometheus.yml: two servers that share their GPUs, a third one that is down."""

    def triton(instance: str) -> list[Target]:
        labels = {"job": "triton", "instance": instance, "workload": "examples"}
        exporter = {**labels, "job": "tritonscope-exporter"}
        return [
            Target(UP, labels),
            Target(page(*TRITON, LLM), labels),
            Target(page(EXPORTER), exporter),
        ]

    rest = [
        Target(DOWN, {"job": "triton", "instance": "triton-c:8002", "workload": "examples"}),
        Target(page(DCGM), {"job": "dcgm-exporter", "instance": "dcgm-exporter:9400"}),
        Target(ALERT, {"workload": "examples"}),
    ]
    return Layout(
        [*triton("triton-a:8002"), *triton("triton-b:8002"), *rest], 15, Parameters(), "triton-b:8002"
    )


def operator() -> Layout:
    """The Prometheus Operator's labels, two clusters with the same names, a target label `version`, 60 s."""

    def cluster(name: str) -> list[Target]:
        outside = {"cluster": name, "prometheus_replica": "prometheus-k8s-0"}
        pod = {
            "namespace": "ml",
            "pod": "triton-7d9c-abcde",
            "service": "triton",
            "version": "v12",
            **outside,
        }
        triton = {
            **pod,
            "job": "triton",
            "container": "triton",
            "endpoint": "metrics",
            "instance": "10.0.0.12:8002",
        }
        exporter = {**triton, "job": "tritonscope", "container": "exporter", "endpoint": "exporter"}
        dcgm = {"namespace": "gpu-operator", "pod": "dcgm-x", "container": "dcgm", "endpoint": "gpu-metrics",
                "instance": "10.0.0.77:9400", "job": "dcgm", "service": "dcgm", **outside}  # fmt: skip
        return [
            Target(UP, triton),
            Target(page(*TRITON, LLM), triton),
            Target(page(EXPORTER), exporter),
            Target(page(DCGM), dcgm),
            Target(ALERT, {"namespace": "ml", **outside}),
        ]

    names = Parameters(server=("cluster", "namespace", "pod"), version="exported_version")
    return Layout([*cluster("eu"), *cluster("us")], 60, names, "triton-7d9c-abcde", "eu")


LAYOUTS = {"plain": plain, "operator": operator}


@dataclass(frozen=True)
class History:
    layout: Layout
    reader: Reader
    boards: dict[str, dict[str, Any]]

    def one(self, board: str, place: str) -> Asked:
        [found] = [query for query in asked(self.boards[board]) if query.place == place]
        return found


@pytest.fixture(scope="module", params=LAYOUTS)
def history(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, until: Until
) -> Iterator[History]:
    layout = LAYOUTS[request.param]()
    folder = tmp_path_factory.mktemp("prometheus")
    end = int(time.time()) // 60 * 60 - 60
    backfill(folder, layout.targets, end, layout.every_seconds)
    boards = {
        name.removesuffix(".json"): build(layout.parameters).document() for name, build in BOARDS.items()
    }
    assert [sentence for board in boards.values() for sentence in problems(board)] == []
    with PrometheusServer(folder, {}) as prometheus:
        until(prometheus.ready, 60.0)
        yield History(layout, Reader(prometheus, end - 3600, end, layout.every_seconds), boards)


OPTIONAL = {"$cluster", "$namespace"}
"""Variables that offer All alone where Prometheus has no such label: `plain` is one cluster."""


def test_every_query_answers_with_numbers(history: History, figure: Any) -> None:
    queries = [one for board in history.boards.values() for one in asked(board)]
    silent = [f"{one.board}: {one.place}: {one.text}" for one in queries if not history.reader.values(one)]
    expected = 0 if history.layout.cluster else sum(one.place in OPTIONAL for one in queries)
    figure(f"{len(queries)} queries, {len(silent)} silent ({expected} expected)")
    assert [line for line in silent if line.split(": ")[1] not in OPTIONAL] == []
    assert len(silent) == expected


def numbers(rows: list[dict[str, Any]], *labels: str) -> dict[tuple[str, ...], float]:
    """The last number of each series by the labels."""
    return {
        tuple(row["metric"].get(label, "") for label in labels): float(
            row["value"][1] if "value" in row else row["values"][-1][1]
        )
        for row in rows
    }


def ask(
    history: History, board: str, place: str, *labels: str, **choices: str
) -> dict[tuple[str, ...], float]:
    return numbers(history.reader.values(history.one(board, place), **choices), *labels)


def test_a_choice_of_one_server_leaves_out_the_others(history: History) -> None:
    server, cluster = history.layout.server, history.layout.cluster or ".*"
    everything = ask(history, "fleet", "Requests per second A")[()]
    one = ask(history, "fleet", "Requests per second A", server=server, cluster=cluster)[()]
    assert one == pytest.approx(everything / 2)
    # Several values arrive as a regular expression; both clusters have a server of this name.
    of_any = ask(history, "fleet", "Requests per second A", server=f"({server}|nobody)")[()]
    assert of_any == pytest.approx(everything if history.layout.cluster else one)
    assert ask(history, "fleet", "Requests per second A", server="nobody") == {}


def test_figures_of_several_servers_are_sums_over_sums(history: History) -> None:
    """Both servers report the same page: the mean is the page's own, the requests are twice its."""
    # The page of an hour: 36,750,000 us of resnet's requests / 1,750 requests.
    mean = ask(history, "model", "Mean request time A", model="resnet")
    assert mean[()] == pytest.approx(21_000)
    parts = {
        ref: ask(history, "model", f"Latency budget of a request {ref}", model="resnet")[()] for ref in "ABCD"
    }
    assert parts == {
        "A": pytest.approx(9_000),
        "B": pytest.approx(400),
        "C": pytest.approx(11_000),
        "D": pytest.approx(300),
    }
    assert ask(history, "model", "Mean batch size A", model="resnet")[()] == pytest.approx(8)


def test_an_ensemble_waits_as_long_as_its_steps_also_when_they_are_not_chosen(history: History) -> None:
    """pipe calls tokenizer and resnet, which wait 9 ms each; its own counter is not meant."""
    [waits] = ask(
        history, "model", "Mean queue time, top $top A", "model", "exported_version", model="pipe"
    ).values()
    assert waits == pytest.approx(18_000)


def test_an_ensembles_failure_is_one_failure(history: History) -> None:
    """Per server: resnet 15; pipe 12 (24 counted), which are its step's too; pipe_of_two 4, its step none."""
    every = history.layout.every_seconds
    hour = (3600 // every + 1) * every
    served = ask(history, "fleet", "Requests per second A")[()] / 2 * hour
    failures = 15 + 12 + 4 - 12
    assert ask(history, "fleet", "Failed A")[()] == pytest.approx(failures / (failures + served), rel=1e-3)
    # Triton says 12 under version 1 and 12 under version 3, which are twelve failed requests.
    of_pipe = ask(history, "model", "Failed, top $top A", "cluster", "instance", "version", model="pipe")
    assert list(of_pipe.values()) == [pytest.approx(12 / (12 + 1700))] * 2


def test_a_gpu_is_counted_once_whoever_reports_it(history: History) -> None:
    """Two servers share two GPUs; DCGM has two pods on one of them, an old and a new one."""
    gpus = {
        "GPU-aaaaaaaa-0000-0000-0000-000000000000": 0.83,
        "GPU-bbbbbbbb-1111-1111-1111-111111111111": 0.12,
    }
    for place in ("GPU utilization A", "GPU utilization (DCGM) A"):
        found = ask(history, "gpu", place, "gpu_uuid")
        assert found == {(uuid,): pytest.approx(value) for uuid, value in gpus.items()}
    assert ask(history, "gpu", "GPUs A") == {(): 2}
    used = ask(history, "gpu", "GPU memory (DCGM) A", "gpu_uuid")
    assert used["GPU-aaaaaaaa-0000-0000-0000-000000000000",] == 20480 * 2**20
    one = ask(history, "gpu", "GPU utilization (DCGM) A", "gpu_uuid", gpu="GPU-bbbb.*")
    assert list(one) == [("GPU-bbbbbbbb-1111-1111-1111-111111111111",)]


def test_where_triton_reports_no_gpu_dcgm_shows_all_of_the_cluster(history: History) -> None:
    found = ask(history, "gpu", "GPU memory (DCGM) A", "gpu_uuid", server="without-gpus")
    assert len(found) == 2
    assert {uuid for (uuid,) in ask(history, "gpu", "Memory of MIG instances A", "gpu_uuid")} == {
        "GPU-cccccccc-2222-2222-2222-222222222222"
    }


def test_marks_stand_where_models_came_and_went(history: History) -> None:
    def models(place: str) -> set[str]:
        rows = history.reader.values(history.one("model", place))
        late = [row for row in rows if float(row["values"][-1][0]) > history.reader.start + 600]
        return {row["metric"]["model"] for row in late}

    assert models("Models that appeared") == {"tokenizer"}
    assert models("Models that went") == {"tokenizer"}
    assert models("Counters that fell") == {"resnet", "tokenizer"} or models("Counters that fell") == {
        "resnet"
    }


def test_the_top_of_many_models_is_chosen_once_for_the_range(history: History) -> None:
    """Five models have requests on each of two servers; the top two are two lines, not two at each point."""
    one = history.one("model", "Requests per second, top $top A")
    assert len(history.reader.values(one, top="50")) > 4
    assert len(history.reader.values(one, top="2")) == 2


def test_the_preview_asks_what_the_board_asks(history: History) -> None:
    every, end = history.layout.every_seconds, history.reader.end
    source = Source(history.reader.prometheus.url, 3600, every, end)
    for board in history.boards.values():
        drawn = source.results(board)
        of_panels = [
            one for one in asked(board) if not one.place.startswith(("$", "Models that ", "Counters"))
        ]
        assert drawn["end"] - drawn["start"] == 3600
        assert len(drawn["results"]) >= len(of_panels) > 10
        assert all(drawn["results"].values())


# ---- Triton alone: no exporter, no DCGM, no rules


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, until: Until) -> Iterator[History]:
    folder = tmp_path_factory.mktemp("alone")
    end = int(time.time()) // 60 * 60 - 60
    labels = {"job": "triton", "instance": "triton:8002"}
    layout = Layout([Target(UP, labels), Target(page(*TRITON, LLM), labels)], 15, Parameters(), "triton:8002")
    backfill(folder, layout.targets, end, layout.every_seconds)
    boards = {
        name.removesuffix(".json"): build(layout.parameters).document() for name, build in BOARDS.items()
    }
    with PrometheusServer(folder, {}) as prometheus:
        until(prometheus.ready, 60.0)
        yield History(layout, Reader(prometheus, end - 3600, end, layout.every_seconds), boards)


def test_panels_outside_collapsed_rows_answer_from_tritons_page_alone(alone: History) -> None:
    silent, open_queries = [], 0
    for board in alone.boards.values():
        core = {panel["title"] for panel in board["panels"] if panel["type"] != "row"}
        for one in asked(board):
            if one.place.rsplit(" ", 1)[0] in core:
                open_queries += 1
                if not alone.reader.values(one):
                    silent.append(f"{one.board}: {one.place}: {one.text}")
    assert open_queries > 80
    assert silent == []
