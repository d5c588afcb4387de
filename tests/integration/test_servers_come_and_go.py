"""A real tritonserver appears in a `file_sd` file and leaves it again: the app's process and the exporter."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from history.events import EventKind
from runtime import Runtime
from sandbox import Sandbox
from settings import load_settings
from telemetry.facts import ModelState
from tests.integration.conftest import Until

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
FOUND = "fleet-1"
PATIENCE_SECONDS = 60.0
"""A look every five seconds, on a machine that may be busy."""


class Place:
    """tritonscope.yml, whose only server is a closed port, and a list of others beside it."""

    def __init__(self, folder: Path, triton: Sandbox) -> None:
        self.settings, self._fleet = folder / "tritonscope.yml", folder / "fleet.json"
        self.settings.write_text(
            "refresh_seconds: 1\nservers:\n  - {id: closed, url: '127.0.0.1:9', metrics_url: '127.0.0.1:9'}\n"
            "discovery:\n  - file: fleet.json\n"
        )
        labels = {"__server": FOUND, "__url": triton.http_url, "workload": "fleet", "pod": "triton-0"}
        self._entry = {"targets": [urlsplit(triton.metrics_url).netloc], "labels": labels}
        self.lists_nobody()

    def lists_it(self) -> None:
        self._put(json.dumps([self._entry]))

    def lists_nobody(self) -> None:
        self._put("[]")

    def breaks(self) -> None:
        self._put('[\n  {"targets": ["a:8002"]\n')

    def _put(self, text: str) -> None:
        # Moved over, as a file is that somebody reads.
        new = self._fleet.with_suffix(".new")
        new.write_text(text)
        new.replace(self._fleet)


@pytest.fixture
def place(tmp_path: Path, triton: Sandbox) -> Place:
    return Place(tmp_path, triton)


def test_the_app_follows_the_list(place: Place, until: Until) -> None:
    process = Runtime(load_settings({}, place.settings))
    process.start()
    try:
        until(lambda: process.roster.looked)
        assert [server.id for server in process.servers] == ["closed"]
        place.lists_it()
        until(
            lambda: [one for one in process.coverage() if one.server == FOUND and one.answering],
            PATIENCE_SECONDS,
        )
        # The metrics page may name models before the index has told their states.
        until(lambda: ModelState.READY in states(process), PATIENCE_SECONDS)
        server = process.server(FOUND)
        assert server is not None and (server.workload, server.match) == ("fleet", (("pod", "triton-0"),))

        place.breaks()
        notice = until(lambda: process.notices, PATIENCE_SECONDS)[0]
        assert notice.source == "fleet.json" and notice.line is not None
        assert process.server(FOUND) is not None

        place.lists_nobody()
        until(lambda: FOUND in process.gone, PATIENCE_SECONDS)
        until(lambda: EventKind.LEFT in kinds(process), PATIENCE_SECONDS)
        assert FOUND not in {name for name, _ in process.poller.health()}
        assert process.notices == ()
        assert states(process) == {ModelState.GONE}
        assert kinds(process)[0] is EventKind.JOINED and kinds(process)[-1] is EventKind.LEFT
        assert EventKind.DOWN not in kinds(process)
        assert not [finding for finding in process.judgement().findings if finding.server == FOUND]
    finally:
        process.stop()


def states(process: Runtime) -> set[ModelState | None]:
    return {facts.state for facts in process.inventory().of_server(FOUND)}


def kinds(process: Runtime) -> list[EventKind]:
    return [event.kind for event in process.events.events() if event.server == FOUND]


@pytest.fixture
def exporter(place: Place) -> Iterator[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITONSCOPE_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "collectors.exporter", "--port", "0"],
        cwd=ROOT,
        env=environment | {"TRITONSCOPE_CONFIG": str(place.settings)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[2].partition("/probe")[0]
    finally:
        process.terminate()
        process.wait(15)
        process.stdout.close()


def test_the_exporter_follows_the_list(place: Place, exporter: str, until: Until) -> None:
    def probe(target: str) -> requests.Response:
        return requests.get(f"{exporter}/probe", params={"target": target}, timeout=15)

    refused = probe(FOUND)
    assert refused.status_code == 404 and "Configured: closed." in refused.text
    place.lists_it()
    until(lambda: probe(FOUND).status_code == 200, PATIENCE_SECONDS)
    ready = re.compile(r'tritonscope_model_state{.*state="READY".*} 1.0')
    page = until(lambda: text if ready.search(text := probe(FOUND).text) else "", PATIENCE_SECONDS)
    assert 'tritonscope_exporter_source_success{instance="' in page and 'pod="triton-0"' in page
    # An address is never asked, found or not.
    assert probe(urlsplit(exporter).netloc).status_code == 404
    place.breaks()
    place.lists_nobody()
    until(lambda: probe(FOUND).status_code == 404, PATIENCE_SECONDS)
    assert probe("closed").status_code == 200
