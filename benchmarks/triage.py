"""`make bench-triage`: every fault and every healthy situation on the real server, one JSON line each.

    {"kind": "fault", "name", "first": true|false, "seconds", "unexpected": []}
    {"kind": "healthy", "name", "false_alarms": 0, "minutes"}

Each healthy situation lasts 3 minutes, one of them 10. Exit status 1 if a fault was not first within 30 s
or if anything was said where nothing is wrong.
"""

from __future__ import annotations

import argparse
import sys

from sandbox.laboratory.command import SITUATIONS, run
from sandbox.laboratory.situation import Kind

HEALTHY_MINUTES, LONG_MINUTES = 3.0, 10.0
LONG = "gentle"


def main() -> int:
    """Play everything and print the lines."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.triage", description=__doc__)
    parser.add_argument("--minutes", type=float, default=HEALTHY_MINUTES, help="of a healthy situation")
    parser.add_argument("--long-minutes", type=float, default=LONG_MINUTES, help=f"of the situation {LONG}")
    chosen = parser.parse_args()
    faults = [one for one in SITUATIONS.values() if one.kind is Kind.FAULT]
    healthy = [one for one in SITUATIONS.values() if one.kind is Kind.HEALTHY and one.name != LONG]
    outcomes = run(faults, None, tell=False)
    outcomes += run(healthy, chosen.minutes, tell=False)
    outcomes += run([SITUATIONS[LONG]], chosen.long_minutes, tell=False)
    return 0 if all(outcome.good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
