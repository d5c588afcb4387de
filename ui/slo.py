"""Objectives on pages: how fast a model uses up its budget, and the line of the promised time."""

from __future__ import annotations

import runtime
from charts.spec import Threshold
from telemetry.identity import ModelKey
from telemetry.objective import Objective, objective_for
from telemetry.units import NOT_REPORTED, Unit, human, significant
from triage.burn import Burn, Kind
from triage.burn_facts import window_words
from ui.html import Html, span

_WORDS = {Kind.ERRORS: ("failed", "may fail"), Kind.LATENCY: ("slow", "may be")}


def budget(burns: tuple[Burn, ...] | None) -> Html:
    """The faster of its burn rates of the last hour, `1.4 ×`: above 1 the budget will not last.

    The tooltip has errors and latency, over all windows that can be judged.
    """
    if burns is None:
        return span(
            NOT_REPORTED, class_="ts-none", data_tip="no objective: write one under slo: in tritonscope.yml"
        )
    if not burns:
        return span(NOT_REPORTED, class_="ts-none", data_tip="no request finished within the last hour")
    least = min(one.window_seconds for one in burns)
    worst = max((one for one in burns if one.window_seconds == least), key=lambda one: one.rate)
    tip = "\n".join(map(_told, burns))
    return span(
        f"{significant(round(worst.rate, 2), 2)} ×", class_="ts-bad" if worst.rate > 1 else None, data_tip=tip
    )


def _told(burn: Burn) -> str:
    did, may = _WORDS[burn.kind]
    share, allowed = human(burn.bad_ratio, Unit.RATIO), human(burn.budget_ratio, Unit.RATIO)
    lasts = burn.lasts_days
    end = (
        f"the budget of {burn.days:g} days lasts {human(lasts, Unit.NONE)} days at this rate" if lasts else ""
    )
    return (
        f"{burn.kind.value}: {share} {did} within the last {window_words(burn.window_seconds)}, "
        f"{allowed} {may} (from the {burn.source})" + (f"; {end}" if end else "")
    )


def latency_line(key: ModelKey) -> tuple[Threshold, ...]:
    """The promised time of the model as a line, none without a latency objective."""
    objective = _objective(key)
    if objective is None or objective.latency_us is None or objective.slow_budget_ratio is None:
        return ()
    share, limit = human(1.0 - objective.slow_budget_ratio, Unit.RATIO), human(objective.latency_us, Unit.US)
    return (Threshold(objective.latency_us, f"objective: {share} under {limit}"),)


def _objective(key: ModelKey) -> Objective | None:
    process = runtime.current()
    server = process.server(key.server)
    workload = (server.workload if server is not None else "") or key.server
    return objective_for(process.settings.slo, key.name, workload)
