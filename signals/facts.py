"""What signals must know about models besides numbers: instances, ensembles, backends that queue inside.

In PromQL these are families that an exporter publishes; over a history they come from the inventory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from history.inventory import Inventory, ModelFacts
from history.protocol import GroupKey
from telemetry.facts import ModelState
from telemetry.identity import version_number

NameKey = tuple[str, str]
"""Server id and model name."""


class FactFamily(StrEnum):
    """Families that carry the facts in PromQL, with their labels beside the server's."""

    INSTANCES = "tritonscope_model_instances"
    """{model, version}: instances of one ready model version."""
    ENSEMBLE_STEP = "tritonscope_ensemble_step"
    """{model, step}: how often the ensemble `model` calls the model `step` for one request."""
    QUEUES_ITSELF = "tritonscope_model_queues_itself"
    """{model}: 1 for a model whose backend queues and batches inside itself."""


@dataclass(frozen=True, slots=True)
class SignalFacts:
    """Facts by (server, model) or (server, model, version).

    `steps[e]` are the models an ensemble calls with how often; `ensemble_version[e]` the version under
    which its figures are shown. `frozen` are models whose counters stand at zero although they work.
    """

    instances: Mapping[GroupKey, float] = field(default_factory=dict)
    steps: Mapping[NameKey, Mapping[str, int]] = field(default_factory=dict)
    ensemble_version: Mapping[NameKey, str] = field(default_factory=dict)
    queues_itself: frozenset[NameKey] = frozenset()
    frozen: frozenset[GroupKey] = frozenset()

    @classmethod
    def of(cls, inventory: Inventory, frozen: frozenset[GroupKey] = frozenset()) -> SignalFacts:
        """The facts in an inventory."""
        instances: dict[GroupKey, float] = {}
        steps: dict[NameKey, Mapping[str, int]] = {}
        versions: dict[NameKey, ModelFacts] = {}
        inside: set[NameKey] = set()
        for facts in inventory.models:
            key = facts.key
            name = (key.server, key.name)
            if facts.instance_count is not None:
                instances[key.server, key.name, key.version] = float(facts.instance_count)
            if facts.queues_itself:
                inside.add(name)
            if facts.ensemble:
                steps[name] = facts.config.step_uses if facts.config is not None else {}
                versions[name] = max((facts, versions.get(name, facts)), key=_serving)
        chosen = {name: facts.key.version for name, facts in versions.items()}
        return cls(instances, steps, chosen, frozenset(inside), frozen)

    def is_ensemble(self, key: GroupKey) -> bool:
        """True if the group's model is an ensemble."""
        return key[:2] in self.steps

    def leaves(self, name: NameKey) -> Mapping[str, int]:
        """The models that do an ensemble's work, with their uses: steps that are ensembles taken apart."""
        found: dict[str, int] = {}

        def add(model: str, uses: int, above: frozenset[str]) -> None:
            steps = self.steps.get((name[0], model))
            if steps is None or model in above:
                found[model] = found.get(model, 0) + uses
                return
            for step, times in steps.items():
                add(step, uses * times, above | {model})

        add(name[1], 1, frozenset())
        return found

    def canonical(self, key: GroupKey) -> GroupKey:
        """The key with the version under which the model is shown (only an ensemble's changes)."""
        version = self.ensemble_version.get((key[0], key[1]))
        return key if version is None or key[2] == version else (key[0], key[1], version, *key[3:])


def _serving(facts: ModelFacts) -> tuple[bool, int]:
    return facts.state is ModelState.READY, version_number(facts.key.version)
