"""An incident of a real overloaded server: captured, and found again by a process that has no server."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from runtime import Runtime
from sandbox import free_ports
from sandbox.laboratory.command import SITUATIONS
from sandbox.laboratory.lab import Lab, Servers
from tests.integration.conftest import Until
from triage.incident_command import capture
from triage.incident_file import read, recorded_findings
from triage.incident_replay import Opened
from triage.text import finding_data

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
OVERLOAD_SECONDS = 30.0
NOT_TRACKED = (".*", "__pycache__", "node_modules")
OVERVIEW = """
import json
from streamlit.testing.v1 import AppTest
app = AppTest.from_file("app.py", default_timeout=60)
app.query_params["refresh"] = "pause"
app.run()
assert not app.exception, app.exception
elements = [element.proto for element in app.get("bidi_component")]
print(json.dumps([json.loads(one.json)["html"] for one in elements if one.json]))
"""
"""The first page, drawn by the app's own code and without a browser; prints the markup of its panels."""


@pytest.fixture(scope="module")
def overloaded() -> Iterator[tuple[Lab, Runtime]]:
    """The laboratory's overload, watched by the product until it has lasted half a minute."""
    fault = SITUATIONS["overload"]
    with Servers() as servers:
        lab = Lab(servers.plain(1))
        try:
            fault.prepare(lab)
            watched = lab.watch()
            fault.begin(lab)
            end = time.monotonic() + OVERLOAD_SECONDS
            while time.monotonic() < end or not watched.judgement().findings:
                assert time.monotonic() < end + 60, "the overload was never found"
                time.sleep(0.2)
            yield lab, watched
        finally:
            lab.close()


@pytest.fixture(scope="module")
def incident(overloaded: tuple[Lab, Runtime], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("incident") / "overload.zip"
    overloaded[1].capture(path)
    return path


def of_another_process(path: Path) -> tuple[int, dict[str, object]]:
    """What `python -m triage --incident` says in a process that knows nothing but the file."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITONSCOPE_")}
    ended = subprocess.run(
        [sys.executable, "-m", "triage", "--incident", str(path), "--json"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.stderr == ""
    return ended.returncode, json.loads(ended.stdout)


def test_a_fresh_process_without_a_server_finds_the_same(
    overloaded: tuple[Lab, Runtime], incident: Path, figure: object
) -> None:
    status, there = of_another_process(incident)
    recorded = recorded_findings(incident)
    assert status == 1
    assert there["findings"] == recorded["findings"]
    assert there["unjudged"] == recorded["unjudged"]
    assert there["models"] == recorded["models"]
    [first, *_] = recorded["findings"]
    assert first["rule"] == "QueueDominates"
    assert first["evidence"] and all(row["value"] is not None for row in first["evidence"][:1])
    figure(f"incident of an overload: {incident.stat().st_size / 1024:.0f} KiB")  # type: ignore[operator]


def test_the_file_says_what_the_process_said_at_that_time(
    overloaded: tuple[Lab, Runtime], tmp_path: Path
) -> None:
    """Stopped, the process cannot go on: what it judges and what the file holds are of one moment."""
    lab, watched = overloaded
    watched.poller.stop()
    path = tmp_path / "still.zip"
    watched.capture(path)
    opened = Opened(read(path))
    watched._figures._clock = opened.clock
    watched._figures._moment = None
    judged = opened.judged()
    mine = [finding_data(one, judged) for one in watched.judgement().findings]
    assert [finding_data(one, judged) for one in judged.judgement.findings] == mine
    assert mine[0]["rule"] == "QueueDominates"
    watched.poller.start()
    assert lab.watched is watched


def test_the_raw_pages_are_what_the_server_answered(incident: Path) -> None:
    with zipfile.ZipFile(incident) as archive:
        names = set(archive.namelist())
        page = archive.read("raw/server0/metrics.txt").decode()
        statistics = json.loads(archive.read("raw/server0/statistics.json"))
        configs = json.loads(archive.read("raw/server0/configs.json"))
    assert 'nv_inference_request_success{model="popular",version="1"}' in page
    assert statistics["model_stats"][0]["name"] == "popular"
    assert configs["popular"]["backend"] == "python"
    assert "raw/server0/index.json" in names


def test_the_command_captures_a_server_and_a_running_app(
    overloaded: tuple[Lab, Runtime], tmp_path: Path, capsys: pytest.CaptureFixture[str], until: Until
) -> None:
    lab, _watched = overloaded
    metrics_url = lab.metrics_urls[0]
    path = tmp_path / "read.zip"
    arguments = ["--url", lab.http_urls[0], "--metrics-url", metrics_url, "--window", "4"]
    assert capture([*arguments, "--out", str(path)]) == 0
    assert "python -m triage replay" in capsys.readouterr().out
    opened = Opened(read(path))
    assert [one.key.name for one in opened.inventory().models] == ["popular"]
    [row] = opened.report().models
    assert (row.signals.number("requests_per_second") or 0.0) > 0.0

    [port] = free_ports(1)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITONSCOPE_")}
    environment |= {"TRITONSCOPE_INCIDENT": str(path), "TRITONSCOPE_APP_PORT": str(port)}
    app = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=environment)
    try:
        until(lambda: answers(f"http://127.0.0.1:{port}/healthz"), 60)
        again = tmp_path / "again.zip"
        assert capture(["--app-url", f"127.0.0.1:{port}", "--out", str(again)]) == 0
        assert recorded_findings(again)["findings"] == recorded_findings(path)["findings"]
        page = requests.get(f"http://127.0.0.1:{port}/incident.html", timeout=30)
        assert page.status_code == 200 and "popular" in page.text
        assert requests.get(f"http://127.0.0.1:{port}/incident.zip?minutes=x", timeout=30).status_code == 400
    finally:
        app.terminate()
        app.wait(20)


def answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=2).status_code == 200
    except requests.RequestException:
        return False


# ---- elsewhere, and later: the last test, for it ends the server


def test_a_fresh_clone_without_any_server_replays_the_same(
    overloaded: tuple[Lab, Runtime], incident: Path, tmp_path: Path
) -> None:
    lab, _watched = overloaded
    clone, kept = tmp_path / "clone", tmp_path / "from the ticket.zip"
    make_clone(clone)
    shutil.copyfile(incident, kept)
    for sandbox in lab.sandboxes:
        sandbox.stop()
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{lab.http_urls[0]}/v2/health/live", timeout=5)
    where = run_in(clone, "-c", "import runtime, signals, triage; print(runtime, signals, triage)")
    assert where.stdout.count(f"{clone}/") == 3

    ended = run_in(clone, "-m", "triage", "--incident", str(kept), "--json")
    recorded = recorded_findings(kept)
    assert (ended.returncode, ended.stderr) == (1, "")
    assert json.loads(ended.stdout) == recorded
    first = recorded["findings"][0]
    assert (first["rule"], first["model"]) == ("QueueDominates", "popular")

    drawn = run_in(clone, "-c", OVERVIEW, TRITONSCOPE_INCIDENT=str(kept))
    assert drawn.returncode == 0, drawn.stderr
    panels = json.loads(drawn.stdout.splitlines()[-1])
    words = [" ".join(html.unescape(re.sub(r"<[^>]*>", " ", one)).split()) for one in panels]
    assert any(one.startswith(recorded["verdict"]["sentence"]) and "replay of" in one for one in words)
    told = next(one for one in words if first["sentence"] in one)
    places = [told.find(one["sentence"]) for one in recorded["findings"]]
    assert all(place > places[0] for place in places[1:])


def make_clone(folder: Path) -> None:
    """What git tracks, as it is here now; where there is no repository, all files that it would track."""
    if not (ROOT / ".git").exists():
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*NOT_TRACKED))
        return
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True, timeout=60)
    changed = subprocess.run(
        ["git", "diff", "--name-only", "-z", "--diff-filter=d", "HEAD"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    for name in filter(None, changed.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)


def run_in(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """This interpreter with its packages, and with the code of that folder alone."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("TRITONSCOPE_", "PYTHON"))
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env={**kept, "PYTHONPATH": str(folder), **variables},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
