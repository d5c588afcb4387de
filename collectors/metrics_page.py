"""Source METRICS: the server's own metrics page."""

from __future__ import annotations

from collectors.exposition import MetricsPage, SeriesCache, not_metrics, read_page, sniff
from collectors.reading import OneCall, Reading
from telemetry.errors import NotFound, SourceError
from telemetry.identity import Server
from telemetry.scrape import Source
from telemetry.transport import Answer, Transport

METRICS_PATH = "/metrics"


class MetricsPageCollector(OneCall):
    """Reads `metrics_url`/metrics; the payload is a `MetricsPage`. One instance per thread."""

    source = Source.METRICS

    def __init__(self, server: Server, transport: Transport, *, timeout_seconds: float) -> None:
        super().__init__(server, transport, timeout_seconds=timeout_seconds)
        self._cache = SeriesCache()

    def _read(self) -> Reading:
        answer = _ask(self.server, self._transport, self._timeout_seconds)
        page = read_page(answer.text, self._cache, content_type=answer.content_type)
        return Reading(page, page.samples, page.notices, answer.text)


def page_url(metrics_url: str) -> str:
    """The page's address; people configure it with and without /metrics at the end."""
    return metrics_url if metrics_url.endswith(METRICS_PATH) else metrics_url + METRICS_PATH


def read_metrics(
    server: Server, transport: Transport, timeout_seconds: float, cache: SeriesCache | None = None
) -> MetricsPage:
    """The server's page now; raises SourceError."""
    answer = _ask(server, transport, timeout_seconds)
    return read_page(answer.text, cache, content_type=answer.content_type)


def _ask(server: Server, transport: Transport, timeout_seconds: float) -> Answer:
    if server.metrics_url is None:
        raise SourceError(f"server {server.id} has no metrics address in the settings (`metrics_url`)")
    try:
        return transport.get(page_url(server.metrics_url), timeout_seconds=timeout_seconds)
    except NotFound as error:
        raise not_metrics(sniff(error.detail or "", "HTTP 404")) from error
