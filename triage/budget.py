"""How the objectives of models fared lately: for a column of the overview and lines on charts."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry.identity import ModelKey
from telemetry.objective import objective_for
from triage.burn import Burn, Burns, Kind
from triage.context import Context

WINDOW_SECONDS = 3600.0
"""Over which the burn rate is told; the history of a young process is shorter."""

Budgets = Mapping[ModelKey, tuple[Burn, ...]]
"""Burn rates by model: of the errors, of the latency, as far as there are objectives and requests."""


def budgets(context: Context) -> Budgets:
    """The burn rates of every model with an objective, over the last hour."""
    if not context.objectives:
        return {}
    burns = Burns(context.history, context.signal_facts, context.report.at)
    found: dict[ModelKey, tuple[Burn, ...]] = {}
    for key in context.model_keys:
        objective = objective_for(context.objectives, key.name, context.workload(key.server))
        if objective is not None:
            both = (burns.of(objective, key, kind, WINDOW_SECONDS) for kind in Kind)
            found[key] = tuple(one for one in both if one is not None)
    return found
