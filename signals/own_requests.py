"""Whose requests a model's counters count: our own golden requests, or somebody else's. Pure.

Triton does not tell who asks. What we send we know: how many requests when, and whether they were answered,
so that they are among those counted. The rest is somebody else's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from telemetry.facts import ModelConfig

WINDOW_SECONDS = 3600.0
CLOCKS_SECONDS = 2.0
"""The time of a model's last execution is by the server's clock, ours by ours."""


@dataclass(frozen=True, slots=True)
class Sent:
    """`requests` sent to a model from `began` to `ended` (unix seconds).

    `answered` False: they failed, and whether the server counted them is not known.
    """

    model: str
    began: float
    ended: float
    requests: int
    answered: bool


@dataclass(frozen=True, slots=True)
class Shares:
    """Requests of the last `seconds`: `total` by the counters, `own` of them ours for certain.

    `doubtful` are ours too, if the server counted them. `last_other` is when somebody else's last request was
    executed, as far as it was seen (unix seconds), None if none was.
    """

    seconds: float
    total: int
    own: int
    doubtful: int = 0
    last_other: float | None = None

    @property
    def others(self) -> int:
        """Requests that are not known to be ours: at most so many came from somebody else."""
        return max(0, self.total - self.own)

    @property
    def only_own(self) -> bool:
        """True if nobody else asked."""
        return self.own > 0 and self.others == 0


def to_model(sent: Iterable[Sent], model: str, configs: Mapping[str, ModelConfig]) -> list[Sent]:
    """What of it reached `model`: directly, or as a step of an ensemble, as often as it stands there."""
    found = []
    for one in sent:
        times = _times(one.model, model, configs, frozenset())
        if times:
            found.append(Sent(model, one.began, one.ended, one.requests * times, one.answered))
    return found


def _times(asked: str, model: str, configs: Mapping[str, ModelConfig], above: frozenset[str]) -> int:
    if asked == model:
        return 1
    config = configs.get(asked)
    if config is None or asked in above:
        return 0
    inside = above | {asked}
    return sum(_times(step.model_name, model, configs, inside) for step in config.ensemble_steps)


def shares(
    total: float, executed_at: Sequence[float], sent: Sequence[Sent], since: float, until: float
) -> Shares:
    """The requests from `since` to `until` (unix seconds), of which the counters counted `total`.

    `executed_at` are the times of executions that were seen, unix seconds. A golden request at the very edge
    may be counted by the server only: with so few more than ours, and no execution but ours, there was nobody
    else.
    """
    mine = [one for one in sent if one.ended >= since and one.began <= until]
    own = sum(one.requests for one in mine if one.answered)
    doubtful = sum(one.requests for one in mine if not one.answered)
    counted = max(round(total), 0)
    foreign = [at for at in executed_at if since <= at <= until and not _ours(at, mine)]
    at_the_edge = max((one.requests for one in mine), default=0)
    if executed_at and not foreign and counted - own <= at_the_edge:
        counted = min(counted, own)
    # Where nobody else was counted, a time that fits none of ours is a clock that goes wrong.
    last_other = max(foreign, default=None) if counted > own else None
    return Shares(until - since, max(counted, own), own, doubtful, last_other)


def _ours(at: float, sent: Iterable[Sent]) -> bool:
    return any(one.began - CLOCKS_SECONDS <= at <= one.ended + CLOCKS_SECONDS for one in sent)
