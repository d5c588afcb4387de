"""Facts about objectives: whether a budget is used up too fast, and over which pair of windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from telemetry.identity import ModelKey
from telemetry.objective import Objective, objective_for
from telemetry.units import human_duration
from triage.burn import DAY, HOUR, PAIRS, USUAL_DAYS, Burn, Burns, Kind, Pair
from triage.context import INTERVALS_PER_WINDOW, Context, Fact
from triage.durations import duration_text
from triage.finding import Severity

NO = "no"
SHORTEST, NEXT = PAIRS[0], PAIRS[1]
_WORDS = {
    300.0: "5 minutes",
    1800.0: "30 minutes",
    HOUR: "hour",
    2 * HOUR: "2 hours",
    6 * HOUR: "6 hours",
    DAY: "day",
    3 * DAY: "3 days",
}
WINDOWS = tuple(sorted({seconds for pair in PAIRS for seconds in (pair.long_seconds, pair.short_seconds)}))
"""Every window burn rates are told over, seconds."""


@dataclass(frozen=True, slots=True)
class Burning:
    """What is said of one objective of a model: the pair of windows that speaks, and how urgent it is.

    `unreached` are the pairs that cannot be judged.
    """

    severity: str
    long: Burn
    short: Burn
    unreached: tuple[Pair, ...]


class BurnFacts:
    """Facts of one context; what was computed for a model is kept."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._burns: Burns | None = None
        self._known: dict[tuple[Kind, ModelKey], Burning | None] = {}

    def of(self, kind: Kind, window_seconds: float, key: ModelKey) -> Burn | None:
        """How the model's objective fares in a window; None without one, or where it cannot be judged."""
        objective = self._objective(key)
        return None if objective is None else self._of(objective, kind, window_seconds, key)

    def burning(self, kind: Kind, key: ModelKey) -> Burning | None:
        """What is to be said of the objective; None without one, or without requests."""
        if (kind, key) not in self._known:
            objective = self._objective(key)
            self._known[kind, key] = None if objective is None else self._judged(objective, kind, key)
        return self._known[kind, key]

    def unreached(self, kind: Kind, key: ModelKey) -> str | None:
        """`Windows of 6 h, 24 h and 3 d are not judged: ...`; None if every window is."""
        burning = self.burning(kind, key)
        if burning is None or not burning.unreached:
            return None
        *firsts, last = (human_duration(pair.long_seconds) for pair in burning.unreached)
        listed = f"Windows of {', '.join(firsts)} and {last} are" if firsts else f"The window of {last} is"
        if self._context.distant is not None:
            return f"{listed} not judged: Prometheus has not told them"
        return f"{listed} not judged: the history reaches back {human_duration(self._reach_seconds)}"

    def _judged(self, objective: Objective, kind: Kind, key: ModelKey) -> Burning | None:
        rates = {
            pair: (long, short)
            for pair in PAIRS
            if (long := self._of(objective, kind, pair.long_seconds, key)) is not None
            and (short := self._of(objective, kind, pair.short_seconds, key)) is not None
        }
        if SHORTEST not in rates:
            return None
        unreached = tuple(pair for pair in PAIRS if pair not in rates)
        for pair, (long, short) in rates.items():
            if _above(long, short, pair):
                return Burning(pair.severity.value, long, short, unreached)
        long, short = rates[SHORTEST]
        # What would page over six hours is worth a look while only one hour is known.
        soon = NEXT in unreached and _above(long, short, NEXT)
        return Burning(Severity.TICKET.value if soon else NO, long, short, unreached)

    def _of(self, objective: Objective, kind: Kind, window_seconds: float, key: ModelKey) -> Burn | None:
        if self._burns is None:
            context = self._context
            self._burns = Burns(
                context.history,
                context.signal_facts,
                context.report.at,
                reach_seconds=self._reach_seconds,
                least_seconds=INTERVALS_PER_WINDOW * context.interval_seconds,
                distant=context.distant,
            )
        return self._burns.of(objective, key, kind, window_seconds)

    @property
    def _reach_seconds(self) -> float:
        start = self._context.history_from
        return 0.0 if start is None else self._context.report.at - start

    def _objective(self, key: ModelKey) -> Objective | None:
        return objective_for(self._context.objectives, key.name, self._context.workload(key.server))


def window_words(seconds: float) -> str:
    """A window as it follows "the last": hour, 6 hours, day."""
    return _WORDS[seconds]


def _above(long: Burn, short: Burn, pair: Pair) -> bool:
    return min(long.rate, short.rate) > pair.rate(USUAL_DAYS)


def _facts_of(kind: Kind) -> dict[str, Callable[[BurnFacts, ModelKey], Fact]]:
    def told(tell: Callable[[Burning], Fact]) -> Callable[[BurnFacts, ModelKey], Fact]:
        def fact(facts: BurnFacts, key: ModelKey) -> Fact:
            burning = facts.burning(kind, key)
            return None if burning is None else tell(burning)

        return fact

    def rate(window_seconds: float) -> Callable[[BurnFacts, ModelKey], Fact]:
        def fact(facts: BurnFacts, key: ModelKey) -> Fact:
            burn = facts.of(kind, window_seconds, key)
            return None if burn is None else burn.rate

        return fact

    name = f"{kind.value}_burn"
    return {
        **{f"{name}_{duration_text(seconds)}": rate(seconds) for seconds in WINDOWS},
        f"{name}_severity": told(lambda one: one.severity),
        f"{name}_long": told(lambda one: one.long.rate),
        f"{name}_short": told(lambda one: one.short.rate),
        f"{name}_long_window": told(lambda one: window_words(one.long.window_seconds)),
        f"{name}_short_window": told(lambda one: window_words(one.short.window_seconds)),
        f"{name}_unreached": lambda facts, key: facts.unreached(kind, key),
    }


def _source(facts: BurnFacts, key: ModelKey) -> Fact:
    burning = facts.burning(Kind.LATENCY, key)
    return None if burning is None else burning.long.source


OF_MODELS: dict[str, Callable[[BurnFacts, ModelKey], Fact]] = {
    **_facts_of(Kind.ERRORS),
    **_facts_of(Kind.LATENCY),
    "latency_source": _source,
}
"""Facts by name."""
