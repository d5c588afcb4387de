"""Advice from production: other delays, preferred sizes and instance counts, with what they would change.

From the statistics of a model: the time per batch size gives T(b), the counters give the arrival rate and the
queue as it is. The same simulation runs for the configuration in force and for every candidate; what is
promised is the difference between the two, so that what both lack cancels out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from signals.batch_time import BatchTime
from signals.batcher import Arrivals, BatcherConfig, Outcome, handover_us, simulate
from telemetry.facts import InstanceGroup, ModelConfig
from telemetry.units import Unit, human

BUSY_RATIO = 0.3
"""Below this busy share the clients' rate is their own: nothing holds them back."""
DEFAULT_ERROR_RATIO = 0.10
TRAFFIC_ERROR_RATIO = 0.10
"""The number of clients that wait is inferred, not counted."""
MAX_MODEL_ERROR_RATIO = 0.30
"""Where the simulation is further than this from the queue that was measured, nothing is promised."""
LEAST_GAIN_RATIO = 0.10
"""Smaller gains are within the error and not advised."""
INSTANCES_MORE = (0, 1, 2)
PRICE_OF_AN_INSTANCE = 0.10
"""An instance more must bring so much gain beyond what the settings alone bring: it costs its memory."""
LEAST_QUEUE_SHARE = 0.25
"""With less of its time in the queue a model gains nothing worth an instance."""
THINK_US = 1000.0
"""The least between an answer and the client's next request reaching the queue, where clients wait."""
_WHOLE_CLIENT = 0.1
"""A tenth of a client more than a whole number is noise."""
GROUPS = (2, 3, 4, 6, 8, 12, 16)
"""How many requests may come at once, tried in turn."""
_LARGER_BATCH_RATIO = 1.2
_GROUPS_PER_BATCH = 2
DELAYS_US = (0.0, 500.0, 2000.0, 5000.0, 10_000.0)
_REQUESTS = 1500


class Aim(StrEnum):
    """What the advice improves."""

    THROUGHPUT = "throughput"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class Observed:
    """What was measured of one model lately; None = not reported.

    `rows` are inferences per request; times in us, rates per second.
    """

    requests_per_second: float
    rows: float
    queue_us_mean: float
    request_us_mean: float
    busy_ratio: float | None
    batch_size_mean: float | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """A prediction with its uncertainty: T(b) that much faster and slower."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True)
class Proposal:
    """One other configuration: requests per second and mean queue time (us) it would give."""

    config: BatcherConfig
    requests_per_second: Range
    queue_us: Range
    batch_size_mean: float

    def changes(self, now: BatcherConfig) -> tuple[str, ...]:
        """What differs from the configuration in force, in words: `delay 2 ms → 0 s`."""
        found = []
        if self.config.dynamic != now.dynamic:
            found.append("dynamic batching on" if self.config.dynamic else "dynamic batching off")
        if self.config.dynamic and self.config.delay_us != now.delay_us:
            found.append(f"delay {_time(now.delay_us)} → {_time(self.config.delay_us)}")
        if self.config.dynamic and self.config.sizes != now.sizes:
            found.append(f"preferred sizes {_listed(now.sizes)} → {_listed(self.config.sizes)}")
        if self.config.instances != now.instances:
            found.append(f"instances {now.instances} → {self.config.instances}")
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Advice:
    """What was observed, how the simulation describes it, and the best proposals, the best first.

    `saturated`: clients that wait for their answers explain the queue and the batches better than random
    arrivals do, so what they get is what the server gives.
    `model_error_ratio`: the simulation of the configuration in force against what was measured, of the queue;
    None without a queue to compare.
    """

    time: BatchTime
    now: BatcherConfig
    arrivals: Arrivals
    observed: Observed
    described: Outcome
    handover_us: float
    saturated: bool
    model_error_ratio: float | None
    proposals: tuple[Proposal, ...]

    @property
    def trusted(self) -> bool:
        """False where the simulation of what is in force does not have the queue that was measured."""
        return self.model_error_ratio is None or self.model_error_ratio <= MAX_MODEL_ERROR_RATIO

    @property
    def aim(self) -> Aim:
        """Throughput where clients wait for the server, else a shorter queue."""
        return Aim.THROUGHPUT if self.saturated else Aim.QUEUE


def batcher_of(config: ModelConfig) -> BatcherConfig | None:
    """How a model's configuration forms batches; None for what Triton does not queue by itself."""
    if config.ensemble or config.queues_itself or config.sequence_batching or not config.instance_count:
        return None
    return BatcherConfig(
        config.max_batch_size,
        config.dynamic_batching and config.max_batch_size > 0,
        float(config.max_queue_delay_us or 0),
        config.preferred_batch_sizes,
        config.instance_count,
        _shapes_vary(config),
    )


def _shapes_vary(config: ModelConfig) -> bool:
    """Triton compares the shapes of inputs with a variable dimension, unless they may be ragged."""
    return any(-1 in one.dims and not one.ragged for one in config.inputs)


def advise(time: BatchTime, now: BatcherConfig, observed: Observed) -> Advice:
    """The advice for one model. ValueError without requests: there is nothing to improve."""
    if observed.requests_per_second <= 0:
        raise ValueError("no requests were counted: advice rests on traffic")
    plain = [_described(time, now, arrivals, observed) for arrivals in _hypotheses(observed)]
    grouped = _in_groups(time, now, observed, plain[0].outcome.batch_size_mean)
    described = min((*plain, *grouped), key=lambda one: one.mismatch)
    error = None
    if observed.queue_us_mean > 0:
        error = abs(described.outcome.queue_us_mean - observed.queue_us_mean) / observed.queue_us_mean
    advice = Advice(
        time,
        now,
        described.arrivals,
        observed,
        described.outcome,
        described.handover_us,
        described.arrivals.clients is not None,
        error,
        (),
    )
    return replace(advice, proposals=tuple(_proposals(advice)))


@dataclass(frozen=True, slots=True)
class _Described:
    """How one kind of traffic explains what was measured; `mismatch` sums the relative errors."""

    arrivals: Arrivals
    handover_us: float
    outcome: Outcome
    mismatch: float


def _hypotheses(observed: Observed) -> Iterator[Arrivals]:
    """Random arrivals; and, where the instances are busy most of the time, clients that wait.

    Little's law: rate * (time in the server + time on the way) = clients. The fewest of them that leave the
    least time on the way; the rest of theirs is on the way too.
    """
    rows = max(1, round(observed.rows))
    yield Arrivals(rate_per_second=observed.requests_per_second, rows=rows)
    rate = observed.requests_per_second / 1e6
    clients = max(1, math.ceil(rate * (observed.request_us_mean + THINK_US) - _WHOLE_CLIENT))
    think_us = max(0.0, clients / rate - observed.request_us_mean)
    if observed.busy_ratio is None or observed.busy_ratio >= BUSY_RATIO:
        yield Arrivals(clients=clients, think_us=think_us, rows=rows)


def _in_groups(
    time: BatchTime, now: BatcherConfig, observed: Observed, single_batch: float
) -> Iterator[_Described]:
    """Random arrivals of several at once, where batches are larger than single arrivals would make them."""
    rows, size = max(1, round(observed.rows)), observed.batch_size_mean
    if size is None or not now.dynamic or size < _LARGER_BATCH_RATIO * single_batch:
        return
    options = [
        _tried(
            time,
            now,
            Arrivals(rate_per_second=observed.requests_per_second, rows=rows, group=group),
            observed,
        )
        for group in GROUPS
        if group * rows <= _GROUPS_PER_BATCH * now.max_batch_size
    ]
    if options:
        yield _described(time, now, min(options, key=lambda one: one.mismatch).arrivals, observed)


def _described(time: BatchTime, now: BatcherConfig, arrivals: Arrivals, observed: Observed) -> _Described:
    handover = handover_us(time, now, arrivals, observed.queue_us_mean)
    return _tried(time, now, arrivals, observed, handover)


def _tried(
    time: BatchTime, now: BatcherConfig, arrivals: Arrivals, observed: Observed, handover: float = 0.0
) -> _Described:
    outcome = simulate(time, now, arrivals, handover_us=handover, requests=_REQUESTS)
    mismatch = 0.0 if outcome.stable else float("inf")
    pairs = (
        (outcome.queue_us_mean, observed.queue_us_mean),
        (outcome.batch_size_mean, observed.batch_size_mean),
        (outcome.requests_per_second, observed.requests_per_second),
    )
    mismatch += sum(abs(one - measured) / measured for one, measured in pairs if measured)
    return _Described(arrivals, handover, outcome, mismatch)


def _proposals(advice: Advice) -> Iterator[Proposal]:
    """The best change of settings alone, and the best with more instances if these bring enough."""
    found: dict[bool, tuple[float, BatcherConfig, Outcome]] = {}
    fewer = _with_fewer_clients(advice) if advice.saturated else None
    for config in _candidates(advice):
        outcome = _simulated(advice, config)
        more = config.instances - advice.now.instances
        gain = _gain(advice, outcome) - PRICE_OF_AN_INSTANCE * more
        # Of equal gains the first: candidates come with the smallest change first.
        least = max(LEAST_GAIN_RATIO, found.get(more > 0, (0.0,))[0] + 0.02)
        if gain >= least and fewer is not None:
            # A size that just this many clients fill would wait out its delay with one of them less.
            gain = min(gain, _gain(fewer, _simulated(fewer, config)) - PRICE_OF_AN_INSTANCE * more)
        if gain >= least:
            found[more > 0] = (gain, config, outcome)
    if True in found and found[True][0] <= found.get(False, (0.0,))[0]:
        del found[True]
    for _, config, outcome in sorted(found.values(), key=lambda one: -one[0]):
        yield _proposal(advice, config, outcome)


def _with_fewer_clients(advice: Advice) -> Advice:
    arrivals = _varied(advice.arrivals, 1 - TRAFFIC_ERROR_RATIO)
    described = simulate(
        advice.time, advice.now, arrivals, handover_us=advice.handover_us, requests=_REQUESTS
    )
    return replace(advice, arrivals=arrivals, described=described)


def _varied(arrivals: Arrivals, factor: float) -> Arrivals:
    """So much more or less of the same traffic."""
    if arrivals.clients is not None:
        clients = round(arrivals.clients * factor)
        return replace(arrivals, clients=max(1, clients - (clients == arrivals.clients and factor < 1)))
    return replace(arrivals, rate_per_second=(arrivals.rate_per_second or 0.0) * factor)


def _simulated(advice: Advice, config: BatcherConfig, *, factor: float = 1.0, seed: int = 1) -> Outcome:
    """One configuration with T(b) scaled by `factor`; slower comes with more traffic, and the reverse."""
    arrivals = advice.arrivals
    if factor != 1.0:
        traffic = 1 + TRAFFIC_ERROR_RATIO if factor > 1 else 1 - TRAFFIC_ERROR_RATIO
        arrivals = _varied(arrivals, traffic) if arrivals.clients is not None else arrivals
    return simulate(
        advice.time.scaled(factor),
        config,
        arrivals,
        handover_us=advice.handover_us,
        requests=_REQUESTS,
        seed=seed,
    )


def _gain(advice: Advice, outcome: Outcome) -> float:
    """Relative gain of the aim: more requests, or a shorter mean request."""
    if not outcome.stable:
        return 0.0
    described = advice.described
    if advice.saturated:
        return outcome.requests_per_second / described.requests_per_second - 1
    before = described.queue_us_mean + advice.time.us(described.batch_size_mean)
    after = outcome.queue_us_mean + advice.time.us(outcome.batch_size_mean)
    return 1 - after / before


def _candidates(advice: Advice) -> Iterator[BatcherConfig]:
    """Other delays, preferred sizes and instance counts, the smallest change first."""
    now, described = advice.now, advice.described
    whole = described.queue_us_mean + advice.time.us(described.batch_size_mean)
    waits = advice.saturated or described.queue_us_mean >= LEAST_QUEUE_SHARE * whole
    sizes = [(now.sizes if now.dynamic else (now.max_batch_size,)), (now.max_batch_size,)]
    halves = (now.max_batch_size // 2, now.max_batch_size // 4)
    sizes += [(size,) for size in halves if size > advice.arrivals.rows]
    seen = {now}
    for more in INSTANCES_MORE if waits else (0,):
        same = replace(now, instances=now.instances + more)
        options = [same]
        if now.max_batch_size >= 2:
            options += [
                replace(same, dynamic=True, preferred=preferred, delay_us=delay)
                for preferred in dict.fromkeys(sizes)
                for delay in sorted({*DELAYS_US, now.delay_us}, key=lambda one: abs(one - now.delay_us))
            ]
        for config in options:
            if config not in seen:
                seen.add(config)
                yield config


def predict(advice: Advice, config: BatcherConfig) -> Proposal:
    """What one given configuration would do under the traffic of this advice."""
    return _proposal(advice, config, _simulated(advice, config))


def _proposal(advice: Advice, config: BatcherConfig, middle: Outcome) -> Proposal:
    error = advice.time.error_ratio if advice.time.error_ratio is not None else DEFAULT_ERROR_RATIO
    factors = ((2, 1 - error), (3, 1 + error))
    sides = [_simulated(advice, config, factor=factor, seed=seed) for seed, factor in factors]
    return Proposal(
        config,
        _range(middle, sides, "requests_per_second"),
        _range(middle, sides, "queue_us_mean"),
        middle.batch_size_mean,
    )


def _range(middle: Outcome, sides: list[Outcome], name: str) -> Range:
    values = [getattr(one, name) for one in (middle, *sides)]
    return Range(min(values), values[0], max(values))


def config_lines(config: BatcherConfig, now: BatcherConfig, groups: Sequence[InstanceGroup] = ()) -> str:
    """The lines of config.pbtxt that differ from the configuration in force; `groups` are those of now."""
    lines = []
    if config.dynamic and (not now.dynamic or (config.delay_us, config.sizes) != (now.delay_us, now.sizes)):
        lines += [
            "dynamic_batching {",
            f"  preferred_batch_size: [ {', '.join(map(str, config.sizes))} ]",
            f"  max_queue_delay_microseconds: {config.delay_us:.0f}",
            "}",
        ]
    if config.instances != now.instances:
        lines.append(_group_line(config.instances, now.instances, groups))
    return "\n".join(lines)


def _group_line(instances: int, now: int, groups: Sequence[InstanceGroup]) -> str:
    """`count` is per listed GPU and per group: where there are several, which one to raise is a choice."""
    if len(groups) > 1:
        return f"# instances {now} → {instances}: over {len(groups)} instance groups, raise the count of one"
    kind = f" kind: {groups[0].kind}" if groups else ""
    gpus = groups[0].gpus if groups else ()
    if len(gpus) < 2:
        return f"instance_group [ {{ count: {instances}{kind} }} ]"
    count = math.ceil(instances / len(gpus))
    listed = ", ".join(map(str, gpus))
    return (
        f"# count is per GPU: {count * len(gpus)} instances in all\n"
        f"instance_group [ {{ count: {count}{kind} gpus: [ {listed} ] }} ]"
    )


def _time(us: float) -> str:
    return human(us, Unit.US)


def _listed(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))
