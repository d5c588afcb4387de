"""Our own golden requests among a model's requests, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import runtime
from history.protocol import Grid, History
from signals.own_requests import WINDOW_SECONDS, Shares, shares, to_model
from telemetry.identity import ModelKey
from telemetry.units import human_duration
from ui.format import counted
from ui.view import View

_COUNTERS = ("nv_inference_request_success", "nv_inference_request_failure")
_LAST = "tritonscope_model_last_inference_seconds"


def own_share(view: View, server: str, model: str, seconds: float = WINDOW_SECONDS) -> Shares | None:
    """How many of the last requests to a model, over all its versions, were our own golden ones.

    None where none was sent to it. The window begins with this process at the earliest: what it sent before
    is not known any more.
    """
    process = runtime.current()
    if process.golden is None:
        return None
    now = view.now
    since = max(now - seconds, process.golden.since, view.oldest or 0.0)
    configs = {
        one.key.name: one.config
        for one in process.inventory().models
        if one.key.server == server and one.config is not None
    }
    sent = to_model(process.golden.sent(server, since), model, configs)
    if not sent or since >= now:
        return None
    where = (("server", server), ("model", model))
    total = 0.0
    for family in _COUNTERS:
        grown = process.history.increase(family, ("server",), now - since, now, where=where, plain=True)
        total += sum(grown.values())
    executed_at = _executed_at(process.history, where, since, now, view.interval_seconds)
    return shares(total, executed_at, sent, since, now)


def others_per_second(view: View, key: ModelKey, found: Shares, rate: float) -> float:
    """What of `rate` (requests per second now) is not our own; 0 if somebody else's last one is long ago."""
    window = runtime.current().window_seconds
    quiet = found.last_other is not None and view.now - found.last_other > window
    if found.only_own or quiet:
        return 0.0
    recent = own_share(view, key.server, key.name, window)
    return recent.others / recent.seconds if recent is not None and recent.others else rate


def _executed_at(
    history: History, where: tuple[tuple[str, str], ...], since: float, now: float, step: float
) -> Sequence[float]:
    frame = history.gauge_range(_LAST, ("version",), Grid(since, now, step), where=where)
    return np.unique(frame.values[np.isfinite(frame.values)]).tolist() if frame.keys else []


def share_words(found: Shares, now: float) -> str:
    """`the 12 requests in the last hour were our own golden requests`, or how many of them."""
    when = "hour" if found.seconds > 0.95 * WINDOW_SECONDS else human_duration(found.seconds)
    if found.only_own:
        words = (
            f"the {counted(found.own, 'request')} in the last {when} were our own golden requests"
            if found.own > 1
            else f"the only request in the last {when} was our own golden request"
        )
    else:
        were = "was our own golden request" if found.own == 1 else "were our own golden requests"
        words = f"{found.own} of the {counted(found.total, 'request')} in the last {when} {were}"
        if found.last_other is not None:
            words += f", the last of somebody else was {human_duration(now - found.last_other)} ago"
    if found.doubtful:
        words += f"; {counted(found.doubtful, 'golden request')} failed, and may be counted among the others"
    return words
