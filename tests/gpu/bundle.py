"""Everything that tests/gpu/check.py needs, in one file, for a machine without a network.

    python -m tests.gpu.bundle .gpu        writes .gpu/bundle.tar.xz (about 45 MB), which git ignores
    sh tests/gpu/run.sh .gpu/bundle.tar.xz on the other machine, beside a checkout of the same commit

In it: this Python, NVIDIA's tritonserver with its libraries (CUDA's runtime and DCGM among them) from
.venv-triton, numpy, and the few packages of the check. The other machine brings x86-64 Linux with a C library
that is not older than this one's, and NVIDIA's driver.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

from sandbox.environment import TritonInstall, find_install

NAME = "bundle.tar.xz"
PACKAGES = ("requests", "urllib3", "certifi", "idna", "charset_normalizer", "pynvml")
LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", "test", "tests", "idlelib", "tkinter", "ensurepip", "config-*", "site-packages", "lib2to3",
    "turtledemo", "*.a", "*.exe", "libpython3-*",
)  # fmt: skip


def main(arguments: list[str]) -> int:
    """Write the bundle into the folder named."""
    if len(arguments) != 1:
        print(__doc__)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "bundle"
        install = find_install()
        _place_python(root / "python", install)
        _place_triton(root / "venv", install)
        with tarfile.open(folder / NAME, "w:xz", preset=6) as archive:
            archive.add(root, "bundle")
    size = (folder / NAME).stat().st_size
    print(f"{folder / NAME}: {size / 1e6:.0f} MB, for a C library from {platform.libc_ver()[1]} on")
    return 0


def _place_python(root: Path, install: TritonInstall) -> None:
    """The interpreter and its library, without what nothing here imports."""
    version = install.python_version
    if f"{sys.version_info.major}.{sys.version_info.minor}" != version:
        raise SystemExit(f"run this with Python {version}, as {install.venv} has it")
    base = Path(sys.base_prefix)
    (root / "bin").mkdir(parents=True)
    shutil.copy2(base / "bin" / f"python{version}", root / "bin" / f"python{version}")
    shutil.copytree(base / "lib" / f"python{version}", root / "lib" / f"python{version}", ignore=LEFT_OUT)
    shared = Path(str(sysconfig.get_config_var("LIBDIR"))) / str(sysconfig.get_config_var("INSTSONAME"))
    if shared.suffix != ".a":
        shutil.copy2(shared, root / "lib" / shared.name)
        _strip(root / "lib" / shared.name)


def _place_triton(root: Path, install: TritonInstall) -> None:
    """The server, its libraries and the stub of this Python; numpy of its own age; what the check imports."""
    target = root / "lib" / f"python{install.python_version}" / "site-packages"
    triton = Path("pytriton") / "tritonserver"
    stub = triton / "python_backend_stubs" / install.python_version
    for part in (triton / "bin", triton / "backends", stub, Path("nvidia_pytriton.libs")):
        shutil.copytree(install.site_packages / part, target / part, ignore=LEFT_OUT)
    for package in ("numpy", "numpy.libs"):
        shutil.copytree(install.site_packages / package, target / package, ignore=LEFT_OUT)
    for package in PACKAGES:
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            raise SystemExit(f"{package} is not installed here")
        source = Path(found.origin)
        if source.name == "__init__.py":
            shutil.copytree(source.parent, target / package, ignore=LEFT_OUT)
        else:
            shutil.copy2(source, target / source.name)


def _strip(library: Path) -> None:
    """Symbols for debuggers are most of it; without the tool it only stays larger."""
    if (tool := shutil.which("strip")) is not None:
        subprocess.run([tool, "--strip-unneeded", str(library)], check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
