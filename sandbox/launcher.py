"""`python -m sandbox run`: Triton, traffic and the app together, ended together.

Files in the run's folder, whose state file the app finds through TRITONSCOPE_SANDBOX_STATE:

state.json     written here, atomically, whenever something in it changes; read by the app:
    {"server_id": "tritonscope-1a2b3c4d",        this tritonserver's --id: `GET /v2` answers it as name
     "http_url": "http://127.0.0.1:8000", "grpc_url": "127.0.0.1:8001",
     "metrics_url": "http://127.0.0.1:8002/metrics",
     "server_running": true,                     whether the tritonserver process lives
     "server_ready": true,                       and has tried all its start-up models: it answers
     "server_pid": 4711, "launcher_pid": 4700,
     "log_path": "/tmp/.../triton.log",          what tritonserver writes
     "repository_path": "/tmp/.../models",       its working repository
     "golden_path": "/tmp/.../golden",           requests with known answers, which the app sends
     "traffic_wanted": "healthy",                the profile last asked for
     "traffic_running": "healthy",               the profile being sent; null if none (idle, or it ended)
     "traffic_profiles": {"healthy": "a gentle mix ...", ...}}
traffic.json   written by the app, at once (by rename); obeyed within a second, then removed:
    {"profile": "idle"}                         a name of traffic_profiles; anything else is said and ignored

Signals: SIGINT, SIGTERM and SIGHUP end everything; SIGUSR1 restarts Triton (`python -m sandbox restart`).
Triton is never restarted unasked: an app that shows what happened to it is the point of the sandbox.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from sandbox.errors import PortTakenError, SandboxError
from sandbox.options import APP_PORT_SETTING, HOST, PROJECT_ROOT, SandboxOptions
from sandbox.ports import free_ports, is_taken
from sandbox.processes import end_group, start_bound
from sandbox.run_folder import living_run_folders
from sandbox.server import Sandbox
from sandbox.traffic import TrafficProcess
from sandbox.traffic_profiles import DEFAULT_PROFILE, PROFILES
from settings import SANDBOX_ID

STATE_VARIABLE = "TRITONSCOPE_SANDBOX_STATE"
STATE_FILE = "state.json"
GOLDEN_FOLDER = "golden"
TRAFFIC_FILE = "traffic.json"
LOOK_SECONDS = 0.25
APP_STOP_SECONDS = 10.0
APP_START_SECONDS = 60.0
# {port} is replaced by the app's port.
DEFAULT_APP_COMMAND = (
    f"{shlex.quote(sys.executable)} -m streamlit run app.py --server.address {HOST} --server.port {{port}} "
    "--server.headless true"
)


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What `run` starts: the sandbox, the app's command and port and the first traffic profile.

    Port 0 means a free one. `app_command` is split like a shell line, {port} in it becomes the port; empty
    means no app.
    """

    sandbox: SandboxOptions
    app_port: int
    app_command: str = DEFAULT_APP_COMMAND
    profile: str = DEFAULT_PROFILE
    rate_scale: float = 1.0


@dataclass(frozen=True, slots=True)
class State:
    """The content of state.json, as this module's text explains it."""

    server_id: str
    http_url: str
    grpc_url: str
    metrics_url: str
    server_running: bool
    server_ready: bool
    server_pid: int
    launcher_pid: int
    log_path: str
    repository_path: str
    golden_path: str
    traffic_wanted: str
    traffic_running: str | None
    traffic_profiles: dict[str, str]


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace a JSON file at once, so that a reader sees the old or the new one, never a part."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


class Launcher:
    """One run of Triton, traffic and app; `run()` returns when all of them have ended."""

    def __init__(self, options: LaunchOptions) -> None:
        """Prepare without starting."""
        self._options = options
        self._ended = threading.Event()
        self._restart = threading.Event()
        self._triton = Sandbox(options.sandbox, tell=self._tell, interrupted=self._ended)
        self._traffic: TrafficProcess | None = None
        self._app: subprocess.Popen[bytes] | None = None
        self._wanted = options.profile
        self._written: State | None = None
        self._triton_lived = False
        self._traffic_failed = False
        self._ready = False

    def run(self) -> int:
        """Start all, watch, end all; the exit status: 0 after a signal, else the app's own."""
        self._catch_signals()
        app_port = self._choose_app_port()
        try:
            return self._run(app_port)
        except SandboxError:
            if self._ended.is_set():
                # Stopped while it was starting: that is what was asked for.
                return 0
            raise
        finally:
            self._end_all()

    def _run(self, app_port: int) -> int:
        self._triton.begin()
        self._ship_golden_requests()
        self._write_state()
        # The app needs as long to start as the models do: both at once.
        self._start_app(app_port)
        self._triton.await_ready()
        self._say_ready()
        self._traffic = TrafficProcess(
            self._triton.http_url,
            rate_scale=self._options.rate_scale,
            log_path=self._triton.run_folder / "traffic.log",
        )
        self._switch_traffic(self._options.profile)
        self._write_state()
        if self._await_app(app_port):
            self._tell(f"open http://{HOST}:{app_port} in a browser; Ctrl-C ends everything")
        return self._watch()

    def _ship_golden_requests(self) -> None:
        # It brings tensors and the write side along, while the models are loading anyway.
        from sandbox.golden_requests import ship

        models = sorted(path.name for path in self._triton.repository.iterdir())
        ship(self._triton.run_folder / GOLDEN_FOLDER, SANDBOX_ID, models)

    # Signals and words.

    def _catch_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_end)
        signal.signal(signal.SIGUSR1, self._on_restart)

    def _on_end(self, _number: int, _frame: FrameType | None) -> None:
        self._ended.set()

    def _on_restart(self, _number: int, _frame: FrameType | None) -> None:
        self._restart.set()

    def _tell(self, line: str) -> None:
        print(f"sandbox: {line}", file=sys.stderr, flush=True)

    def _say_ready(self) -> None:
        self._ready = True
        for name, reason in self._triton.not_ready().items():
            self._tell(f"model {name} is not ready ({reason})")
        self._tell(
            f"tritonserver is ready: HTTP {self._triton.http_url}, gRPC {self._triton.grpc_url}, "
            f"metrics {self._triton.metrics_url}"
        )

    # The app.

    def _choose_app_port(self) -> int:
        port = self._options.app_port or free_ports(1)[0]
        if self._options.app_command and is_taken(port):
            raise PortTakenError(
                f"Port {port}, wanted for the app, is taken by another program: end it, or set "
                f"{APP_PORT_SETTING} to a free port, for example {APP_PORT_SETTING}=18501."
            )
        return port

    def _start_app(self, port: int) -> None:
        if not self._options.app_command:
            return
        environment = dict(os.environ)
        environment[STATE_VARIABLE] = str(self._triton.run_folder / STATE_FILE)
        environment[APP_PORT_SETTING] = str(port)
        command = shlex.split(self._options.app_command.replace("{port}", str(port)))
        self._tell("starting the app")
        try:
            self._app = start_bound(command, environment=environment, folder=PROJECT_ROOT)
        except OSError as error:
            raise SandboxError(f"The app's command cannot be started: {error}.") from error

    def _await_app(self, port: int) -> bool:
        deadline = time.monotonic() + APP_START_SECONDS
        while self._app is not None and self._app.poll() is None and time.monotonic() < deadline:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                if probe.connect_ex((HOST, port)) == 0:
                    return True
            if self._ended.wait(LOOK_SECONDS):
                return False
        return False

    # Watching.

    def _watch(self) -> int:
        while not self._ended.wait(LOOK_SECONDS):
            if self._app is not None and self._app.poll() is not None:
                self._tell(f"the app ended with status {self._app.returncode}")
                return self._app.returncode
            if self._restart.is_set():
                self._restart_triton()
            self._notice_triton()
            self._obey_traffic_file()
            self._notice_traffic()
            self._write_state()
        return 0

    def _notice_triton(self) -> None:
        lives = self._triton.running
        if self._triton_lived and not lives:
            self._tell(
                f"tritonserver ({self._triton.pid}) has ended; the app goes on. "
                "`python -m sandbox restart` starts it again"
            )
        self._triton_lived = lives

    def _restart_triton(self) -> None:
        self._restart.clear()
        self._ready = False
        self._write_state()
        self._tell("restarting tritonserver")
        try:
            self._triton.restart()
            self._say_ready()
        except (SandboxError, OSError) as error:
            # Told, not raised: the app, and a later restart, go on.
            self._tell(str(error))

    def _obey_traffic_file(self) -> None:
        path = self._triton.run_folder / TRAFFIC_FILE
        if not path.exists():
            return
        try:
            asked = json.loads(path.read_text(encoding="utf-8"))
            profile = asked.get("profile") if isinstance(asked, dict) else None
        except ValueError:
            profile = None
        path.unlink()
        if profile in PROFILES:
            self._switch_traffic(profile)
        else:
            self._tell(f'{TRAFFIC_FILE} must hold one of {", ".join(PROFILES)} as "profile": ignored')

    def _switch_traffic(self, profile: str) -> None:
        self._wanted = profile
        self._traffic_failed = False
        if self._traffic is not None:
            self._traffic.start(profile)
            self._tell(f"traffic: {profile} ({PROFILES[profile].text})")

    def _notice_traffic(self) -> None:
        dead = (
            self._traffic is not None and bool(PROFILES[self._wanted].streams) and not self._traffic.running
        )
        if dead and not self._traffic_failed:
            self._tell("the traffic process has ended by itself; choose a profile again to start it")
        self._traffic_failed = dead

    def _write_state(self) -> None:
        traffic = self._traffic
        state = State(
            server_id=self._triton.server_id,
            http_url=self._triton.http_url,
            grpc_url=self._triton.grpc_url,
            metrics_url=self._triton.metrics_url,
            server_running=self._triton.running,
            server_ready=self._ready and self._triton.running,
            server_pid=self._triton.pid,
            launcher_pid=os.getpid(),
            log_path=str(self._triton.log_path),
            repository_path=str(self._triton.repository),
            golden_path=str(self._triton.run_folder / GOLDEN_FOLDER),
            traffic_wanted=self._wanted,
            traffic_running=traffic.profile if traffic is not None and traffic.running else None,
            traffic_profiles={name: profile.text for name, profile in PROFILES.items()},
        )
        if state != self._written:
            write_json(self._triton.run_folder / STATE_FILE, asdict(state))
            self._written = state

    def _end_all(self) -> None:
        if self._written is None:
            # Nothing has begun, nobody wants to hear of an end.
            self._triton.close()
            return
        self._tell("ending the app, the traffic and tritonserver")
        if self._app is not None:
            end_group(self._app, APP_STOP_SECONDS)
        if self._traffic is not None:
            self._traffic.stop()
        self._triton.close()
        self._tell("everything has ended")


def restart_running(http_port: int) -> int:
    """Ask the launcher whose Triton serves HTTP on this port to restart it; its process id.

    Other runs on the machine, which may be somebody else's work, are not touched. SandboxError if there is
    no such run.
    """
    for folder in living_run_folders():
        path = folder / STATE_FILE
        if not path.is_file():
            continue
        state = json.loads(path.read_text(encoding="utf-8"))
        if state["http_url"] == f"http://{HOST}:{http_port}":
            launcher_pid = int(state["launcher_pid"])
            os.kill(launcher_pid, signal.SIGUSR1)
            return launcher_pid
    raise SandboxError(
        f"No sandbox of yours serves HTTP on port {http_port}: start one with `make run`, or name the first "
        "of its ports with --http-port."
    )
