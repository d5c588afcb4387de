"""The embedded tritonserver as a context manager: started, awaited, restarted, stopped, nothing left."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from sandbox.environment import TritonInstall, find_install
from sandbox.errors import SandboxError
from sandbox.onnx_files import cached_onnx_files
from sandbox.options import HOST, SandboxOptions
from sandbox.ports import choose_ports
from sandbox.processes import end_group, start_bound
from sandbox.repository import GPU_SIMULATOR, choose_models, place_model
from sandbox.run_folder import RunFolder

_POLL_SECONDS = 0.05
_CALL_SECONDS = 5.0
# On SIGTERM tritonserver waits so long for kept connections to close: browsers and scrapers never do.
_EXIT_TIMEOUT_SECONDS = 3


def _silent(_line: str) -> None:
    """Hear nothing."""


class Sandbox:
    """NVIDIA's real tritonserver with a working copy of the example models.

    with Sandbox(SandboxOptions(http_port=0, grpc_port=0, metrics_port=0)) as triton:
        requests.get(f"{triton.http_url}/v2")

    Entering raises SandboxError with one sentence if it cannot start. A model that fails to load does not end
    the server: `not_ready()` names it.
    """

    def __init__(
        self,
        options: SandboxOptions | None = None,
        tell: Callable[[str], None] = _silent,
        interrupted: threading.Event | None = None,
    ) -> None:
        """Prepare without starting; `tell` hears one line per step, `interrupted` breaks off a start."""
        self._interrupted = interrupted or threading.Event()
        self.options = options or SandboxOptions()
        self._tell = tell
        self._install: TritonInstall | None = None
        self._run: RunFolder | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ports = (0, 0, 0)
        self._onnx_files: dict[str, Path] = {}
        self._loaded_at_start: list[str] = []
        self._log_start = 0
        self.stopped_in_time = True

    def __enter__(self) -> Self:
        """Start and wait until the models are loaded."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and remove the run's folder and shared memory."""
        self.close()

    # What a user of it needs to know.

    @property
    def http_url(self) -> str:
        """The address of the HTTP endpoint, without a slash at the end."""
        return f"http://{HOST}:{self._ports[0]}"

    @property
    def grpc_url(self) -> str:
        """The address of the gRPC endpoint as gRPC clients write it, host:port."""
        return f"{HOST}:{self._ports[1]}"

    @property
    def metrics_url(self) -> str:
        """The address of the metrics page."""
        return f"http://{HOST}:{self._ports[2]}/metrics"

    @property
    def server_id(self) -> str:
        """The random --id of this run, which `GET /v2` answers as `name`; kept across restart()."""
        return f"tritonscope-{self._folder.key}"

    @property
    def pid(self) -> int:
        """The process id of tritonserver; of the last one if it has ended."""
        if self._process is None:
            raise SandboxError("The sandbox has not been started.")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the tritonserver process lives (also when it is stopped by a signal)."""
        return self._process is not None and self._process.poll() is None

    @property
    def run_folder(self) -> Path:
        """The temporary folder of this run."""
        return self._folder.path

    @property
    def log_path(self) -> Path:
        """What tritonserver has written; restarts append."""
        return self._folder.path / "triton.log"

    @property
    def repository(self) -> Path:
        """The working repository; a model folder put here can be loaded."""
        return self._folder.path / "models"

    # Its life.

    def start(self) -> None:
        """Make the working repository, start the server and wait for it; SandboxError if that fails."""
        try:
            self.begin()
            self.await_ready()
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """The part of `start` that does not wait: addresses, id and pid are known then; close() is due."""
        if self._run is not None:
            raise SandboxError("The sandbox is already started: use restart().")
        self._install = find_install(self.options.project_root)
        self._ports = choose_ports(self.options)
        if self.options.onnx_files:
            self._onnx_files = cached_onnx_files(self._install, self.options.project_root, self._tell)
        self._run = RunFolder()
        self._fill_run_folder(self._install)
        self._launch()

    def await_ready(self) -> None:
        """Wait for the HTTP endpoint, which opens when all start-up models are tried; SandboxError if not."""
        deadline = time.monotonic() + self.options.start_seconds
        while time.monotonic() < deadline:
            if self._interrupted.is_set():
                raise SandboxError("The start was interrupted.")
            if not self.running:
                raise SandboxError(f"tritonserver ended while starting: {self._last_error()}")
            if self._listens():
                return
            time.sleep(_POLL_SECONDS)
        raise SandboxError(
            f"tritonserver did not answer within {self.options.start_seconds:g} s: {self._last_error()}"
        )

    def stop(self) -> None:
        """SIGTERM, wait, then SIGKILL; the repository and the log stay for restart()."""
        if self._process is not None:
            self.stopped_in_time = end_group(self._process, self.options.stop_seconds)
            # A server that ends with connections open leaves its regions, and restarts would add them up.
            self._folder.remove_shared_memory()

    def restart(self) -> None:
        """Stop if it runs, and start again on the same ports, with the same id and repository."""
        self.stop()
        self._launch()
        self.await_ready()

    def kill(self, number: signal.Signals) -> None:
        """Send any signal to tritonserver alone (SIGKILL, SIGSTOP, SIGCONT ...), as an accident would."""
        os.kill(self.pid, number)

    def wait_ended(self, seconds: float = 10.0) -> int:
        """Wait for tritonserver's end; its return code (negative: a signal). SandboxError if it lives on."""
        if self._process is None:
            raise SandboxError("The sandbox has not been started.")
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise SandboxError(f"tritonserver ({self.pid}) still runs after {seconds:g} s.") from None

    def close(self) -> None:
        """Stop and remove the run's folder and shared memory; safe to call twice."""
        if self._run is None:
            return
        self.stop()
        self._run.remove()
        self._run = None

    # Its models.

    def add_model(
        self, source: Path, *, name: str | None = None, parameters: Mapping[str, str] | None = None
    ) -> str:
        """Put a model folder into the working repository without loading it; returns its name there.

        `name` renames it, `parameters` replaces config parameters (strings).
        """
        return place_model(source, self.repository, self._onnx_files, name=name, parameters=parameters).name

    def not_ready(self) -> dict[str, str]:
        """The models that were to be loaded at start and are not READY, with the index's state and reason."""
        ready: set[str] = set()
        reasons: dict[str, str] = {}
        index: list[dict[str, str]] = json.loads(self._call("POST", "/v2/repository/index")[1])
        for entry in index:
            if entry.get("state") == "READY":
                ready.add(entry["name"])
            else:
                state = entry.get("state", "never loaded, or its config was refused")
                reasons[entry["name"]] = f"{state}: {entry['reason']}" if entry.get("reason") else state
        absent = "not in the repository index"
        return {name: reasons.get(name, absent) for name in self._loaded_at_start if name not in ready}

    # The parts of starting.

    @property
    def _folder(self) -> RunFolder:
        if self._run is None:
            raise SandboxError("The sandbox is not started.")
        return self._run

    def _fill_run_folder(self, install: TritonInstall) -> None:
        install.place_backends(self.run_folder / "backends")
        self.repository.mkdir()
        options = self.options
        models = choose_models(options.project_root, options.models, options.simulated_gpu)
        for name, source in models.items():
            parameters = {"triton_http_address": f"{HOST}:{self._ports[0]}"} if name == GPU_SIMULATOR else {}
            place_model(source, self.repository, self._onnx_files, parameters=parameters)
        for source in options.extra_models:
            place_model(source, self.repository, self._onnx_files)
        self._loaded_at_start = [*models, *(source.name for source in options.extra_models)]

    def _launch(self) -> None:
        if self._install is None:
            raise SandboxError("The sandbox is not started.")
        self._tell(f"starting tritonserver with {len(self._loaded_at_start)} models")
        with self.log_path.open("ab") as log:
            self._log_start = log.seek(0, os.SEEK_END)
            self._process = start_bound(
                self._command(self._install),
                environment=self._install.child_environment(real_gpu=self.options.real_gpu),
                output=log,
                folder=self.run_folder,
            )

    def _command(self, install: TritonInstall) -> list[str]:
        options = self.options
        http_port, grpc_port, metrics_port = (str(port) for port in self._ports)
        command = [
            str(install.server),
            f"--id={self.server_id}",
            f"--model-repository={self.repository}",
            f"--model-control-mode={options.control_mode}",
            # One bad model must not end the server.
            "--exit-on-error=false",
            f"--exit-timeout-secs={_EXIT_TIMEOUT_SECONDS}",
            f"--backend-directory={self.run_folder / 'backends'}",
            f"--backend-config=python,shm-region-prefix-name={self._folder.shared_memory_prefix}",
            *(f"--{use}-address={HOST}" for use in ("http", "grpc", "metrics")),
            f"--http-port={http_port}",
            f"--grpc-port={grpc_port}",
            f"--metrics-port={metrics_port}",
            f"--metrics-interval-ms={options.metrics_interval_ms}",
            f"--allow-gpu-metrics={str(options.real_gpu).lower()}",
        ]
        if options.control_mode == "explicit":
            command += [f"--load-model={name}" for name in self._loaded_at_start]
        if options.summary_latencies:
            command.append("--metrics-config=summary_latencies=true")
        if options.cache_bytes is not None:
            command.append(f"--cache-directory={install.caches}")
            command.append(f"--cache-config=local,size={options.cache_bytes}")
        return [*command, *options.extra_args]

    def _listens(self) -> bool:
        """Whether HTTP answers and, since it is opened last, the metrics port too."""
        try:
            if self._call("GET", "/v2/health/live")[0] != http.HTTPStatus.OK:
                return False
            if "--allow-metrics=false" in self.options.extra_args:
                return True
            socket.create_connection((HOST, self._ports[2]), timeout=_CALL_SECONDS).close()
        except OSError:
            return False
        return True

    def _last_error(self) -> str:
        """The last error tritonserver wrote since it was started last, in its own words."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            lines = log.read().decode("utf-8", errors="replace").strip().splitlines()
        # Triton's log lines begin with the level's letter; a refused option is named before the usage text.
        errors = [line for line in lines if re.match(r"E\d|error|\S*tritonserver: ", line)]
        return (errors or lines or ["its log is empty."])[-1]

    def _call(self, method: str, path: str) -> tuple[int, bytes]:
        """Status and body of one call; OSError while nobody answers."""
        connection = http.client.HTTPConnection(HOST, self._ports[0], timeout=_CALL_SECONDS)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except http.client.HTTPException as error:
            raise OSError(f"broken answer to {method} {path}: {error}") from error
        finally:
            connection.close()
