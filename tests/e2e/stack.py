"""`make run` as a test sees it: the launcher as a child process, its state file, its app, ended by signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import requests

from sandbox.ports import free_ports
from sandbox.processes import end_group, start_bound
from sandbox.run_folder import living_run_folders

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 120.0
Result = TypeVar("Result")


def until(condition: Callable[[], Result], what: str, seconds: float = 30.0) -> Result:
    """The first true value of `condition`; AssertionError naming `what` if there is none in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds:g} s: {what}")


@dataclass
class Stack:
    """The running sandbox with its app. Addresses have no trailing slash."""

    process: subprocess.Popen[bytes]
    app_url: str
    output: Path

    def state(self) -> dict[str, Any]:
        """The launcher's state file."""
        for folder in living_run_folders():
            path = folder / "state.json"
            if path.is_file():
                state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
                if state["launcher_pid"] == self.process.pid:
                    return state
        raise AssertionError(f"the launcher has no state file; it said:\n{self.output.read_text()}")

    def health(self) -> dict[str, Any]:
        """The app's /healthz."""
        answer: dict[str, Any] = requests.get(f"{self.app_url}/healthz", timeout=5).json()
        return answer

    def signal_triton(self, number: signal.Signals) -> None:
        """Send a signal to tritonserver alone, as an accident would."""
        os.kill(self.state()["server_pid"], number)

    def restart_triton(self) -> None:
        """Start tritonserver again and wait until its models are loaded."""
        before = self.state()["server_pid"]
        os.kill(self.process.pid, signal.SIGUSR1)
        until(
            lambda: self.state()["server_running"] and self.state()["server_pid"] != before,
            "a new tritonserver",
        )
        until(self.serves, "all models READY again", 60)

    def serves(self) -> bool:
        """Triton is there and all its models are READY."""
        try:
            return requests.get(f"{self.state()['http_url']}/v2/health/ready", timeout=2).status_code == 200
        except requests.RequestException:
            return False

    def end(self) -> int:
        """One Ctrl-C; the launcher's exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


def start_stack(folder: Path, **environment: str) -> Stack:
    """`python -m sandbox run` on free ports; returns when app and server answer."""
    app_port, *triton_ports = free_ports(4)
    output = folder / "launcher.log"
    variables = {
        **os.environ,
        "TRITONSCOPE_APP_PORT": str(app_port),
        "TRITONSCOPE_SANDBOX_PORTS": ",".join(str(port) for port in triton_ports),
        **environment,
    }
    with output.open("wb") as log:
        process = start_bound(
            [sys.executable, "-m", "sandbox", "run"], folder=ROOT, environment=variables, output=log
        )
    stack = Stack(process, f"http://127.0.0.1:{app_port}", output)

    def answers() -> bool:
        assert process.poll() is None, f"the launcher ended:\n{output.read_text()}"
        try:
            return bool(stack.health()["servers"])
        except (requests.RequestException, ValueError, KeyError):
            return False

    try:
        until(answers, f"the app answers; see {output}", START_SECONDS)
    except BaseException:
        end_group(process, 20.0)
        raise
    return stack
