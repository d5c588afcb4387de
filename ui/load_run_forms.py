"""The forms of the four kinds of runs: what load, and for a comparison which configurations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

from control.override import Override
from control.performer import Work
from experiments import arms as arm_sets
from experiments import sweep
from experiments.arms import Arm
from experiments.comparison import comparison_work
from experiments.load_run import load_run_work
from experiments.plan import (
    DEFAULT_FAILED_RATIO,
    DEFAULT_SECONDS,
    DEFAULT_WARMUP_SECONDS,
    MAX_CONNECTIONS,
    MAX_RATE_PER_SECOND,
    MAX_SECONDS,
    MAX_WARMUP_SECONDS,
    Arrivals,
    LoadPlan,
    Loop,
)
from experiments.serial_vs_concurrent import (
    DEFAULT_CONCURRENCY,
    DEFAULT_REQUESTS,
    MAX_REQUESTS,
    serial_vs_concurrent_work,
)
from experiments.session import Wanted
from telemetry.errors import InvalidRequest
from telemetry.facts import ModelConfig
from telemetry.units import Unit, human
from ui.person import me

Form = Callable[[ModelConfig], Callable[[Wanted], Work]]
"""Draws its fields; what it returns makes the work of them, or raises a ControlError with the reason."""

CLOSED = "closed loop: so many at a time"
OPEN = "open loop: so many a second"
_MS = 1000.0


@dataclass(frozen=True, slots=True)
class Way:
    """One kind of run: its name, what it answers, its button, its form."""

    name: str
    answers: str
    button: str
    form: Form


def _load(config: ModelConfig) -> Callable[[Wanted], Work]:
    how = st.segmented_control(
        "Load", (CLOSED, OPEN), default=CLOSED, required=True, key="load_how", label_visibility="collapsed"
    )
    is_open = how == OPEN
    first, second, third = st.columns(3)
    rate = None
    if is_open:
        rate = first.number_input(
            "Requests a second", 0.1, MAX_RATE_PER_SECOND, 50.0, format="%g", key="load_rate",
            help="They are sent when they are due, whether the ones before were answered or not. The latency "
            "counts from when a request was due.",
        )  # fmt: skip
        arrivals = second.selectbox(
            "Arrivals", list(Arrivals), key="load_arrivals", format_func=lambda one: one.value,
            help="poisson: random gaps, as of independent users. constant: equal gaps.",
        )  # fmt: skip
        together = MAX_CONNECTIONS // 4
    else:
        arrivals = Arrivals.POISSON
        together = first.number_input(
            "At the same time", 1, MAX_CONNECTIONS, DEFAULT_CONCURRENCY, key="load_together",
            help="So many clients, each of which sends its next request when it has its answer.",
        )  # fmt: skip
    seconds = (third if is_open else second).number_input(
        "Seconds", 0.5, MAX_SECONDS, DEFAULT_SECONDS, format="%g", key="load_seconds"
    )
    warm_up = (st.columns(3)[0] if is_open else third).number_input(
        "Warm-up, s", 0.0, MAX_WARMUP_SECONDS, DEFAULT_WARMUP_SECONDS, format="%g", key="load_warm_up",
        help="The same load before, not counted.",
    )  # fmt: skip
    failed, wait = st.columns(2)
    ratio = failed.number_input(
        "End it when more fail than, %", 0, 100, round(DEFAULT_FAILED_RATIO * 100), key="load_ratio",
        help="Of the requests of the last second. 100: never.",
    )  # fmt: skip
    most = wait.number_input(
        "End it when p99 is above, ms", 0.0, value=0.0, format="%g", key="load_p99",
        help="Over the last second. 0: never.",
    )  # fmt: skip
    plan = LoadPlan(
        loop=Loop.OPEN if is_open else Loop.CLOSED, concurrency=int(together), rate_per_second=rate,
        arrivals=Arrivals(arrivals), seconds=float(seconds), warmup_seconds=float(warm_up),
        max_failed_ratio=ratio / 100, max_p99_us=most * _MS or None,
    )  # fmt: skip
    return lambda wanted: load_run_work(wanted, plan)


def _serial(config: ModelConfig) -> Callable[[Wanted], Work]:
    first, second = st.columns(2)
    requests = first.number_input(
        "Requests", 1, MAX_REQUESTS, DEFAULT_REQUESTS, step=50, key="serial_requests"
    )
    together = second.number_input(
        "At the same time", 2, MAX_CONNECTIONS, DEFAULT_CONCURRENCY, key="serial_together"
    )
    return lambda wanted: serial_vs_concurrent_work(wanted, int(requests), int(together))


def _sweep(config: ModelConfig) -> Callable[[Wanted], Work]:
    steps = st.text_input(
        "At the same time", ", ".join(map(str, sweep.DEFAULT_CONCURRENCIES)), key="sweep_steps",
        help="One load for each of these.",
    )  # fmt: skip
    first, second = st.columns(2)
    seconds = first.number_input(
        "Seconds for each", 0.5, MAX_SECONDS, sweep.DEFAULT_SECONDS, format="%g", key="sweep_seconds"
    )
    most = second.number_input(
        "Objective: p99 at most, ms", 0.0, value=50.0, format="%g", key="sweep_p99",
        help="How many requests/s does the model carry within it? 0: no objective.",
    )  # fmt: skip
    plan = LoadPlan(seconds=float(seconds), warmup_seconds=sweep.DEFAULT_WARMUP_SECONDS)
    return lambda wanted: sweep.sweep_work(wanted, plan, sweep.parse_concurrencies(steps), most * _MS or None)


SETS: dict[str, Callable[[ModelConfig], tuple[Arm, ...]]] = {
    "Dynamic batching off / on": arm_sets.batching_arms,
    "Queue delay": arm_sets.delay_arms,
    "Preferred batch sizes": arm_sets.preferred_arms,
    "Instances": arm_sets.instance_arms,
}
_ON, _OFF = "on", "off"
_NAME, _BATCHING, _DELAY, _PREFERRED, _LARGEST, _INSTANCES = (
    "name", "batching", "delay, µs", "preferred sizes", "max batch", "instances",
)  # fmt: skip


def _compare(config: ModelConfig) -> Callable[[Wanted], Work]:
    chosen = st.selectbox("Compare", list(SETS), key="compare_set")
    rows = [_row(arm, config) for arm in SETS[chosen](config)]
    edited = st.data_editor(
        rows, key=f"compare_arms {config.name} {chosen}", num_rows="dynamic", hide_index=True,
        width="stretch", column_config={
            _NAME: st.column_config.TextColumn(required=True, width="medium"),
            _BATCHING: st.column_config.SelectboxColumn(options=[_ON, _OFF], required=True, width="small"),
            _DELAY: st.column_config.NumberColumn(min_value=0, step=1, width="small"),
            _PREFERRED: st.column_config.TextColumn(help="with blanks between: 8 16", width="small"),
            _LARGEST: st.column_config.NumberColumn(min_value=0, step=1, width="small"),
            _INSTANCES: st.column_config.NumberColumn(min_value=1, step=1, width="small"),
        },
    )  # fmt: skip
    first, second = st.columns(2)
    together = first.number_input(
        "At the same time", 1, MAX_CONNECTIONS, max(DEFAULT_CONCURRENCY, config.max_batch_size),
        key="compare_together", help="The same closed loop on each configuration.",
    )  # fmt: skip
    seconds = second.number_input(
        "Seconds for each", 0.5, MAX_SECONDS, 5.0, format="%g", key="compare_seconds"
    )
    plan = LoadPlan(concurrency=int(together), seconds=float(seconds))
    person = me()
    return lambda wanted: comparison_work(wanted, plan, arms_of(edited, wanted.config), person)


def _row(arm: Arm, config: ModelConfig) -> dict[str, object]:
    """A line of the table: what the arm changes, and beside it what the model has."""
    changes = arm.changes
    batching = config.dynamic_batching if changes.dynamic_batching is None else changes.dynamic_batching
    touched = changes.max_queue_delay_us is not None or changes.preferred_batch_sizes is not None
    on = batching or (touched and changes.dynamic_batching is not False)
    delay = (
        changes.max_queue_delay_us if changes.max_queue_delay_us is not None else config.max_queue_delay_us
    )
    sizes = (
        changes.preferred_batch_sizes
        if changes.preferred_batch_sizes is not None
        else config.preferred_batch_sizes
    )
    return {
        _NAME: arm.label,
        _BATCHING: _ON if on else _OFF,
        _DELAY: (delay or 0) if on else None,
        _PREFERRED: " ".join(map(str, sizes)) if on else "",
        _LARGEST: config.max_batch_size,
        _INSTANCES: changes.instances or config.instance_count or 1,
    }


def arms_of(rows: Sequence[dict[str, object]], config: ModelConfig) -> tuple[Arm, ...]:
    """The table as configurations; raises InvalidRequest for a line that means none."""
    return tuple(_arm(row, config) for row in rows)


def _arm(row: dict[str, object], config: ModelConfig) -> Arm:
    name = str(row.get(_NAME) or "").strip()
    instances, largest = row.get(_INSTANCES), row.get(_LARGEST)
    common = {
        "instances": int(instances) if instances and int(instances) != config.instance_count else None,
        "max_batch_size": (
            int(largest) if largest is not None and int(largest) != config.max_batch_size else None
        ),
    }
    if row.get(_BATCHING) != _ON:
        return Arm(name, Override(dynamic_batching=False, **common))
    delay, sizes = row.get(_DELAY), _sizes(name, str(row.get(_PREFERRED) or ""))
    return Arm(
        name,
        Override(
            dynamic_batching=True,
            max_queue_delay_us=int(delay) if delay is not None else None,
            preferred_batch_sizes=sizes or None,
            **common,
        ),
    )


def _sizes(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.replace(",", " ").split())
    except ValueError:
        raise InvalidRequest(
            f"{name}: preferred sizes are whole numbers with blanks between: {text!r} is not"
        ) from None


def takes(work_seconds: float) -> str:
    """About how long a run takes, in words."""
    return f"takes about {human(work_seconds, Unit.SECONDS)}"


WAYS: dict[str, Way] = {
    "compare": Way(
        "Compare configurations",
        "Which settings serve most? Each configuration is loaded, warmed up and measured under the same "
        "load; at the end the model gets back the one it has now.",
        "Compare configurations",
        _compare,
    ),
    "sweep": Way(
        "Concurrency sweep",
        "How much does the model carry? Throughput and p99 against the number of clients, the knee marked.",
        "Run the sweep",
        _sweep,
    ),
    "serial": Way(
        "Serial against concurrent",
        "Do batches form? The same requests one after another, then several at a time.",
        "Run serial against concurrent",
        _serial,
    ),
    "load": Way(
        "Load run",
        "How does the model behave under this load?",
        "Run the load",
        _load,
    ),
}
