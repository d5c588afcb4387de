"""Which sources of a server are read how often, and how long each may take."""

from __future__ import annotations

from collectors.config import ConfigCollector, ReadyModels
from collectors.gpu_processes import ProcessCollector
from collectors.metadata import MetadataCollector
from collectors.metrics_page import MetricsPageCollector
from collectors.poller import Job
from collectors.repository import IndexCollector
from collectors.statistics import StatisticsCollector
from telemetry.identity import Server
from telemetry.scrape import Source
from telemetry.transport import Transport

METADATA_SECONDS = 30.0
LEAST_PROCESS_SECONDS = 5.0
"""Walking the page tables of large processes costs milliseconds: no need to do it at every interval."""
HTTP_TIMEOUT_SECONDS = 5.0
"""For what is read seldom: loads occupy Triton's HTTP workers, and the API answers seconds later."""
_INTERVAL_SHARE = 0.9


def live_timeout_seconds(interval_seconds: float) -> float:
    """Time-out of metrics and statistics: just under one interval, so that a server that hangs is known
    within two, on both of its ports; 5 s at most.
    """  # fmt: skip
    return min(HTTP_TIMEOUT_SECONDS, _INTERVAL_SHARE * interval_seconds)


def periods_seconds(interval_seconds: float) -> dict[Source, float]:
    """Period of each source. CONFIG comes round with the index but asks only for what changed."""
    return {
        Source.METRICS: interval_seconds,
        Source.STATISTICS: interval_seconds,
        Source.INDEX: 2 * interval_seconds,
        Source.CONFIG: 2 * interval_seconds,
        Source.METADATA: METADATA_SECONDS,
        Source.PROCESSES: max(LEAST_PROCESS_SECONDS, 2 * interval_seconds),
    }


def jobs_for(server: Server, interval_seconds: float, ready: ReadyModels) -> list[Job]:
    """The jobs of one server: its metrics page if configured, its HTTP API if configured, and its processes
    where one of the two is an address of this machine.

    `ready` tells the configuration collector which models are ready; see `collectors.config`.
    """
    periods = periods_seconds(interval_seconds)
    transport = Transport(server, timeout_seconds=HTTP_TIMEOUT_SECONDS)
    jobs: list[Job] = []
    live_timeout, timeout = live_timeout_seconds(interval_seconds), HTTP_TIMEOUT_SECONDS
    if server.metrics_url is not None:
        jobs.append(
            Job(
                MetricsPageCollector(server, transport, timeout_seconds=live_timeout), periods[Source.METRICS]
            )
        )
    if server.http_url is not None:
        for collector in (
            StatisticsCollector(server, transport, timeout_seconds=live_timeout),
            IndexCollector(server, transport, timeout_seconds=timeout),
            ConfigCollector(server, transport, ready, timeout_seconds=timeout),
            MetadataCollector(server, transport, timeout_seconds=timeout),
        ):
            jobs.append(Job(collector, periods[collector.source]))
    if server.http_url is not None or server.metrics_url is not None:
        jobs.append(Job(ProcessCollector(server), periods[Source.PROCESSES]))
    return jobs
