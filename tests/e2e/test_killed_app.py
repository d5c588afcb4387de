"""The app is killed between sending a load and its outcome; the next one says so, and sends nothing again."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
from playwright.sync_api import Page, expect

from sandbox.ports import free_ports
from sandbox.processes import start_bound
from sandbox.repository import FAULT_MODELS
from telemetry.facts import ModelState
from tests.e2e.stack import ROOT, until
from tests.integration.write_lab import Lab, started_lab

pytestmark = pytest.mark.e2e
LOAD_SECONDS = 12.0


class App:
    """`python app.py` on a port of its own."""

    def __init__(self, settings: Path, port: int, log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        environment = {
            **os.environ,
            "TRITONSCOPE_CONFIG": str(settings),
            "TRITONSCOPE_APP_PORT": str(port),
        }
        with log.open("ab") as output:
            self.process = start_bound(
                [sys.executable, "app.py"], folder=ROOT, environment=environment, output=output
            )

    def answers(self) -> bool:
        assert self.process.poll() is None, "the app ended"
        try:
            return requests.get(f"{self.url}/healthz", timeout=2).status_code == 200
        except requests.RequestException:
            return False


@contextmanager
def started_app(settings: Path, port: int) -> Iterator[App]:
    log = settings.with_name("app.log")
    app = App(settings, port, log)
    try:
        until(app.answers, f"the app on {app.url}; see {log}", 60.0)
        yield app
    finally:
        app.process.kill()
        app.process.wait(20)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with started_lab("batch_add_model") as started:
        yield started


def lines(journal: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in journal.read_text().splitlines()]


@pytest.mark.timeout(300)  # three starts of the app, on a machine that may be busy
def test_killed_between_sending_and_outcome(page: Page, lab: Lab, tmp_path: Path) -> None:
    expect.set_options(timeout=40_000)
    name, journal, settings = "slow", tmp_path / "state" / "journal.jsonl", tmp_path / "tritonscope.yml"
    lab.sandbox.add_model(
        FAULT_MODELS["slow_load"], name=name, parameters={"load_seconds": f"{LOAD_SECONDS:g}"}
    )
    settings.write_text(
        f"servers:\n  - {{id: lab, url: '{lab.proxy.url}', metrics_url: '{lab.sandbox.metrics_url}', "
        f"control: true}}\njournal: {{path: '{journal}'}}\n"
    )
    first_port, second_port = free_ports(2)
    with started_app(settings, first_port) as first, started_app(settings, second_port) as second:
        page.goto(f"{second.url}/repository")
        expect(page.get_by_text(f"Read-only: another Tritonscope process (pid {first.process.pid})").first)\
            .to_be_visible()  # fmt: skip

        page.goto(f"{first.url}/repository")
        page.get_by_role("button", name=f"load {name}").first.click()
        page.get_by_role("dialog").get_by_role("button", name="Load", exact=True).click()
        until(lambda: lab.sent(name, "load") == 1, "the load at the server")
        until(lambda: ModelState.LOADING in lab.states(name), "the server loading")
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(20)
        assert [line["event"] for line in lines(journal)] == ["begin"]

        # The process that was read-only takes over by itself; so does one that is started anew.
        page.goto(f"{second.url}/repository")
        told = page.get_by_text(f"Outcome unknown: Tritonscope itself ended while loading {name}.").first
        expect(told).to_be_visible()
        row = page.locator("table.ts-table tr", has_text=name).first
        expect(row).to_contain_text("loading")
        expect(row).to_contain_text("ready", timeout=60_000)
        second.process.send_signal(signal.SIGKILL)
        second.process.wait(20)

    with started_app(settings, first_port) as again:
        page.goto(f"{again.url}/repository")
        expect(told).to_be_visible()
        expect(page.locator("table.ts-table tr", has_text=name).first).to_contain_text("ready")
    begin, end = lines(journal)
    assert (begin["event"], end["event"], end["outcome"], end["sent"]) == ("begin", "end", "unknown", None)
    assert lab.sent(name, "load") == 1
    assert lab.sent(name, "unload") == 0
