"""What fits: the memory budget of a device, and how many instances a target needs. Pure arithmetic.

The budget is the usual one for several models on a card: what is there, minus what the framework keeps, must
hold the weights of every instance and the peak of their batches, with 20 % to spare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from signals.batch_time import LEAST_EXECUTIONS, BatchTime, SizeTime
from signals.batcher import Arrivals, BatcherConfig, Outcome, simulate
from telemetry.units import Unit, human, seconds_from_us

RESERVE_BYTES = 500e6
"""What contexts and pools of the framework keep of a card: 300 to 500 MB, more on large ones."""
CONTEXT_LOW_BYTES, CONTEXT_HIGH_BYTES = 300e6, 500e6
"""Each further process on a card (a Python model's instance) brings a context of its own."""
HEADROOM_RATIO = 0.20
MAX_INSTANCES = 64
IDLE_RATIO = 0.1
"""With instances this idle nobody waits for one: what is left of the queue is the delay."""
PRECISION_BYTES = {
    "FP32": 4.0,
    "TF32": 4.0,
    "FP16": 2.0,
    "BF16": 2.0,
    "FP8": 1.0,
    "INT8": 1.0,
    "INT4": 0.5,
}
"""Bytes of one parameter."""


class Fit(StrEnum):
    """Whether something goes in; the value is what a page says."""

    FITS = "fits"
    TIGHT = "tight"
    NO = "does not fit"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Need:
    """Memory wanted, bytes, as a range, and on what it rests."""

    low_bytes: float
    high_bytes: float
    basis: str

    @property
    def text(self) -> str:
        """`1.2 GiB`, or `1.2 GiB to 1.5 GiB`."""
        low, high = human(self.low_bytes, Unit.BYTES), human(self.high_bytes, Unit.BYTES)
        return low if low == high else f"{low} to {high}"

    def times(self, count: int) -> Need:
        """The same so many times."""
        return Need(self.low_bytes * count, self.high_bytes * count, self.basis)

    def __add__(self, other: Need) -> Need:
        basis = "; ".join(dict.fromkeys(filter(None, (self.basis, other.basis))))
        return Need(self.low_bytes + other.low_bytes, self.high_bytes + other.high_bytes, basis)


NOTHING = Need(0.0, 0.0, "")


@dataclass(frozen=True, slots=True)
class Answer:
    """Does `need` fit into `free_bytes`? `sentence` says it with its numbers."""

    fit: Fit
    sentence: str


def weight_bytes(parameters: float, precision: str) -> float:
    """Bytes of the weights: parameters times bytes of one. KeyError for an unknown precision."""
    return parameters * PRECISION_BYTES[precision]


def need_of_weights(weights: float, *, own_process: bool = False, basis: str = "weights") -> Need:
    """One instance of a model with weights of so many bytes: they themselves, up to 20 % more for batches.

    `own_process` adds a context of 300 to 500 MB: Python models have one each.
    """
    need = Need(weights, weights * (1 + HEADROOM_RATIO), f"{basis}, up to {HEADROOM_RATIO:.0%} for batches")
    if own_process:
        need += Need(CONTEXT_LOW_BYTES, CONTEXT_HIGH_BYTES, "a context of its own")
    return need


def need_of_instance(
    held_bytes: float, instances: int, *, lower_bound: bool, basis: str, shares_weights: bool = False
) -> Need:
    """One more instance of a model whose instances hold `held_bytes` together.

    At most 20 % more than its share, twice as much where what is known is a lower bound; from nothing on
    where instances on one card share their weights. ValueError below one instance.
    """
    if instances < 1:
        raise ValueError(f"a model that holds memory has at least one instance (got {instances})")
    share = held_bytes / instances
    spare = 2 * HEADROOM_RATIO if lower_bound else HEADROOM_RATIO
    words = f"{human(held_bytes, Unit.BYTES)} {basis}"
    if instances > 1:
        words += f" / {instances}"
    if lower_bound:
        words += "; a lower bound, so up to 40% more"
    if shares_weights:
        words += "; instances on one card share their weights, so it may be far less"
    return Need(0.0 if shares_weights else share, share * (1 + spare), words)


def answer(need: Need | None, free_bytes: float | None, word: str = "free") -> Answer:
    """FITS if even the high end goes in, NO if not even the low end does, TIGHT in between.

    `word` is what the bytes are called: free now, or available in a budget.
    """
    if need is None:
        return Answer(Fit.UNKNOWN, "nothing tells how much it needs")
    if free_bytes is None:
        return Answer(Fit.UNKNOWN, f"needs {need.text}; how much is {word} is not reported")
    told = f"needs {need.text}, {human(max(0.0, free_bytes), Unit.BYTES)} are {word}"
    if need.high_bytes <= free_bytes:
        left = human(free_bytes - need.high_bytes, Unit.BYTES)
        return Answer(Fit.FITS, f"{told}: at least {left} are left")
    if need.low_bytes > free_bytes:
        short = human(need.low_bytes - max(0.0, free_bytes), Unit.BYTES)
        return Answer(Fit.NO, f"{told}: {short} short at the least")
    return Answer(Fit.TIGHT, f"{told}: it may fail at a full batch")


@dataclass(frozen=True, slots=True)
class Line:
    """One model in the budget: what it holds now or would hold, bytes."""

    name: str
    instances: int
    need: Need
    reservation: bool = False
    """It takes a share of the card whatever it needs (vLLM, TensorRT-LLM)."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The whole card by the formula, bytes: total, what the framework keeps, and the models.

    `others_bytes` is what other programs hold, and what is in use and nobody's.
    """

    total_bytes: float
    reserve_bytes: float
    lines: tuple[Line, ...]
    others_bytes: float = 0.0

    @property
    def available_bytes(self) -> float:
        """Total minus the reserve and what others hold."""
        return self.total_bytes - self.reserve_bytes - self.others_bytes

    @property
    def need(self) -> Need:
        """All models together."""
        total = NOTHING
        for line in self.lines:
            total += line.need
        return replace(total, basis="the sum of the models")

    @property
    def answer(self) -> Answer:
        """Do all models go in together?"""
        return answer(self.need, self.available_bytes, "available")


# ---- how many instances


@dataclass(frozen=True, slots=True)
class InstancesNeeded:
    """The fewest instances that hold the target, with what they would give; None: no number of them does.

    `at_least` is the bound below which no setting helps: rate * T(B) / B for the largest batch B.
    """

    instances: int | None
    at_least: int
    outcome: Outcome | None


def time_of_alone(sizes: Sequence[SizeTime], rows: int) -> BatchTime | None:
    """T of requests of so many rows that are never batched: the mean of that one size is enough.

    None while it was executed less than 20 times.
    """
    found = next((one for one in sizes if one.batch_size == rows), None)
    if found is None or found.executions < LEAST_EXECUTIONS:
        return None
    return BatchTime(found.mean_us, 0.0, rows, rows, found.executions, None)


def instances_at_least(time: BatchTime, max_batch_size: int, rows_per_second: float) -> int:
    """Instances that are busy all the time if every batch is full: ceil(rate * T(B) / B)."""
    size = max(1, max_batch_size)
    return max(1, math.ceil(rows_per_second * seconds_from_us(time.us(size)) / size - 1e-9))


def instances_needed(
    time: BatchTime,
    config: BatcherConfig,
    rate_per_second: float,
    target_queue_us: float,
    *,
    rows: int = 1,
    handover_us: float = 0.0,
) -> InstancesNeeded:
    """The fewest instances with a mean queue time of at most `target_queue_us` under random arrivals."""
    batch = config.max_batch_size if config.dynamic else rows
    at_least = instances_at_least(time, batch, rate_per_second * rows)
    arrivals = Arrivals(rate_per_second=rate_per_second, rows=rows)
    outcome = None
    for count in _candidates(at_least):
        found = simulate(
            time, replace(config, instances=count), arrivals, handover_us=handover_us, requests=3000
        )
        if found.stable:
            outcome = found
            if found.queue_us_mean <= target_queue_us:
                return InstancesNeeded(count, at_least, found)
            if found.busy_ratio < IDLE_RATIO:
                break
    return InstancesNeeded(None, at_least, outcome)


def _candidates(at_least: int) -> Sequence[int]:
    return range(at_least, MAX_INSTANCES + 1) if at_least <= MAX_INSTANCES else ()


def requests_per_second(concurrency: float, response_seconds: float) -> float:
    """QPS = concurrency / response time. ValueError for a time that is not above zero."""
    if response_seconds <= 0:
        raise ValueError("a response time must be above zero")
    return concurrency / response_seconds


def concurrency_for(rate_per_second: float, response_seconds: float) -> int:
    """Requests that are under way at once at this rate: rate * response time, rounded up."""
    return max(1, math.ceil(rate_per_second * response_seconds - 1e-9))
