"""What a sandbox can be told: SandboxOptions, with its defaults and their units."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sandbox.errors import SandboxError

PROJECT_ROOT = Path(__file__).resolve().parent.parent
PORTS_SETTING = "TRITONSCOPE_SANDBOX_PORTS"
DEFAULT_PORTS = (8000, 8001, 8002)
APP_PORT_SETTING = "TRITONSCOPE_APP_PORT"
DEFAULT_APP_PORT = 8501
HOST = "127.0.0.1"

ControlMode = Literal["none", "poll", "explicit"]


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """How the embedded tritonserver is started.

    A port of 0 means: take a free one. `models` names models of `model_repository/` and `sandbox/models/`
    (None = all of them); `extra_models` are folders of further models, loaded at start as well under the
    folders' names. `cache_bytes` switches Triton's response cache on. `extra_args` go to tritonserver as they
    are. `onnx_files` False makes none of the generated models' files, where none of them is used; `real_gpu`
    lets tritonserver see this machine's GPUs. `start_seconds` and `stop_seconds` bound the wait for it.
    """

    http_port: int = DEFAULT_PORTS[0]
    grpc_port: int = DEFAULT_PORTS[1]
    metrics_port: int = DEFAULT_PORTS[2]
    models: tuple[str, ...] | None = None
    extra_models: tuple[Path, ...] = ()
    simulated_gpu: bool = True
    summary_latencies: bool = True
    cache_bytes: int | None = None
    metrics_interval_ms: int = 1000
    control_mode: ControlMode = "explicit"
    extra_args: tuple[str, ...] = ()
    onnx_files: bool = True
    real_gpu: bool = False
    start_seconds: float = 90.0
    stop_seconds: float = 10.0
    project_root: Path = PROJECT_ROOT


def parse_ports(text: str) -> tuple[int, int, int]:
    """The three ports (http, grpc, metrics) written as "8000,8001,8002"; SandboxError if it is not so."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(part.isdigit() and int(part) < 65536 for part in parts):
        raise SandboxError(
            f"{PORTS_SETTING} must be three port numbers, http,grpc,metrics, for example 8000,8001,8002; "
            f"it is {text!r}."
        )
    http, grpc, metrics = (int(part) for part in parts)
    used = [port for port in (http, grpc, metrics) if port]
    if len(set(used)) != len(used):
        raise SandboxError(f"{PORTS_SETTING} names the same port twice: {text!r}.")
    return http, grpc, metrics
