"""Is it the server or the clients? From the figures of one model and what was found about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from signals.report import ModelSignals
from telemetry.facts import ModelConfig
from telemetry.units import Unit, human
from triage.finding import Finding

NOTICEABLE_FAILURES = 0.001
"""Share of failed requests from which on failures are the answer."""
NOTICEABLE_WAIT_US = 10_000.0
"""Where nothing was found, a shorter mean wait is how batches form and no answer."""
BUSY = 0.8
IDLE = 0.5
LONG_WAIT = 0.5
"""Share of the queue in the request time from which on waiting is the answer."""
FULL = 0.9
"""A batch of this share of the largest one counts as full."""
_CLIENTS = frozenset({"CANCELED"})
"""Reasons of failures that clients bring about."""
_RULES = {
    "OneClientAtATime": "clients",
    "TrafficPinned": "clients",
    "BatchingDelayTooLong": "server",
    "ModelHung": "server",
    "PythonProcessDead": "server",
    "ModelLoadFailed": "server",
    "ModelStuckLoading": "server",
    "ModelGone": "server",
    "EnsembleWithoutStep": "server",
    "EnsembleSlowStep": "server",
    "OneBadReplica": "server",
    "ServerDown": "server",
    "HttpNotAnswering": "server",
}
"""Findings that say whose it is by themselves."""


_FAILING = "RequestsFailing"


class Whose(StrEnum):
    """Where to look first."""

    SERVER = "the server"
    CLIENTS = "the clients"
    LOAD = "the load"
    NEITHER = "neither"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose it is, and the sentence with the numbers it rests on."""

    whose: Whose
    sentence: str


def origin(
    name: str, row: ModelSignals | None, config: ModelConfig | None, findings: Sequence[Finding]
) -> Origin:
    """The answer for one model; `findings` are those about it, most harmful first."""
    for finding in findings:
        if finding.rule == _FAILING:
            # What harms most is the answer, not what is worth knowing besides.
            break
        if (side := _RULES.get(finding.rule)) is not None:
            whose = Whose.CLIENTS if side == "clients" else Whose.SERVER
            return Origin(whose, f"{_opening(whose)}: {_continued(finding.sentence, name)}")
    if row is None:
        return Origin(Whose.UNKNOWN, "It cannot be told: there are no figures of this model.")
    requests = row.signals.number("requests_per_second")
    failed = row.signals.number("failed_ratio")
    if not requests and not failed:
        return Origin(
            Whose.UNKNOWN,
            "No request reaches this model now, so its figures say nothing: if clients do send, look at "
            "their address, the network and the proxy first.",
        )
    if failed is not None and failed >= NOTICEABLE_FAILURES:
        return _failing(row, failed)
    noticed = bool(findings) or (row.signals.number("queue_us_mean") or 0.0) >= NOTICEABLE_WAIT_US
    return (_waiting(row, config) if noticed else None) or _serving(row)


def _opening(whose: Whose) -> str:
    return f"It is {whose.value}"


def _continued(sentence: str, name: str) -> str:
    return sentence if sentence.startswith(name) else sentence[:1].lower() + sentence[1:]


def _failing(row: ModelSignals, failed: float) -> Origin:
    by_reason = row.signals.mapping("failures_by_reason") or {}
    total = sum(by_reason.values())
    share = human(failed, Unit.RATIO)
    if total <= 0:
        return Origin(
            Whose.SERVER,
            f"It is the server: {share} of the requests fail in it; this Triton does not report why.",
        )
    reason = max(by_reason, key=lambda one: by_reason[one])
    part = human(by_reason[reason] / total, Unit.RATIO)
    if reason in _CLIENTS:
        return Origin(
            Whose.CLIENTS,
            f"It is the clients: {share} of the requests end without an answer, {part} of them because "
            "clients cancel them. See whether an answer takes longer than their time-out.",
        )
    what = {
        "BACKEND": "the model's own code or backend raises an error",
        "REJECTED": "they waited in the queue for longer than its time-out allows",
        "OTHER": "the server refuses or ends them outside the model",
    }.get(reason, f"reason {reason}")
    return Origin(
        Whose.SERVER, f"It is the server: {share} of the requests fail in it, {part} of them because {what}."
    )


def _waiting(row: ModelSignals, config: ModelConfig | None) -> Origin | None:
    """Why requests wait, where waiting is the larger part of their time."""
    number = row.signals.number
    share, queue, busy = number("queue_ratio"), number("queue_us_mean"), number("instance_busy_ratio")
    if share is None or queue is None or share < LONG_WAIT:
        return None
    waited = f"a request waits {human(queue, Unit.US)}, {human(share, Unit.RATIO)} of its time on the server"
    batch = number("batch_size_mean")
    full = config is not None and config.max_batch_size >= 2 and batch is not None
    full = full and config is not None and (batch or 0.0) >= FULL * config.max_batch_size
    if full or (busy is not None and busy >= BUSY):
        why = (
            f"batches are full ({human(batch, Unit.NONE)} of {config.max_batch_size})"
            if full and config is not None
            else f"its instances are busy {human(busy, Unit.RATIO)} of the time"
        )
        return Origin(
            Whose.LOAD,
            f"It is the load: {waited}, and {why}. Clients send more than this server serves.",
        )
    delay = config.max_queue_delay_us if config is not None else None
    if busy is not None and busy < IDLE and delay and queue < 3 * delay:
        return Origin(
            Whose.SERVER,
            f"It is a setting of the server: {waited}, while its instances are busy only "
            f"{human(busy, Unit.RATIO)} of the time; its batching delay is {human(delay, Unit.US)}.",
        )
    known = f"busy {human(busy, Unit.RATIO)} of the time" if busy is not None else "not known to be busy"
    return Origin(
        Whose.LOAD,
        f"It is how requests arrive: {waited}, though its instances are {known}. Look for bursts and for "
        "other models on the same device.",
    )


def _serving(row: ModelSignals) -> Origin:
    number = row.signals.number
    whole, queue = number("request_us_mean"), number("queue_us_mean")
    if whole is None:
        return Origin(Whose.UNKNOWN, "It cannot be told: the server does not report how long requests take.")
    waited = f", {human(queue, Unit.US)} of it waiting" if queue is not None else ""
    failed = number("failed_ratio")
    failing = f"{human(failed, Unit.RATIO)} of the requests fail" if failed else "no failure is counted"
    return Origin(
        Whose.NEITHER,
        f"Not the server, by its figures: it answers in {human(whole, Unit.US)} on average{waited}, and "
        f"{failing}. What clients see beyond that is lost on the way to it or in the clients.",
    )
