"""`python -m signals`: all signals of a live server or of saved answers, as a table or as strict JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from signals import command
from signals.live import measure, server_of
from signals.report import Report
from signals.report_json import to_json
from signals.saved import replay
from signals.table import to_text
from telemetry.errors import TritonscopeError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status: 0, or 2 when nothing could be read."""
    parser = argparse.ArgumentParser(prog="python -m signals", description=__doc__)
    command.add_arguments(parser)
    arguments = parser.parse_args(argv)
    try:
        report = _report(arguments)
    except TritonscopeError as error:
        print(error.sentence, file=sys.stderr)
        return command.UNREADABLE
    command.write(f"{to_json(report)}\n" if arguments.json else to_text(report))
    return 0


def _report(arguments: argparse.Namespace) -> Report:
    if command.is_live(arguments):
        return measure(server_of(arguments.url, arguments.metrics_url), arguments.window)
    return replay(command.saved_answers(arguments)).report()


if __name__ == "__main__":
    raise SystemExit(main())
