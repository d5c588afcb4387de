"""The generated ONNX files: made once per generator version in a git-ignored cache, found from there."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from sandbox.environment import TritonInstall
from sandbox.errors import SandboxError

GENERATOR = Path(__file__).parent / "models" / "onnx" / "generate.py"
GENERATED_MODELS = ("resnet18", "label_head")
GENERATE_SECONDS = 120.0


def cached_onnx_files(
    install: TritonInstall, project_root: Path, tell: Callable[[str], None]
) -> dict[str, Path]:
    """The ONNX file of each generated model, made now if absent; SandboxError if that fails."""
    version = hashlib.sha256(GENERATOR.read_bytes()).hexdigest()[:12]
    folder = project_root / ".cache" / "onnx" / version
    files = {name: folder / f"{name}.onnx" for name in GENERATED_MODELS}
    if not all(path.is_file() for path in files.values()):
        tell("generating resnet18 and label_head (ONNX, seeded random weights)")
        _generate(install, folder)
        # Git ignores what the cache holds without anyone having to list it.
        (project_root / ".cache" / ".gitignore").write_text("*\n", encoding="utf-8")
    return files


def place_onnx_files(files: dict[str, Path], repository: Path) -> list[Path]:
    """Copy each file to <repository>/<model>/1/model.onnx for the GPU container; returns the places."""
    placed = []
    for name, source in files.items():
        target = repository / name / "1" / "model.onnx"
        if not target.parent.parent.is_dir():
            raise SandboxError(
                f"{repository} has no model {name}: name the project's model_repository folder."
            )
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, target)
        placed.append(target)
    return placed


def _generate(install: TritonInstall, folder: Path) -> None:
    command = [str(install.python), str(GENERATOR), str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GENERATE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise SandboxError(
            f"Generating the ONNX models took longer than {GENERATE_SECONDS:.0f} s: "
            "free some CPU and start again."
        ) from None
    if done.returncode != 0:
        last_line = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise SandboxError(
            f"Generating the ONNX models failed: {last_line}. Run `make setup` and start again."
        )
