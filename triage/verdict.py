"""The one sentence at the top: is anything wrong, and for whom; and what cannot be said.

It claims only what was counted: refusals are in no counter of the server, so "no request failed" is never
said; a number that is not reported is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from telemetry.facts import ModelState
from telemetry.identity import ModelKey
from telemetry.scrape import Source
from telemetry.units import Unit, human, human_duration
from triage.context import Context, ServerCoverage, short_error
from triage.finding import NO_PAGE, ONE_READING, Finding, Judgement, Severity
from triage.template import counted

NAMED_FINDINGS = 2
"""How many findings the sentence names; the others are counted."""
NAMED_WAITING = 3
"""How many models with waiting requests are named where there is one reading only."""
FRESH_INTERVALS = 1.5
"""Figures older than this many intervals are no longer called current."""

NOBODY_WAITS = "nobody waits"
HURTING = ("FAILING",)
"""Tags of remarks beside which it is not said that nothing is wrong."""

Clock = Callable[[float], str]
"""Unix seconds as the reader's time of day."""


class VerdictLevel(StrEnum):
    """FINE green, LOOK amber, HURT red, UNKNOWN grey."""

    FINE = "fine"
    LOOK = "look"
    HURT = "hurt"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to "is anything wrong?" in one sentence."""

    level: VerdictLevel
    sentence: str


def local_clock(at: float) -> str:
    """Time of day in this machine's zone, with the day when it is not today's."""
    moment, today = datetime.fromtimestamp(at), datetime.now()
    return moment.strftime("%H:%M") if moment.date() == today.date() else moment.strftime("%d %b %H:%M")


def verdict(judgement: Judgement, context: Context, clock: Clock = local_clock) -> Verdict:
    """The sentence for what was judged; the first reason that applies decides the level."""
    if not context.coverage:
        return Verdict(VerdictLevel.UNKNOWN, "No server is configured: add one to tritonscope.yml.")
    serious = [one for one in judgement.findings if one.severity is not Severity.INFO]
    if serious:
        return _wrong(serious, context, clock)
    if any(one.why == ONE_READING for one in judgement.unjudged):
        return _unseen(context.coverage, context) or Verdict(
            VerdictLevel.UNKNOWN, f"Nothing can be said yet: {ONE_READING}{_waiting_now(context)}."
        )
    remarks = [one for one in judgement.findings if one.severity is Severity.INFO]
    return (
        _unseen(context.coverage, context)
        or _unloaded(context)
        or _without_page(context.coverage)
        or _fine(context, remarks)
    )


def _wrong(findings: Sequence[Finding], context: Context, clock: Clock) -> Verdict:
    first = findings[0]
    hurt = first.severity is Severity.PAGE
    level = VerdictLevel.HURT if hurt else VerdictLevel.LOOK
    if first.model is None and not _answering(first.server, context):
        return Verdict(level, _silent(first, findings[1:], context, clock))
    opening = "Users are hurt" if hurt else "Look soon"
    return Verdict(level, f"{opening}: {_listed(findings)}.")


def _silent(first: Finding, others: Sequence[Finding], context: Context, clock: Clock) -> str:
    """A server that does not answer: since when, and how old its last figures are."""
    one = context.coverage_of[first.server]
    since = f" since {clock(first.since)}" if first.since is not None else ""
    age = (
        f"; the last figures are {human_duration(one.age_seconds)} old" if one.age_seconds is not None else ""
    )
    more = f". Besides, {_listed(others)}" if others else ""
    return f"{first.clause}{since}{age}{more}."


def _listed(findings: Sequence[Finding]) -> str:
    clauses = [one.clause for one in findings[:NAMED_FINDINGS]]
    if rest := len(findings) - len(clauses):
        clauses.append(counted(str(rest), "more finding"))
    return clauses[0] if len(clauses) == 1 else f"{', '.join(clauses[:-1])} and {clauses[-1]}"


def _answering(server: str, context: Context) -> bool:
    one = context.coverage_of.get(server)
    return one is not None and one.answering


def _unseen(coverage: Sequence[ServerCoverage], context: Context) -> Verdict | None:
    """Servers whose requests cannot be seen now, though no rule calls them down (yet)."""
    for one in coverage:
        if one.age_seconds is None and not one.answering:
            why = f" ({short_error(one.sentence)})" if one.sentence else ""
            return Verdict(VerdictLevel.UNKNOWN, f"{one.server} has not answered yet{why}.")
        if not one.answering and (one.age_seconds or 0.0) > FRESH_INTERVALS * context.interval_seconds:
            age = human_duration(one.age_seconds or 0.0)
            why = f" ({short_error(one.sentence)})" if one.sentence else ""
            return Verdict(
                VerdictLevel.UNKNOWN, f"{one.server} does not answer{why}; the last figures are {age} old."
            )
        if one.answering and Source.METRICS in one.failed_sources:
            why = short_error(one.failed_sources[Source.METRICS])
            return Verdict(
                VerdictLevel.UNKNOWN,
                f"{one.server} answers, but not its metrics page ({why}): its requests cannot be judged.",
            )
    return None


def _without_page(coverage: Sequence[ServerCoverage]) -> Verdict | None:
    """Other answers than the metrics page say nothing about requests."""
    for one in coverage:
        if one.asked_sources and Source.METRICS not in one.asked_sources:
            return Verdict(VerdictLevel.UNKNOWN, f"The requests to {one.server} cannot be judged: {NO_PAGE}.")
    return None


def _unloaded(context: Context) -> Verdict | None:
    """Servers are ready and serve nothing."""
    loaded, total = _loaded(context)
    if total is None or loaded:
        return None
    if not total:
        return Verdict(VerdictLevel.LOOK, f"{_servers(context)} ready, and no model is in the repository.")
    return Verdict(VerdictLevel.LOOK, f"{_servers(context)} ready, 0 of {total} models loaded.")


def _fine(context: Context, remarks: Sequence[Finding]) -> Verdict:
    waiting = _waiting_part(context)
    if remarks and waiting == NOBODY_WAITS:
        # A remark may be about waiting: that nobody waits at this moment would contradict it.
        waiting = ""
    told = (_models_part(context), _rate_part(context), _failed_part(context), waiting)
    parts = [part for part in told if part]
    if not parts:
        return Verdict(VerdictLevel.UNKNOWN, "Nothing can be said yet: no model has reported a figure.")
    worth = f"; worth knowing: {_listed(remarks)}" if remarks else ""
    opening = "Nothing is urgent" if any(one.tag in HURTING for one in remarks) else "Nothing is wrong"
    return Verdict(VerdictLevel.FINE, f"{opening}: {', '.join(parts)}{worth}.")


def _models_part(context: Context) -> str:
    loaded, total = _loaded(context)
    if total is not None:
        return f"{loaded} of {counted(str(total), 'model')} loaded"
    seen = len({(key.server, key.name) for key in context.model_keys})
    return f"{counted(str(seen), 'model')} seen" if seen else ""


def _rate_part(context: Context) -> str:
    rates = [row.signals.number("requests_per_second") for row in context.report.servers]
    known = [rate for rate in rates if rate is not None]
    return f"{human(sum(known), Unit.NONE)} req/s" if known else ""


def _failed_part(context: Context) -> str:
    """What was counted, as long as no rule makes anything of it: cancelled requests are the clients' own."""
    failed = 0.0
    for row in context.report.servers:
        reasons = row.signals.mapping("failures_by_reason") or {}
        failed += (row.signals.number("failures_total") or 0.0) - reasons.get("CANCELED", 0.0)
    return f"{counted(human(failed, Unit.NONE), 'request')} failed" if failed >= 1 else ""


def _waiting_now(context: Context) -> str:
    """The gauge is all that one reading tells of now: who has requests waiting, most first."""
    waiting = {
        row.key: count
        for row in context.report.models
        if (count := row.signals.number("pending") or 0.0) > 0 and math.isfinite(count)
    }
    most = sorted(waiting, key=lambda key: (-waiting[key], key))
    named = [f"{context.label(key)} ({human(waiting[key], Unit.NONE)})" for key in most[:NAMED_WAITING]]
    if rest := len(most) - len(named):
        named.append(f"{rest} more")
    return f"; requests wait at it for {', '.join(named)}" if named else ""


def _waiting_part(context: Context) -> str:
    """Only said when every model that serves reports it: older servers do not."""
    serving = [row for row in context.report.models if row.state in (ModelState.READY, None)]
    waiting = [row.signals.number("pending") for row in serving]
    if not waiting or None in waiting:
        return ""
    total = sum(count for count in waiting if count is not None)
    if not total:
        return NOBODY_WAITS
    return f"{counted(human(total, Unit.NONE), 'request')} {'waits' if total == 1 else 'wait'}"


def _loaded(context: Context) -> tuple[int, int | None]:
    """(models with a READY version, all models), by server and name; None when no index was read."""
    states = {(key.server, key.name): False for key in context.model_keys}
    known = False
    for key in context.model_keys:
        state = context.state(key)
        known = known or state is not None
        states[key.server, key.name] |= state is ModelState.READY or _serves_unlisted(context, key)
    if not known and not context.inventory.index_read:
        return 0, None
    return sum(states.values()), len(states)


def _serves_unlisted(context: Context, key: ModelKey) -> bool:
    """The index does not list it and it is on the metrics page: its files came with a load, or are gone."""
    facts = context.facts_of.get(key)
    return facts is not None and facts.state is ModelState.UNKNOWN and Source.METRICS in facts.sources


def _servers(context: Context) -> str:
    count = len(context.coverage)
    return "Server" if count == 1 else counted(str(count), "server")
