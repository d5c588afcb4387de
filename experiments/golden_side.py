"""The golden requests of one process, put together as the settings say. Imported only with the write side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from control.facade import Control
from control.golden import GoldenRequests
from experiments.golden_prober import GoldenProber, Hearers, Rhythm, Target
from history.inventory import Inventory, ModelFacts
from telemetry.facts import ModelState
from telemetry.golden_choice import TIMEOUT_SECONDS, GoldenChoice
from telemetry.identity import Server, version_number

SANDBOX_EVERY_MINUTES = 1.0
"""In the sandbox golden requests are on without any setting."""


class Watched(Protocol):
    """What is known of the servers: the runtime."""

    @property
    def servers(self) -> Sequence[Server]:
        """The servers that are looked at."""

    def inventory(self) -> Inventory:
        """Their models."""

    def is_sandbox(self, server_id: str) -> bool:
        """True for the server that this run started."""


def golden_requests(
    watched: Watched, choice: GoldenChoice | None, sandbox_folder: Callable[[str], Path | None]
) -> GoldenRequests:
    """Where they are: the sandbox has a folder in its run's own, other servers that of the settings."""

    def folder_of(server_id: str) -> Path | None:
        return sandbox_folder(server_id) or (choice.path if choice is not None else None)

    def workload_of(server_id: str) -> str:
        return next((one.workload for one in watched.servers if one.id == server_id), "")

    return GoldenRequests(folder_of, workload_of)


def golden_prober(
    watched: Watched, control: Control, choice: GoldenChoice | None, hearers: Hearers
) -> GoldenProber:
    """Who sends them; not started."""

    def rhythm_of(server_id: str) -> Rhythm | None:
        if choice is not None:
            return Rhythm(choice.every_minutes, choice.timeout_seconds)
        return Rhythm(SANDBOX_EVERY_MINUTES, TIMEOUT_SECONDS) if watched.is_sandbox(server_id) else None

    return GoldenProber(
        control,
        lambda: watched.servers,
        lambda server_id: targets_of(watched, server_id),
        rhythm_of,
        hearers,
    )


def targets_of(watched: Watched, server_id: str) -> Iterator[Target]:
    """The ready models of one server, each with its newest ready version: what clients without one get."""
    server = next((one for one in watched.servers if one.id == server_id), None)
    if server is None:
        return
    newest: dict[str, ModelFacts] = {}
    for facts in watched.inventory().models:
        if facts.key.server == server_id and facts.state is ModelState.READY and not facts.gone:
            known = newest.get(facts.key.name)
            if known is None or version_number(facts.key.version) > version_number(known.key.version):
                newest[facts.key.name] = facts
    for name, facts in sorted(newest.items()):
        yield Target(server, name, facts.key.version, facts.config)
