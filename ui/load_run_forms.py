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
from experiments.report import RunKind
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
from ui.format import counted
from ui.html import Html, tag
from ui.panel import panel
from ui.person import me

CLOSED = "closed loop: so many at a time"
OPEN = "open loop: so many a second"
_MS = 1000.0


@dataclass(frozen=True, slots=True)
class Order:
    """What a form holds: in words for the journal, and how its work is made.

    `make` raises a ControlError with the reason where it cannot be meant.
    """

    words: str
    make: Callable[[Wanted], Work]


Form = Callable[[ModelConfig], Order]
"""Draws its fields and reads them."""


@dataclass(frozen=True, slots=True)
class Way:
    """One kind of run: its name, what it answers, its button, its form."""

    kind: RunKind
    name: str
    answers: str
    button: str
    form: Form


def _load(config: ModelConfig) -> Order:
    how = st.segmented_control(
        "Load", (CLOSED, OPEN), default=CLOSED, required=True, key="load_how", label_visibility="collapsed"
    )
    is_open = how == OPEN
    first, *between, second, third, fourth, fifth = st.columns(6 if is_open else 5)
    rate, arrivals, together = None, Arrivals.POISSON, MAX_CONNECTIONS // 4
    if is_open:
        rate = first.number_input(
            "Requests a second", 0.1, MAX_RATE_PER_SECOND, 50.0, format="%g", key="load_rate",
            help="They are sent when they are due, whether the ones before were answered or not. The latency "
            "counts from when a request was due.",
        )  # fmt: skip
        arrivals = between[0].selectbox(
            "Arrivals", list(Arrivals), key="load_arrivals", format_func=lambda one: one.value,
            help="poisson: random gaps, as of independent users. constant: equal gaps.",
        )  # fmt: skip
    else:
        together = first.number_input(
            "At the same time", 1, MAX_CONNECTIONS, DEFAULT_CONCURRENCY, key="load_together",
            help="So many clients, each of which sends its next request when it has its answer.",
        )  # fmt: skip
    seconds = second.number_input(
        "Seconds", 0.5, MAX_SECONDS, DEFAULT_SECONDS, format="%g", key="load_seconds"
    )
    warm_up = third.number_input(
        "Warm-up, s", 0.0, MAX_WARMUP_SECONDS, DEFAULT_WARMUP_SECONDS, format="%g", key="load_warm_up",
        help="The same load before, not counted.",
    )  # fmt: skip
    ratio = fourth.number_input(
        "End it at failures, %", 0, 100, round(DEFAULT_FAILED_RATIO * 100), key="load_ratio",
        help="When more of the requests of the last second fail. 100: never.",
    )  # fmt: skip
    most = fifth.number_input(
        "End it at p99, ms", 0.0, value=0.0, format="%g", key="load_p99",
        help="When the p99 of the last second is above. 0: never.",
    )  # fmt: skip
    plan = LoadPlan(
        loop=Loop.OPEN if is_open else Loop.CLOSED, concurrency=int(together), rate_per_second=rate,
        arrivals=Arrivals(arrivals), seconds=float(seconds), warmup_seconds=float(warm_up),
        max_failed_ratio=ratio / 100, max_p99_us=most * _MS or None,
    )  # fmt: skip
    return Order(plan.words, lambda wanted: load_run_work(wanted, plan))


def _serial(config: ModelConfig) -> Order:
    first, second, _ = st.columns([1, 1, 3])
    requests = first.number_input(
        "Requests", 1, MAX_REQUESTS, DEFAULT_REQUESTS, step=50, key="serial_requests"
    )
    together = second.number_input(
        "At the same time", 2, MAX_CONNECTIONS, DEFAULT_CONCURRENCY, key="serial_together"
    )
    return Order(
        f"{int(requests)} requests one after another, then {int(together)} at a time",
        lambda wanted: serial_vs_concurrent_work(wanted, int(requests), int(together)),
    )


def _sweep(config: ModelConfig) -> Order:
    first, second, third = st.columns([3, 1, 1])
    steps = first.text_input(
        "At the same time", ", ".join(map(str, sweep.DEFAULT_CONCURRENCIES)), key="sweep_steps",
        help="One load for each of these.",
    )  # fmt: skip
    seconds = second.number_input(
        "Seconds for each", 0.5, MAX_SECONDS, sweep.DEFAULT_SECONDS, format="%g", key="sweep_seconds"
    )
    most = third.number_input(
        "Objective: p99, ms", 0.0, value=50.0, format="%g", key="sweep_p99",
        help="How many requests/s does the model carry within it? 0: no objective.",
    )  # fmt: skip
    plan = LoadPlan(seconds=float(seconds), warmup_seconds=sweep.DEFAULT_WARMUP_SECONDS)
    return Order(
        f"each of {steps} at a time for {plan.seconds:g} s",
        lambda wanted: sweep.sweep_work(wanted, plan, sweep.parse_concurrencies(steps), most * _MS or None),
    )


SETS: dict[str, Callable[[ModelConfig], tuple[Arm, ...]]] = {
    "Dynamic batching off / on": arm_sets.batching_arms,
    "Queue delay": arm_sets.delay_arms,
    "Preferred batch sizes": arm_sets.preferred_arms,
    "Instances": arm_sets.instance_arms,
}
_ON, _OFF = "on", "off"
_NAME, _BATCHING, _DELAY, _PREFERRED, _LARGEST, _INSTANCES = (
    "name", "batching", "delay_us", "preferred", "max_batch_size", "instances",
)  # fmt: skip


def _compare(config: ModelConfig) -> Order:
    first, second, third = st.columns([3, 1, 1])
    chosen = first.selectbox(
        "What to compare", list(SETS), key="compare_set", help="A beginning: the table below can be changed."
    )
    together = second.number_input(
        "At the same time", 1, MAX_CONNECTIONS, max(DEFAULT_CONCURRENCY, config.max_batch_size),
        key="compare_together", help="The same closed loop on each configuration.",
    )  # fmt: skip
    seconds = third.number_input(
        "Seconds for each", 0.5, MAX_SECONDS, 5.0, format="%g", key="compare_seconds"
    )
    edited = st.data_editor(
        [_row(arm, config) for arm in SETS[chosen](config)],
        key=f"compare_arms {config.name} {chosen}", num_rows="dynamic", hide_index=True, width="stretch",
        placeholder="–",
        column_config={
            _NAME: st.column_config.TextColumn("configuration", required=True),
            _BATCHING: st.column_config.SelectboxColumn(
                "dynamic batching", options=[_ON, _OFF], required=True
            ),
            _DELAY: st.column_config.NumberColumn("queue delay, µs", min_value=0, step=1),
            _PREFERRED: st.column_config.TextColumn(
                "preferred batch sizes", help="with blanks between: 8 16"
            ),
            _LARGEST: st.column_config.NumberColumn("max batch size", min_value=0, step=1),
            _INSTANCES: st.column_config.NumberColumn("instances", min_value=1, step=1),
        },
    )  # fmt: skip
    panel(_on_a_phone(edited), key="compare_lines")
    plan = LoadPlan(concurrency=int(together), seconds=float(seconds))
    person = me()
    names = ", ".join(str(row.get(_NAME)) for row in edited)
    return Order(
        f"{plan.words} on each of: {names}",
        lambda wanted: comparison_work(wanted, plan, arms_of(edited, wanted.config), person),
    )


def _on_a_phone(rows: Sequence[dict[str, object]]) -> Html:
    """The lines of the table in words: on a narrow screen most of its columns lie outside."""
    lines = [tag("li", tag("b", str(row.get(_NAME) or "without a name")), f": {_words(row)}") for row in rows]
    return tag("ul", lines, class_="ts-notes ts-narrow")


def _words(row: dict[str, object]) -> str:
    """`forms batches, waits up to 2 ms, prefers 8, 16, max batch size 16, 1 instance`."""
    parts = ["forms batches" if row.get(_BATCHING) == _ON else "each request alone"]
    if row.get(_BATCHING) == _ON:
        delay, preferred = row.get(_DELAY), str(row.get(_PREFERRED) or "").replace(",", " ").split()
        parts += [f"waits up to {human(float(delay), Unit.US)}"] if delay else ["does not wait"]
        parts += [f"prefers {', '.join(preferred)}"] if preferred else []
    largest, instances = row.get(_LARGEST), row.get(_INSTANCES)
    parts += [f"max batch size {int(largest)}"] if largest is not None else []
    parts += [counted(int(instances), "instance")] if instances else []
    return ", ".join(parts)


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


WAYS: dict[str, Way] = {
    "compare": Way(
        RunKind.COMPARISON,
        "Compare configurations",
        "Which settings serve most? Each configuration is loaded, warmed up and measured under the same "
        "load; at the end the model gets back the one it has now.",
        "Compare configurations",
        _compare,
    ),
    "sweep": Way(
        RunKind.SWEEP,
        "Concurrency sweep",
        "How much does the model carry? Throughput and p99 against the number of clients, the knee marked.",
        "Run the sweep",
        _sweep,
    ),
    "serial": Way(
        RunKind.SERIAL,
        "Serial against concurrent",
        "Do batches form? The same requests one after another, then several at a time.",
        "Run serial against concurrent",
        _serial,
    ),
    "load": Way(
        RunKind.LOAD,
        "Load run",
        "How does the model behave under this load?",
        "Run the load",
        _load,
    ),
}
