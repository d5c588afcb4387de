"""`python -m triage`: what is wrong with a live server, or with one whose answers were saved, and what to do.

Exit status 0: no finding. 1: findings. 2: nothing could be read.

python -m triage capture --out FILE ...    writes an incident file
python -m triage replay FILE               shows one in the app
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from signals import command
from telemetry.errors import TritonscopeError
from triage.command import WINDOW_SECONDS, Judged, judged
from triage.incident import rules_digest
from triage.incident_command import capture, replay
from triage.incident_file import open_file
from triage.text import to_json, to_text

HEALTHY, FOUND = 0, 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["capture"]:
        return capture(words[1:], _shared_password)
    if words[:1] == ["replay"]:
        return replay(words[1:])
    parser = argparse.ArgumentParser(
        prog="python -m triage", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_arguments(parser, window_seconds=WINDOW_SECONDS)
    parser.add_argument("--incident", type=Path, metavar="FILE", help="an incident file: the findings in it")
    arguments = parser.parse_args(words)
    try:
        found = judged(arguments) if arguments.incident is None else _of_incident(arguments.incident)
    except TritonscopeError as error:
        print(error.sentence, file=sys.stderr)
        return command.UNREADABLE
    command.write(f"{to_json(found)}\n" if arguments.json else to_text(found))
    return FOUND if found.judgement.findings else HEALTHY


def _shared_password() -> str:
    """The app's shared password as the settings of this machine have it, "" without one."""
    from settings import load_settings

    shared = load_settings().access.password
    return shared.value if shared is not None else ""


def _of_incident(path: Path) -> Judged:
    """What is found in an incident file; a line on stderr if its own version found something else."""
    opened = open_file(path)
    if opened.incident.manifest.rules != rules_digest():
        print("Note: the rules are others than when this was captured.", file=sys.stderr)
    return opened.judged()


if __name__ == "__main__":
    raise SystemExit(main())
