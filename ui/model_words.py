"""A model's effective configuration in words: how it batches, where it runs, what each setting does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from telemetry.facts import InstanceGroup, ModelConfig
from telemetry.units import Unit, human

_SECRET = re.compile(r"token|secret|password|passwd|api_?key|credential", re.IGNORECASE)
_MASK = "(not shown: it looks like a secret)"


@dataclass(frozen=True, slots=True)
class Setting:
    """One effective setting: its name in config.pbtxt, its value, and what it does."""

    name: str
    value: str
    meaning: str


def batching_words(config: ModelConfig) -> str:
    """`batches up to 32, prefers 8 and 16, waits up to 2 ms; 1 instance on GPU 0`."""
    if config.ensemble:
        steps = " → ".join(step.model_name for step in config.ensemble_steps)
        return f"ensemble of {len(config.ensemble_steps)} steps ({steps}): they queue and batch, it does not"
    return "; ".join(part for part in (_forming(config), instances_words(config.instance_groups)) if part)


def _forming(config: ModelConfig) -> str:
    largest = config.max_batch_size
    if config.decoupled:
        return "streams its answers (decoupled): the backend queues and batches by itself"
    if largest == 0:
        return "takes no batches (max_batch_size 0)"
    if config.sequence_batching:
        return f"batches sequences, up to {largest}"
    if not config.dynamic_batching:
        return f"batching is off: each request runs alone, with up to {largest} rows of its own"
    sizes = config.preferred_batch_sizes
    # The largest size alone is what a batcher prefers anyhow.
    preferred = list(sizes) if any(size != largest for size in sizes) else []
    wait = (
        f"waits up to {human(config.max_queue_delay_us, Unit.US)} for one"
        if config.max_queue_delay_us
        else "takes what waits when an instance is free"
    )
    return ", ".join(part for part in (f"batches up to {largest}", _prefers(preferred), wait) if part)


def _prefers(sizes: list[int]) -> str:
    return f"prefers {_listed(sizes)}" if sizes else ""


def _listed(values: list[int]) -> str:
    words = [str(value) for value in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def instances_words(groups: tuple[InstanceGroup, ...]) -> str:
    """`2 instances on GPU 0 and 1 instance on CPU`; "" for none."""
    return " and ".join(_group(group) for group in groups if group.instances)


def _group(group: InstanceGroup) -> str:
    count = "1 instance" if group.instances == 1 else f"{group.instances} instances"
    if group.kind == "KIND_GPU":
        where = f"GPU {', '.join(map(str, group.gpus))}" if group.gpus else "all GPUs"
        each = f" ({group.count} each)" if len(group.gpus) > 1 else ""
        return f"{count} on {where}{each}"
    places = {
        "KIND_CPU": "on CPU",
        "KIND_MODEL": "placed by the backend",
        "KIND_AUTO": "placed automatically",
    }
    return f"{count} {places.get(group.kind, group.kind)}"


def settings(config: ModelConfig) -> list[Setting]:
    """The settings that decide how the model queues, batches and runs, with what each really does."""
    rows = [_backend(config)]
    if not config.ensemble:
        rows += [*_batching(config), *_queue(config), *_instances(config)]
    if config.response_cache:
        rows.append(Setting("response_cache", "on", "repeated requests are answered without the model"))
    if config.decoupled:
        rows.append(
            Setting(
                "decoupled",
                "on",
                "streams; plain HTTP infer is not possible, and latency ends at the hand-over",
            )
        )
    return [row for row in rows if row is not None]


def _backend(config: ModelConfig) -> Setting:
    if config.ensemble:
        return Setting("platform", "ensemble", "passes requests on to its steps; it executes nothing itself")
    return Setting("backend", config.backend or config.platform or "not named", "executes the model")


def _batching(config: ModelConfig) -> list[Setting]:
    largest = config.max_batch_size
    rows = [
        Setting(
            "max_batch_size",
            str(largest),
            "most rows in one execution; requests carry a batch dimension" if largest else
            "no batch dimension: each request is one execution",
        )
    ]  # fmt: skip
    if not config.dynamic_batching:
        off = (
            "off: requests are not put together"
            if not config.sequence_batching
            else "sequence batching instead"
        )
        return [*rows, Setting("dynamic_batching", "off", off)]
    if config.preferred_batch_sizes:
        rows.append(
            Setting(
                "preferred_batch_size",
                ", ".join(map(str, config.preferred_batch_sizes)),
                "a hint, not enforced: other sizes run too when the wait is over; see the sizes that formed",
            )
        )
    delay = config.max_queue_delay_us or 0
    meaning = (
        "longest wait for a fuller batch; a longer queue has another cause (no free instance)"
        if delay
        else "does not wait for a fuller batch"
    )
    return [*rows, Setting("max_queue_delay", human(delay, Unit.US), meaning)]


def _queue(config: ModelConfig) -> list[Setting]:
    rows = []
    if config.max_queue_size:
        rows.append(
            Setting(
                "max_queue_size",
                f"{config.max_queue_size:,}",
                "further requests are refused at once (503); the server counts these refusals nowhere",
            )
        )
    if config.queue_timeout_us:
        rows.append(
            Setting(
                "default_timeout",
                human(config.queue_timeout_us, Unit.US),
                "checked when the model is free: a request may wait longer while another one runs",
            )
        )
    return rows


def _instances(config: ModelConfig) -> list[Setting]:
    words = instances_words(config.instance_groups)
    return [Setting("instance_group", words, "executions that can run at the same time")] if words else []


def raw_text(raw: Mapping[str, Any], *, parameters: bool) -> str:
    """The whole effective configuration as JSON; values of parameters that look like secrets are masked.

    Without `parameters` the values of all parameters are: they may be anything.
    """
    return json.dumps(_masked(raw, parameters), indent=2, ensure_ascii=False)


def _masked(value: Any, parameters: bool) -> Any:
    if isinstance(value, Mapping):
        return {key: _shown(str(key), item, parameters) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, parameters) for item in value]
    return value


def _shown(key: str, item: Any, parameters: bool) -> Any:
    if _SECRET.search(key):
        return _MASK
    if key == "parameters" and not parameters and isinstance(item, Mapping):
        return dict.fromkeys(item, _MASK)
    return _masked(item, parameters)
