"""The end of the sandbox, polite or not: nothing is left behind. And `python -m sandbox run` as a whole."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from sandbox import PortTakenError, Sandbox, SandboxOptions, free_ports
from sandbox.__main__ import main
from sandbox.launcher import STATE_FILE, TRAFFIC_FILE, write_json
from sandbox.options import PROJECT_ROOT
from sandbox.ports import is_taken
from sandbox.processes import group_members
from sandbox.run_folder import SHARED_MEMORY, remove_abandoned, shared_memory_prefix

pytestmark = pytest.mark.integration


def states(triton: Sandbox) -> dict[str, str | None]:
    index = requests.post(f"{triton.http_url}/v2/repository/index", timeout=5).json()
    return {entry["name"]: entry.get("state") for entry in index}


def shared_memory(key: str) -> list[Path]:
    return list(SHARED_MEMORY.glob(f"{shared_memory_prefix(key)}*"))


@pytest.fixture(scope="module")
def small() -> Iterator[Sandbox]:
    """A server with one model, to be killed."""
    options = SandboxOptions(
        http_port=0,
        grpc_port=0,
        metrics_port=0,
        models=("batch_add_model",),
        simulated_gpu=False,
    )
    with Sandbox(options) as server:
        yield server


class TestLife:
    def test_a_taken_port_is_named_with_the_setting_to_change(self, triton: Sandbox) -> None:
        port = int(triton.metrics_url.rpartition(":")[2].removesuffix("/metrics"))
        with pytest.raises(PortTakenError, match=f"Port {port}, .* metrics.* TRITONSCOPE_SANDBOX_PORTS"):
            Sandbox(SandboxOptions(http_port=0, grpc_port=0, metrics_port=port)).start()

    def test_killed_it_leaves_no_stub_and_restarts_under_the_same_id(
        self, small: Sandbox, until: Any
    ) -> None:
        before, name = small.pid, small.server_id
        regions = len(shared_memory(name.removeprefix("tritonscope-")))
        assert len(group_members(before)) > 1
        small.kill(signal.SIGKILL)
        assert small.wait_ended() == -signal.SIGKILL
        assert not small.running
        until(lambda: not group_members(before))
        small.restart()
        assert small.pid != before
        assert requests.get(f"{small.http_url}/v2", timeout=5).json()["name"] == name
        assert states(small)["batch_add_model"] == "READY"
        # The killed server left its shared memory; the restart removed it.
        assert len(shared_memory(name.removeprefix("tritonscope-"))) == regions == 1

    def test_stopped_by_a_signal_it_still_ends_without_leftovers(self, small: Sandbox) -> None:
        ports = [
            int(url.rpartition(":")[2].removesuffix("/metrics"))
            for url in (small.http_url, small.grpc_url, small.metrics_url)
        ]
        folder, group, key = small.run_folder, small.pid, small.server_id.removeprefix("tritonscope-")
        assert shared_memory(key)
        small.kill(signal.SIGSTOP)
        small.close()
        assert group_members(group) == []
        assert shared_memory(key) == []
        assert not folder.exists()
        assert [port for port in ports if is_taken(port)] == []


class Run:
    """`python -m sandbox run` with a web server in the app's place, in a temporary folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = free_ports(4)
        environment = dict(os.environ)
        environment["TMPDIR"] = str(folder)
        environment["TRITONSCOPE_SANDBOX_PORTS"] = ",".join(str(port) for port in self.ports[:3])
        environment["TRITONSCOPE_APP_PORT"] = str(self.ports[3])
        app = f"{sys.executable} -m http.server {{port}} --bind 127.0.0.1 --directory {folder}"
        self.words = (folder / "words").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sandbox", "run", "--app-command", app],
            cwd=PROJECT_ROOT,
            env=environment,
            stdout=self.words,
            stderr=self.words,
            start_new_session=True,
        )

    def state(self) -> dict[str, Any]:
        """The content of state.json; empty while there is none."""
        for path in self.folder.glob(f"tritonscope-sandbox-*/{STATE_FILE}"):
            return dict(json.loads(path.read_text()))
        return {}

    def app_answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[3], timeout=2)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def descendants(self) -> list[int]:
        """The living processes that work in or know this run's folder."""
        found = []
        for line in subprocess.run(
            ["ps", "-eo", "pid,stat,args"], capture_output=True, text=True, check=True
        ).stdout.splitlines()[1:]:
            pid, stat, arguments = line.split(None, 2)
            marks = (str(self.folder), f"http://127.0.0.1:{self.ports[0]}")
            if not stat.startswith("Z") and any(mark in arguments for mark in marks):
                found.append(int(pid))
        return found

    def told(self) -> str:
        return (self.folder / "words").read_text()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    started = Run(tmp_path)
    yield started
    if started.process.poll() is None:
        # Politely, so that a test that is done with it leaves no shared memory.
        started.process.terminate()
        started.process.wait(30)
    started.words.close()


class TestRun:
    def test_it_serves_switches_traffic_survives_triton_and_ends_with_one_signal(
        self, run: Run, until: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(run.folder))
        until(run.app_answers, 60)
        state = until(lambda: run.state().get("traffic_running") and run.state(), 60)
        assert state["traffic_running"] == state["traffic_wanted"] == "healthy"
        assert set(state["traffic_profiles"]) == {"healthy", "burst", "unbatched", "overload", "idle"}
        assert requests.get(f"{state['http_url']}/v2", timeout=5).json()["name"] == state["server_id"]
        folder = Path(state["log_path"]).parent
        key = state["server_id"].removeprefix("tritonscope-")

        write_json(folder / TRAFFIC_FILE, {"profile": "idle"})
        until(lambda: run.state()["traffic_running"] is None and run.state()["traffic_wanted"] == "idle", 10)

        os.kill(state["server_pid"], signal.SIGKILL)
        until(lambda: run.state()["server_running"] is False, 10)
        assert run.app_answers()
        assert "python -m sandbox restart" in run.told()
        assert main(["restart", "--http-port", str(run.ports[0])]) == 0
        until(lambda: run.state()["server_running"] and run.state()["server_pid"] != state["server_pid"], 60)

        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(30) == 0
        assert run.descendants() == []
        assert shared_memory(key) == []
        assert not folder.exists()
        assert [port for port in run.ports if is_taken(port)] == []

    def test_killed_it_takes_everything_with_it_and_the_next_run_tidies_up(
        self, run: Run, until: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        until(run.app_answers, 60)
        folder = Path(run.state()["log_path"]).parent
        key = run.state()["server_id"].removeprefix("tritonscope-")
        run.process.kill()
        run.process.wait()
        until(lambda: run.descendants() == [])
        assert [port for port in run.ports if is_taken(port)] == []
        assert folder.exists()
        monkeypatch.setattr("tempfile.tempdir", str(run.folder))
        remove_abandoned()
        assert not folder.exists()
        assert shared_memory(key) == []

    def test_a_restart_reaches_only_the_run_on_its_port(
        self, run: Run, until: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(run.folder))
        state = until(lambda: run.state().get("server_ready") and run.state(), 60)
        other_port = run.ports[1]
        assert main(["restart", "--http-port", str(other_port)]) == 2
        assert f"No sandbox of yours serves HTTP on port {other_port}" in capsys.readouterr().err
        assert run.state()["server_pid"] == state["server_pid"]
        assert "restarting" not in run.told()

    def test_a_taken_app_port_is_named_with_its_setting(self, triton: Sandbox, tmp_path: Path) -> None:
        taken = triton.http_url.rpartition(":")[2]
        environment = dict(os.environ, TRITONSCOPE_APP_PORT=taken, TRITONSCOPE_SANDBOX_PORTS="0,0,0")
        done = subprocess.run(
            [sys.executable, "-m", "sandbox", "run"],
            cwd=PROJECT_ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 2
        assert f"Port {taken}" in done.stderr
        assert "TRITONSCOPE_APP_PORT" in done.stderr
        assert "Traceback" not in done.stderr
