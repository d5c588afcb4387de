"""A process with recorded answers of a real server and a write side that notes instead of sending."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

import runtime
from collectors.config import parse_config
from collectors.exposition import read_page
from collectors.repository import index_samples, parse_index
from collectors.statistics import parse_statistics, statistics_samples
from control.facade import Control
from control.performer import Course, Job, Work
from settings import Settings
from telemetry.access import Identity
from telemetry.actions import Action, Conclusion
from telemetry.facts import IndexEntry, ModelConfig, ModelStatistics
from telemetry.identity import Server
from telemetry.scrape import Scrape, Source

RECORDED = Path(__file__).parents[1] / "fixtures" / "small_repo"
APP = Path(__file__).parents[2] / "app.py"
SPAN_SECONDS = 10.0


class NotingControl(Control):
    """The real guard, journal and performer; the work itself is replaced by `answers`."""

    def __init__(self, server: Server, configs: dict[str, ModelConfig]) -> None:
        super().__init__(lambda: (server,), ConfigsOnly(configs), lambda server_id: False)
        self.performed: list[Action] = []
        self.answers: Work | None = None

    def perform(self, action: Action, work: Work | None = None, *, by: Identity) -> Job:
        self.performed.append(action)
        return self._performer.perform(action, self._answer, by=by)

    def _answer(self, course: Course) -> Conclusion:
        if self.answers is None:
            raise AssertionError(f"nobody expected {course.action}")
        return self.answers(course)


class ConfigsOnly:
    """A reader of configurations; nothing else is asked in these tests."""

    def __init__(self, configs: dict[str, ModelConfig]) -> None:
        self._configs = configs

    def config(self, server_id: str, model: str, version: str = "") -> ModelConfig:
        return self._configs[model]

    def index(self, server_id: str) -> tuple[IndexEntry, ...]:
        raise AssertionError("the index is not read here")

    def statistics(self, server_id: str) -> tuple[ModelStatistics, ...]:
        raise AssertionError("the statistics are not read here")


def recorded(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_text())


def install(
    *,
    control: bool = True,
    state: str = "default_2_under_load",
    decoupled: bool = False,
    sequence_batching: bool = False,
) -> NotingControl:
    """Make this process' runtime one that has read the recorded answers `SPAN_SECONDS` apart, until now."""
    server = Server(
        "lab", "http://127.0.0.1:9", "http://127.0.0.1:9/metrics", control=control,
        load_run_limit_per_second=1000.0,
    )  # fmt: skip
    process = runtime.Runtime(Settings(servers=(server,)))
    now = time.time()
    for at, name in ((now - SPAN_SECONDS, "default_1_idle"), (now, state)):
        page = read_page((RECORDED / f"{name}_metrics.txt").read_text())
        process.accept(Scrape("lab", Source.METRICS, at, 0.01, page.samples, page))
        statistics, _ = parse_statistics(recorded(f"{name}_stats"))
        samples = statistics_samples(statistics)
        process.accept(Scrape("lab", Source.STATISTICS, at, 0.01, samples, statistics))
        index, _ = parse_index(recorded(f"{name}_index"))
        process.accept(Scrape("lab", Source.INDEX, at, 0.01, index_samples(index), index))
    configs = {
        name: replace(
            parse_config(recorded(f"config_{name}")), decoupled=decoupled, sequence_batching=sequence_batching
        )
        for name in ("fast_add", "pipeline")
    }
    process.accept(Scrape("lab", Source.CONFIG, now, 0.01, payload=configs))
    noting = NotingControl(server, configs)
    process.control = noting
    runtime.install(process)
    return noting


def open_page(name: str, **params: str) -> AppTest:
    """The page as a visitor with this address sees it first."""
    app = AppTest.from_file(str(APP), default_timeout=30)
    for key, value in params.items():
        app.query_params[key] = value
    app.switch_page(f"pages/{name}.py")
    return app.run()


def panel(app: AppTest, key: str) -> str:
    """The markup of one panel, "" if it is empty; KeyError if the page has none of that key."""
    for element in app.get("bidi_component"):
        if element.proto.id.endswith(f"-{key}"):
            return str(json.loads(element.proto.json)["html"])
    raise KeyError(key)


def panels(app: AppTest, start: str) -> list[str]:
    """The markup of all panels whose key begins so, in their order on the page."""
    return [
        str(json.loads(element.proto.json)["html"])
        for element in app.get("bidi_component")
        if f"-{start}" in element.proto.id
    ]
