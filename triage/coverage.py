"""How well each server can be seen, from the last attempts the ring holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from history.ring import Ring
from telemetry.errors import NoAnswer, NotHttp, TlsFailed, Unreachable
from telemetry.facts import ServerMetadata
from telemetry.identity import Server
from telemetry.scrape import ANSWERED, Scrape, Source
from triage.context import ServerCoverage

_SILENCE = (Unreachable, NoAnswer, NotHttp, TlsFailed)
"""Errors that mean nothing of this server spoke; any other error is an answer, if not a useful one."""
_HTTP_SOURCES = (Source.STATISTICS, Source.INDEX, Source.METADATA)


def server_coverage(ring: Ring, server: Server, now: float) -> ServerCoverage:
    """Coverage of one configured server at `now` (unix seconds).

    A server has two doors, the metrics port and the HTTP port; it answers if the newest attempt at one of
    them was answered.
    """
    attempts = {
        source: scrape for source in ANSWERED if (scrape := ring.latest(server.id, source)) is not None
    }
    doors = [
        door
        for door in (
            _newest(attempts[source] for source in (Source.METRICS,) if source in attempts),
            _newest(attempts[source] for source in _HTTP_SOURCES if source in attempts),
        )
        if door is not None
    ]
    answering = any(_answered(door) for door in doors)
    silent = next((door.error for door in doors if door.error is not None), None)
    answers = [scrape.at for source in ANSWERED if (scrape := ring.last(server.id, source)) is not None]
    answers += [scrape.at for scrape in attempts.values() if _answered(scrape)]
    spoke = max(answers, default=None)
    metadata = ring.last(server.id, Source.METADATA)
    return ServerCoverage(
        server=server.id,
        answering=answering,
        age_seconds=max(0.0, now - spoke) if spoke is not None else None,
        sentence="" if answering or silent is None else silent.sentence,
        workload=server.workload,
        version=metadata.payload.version if metadata and isinstance(metadata.payload, ServerMetadata) else "",
        failed_sources={
            source: scrape.error.sentence for source, scrape in attempts.items() if scrape.error is not None
        },
        asked_sources=frozenset(attempts),
        http_age_seconds=_http_age_seconds(ring, server.id, now),
        silent_seconds=None if answering else _silent_seconds(ring, server.id, doors, spoke),
    )


def seen_through(coverage: ServerCoverage, why: str, fresh_seconds: float) -> ServerCoverage:
    """Coverage of a server that is read through Prometheus alone.

    Without samples younger than `fresh_seconds` nothing is known of it now, which is not the same as down;
    `why` says what keeps Prometheus from telling, "" if it tells of other servers.
    """
    if not coverage.answering and coverage.silent_seconds is not None:
        return coverage
    if coverage.age_seconds is not None and coverage.age_seconds <= fresh_seconds:
        return coverage
    sentence = why or "Prometheus has no fresh samples of it"
    return replace(coverage, answering=False, sentence=sentence, silent_seconds=None)


def _silent_seconds(ring: Ring, server: str, doors: Sequence[Scrape], spoke: float | None) -> float | None:
    """Counted between attempts, not to the clock: one attempt that runs into its time-out is one attempt."""
    if not doors:
        return None
    newest = max(door.at for door in doors)
    if spoke is not None:
        return newest - spoke
    times = [ring.sample_times(server, door.source, 0.0, newest) for door in doors]
    return newest - min((float(one[0]) for one in times if len(one)), default=newest)


def _http_age_seconds(ring: Ring, server: str, now: float) -> float | None:
    answers = [scrape.at for source in _HTTP_SOURCES if (scrape := ring.last(server, source)) is not None]
    return max(0.0, now - max(answers)) if answers else None


def _newest(scrapes: Iterable[Scrape]) -> Scrape | None:
    return max(scrapes, key=lambda scrape: scrape.at, default=None)


def _answered(scrape: Scrape) -> bool:
    return scrape.ok or not isinstance(scrape.error, _SILENCE)
