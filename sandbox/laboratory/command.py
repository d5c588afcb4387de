"""`python -m sandbox laboratory`: play situations, one JSON line each."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from sandbox.errors import SandboxError
from sandbox.laboratory.faults import FAULTS
from sandbox.laboratory.faults_of_servers import FAULTS_OF_SERVERS
from sandbox.laboratory.healthy import HEALTHY
from sandbox.laboratory.lab import Servers
from sandbox.laboratory.situation import Kind, Outcome, Situation, play

SITUATIONS: dict[str, Situation] = {one.name: one for one in (*FAULTS, *FAULTS_OF_SERVERS, *HEALTHY)}
FAULT_MINUTES, HEALTHY_MINUTES = 0.0, 3.0


def chosen(names: Sequence[str]) -> list[Situation]:
    """The situations of these names, all without one; SandboxError for an unknown name."""
    unknown = [name for name in names if name not in SITUATIONS]
    if unknown:
        raise SandboxError(f"There is no situation {unknown[0]!r}; there are {', '.join(SITUATIONS)}.")
    return [SITUATIONS[name] for name in names] if names else list(SITUATIONS.values())


def run(situations: Sequence[Situation], minutes: float | None, *, tell: bool) -> list[Outcome]:
    """Play them one after another and print a line for each; `tell`: also what was said."""
    outcomes = []
    with Servers() as servers:
        for situation in situations:
            usual = FAULT_MINUTES if situation.kind is Kind.FAULT else HEALTHY_MINUTES
            outcome = play(situation, servers, minutes=usual if minutes is None else minutes)
            print(json.dumps(outcome.row(), ensure_ascii=False), flush=True)
            if tell:
                _explain(outcome)
            outcomes.append(outcome)
    return outcomes


def _explain(outcome: Outcome) -> None:
    if outcome.sentence:
        print(f"  {outcome.sentence}", file=sys.stderr, flush=True)
    for subject, sentence in outcome.others.items():
        print(f"  unexpected: {subject}: {sentence}", file=sys.stderr, flush=True)


def main(names: Sequence[str], minutes: float | None, *, listed: bool) -> int:
    """Exit status 0 if everything was as it must be, 1 if not."""
    if listed:
        for one in SITUATIONS.values():
            print(f"{one.kind.value:<8} {one.name:<24} {one.text}{f' -> {one.first}' if one.first else ''}")
        return 0
    outcomes = run(chosen(names), minutes, tell=True)
    return 0 if all(outcome.good for outcome in outcomes) else 1
