"""How the objectives of models fare, over all windows that can be judged: for a column of the overview."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry.identity import ModelKey
from telemetry.objective import objective_for
from triage.burn import PAIRS, Burn, Kind
from triage.burn_facts import BurnFacts
from triage.context import Context

LONG_WINDOWS = tuple(pair.long_seconds for pair in PAIRS)

Budgets = Mapping[ModelKey, tuple[Burn, ...]]
"""Burn rates by model, of the errors and of the latency, shorter windows first.

As far as there are objectives and requests, and the history reaches; that of a young process holds less than
an hour.
"""


def budgets(context: Context) -> Budgets:
    """The burn rates of every model with an objective."""
    if not context.objectives:
        return {}
    facts = BurnFacts(context)
    found: dict[ModelKey, tuple[Burn, ...]] = {}
    for key in context.model_keys:
        if objective_for(context.objectives, key.name, context.workload(key.server)) is not None:
            all_windows = (facts.of(kind, seconds, key) for seconds in LONG_WINDOWS for kind in Kind)
            found[key] = tuple(one for one in all_windows if one is not None)
    return found
