"""What `python -m triage` judges: a live server that is watched for a window, or saved answers of one."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from history.config_book import ConfigBook
from history.events import EventLog
from signals import command
from signals.live import server_of, watch
from signals.report import Report
from signals.saved import SERVER, SavedAnswers, replay
from telemetry.identity import Server
from triage.context import Context
from triage.coverage import server_coverage
from triage.engine import judge
from triage.finding import Judgement
from triage.happenings import Happened
from triage.rulebook import load_rulebook
from triage.verdict import Verdict, verdict

WINDOW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Judged:
    """Findings, the sentence on top, and the figures they rest on.

    `clocked`: times are of the clock; those of saved answers only tell how far they lie apart.
    """

    report: Report
    judgement: Judgement
    verdict: Verdict
    clocked: bool


def judged(arguments: argparse.Namespace) -> Judged:
    """Judge what the command line names. Raises TritonscopeError if nothing could be read."""
    if command.is_live(arguments):
        return _live(server_of(arguments.url, arguments.metrics_url), arguments.window)
    return judged_answers(command.saved_answers(arguments))


def _live(server: Server, window_seconds: float) -> Judged:
    events, configs = EventLog(), ConfigBook()
    seen = watch(server, window_seconds, also=(events, configs))
    report, inventory = seen.report(), seen.inventory()
    span = seen.ring.span()
    happened = Happened.watched(seen.ring, events, configs, lambda: report.at)
    context = Context(
        report=report,
        history=seen.ring,
        inventory=inventory,
        coverage=[server_coverage(seen.ring, server, report.at)],
        now=report.at,
        interval_seconds=seen.interval_seconds,
        history_from=span[0] if span else None,
        ended=True,
        happenings=happened.now(inventory, report.at),
    )
    return _of(context, clocked=True)


def judged_answers(answers: SavedAnswers) -> Judged:
    """Judge saved answers. Raises WrongContent if not one of them can be read."""
    configs = ConfigBook()
    played = replay(answers, also=(configs,))
    span, inventory = played.ring.span(), played.inventory()
    # Saved answers come source by source: what happened in between is told by their configurations alone.
    happened = Happened.watched(played.ring, EventLog(), configs, lambda: played.at)
    context = Context(
        report=played.report(),
        history=played.ring,
        inventory=inventory,
        coverage=[server_coverage(played.ring, Server(SERVER, None, None), played.at)],
        now=played.at,
        interval_seconds=answers.every_seconds,
        history_from=played.since if played.since is not None else span[0] if span else None,
        ended=True,
        evenly_read=True,
        happenings=happened.now(inventory, played.at),
    )
    return _of(context, clocked=False)


def _of(context: Context, *, clocked: bool) -> Judged:
    judgement = judge(load_rulebook(), context)
    return Judged(context.report, judgement, verdict(judgement, context), clocked)
