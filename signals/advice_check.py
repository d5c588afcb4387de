"""What came of advice: what was predicted of a configuration against what is measured under it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from signals.advice import Advice, Observed, Proposal, Range
from telemetry.units import Unit, human

OTHER_TRAFFIC_RATIO = 0.25
"""Traffic that differs by more from what a prediction was made for is another one."""
_HARDLY_RATIO = 0.05


@dataclass(frozen=True, slots=True)
class Check:
    """A prediction against what came of it: relative errors, None where nothing was measured."""

    throughput_error_ratio: float | None
    queue_error_ratio: float | None
    within: bool
    """True if measured queue and rate lie in the predicted ranges, widened by a tenth; the queue's also by a
    twentieth of the whole request: of a queue of nearly nothing half is nothing too.
    """  # fmt: skip
    other_traffic: str = ""
    """How the traffic differs from what the prediction was made for, "" if it does not: then the errors say
    nothing of the prediction.
    """  # fmt: skip


def check(proposal: Proposal, measured: Observed, before: Advice | None = None) -> Check:
    """Compare after the change; `before` is the advice it was made from, which says for which traffic."""
    rate, queue = measured.requests_per_second, measured.queue_us_mean
    return Check(
        abs(proposal.requests_per_second.middle - rate) / rate if rate else None,
        abs(proposal.queue_us.middle - queue) / queue if queue else None,
        _inside(rate, proposal.requests_per_second)
        and _inside(queue, proposal.queue_us, _HARDLY_RATIO * measured.request_us_mean),
        other_traffic(before, measured) if before is not None else "",
    )


def other_traffic(before: Advice, measured: Observed) -> str:
    """In words how the traffic differs by more than a quarter from what an advice assumed; "" if it does not.

    Random arrivals by their rate, waiting clients by their number (Little's law), both by rows a request.
    """
    arrivals, rate = before.arrivals, measured.requests_per_second
    if _apart(measured.rows, before.observed.rows):
        return f"{measured.rows:.3g} rows a request instead of {before.observed.rows:.3g}"
    if arrivals.clients is None:
        then = before.observed.requests_per_second
        words = f"{human(rate, Unit.PER_SECOND)} instead of {human(then, Unit.PER_SECOND)}"
        return words if _apart(rate, then) else ""
    clients = rate / 1e6 * (measured.request_us_mean + arrivals.think_us)
    # Of a few clients one more or less is within what can be told from outside.
    if abs(clients - arrivals.clients) < 1.0 or not _apart(clients, arrivals.clients):
        return ""
    return f"about {max(1, round(clients))} waiting clients instead of {arrivals.clients}"


def _apart(one: float, other: float) -> bool:
    return max(one, other) > (1 + OTHER_TRAFFIC_RATIO) * min(one, other)


def _inside(value: float, range_: Range, slack: float = 0.0) -> bool:
    return 0.9 * range_.low - slack <= value <= 1.1 * range_.high + slack
