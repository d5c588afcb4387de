"""The configurations of a comparison: what each changes, in words, and ready-made sets to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from control.override import Override, override_config
from telemetry.errors import InvalidRequest
from telemetry.facts import ModelConfig
from telemetry.units import Unit, human

MAX_ARMS = 8
_DEFAULT_DELAY_US = 2000


@dataclass(frozen=True, slots=True)
class Arm:
    """One configuration of a comparison: its name, and what differs from the one the model has."""

    label: str
    changes: Override


def arm_configs(effective: ModelConfig, arms: Sequence[Arm]) -> list[dict[str, Any]]:
    """The complete configuration of each arm; raises InvalidRequest for what cannot be compared or sent."""
    if not 2 <= len(arms) <= MAX_ARMS:
        raise InvalidRequest(f"A comparison needs 2 to {MAX_ARMS} configurations (got {len(arms)})")
    names = [arm.label.strip() for arm in arms]
    if "" in names or len(set(names)) < len(names):
        raise InvalidRequest("Each configuration of a comparison needs a name of its own")
    if effective.ensemble:
        raise InvalidRequest(
            f"{effective.name} is an ensemble: it has no batching and no instances. Compare one of its steps."
        )
    configs = []
    for arm in arms:
        try:
            configs.append(override_config(effective, arm.changes))
        except InvalidRequest as error:
            raise InvalidRequest(f"{arm.label}: {error.sentence}", detail=error.detail) from error
    return configs


def words_of(config: ModelConfig) -> str:
    """What of a configuration decides over batches and parallelism, in words."""
    if config.max_batch_size == 0:
        parts = ["no batches (max_batch_size 0)"]
    elif not config.dynamic_batching:
        parts = ["dynamic batching off"]
    else:
        parts = [f"dynamic batching up to {config.max_batch_size}"]
        if config.preferred_batch_sizes:
            parts.append(f"prefers {' and '.join(map(str, config.preferred_batch_sizes))}")
        delay = config.max_queue_delay_us or 0
        parts.append(f"waits up to {human(float(delay), Unit.US)}" if delay else "does not wait")
    count = config.instance_count
    if count is not None:
        parts.append(f"{count} instance" if count == 1 else f"{count} instances")
    return ", ".join(parts)


def batching_arms(config: ModelConfig) -> tuple[Arm, ...]:
    """Dynamic batching off against on: as it is configured, or with 2 ms of delay where it is not."""
    on = Override(dynamic_batching=True)
    if not config.dynamic_batching:
        on = Override(dynamic_batching=True, max_queue_delay_us=_DEFAULT_DELAY_US)
    return Arm("batching off", Override(dynamic_batching=False)), Arm("batching on", on)


def delay_arms(config: ModelConfig) -> tuple[Arm, ...]:
    """No queue delay, half of the present one, the present one, twice of it."""
    now = config.max_queue_delay_us or _DEFAULT_DELAY_US
    delays = (0, now // 2, now, now * 2)
    return tuple(
        Arm(f"delay {human(float(delay), Unit.US) if delay else '0'}", Override(max_queue_delay_us=delay))
        for delay in delays
    )


def preferred_arms(config: ModelConfig) -> tuple[Arm, ...]:
    """Preferred batch sizes: none but the largest, half of it, both."""
    most = max(2, config.max_batch_size)
    sizes = ((most,), (max(1, most // 2), most), (max(1, most // 4), max(1, most // 2), most))
    return tuple(
        Arm(f"prefers {' and '.join(map(str, some))}", Override(preferred_batch_sizes=some))
        for some in dict.fromkeys(tuple(dict.fromkeys(one)) for one in sizes)
    )


def instance_arms(config: ModelConfig) -> tuple[Arm, ...]:
    """The present number of instances against one more and twice as many."""
    now = config.instance_count or 1
    return tuple(
        Arm(f"{count} instance" if count == 1 else f"{count} instances", Override(instances=count))
        for count in dict.fromkeys((now, now + 1, now * 2))
    )
