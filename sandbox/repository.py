"""The sandbox's working repository, derived at every start from model_repository/ and sandbox/models/.

Python models and ensembles are copied as they are. ONNX models become python-backend models that run the same
model.onnx through onnxruntime, on the CPU; the weights are linked, not copied. Nothing is kept twice in git.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from sandbox.errors import SandboxError

GPU_SIMULATOR = "sandbox_gpu_simulator"
ONNX_RUNNER = Path(__file__).parent / "models" / "onnx" / "runner.py"
_ONNX_BACKEND = re.compile(r'\b(backend|platform)\s*:\s*"(onnxruntime|onnxruntime_onnx)"')
_DEVICE_KIND = re.compile(r"\bKIND_(AUTO|GPU)\b")
_FAULTS = Path(__file__).parent / "models" / "faults"
# Models that go wrong on purpose, by name; never loaded unasked, see Sandbox.add_model and extra_models.
FAULT_MODELS = {config.parent.name: config.parent for config in sorted(_FAULTS.glob("*/config.pbtxt"))}
_IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc")
# Weights of ONNX models are linked.
_IGNORED_OF_ONNX = shutil.ignore_patterns("__pycache__", "*.pyc", "model.onnx")


def model_sources(project_root: Path) -> dict[str, Path]:
    """The folder of every model the sandbox offers by name, the simulated GPU included, fault models not."""
    folders = (project_root / "model_repository", Path(__file__).parent / "models")
    configs = sorted(path for folder in folders for path in folder.glob("*/config.pbtxt"))
    return {path.parent.name: path.parent for path in configs}


def choose_models(project_root: Path, wanted: tuple[str, ...] | None, simulated_gpu: bool) -> dict[str, Path]:
    """The folders of the wanted models (None = all) and their steps; SandboxError for a wrong name."""
    sources = model_sources(project_root)
    ordinary = {name: path for name, path in sources.items() if name != GPU_SIMULATOR}
    names = list(ordinary) if wanted is None else list(wanted)
    for name in names:
        if name not in ordinary:
            raise SandboxError(f"The sandbox has no model {name!r}; it has {', '.join(ordinary)}.")
        names.extend(step for step in ensemble_steps(ordinary[name]) if step not in names)
    chosen = {name: ordinary[name] for name in names}
    if simulated_gpu:
        chosen[GPU_SIMULATOR] = sources[GPU_SIMULATOR]
    return chosen


def ensemble_steps(model: Path) -> list[str]:
    """The models an ensemble's config names as its steps; empty for other models."""
    config = (model / "config.pbtxt").read_text(encoding="utf-8")
    return re.findall(r'\bmodel_name\s*:\s*"([^"]+)"', config)


def place_model(
    source: Path,
    repository: Path,
    onnx_files: Mapping[str, Path],
    *,
    name: str | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Path:
    """Derive one model into the repository; returns its folder.

    `name` renames it; `parameters` replaces or adds config parameters (strings). SandboxError if the source
    is not a model folder, if the name is already there, or if an ONNX model has no model.onnx.
    """
    if not (source / "config.pbtxt").is_file():
        raise SandboxError(f"{source} is not a model folder: it has no config.pbtxt.")
    target = repository / (name or source.name)
    if target.exists():
        raise SandboxError(
            f"The working repository already has a model {target.name!r}: choose another name."
        )
    # Made whole beside the repository and moved in at once: Triton rescans the folder whenever it is asked.
    partial = repository.parent / f"{target.name}.partial"
    config = (source / "config.pbtxt").read_text(encoding="utf-8")
    is_onnx = _ONNX_BACKEND.search(config) is not None
    shutil.copytree(source, partial, ignore=_IGNORED_OF_ONNX if is_onnx else _IGNORED)
    if is_onnx:
        _run_onnx_in_python(source, partial, onnx_files)
    config = derive_config(config, name=name, parameters=parameters or {})
    (partial / "config.pbtxt").write_text(config, encoding="utf-8")
    partial.rename(target)
    return target


def derive_config(config: str, *, name: str | None, parameters: Mapping[str, str]) -> str:
    """The working copy's config: ONNX in the python backend, on the CPU, renamed, with other parameters."""
    config = _ONNX_BACKEND.sub('backend: "python"', config)
    config = _DEVICE_KIND.sub("KIND_CPU", config)
    if name is not None:
        config = re.sub(r'^name\s*:\s*"[^"]*"', f'name: "{name}"', config, count=1, flags=re.MULTILINE)
    for key, value in parameters.items():
        config = _with_parameter(config, key, value)
    return config


def _with_parameter(config: str, key: str, value: str) -> str:
    quoted = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    opening = rf'(key\s*:\s*"{re.escape(key)}"\s*value\s*:?\s*\{{\s*string_value\s*:\s*)'
    replaced, count = re.subn(opening + r'"[^"]*"', lambda match: match[1] + quoted, config, count=1)
    if count:
        return replaced
    return f'{config}\nparameters {{ key: "{key}" value: {{ string_value: {quoted} }} }}\n'


def _run_onnx_in_python(source: Path, target: Path, onnx_files: Mapping[str, Path]) -> None:
    versions = [path for path in target.iterdir() if path.is_dir() and path.name.isdigit()]
    for version in versions:
        own = source / version.name / "model.onnx"
        weights = own if own.is_file() else onnx_files.get(source.name)
        if weights is None:
            raise SandboxError(f"The ONNX model {source.name} has no {version.name}/model.onnx.")
        (version / "model.onnx").symlink_to(weights.resolve())
        shutil.copyfile(ONNX_RUNNER, version / "model.py")
