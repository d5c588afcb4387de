"""What `python -m triage` judges: a live server that is watched for a window, or saved answers of one."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from signals import command
from signals.live import server_of, watch
from signals.report import Report
from signals.saved import SERVER, SavedAnswers, replay
from telemetry.identity import Server
from triage.context import Context
from triage.coverage import server_coverage
from triage.engine import judge
from triage.finding import Judgement
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
    seen = watch(server, window_seconds)
    report = seen.report()
    span = seen.ring.span()
    context = Context(
        report=report,
        history=seen.ring,
        inventory=seen.inventory(),
        coverage=[server_coverage(seen.ring, server, report.at)],
        now=report.at,
        interval_seconds=seen.interval_seconds,
        history_from=span[0] if span else None,
    )
    return _of(context, clocked=True)


def judged_answers(answers: SavedAnswers) -> Judged:
    """Judge saved answers. Raises WrongContent if not one of them can be read."""
    played = replay(answers)
    span = played.ring.span()
    context = Context(
        report=played.report(),
        history=played.ring,
        inventory=played.inventory(),
        coverage=[server_coverage(played.ring, Server(SERVER, None, None), played.at)],
        now=played.at,
        interval_seconds=answers.every_seconds,
        history_from=span[0] if span else None,
        evenly_read=True,
    )
    return _of(context, clocked=False)


def _of(context: Context, *, clocked: bool) -> Judged:
    judgement = judge(load_rulebook(), context)
    return Judged(context.report, judgement, verdict(judgement, context), clocked)
