"""Where the embedded Triton lives: its virtual environment, binary, libraries, and the child's environment.

The wheel nvidia-pytriton carries NVIDIA's own tritonserver with the python backend and the local response
cache. Its python stub must match the interpreter's version, finds libcudart only through LD_LIBRARY_PATH, and
imports numpy and the models' packages from the virtual environment named by PATH.
"""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import SandboxError, UnsupportedPlatformError
from sandbox.options import (
    APP_PORT_SETTING,
    DEFAULT_APP_PORT,
    DEFAULT_PORTS,
    PORTS_SETTING,
    PROJECT_ROOT,
    parse_ports,
)

VENV_SETTING = "TRITONSCOPE_TRITON_VENV"
MINIMUM_GLIBC = (2, 35)


@dataclass(frozen=True, slots=True)
class TritonInstall:
    """An installed wheel: the environment's root and its site-packages."""

    venv: Path
    site_packages: Path

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.venv / "bin" / "python"

    @property
    def server(self) -> Path:
        """The tritonserver binary; it runs in place, since its RPATH finds the libraries beside it."""
        return self.site_packages / "pytriton" / "tritonserver" / "bin" / "tritonserver"

    @property
    def libraries(self) -> Path:
        """The shared libraries that the python stub needs in LD_LIBRARY_PATH."""
        return self.site_packages / "nvidia_pytriton.libs"

    @property
    def caches(self) -> Path:
        """The folder of response cache implementations."""
        return self.site_packages / "pytriton" / "tritonserver" / "caches"

    @property
    def python_version(self) -> str:
        """The interpreter's version as the stubs' folders write it, such as "3.11"."""
        return self.site_packages.parent.name.removeprefix("python")

    def place_backends(self, folder: Path) -> Path:
        """Make the backends folder, the wheel's files as links and the stub of this Python; returns it."""
        triton = self.site_packages / "pytriton" / "tritonserver"
        stub = triton / "python_backend_stubs" / self.python_version / "triton_python_backend_stub"
        if not stub.is_file():
            raise SandboxError(
                f"The tritonserver wheel has no python stub for Python {self.python_version}: "
                "make .venv-triton anew with Python 3.11 or 3.12 (make setup)."
            )
        target = folder / "python"
        target.mkdir(parents=True)
        for source in (triton / "backends" / "python").iterdir():
            (target / source.name).symlink_to(source)
        # A copy: the stub looks for its own folder through /proc/self/exe, which a link would lead elsewhere.
        shutil.copy2(stub, target / "triton_python_backend_stub")
        return folder

    def child_environment(self, *, real_gpu: bool = False) -> dict[str, str]:
        """The environment of tritonserver: ours, the virtual environment active, a GPU only if wanted."""
        child = dict(os.environ)
        for name in ("PYTHONPATH", "PYTHONHOME"):
            child.pop(name, None)
        child["VIRTUAL_ENV"] = str(self.venv)
        child["PATH"] = os.pathsep.join([str(self.venv / "bin"), child.get("PATH", os.defpath)])
        inherited = [child["LD_LIBRARY_PATH"]] if child.get("LD_LIBRARY_PATH") else []
        child["LD_LIBRARY_PATH"] = os.pathsep.join([str(self.libraries), *inherited])
        # The sandbox touches no real GPU: its models run on the CPU and its GPU figures are simulated.
        if not real_gpu:
            child["TRITON_SERVER_CPU_ONLY"] = "1"
        # Idle math-library threads of a dozen stubs would spin on small machines.
        child.setdefault("OMP_NUM_THREADS", "1")
        child["PYTHONDONTWRITEBYTECODE"] = "1"
        return child


def check_platform() -> None:
    """UnsupportedPlatformError, in one sentence, unless this is x86-64 Linux with a recent enough glibc."""
    library, version = platform.libc_ver()
    system = f"{platform.system()} {platform.machine()}" + (f" {library} {version}" if library else "")
    recent = library == "glibc" and tuple(int(part) for part in version.split(".")[:2]) >= MINIMUM_GLIBC
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64") or not recent:
        raise UnsupportedPlatformError(
            f"The embedded tritonserver needs x86-64 Linux with glibc 2.35 or newer and this is {system}: "
            "use `docker compose up` instead."
        )


def find_install(project_root: Path = PROJECT_ROOT) -> TritonInstall:
    """The embedded Triton beside the project, or where TRITONSCOPE_TRITON_VENV says; else SandboxError."""
    check_platform()
    venv = Path(os.environ.get(VENV_SETTING) or project_root / ".venv-triton").absolute()
    for site_packages in sorted(venv.glob("lib/python3.*/site-packages")):
        install = TritonInstall(venv, site_packages)
        if install.server.is_file():
            return install
    raise SandboxError(
        f"No embedded tritonserver in {venv}: run `make setup`, or set {VENV_SETTING} to a virtual "
        "environment made from requirements/triton.lock."
    )


def ports_from_environment() -> tuple[int, int, int]:
    """Triton's ports (http, grpc, metrics): TRITONSCOPE_SANDBOX_PORTS, else 8000, 8001, 8002."""
    text = os.environ.get(PORTS_SETTING, "").strip()
    return parse_ports(text) if text else DEFAULT_PORTS


def app_port_from_environment() -> int:
    """The app's port: TRITONSCOPE_APP_PORT, else 8501; SandboxError if it is not a port number."""
    text = os.environ.get(APP_PORT_SETTING, "").strip()
    if not text:
        return DEFAULT_APP_PORT
    if not text.isdigit() or int(text) > 65535:
        raise SandboxError(f"{APP_PORT_SETTING} must be a port number, for example 8501; it is {text!r}.")
    return int(text)
