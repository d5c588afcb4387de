"""What else an action touches: the ensembles that use a model, the steps an ensemble brings with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from telemetry.facts import ModelConfig


def dependents(model: str, configs: Mapping[str, ModelConfig], ready: Collection[str]) -> tuple[str, ...]:
    """Ready ensembles that stop when this model is unloaded, also through other ensembles, by name.

    `configs` by model name, `ready` the names of models with a ready version.
    """
    found: set[str] = set()
    waiting = [model]
    while waiting:
        step = waiting.pop()
        for name, config in configs.items():
            if name not in found and name in ready and step in steps(config):
                found.add(name)
                waiting.append(name)
    return tuple(sorted(found - {model}))


def steps(config: ModelConfig | None) -> tuple[str, ...]:
    """The models an ensemble is made of, in their order, each once; empty for other models."""
    return tuple(dict.fromkeys(step.model_name for step in config.ensemble_steps)) if config else ()


def missing_steps(config: ModelConfig | None, ready: Collection[str]) -> tuple[str, ...]:
    """Steps of an ensemble that are not ready: without them it cannot serve."""
    return tuple(name for name in steps(config) if name not in ready)
