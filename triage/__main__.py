"""`python -m triage`: what is wrong with a live server, or with one whose answers were saved, and what to do.

Exit status 0: no finding. 1: findings. 2: nothing could be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from signals import command
from telemetry.errors import TritonscopeError
from triage.command import WINDOW_SECONDS, judged
from triage.text import to_json, to_text

HEALTHY, FOUND = 0, 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m triage", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_arguments(parser, window_seconds=WINDOW_SECONDS)
    arguments = parser.parse_args(argv)
    try:
        found = judged(arguments)
    except TritonscopeError as error:
        print(error.sentence, file=sys.stderr)
        return command.UNREADABLE
    command.write(f"{to_json(found)}\n" if arguments.json else to_text(found))
    return FOUND if found.judgement.findings else HEALTHY


if __name__ == "__main__":
    raise SystemExit(main())
