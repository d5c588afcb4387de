"""All collectors on the real tritonserver, and its ports mixed up."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.config import ConfigCollector, ready_models
from collectors.exposition import MetricsPage
from collectors.metadata import MetadataCollector
from collectors.metrics_page import MetricsPageCollector
from collectors.reading import Collector
from collectors.repository import IndexCollector
from collectors.statistics import StatisticsCollector
from sandbox import Sandbox
from telemetry.catalogue import CATALOGUE
from telemetry.errors import NotHttp, TlsFailed, WrongContent
from telemetry.facts import ModelState
from telemetry.identity import Server
from telemetry.scrape import Scrape
from telemetry.server_entry import metrics_base
from telemetry.transport import Transport

pytestmark = pytest.mark.integration

TIMEOUT_SECONDS = 5.0
Kind = type[MetricsPageCollector | StatisticsCollector | IndexCollector | MetadataCollector]


def server_of(triton: Sandbox) -> Server:
    return Server("live", triton.http_url, metrics_base(triton.metrics_url))


def read(kind: Kind, server: Server) -> Scrape:
    collector: Any = kind(server, Transport(server), timeout_seconds=TIMEOUT_SECONDS)
    assert isinstance(collector.server, Server)
    scrape: Scrape = collector.collect()
    return scrape


def test_every_source_of_a_real_server_is_read_without_a_notice(triton: Sandbox) -> None:
    server = server_of(triton)
    page, statistics = read(MetricsPageCollector, server), read(StatisticsCollector, server)
    index, metadata = read(IndexCollector, server), read(MetadataCollector, server)
    for scrape in (page, statistics, index, metadata):
        assert scrape.error is None
        assert scrape.notices == ()
    assert isinstance(page.payload, MetricsPage)
    assert (
        page.payload.families["nv_inference_request_success"].kind
        is CATALOGUE["nv_inference_request_success"].kind
    )
    assert metadata.payload is not None
    assert getattr(metadata.payload, "name", None) == triton.server_id
    entries: Any = index.payload
    ready = {entry.name for entry in entries if entry.state is ModelState.READY}
    rows: Any = statistics.payload
    assert {row.name for row in rows} == ready
    assert "batch_add_model" in ready


def test_the_configurations_of_all_ready_models_are_read(triton: Sandbox) -> None:
    server = server_of(triton)
    entries: Any = read(IndexCollector, server).payload
    ready = ready_models(entries, None)
    assert ready
    collector = ConfigCollector(server, Transport(server), lambda: ready, timeout_seconds=TIMEOUT_SECONDS)
    scrape: Scrape | None = None
    while (latest := collector.collect()) is not None:
        assert latest.error is None
        assert latest.notices == ()
        scrape = latest
    assert scrape is not None
    configs: Any = scrape.payload
    assert configs.keys() == ready.keys()
    assert configs["ensemble_pipeline"].ensemble
    assert configs["batch_add_model"].inputs[0].datatype == "FP32"


def test_the_http_port_in_place_of_the_metrics_port(triton: Sandbox) -> None:
    scrape = read(MetricsPageCollector, Server("live", None, triton.http_url))
    assert isinstance(scrape.error, WrongContent)
    assert scrape.error.sentence == (
        "This address does not serve Prometheus metrics (got application/json). "
        "Triton's usual is http://host:8002/metrics."
    )


@pytest.mark.parametrize("kind", [StatisticsCollector, MetadataCollector])
def test_the_metrics_port_in_place_of_the_http_port(triton: Sandbox, kind: Kind) -> None:
    scrape = read(kind, Server("live", metrics_base(triton.metrics_url), None))
    assert isinstance(scrape.error, WrongContent)
    assert "its HTTP API is usually on port 8000" in scrape.error.sentence


@pytest.mark.parametrize(
    "kind", [StatisticsCollector, IndexCollector, MetadataCollector, MetricsPageCollector]
)
def test_d09_the_grpc_port_does_not_speak_http(triton: Sandbox, kind: Kind) -> None:
    address = f"http://{triton.grpc_url}"
    scrape = read(kind, Server("live", address, address))
    assert isinstance(scrape.error, NotHttp)
    assert scrape.error.sentence == f"{triton.grpc_url} does not speak HTTP: is it the gRPC port?"


def test_d09_tls_to_the_plain_http_port(triton: Sandbox) -> None:
    address = triton.http_url.replace("http:", "https:")
    scrape = read(MetadataCollector, Server("live", address, None))
    assert isinstance(scrape.error, TlsFailed)


def test_a_collector_is_what_the_poller_takes(triton: Sandbox) -> None:
    server = server_of(triton)
    collector: Collector = MetadataCollector(server, Transport(server), timeout_seconds=TIMEOUT_SECONDS)
    assert collector.collect() is not None
