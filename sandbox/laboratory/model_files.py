"""Model folders of the laboratory: the config.pbtxt of one universal model, and its switches."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MODEL_PY = Path(__file__).resolve().parents[1] / "models" / "laboratory" / "model.py"


@dataclass(frozen=True)
class Batching:
    """A dynamic_batching section; None leaves a line out. Times in us."""

    delay_us: int | None = None
    queue_size: int | None = None
    timeout_us: int | None = None
    preferred: tuple[int, ...] = ()

    def text(self) -> str:
        """As config.pbtxt has it."""
        policy = []
        if self.queue_size is not None:
            policy.append(f"max_queue_size: {self.queue_size}")
        if self.timeout_us is not None:
            policy += ["timeout_action: REJECT", f"default_timeout_microseconds: {self.timeout_us}"]
        lines = [] if self.delay_us is None else [f"max_queue_delay_microseconds: {self.delay_us}"]
        if self.preferred:
            lines.append(f"preferred_batch_size: [ {', '.join(map(str, self.preferred))} ]")
        if policy:
            lines.append(f"default_queue_policy {{ {' '.join(policy)} }}")
        return f"dynamic_batching {{ {' '.join(lines)} }}\n"


@dataclass(frozen=True)
class Model:
    """One model of the laboratory: `cost_us` per execution and `row_us` per row are slept."""

    name: str
    max_batch_size: int = 0
    batching: Batching | None = None
    instances: int = 1
    cost_us: int = 5000
    row_us: int = 0
    backend: str = "python"
    version: str = "1"
    text: str | None = None
    """Instead of a config.pbtxt: whatever stands there."""

    def config(self, switches: Path) -> str:
        """The config.pbtxt."""
        if self.text is not None:
            return self.text
        parameters = {"switches": str(switches), "cost_us": str(self.cost_us), "row_us": str(self.row_us)}
        dims = "[ 1 ]"
        return (
            f'name: "{self.name}"\nbackend: "{self.backend}"\nmax_batch_size: {self.max_batch_size}\n'
            f'input [ {{ name: "INPUT" data_type: TYPE_FP32 dims: {dims} }} ]\n'
            f'output [ {{ name: "OUTPUT" data_type: TYPE_FP32 dims: {dims} }} ]\n'
            f"{self.batching.text() if self.batching else ''}"
            f"instance_group [ {{ count: {self.instances} kind: KIND_CPU }} ]\n{_parameters(parameters)}"
        )

    def write(self, repository: Path, switches: Path) -> None:
        """Its folder in the repository, and an empty one for its switches."""
        folder = repository / self.name / self.version
        folder.mkdir(parents=True)
        switches.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(MODEL_PY, folder / "model.py")
        (repository / self.name / "config.pbtxt").write_text(self.config(switches), encoding="utf-8")


@dataclass(frozen=True)
class Ensemble:
    """A pipeline of models, one after the other."""

    name: str
    steps: tuple[str, ...]
    max_batch_size: int = 0

    def write(self, repository: Path, switches: Path) -> None:
        """Its folder in the repository, with the empty version folder that Triton wants."""
        (repository / self.name / "1").mkdir(parents=True)
        steps = [
            f'{{ model_name: "{step}" model_version: -1 '
            f'input_map {{ key: "INPUT" value: "{_tensor(place, len(self.steps))}" }} '
            f'output_map {{ key: "OUTPUT" value: "{_tensor(place + 1, len(self.steps))}" }} }}'
            for place, step in enumerate(self.steps)
        ]
        (repository / self.name / "config.pbtxt").write_text(
            f'name: "{self.name}"\nplatform: "ensemble"\nmax_batch_size: {self.max_batch_size}\n'
            'input [ { name: "INPUT" data_type: TYPE_FP32 dims: [ 1 ] } ]\n'
            'output [ { name: "OUTPUT" data_type: TYPE_FP32 dims: [ 1 ] } ]\n'
            f"ensemble_scheduling {{ step [ {', '.join(steps)} ] }}\n",
            encoding="utf-8",
        )


def _tensor(place: int, steps: int) -> str:
    if place == 0:
        return "INPUT"
    return "OUTPUT" if place == steps else f"BETWEEN_{place}"


def _parameters(values: Mapping[str, str]) -> str:
    rows = (f'{{ key: "{key}" value: {{ string_value: "{value}" }} }}' for key, value in values.items())
    return f"parameters [ {', '.join(rows)} ]\n"
