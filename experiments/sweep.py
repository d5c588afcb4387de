"""Throughput and latency against concurrency: where more clients stop helping, and what an objective allows.

The knee is the concurrency with the largest throughput / mean latency (Kleinrock's power). Up to it, more
clients raise the throughput by a larger factor than the latency; beyond it, by a smaller one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from control.performer import Work
from experiments.measure import Measurement
from experiments.plan import MAX_CONNECTIONS, LoadPlan, Loop
from experiments.report import RunKind
from experiments.serial_vs_concurrent import config_notes
from experiments.session import Session, Wanted, work_of
from telemetry.actions import Conclusion
from telemetry.errors import InvalidRequest
from telemetry.units import Unit, human, significant

DEFAULT_CONCURRENCIES = (1, 2, 4, 8, 16, 32, 64)
DEFAULT_SECONDS = 3.0
DEFAULT_WARMUP_SECONDS = 0.5
MAX_STEPS = 16
MAX_FAILED_RATIO = 0.01
"""A step with more failures than this carries nothing: it is fast because it does not do the work."""


def sweep_work(
    wanted: Wanted,
    plan: LoadPlan,
    concurrencies: Sequence[int] = DEFAULT_CONCURRENCIES,
    max_p99_us: float | None = None,
) -> Work:
    """The work of `Control.perform`: the plan once for each concurrency, ascending.

    Raises InvalidRequest before anything is begun. The result is a `RunReport`.
    """
    steps = sorted(set(concurrencies))
    if not 2 <= len(steps) <= MAX_STEPS:
        raise InvalidRequest(f"A sweep needs 2 to {MAX_STEPS} different concurrencies (got {len(steps)})")
    plans = [replace(plan, loop=Loop.CLOSED, concurrency=step) for step in steps]

    def run(session: Session) -> Conclusion:
        for one in plans:
            if session.stopping:
                break
            session.measure(f"{one.concurrency} at a time", one)
        found = session.measured
        words = f"{wanted.request.model}: {knee_sentence(found)}"
        if max_p99_us is not None:
            words += f"; {capacity_sentence(found, max_p99_us)}"
        return session.conclude(words, config_notes(wanted.config), max_p99_us=max_p99_us)

    return work_of(RunKind.SWEEP, wanted, plans, run)


def parse_concurrencies(text: str) -> tuple[int, ...]:
    """`1, 2, 4` or `1 2 4`; raises InvalidRequest for anything else."""
    words = text.replace(",", " ").split()
    try:
        steps = tuple(int(word) for word in words)
    except ValueError:
        raise InvalidRequest(
            f"Concurrencies are whole numbers with commas between: {text!r} is not"
        ) from None
    for step in steps:
        if not 1 <= step <= MAX_CONNECTIONS:
            raise InvalidRequest(f"1 to {MAX_CONNECTIONS} at the same time (got {step})")
    return steps


def knee(measurements: Sequence[Measurement]) -> Measurement | None:
    """The step with the largest throughput / mean latency; None without two steps that worked."""
    sound = [one for one in measurements if _sound(one)]
    return max(sound, key=_power) if len(sound) > 1 else None


def capacity(measurements: Sequence[Measurement], max_p99_us: float) -> Measurement | None:
    """The step with the largest throughput whose p99 keeps the objective; None if none does."""
    within = [one for one in measurements if _sound(one) and (one.clients.p99_us or 0.0) <= max_p99_us]
    return max(within, key=_rate, default=None)


def knee_sentence(measurements: Sequence[Measurement]) -> str:
    """Where more clients stop helping, in words."""
    found = knee(measurements)
    if found is None:
        return "too few steps worked to find a knee"
    most = max((one for one in measurements if _sound(one)), key=_rate)
    words = (
        f"the knee is at {found.clients.concurrency} at a time: {significant(_rate(found))} requests/s, "
        f"p99 {human(found.clients.p99_us, Unit.US)}"
    )
    if most is found:
        return words
    gain = _rate(most) / _rate(found) - 1
    return (
        f"{words}; {most.clients.concurrency} at a time give {human(gain, Unit.RATIO)} more "
        f"at p99 {human(most.clients.p99_us, Unit.US)}"
    )


def capacity_sentence(measurements: Sequence[Measurement], max_p99_us: float) -> str:
    """What the objective allows, in words."""
    objective = human(max_p99_us, Unit.US)
    found = capacity(measurements, max_p99_us)
    if found is None:
        best = min((one.clients.p99_us for one in measurements if one.clients.p99_us), default=None)
        lowest = f": the lowest p99 was {human(best, Unit.US)}" if best is not None else ""
        return f"no step kept p99 <= {objective}{lowest}"
    sound = [one for one in measurements if _sound(one)]
    more = "at least " if found is sound[-1] else ""
    return (
        f"at p99 <= {objective} this model carries {more}{significant(_rate(found))} requests/s "
        f"({found.clients.concurrency} at a time)"
    )


def _sound(one: Measurement) -> bool:
    clients = one.clients
    ratio = clients.failed_ratio
    return bool(clients.throughput_per_second) and ratio is not None and ratio <= MAX_FAILED_RATIO


def _rate(one: Measurement) -> float:
    return one.clients.throughput_per_second or 0.0


def _power(one: Measurement) -> float:
    return _rate(one) / (one.clients.mean_us or float("inf"))
