"""Whether the reading goes on: for /healthz."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from collectors.poller import Poller
from history.remote import Remote
from telemetry.identity import Server
from telemetry.scrape import ANSWERED


def health_of(poller: Poller, servers: Iterable[Server], remote: Remote | None) -> dict[str, Any]:
    """`status` (ok, dead), `poller_age_seconds` since any loop came round, and by server the age of its
    last successful reading in seconds, None if there was none.
    """  # fmt: skip
    jobs = poller.health()
    alive = poller.running and all(job.alive for job in jobs.values())
    ages: dict[str, float | None] = {server.id: None for server in servers}
    for (server_id, source), job in jobs.items():
        if source not in ANSWERED or server_id not in ages:
            continue
        known = [age for age in (ages[server_id], job.success_age_seconds) if age is not None]
        ages[server_id] = round(min(known), 3) if known else None
    if remote is not None:
        ages |= remote.ages(time.time())
        alive = alive and remote.alive
    return {
        "status": "ok" if alive else "dead",
        "poller_age_seconds": round(min((job.age_seconds for job in jobs.values()), default=0.0), 3),
        "servers": ages,
    }
