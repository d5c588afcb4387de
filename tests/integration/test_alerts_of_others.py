"""Alerts as the page Triage tells them, from a real Prometheus and a real Alertmanager; a silence is seen."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

import pytest
import requests
import yaml

from history.alerts import AlertWatch
from sandbox.ports import free_ports
from sandbox.processes import end_group, start_bound
from telemetry.alerts import Alert, AlertState
from telemetry.elsewhere import AlertmanagerEndpoint, silence_link
from telemetry.prometheus_endpoint import PrometheusEndpoint
from tests.e2e.stack import until
from tests.integration.test_compose_prometheus import alertmanager_command
from tests.prometheus_server import PrometheusServer

pytestmark = pytest.mark.integration
LABELS = {"instance": "gpu-1:8002", "model": 'odd "name" \\ {x}', "severity": "page"}


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("alertmanager")
    (folder / "alertmanager.yml").write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    (port,) = free_ports(1)
    command = [
        *alertmanager_command(),
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with (folder / "log").open("wb") as log:
        process = start_bound(command, output=log)
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        try:
            return requests.get(f"{url}/-/ready", timeout=2).status_code == 200
        except requests.RequestException:
            return False

    try:
        until(ready, "Alertmanager answers", 60)
        yield url
    finally:
        end_group(process, 10)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    folder = tmp_path_factory.mktemp("prometheus")
    rule = {"alert": "RequestsFailing", "expr": "vector(1)", "labels": LABELS}
    file = folder / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": [rule]}]}))
    with PrometheusServer(folder, {}, rules=[file], rules_every_seconds=1.0) as server:
        until(server.ready, "Prometheus answers", 60)
        yield server


def test_one_alert_told_by_both_is_one_and_a_silence_through_the_links_matchers_is_seen(
    alertmanager: str, prometheus: PrometheusServer
) -> None:
    began = datetime.now(UTC) - timedelta(seconds=30)
    row = {"labels": {"alertname": "RequestsFailing", **LABELS}, "annotations": {"summary": "they fail"}}
    rows = [{**row, "startsAt": began.isoformat()}]
    assert requests.post(f"{alertmanager}/api/v2/alerts", json=rows, timeout=5).status_code == 200
    endpoint = AlertmanagerEndpoint(alertmanager, alertmanager)
    alone = AlertWatch.of(PrometheusEndpoint(prometheus.url), None)

    def told() -> Alert | None:
        seen = alone.read()
        assert seen.errors == ()
        return seen.alerts[0] if seen.alerts else None

    one = until(told, "ALERTS of Prometheus", 60)
    assert one is not None and time.time() - one.starts_at < 120
    assert (one.name, dict(one.labels), one.state) == ("RequestsFailing", LABELS, AlertState.FIRING)

    both = AlertWatch.of(PrometheusEndpoint(prometheus.url), endpoint)
    (one,) = both.read().alerts
    assert (one.source, one.summary, one.state) == ("Alertmanager", "they fail", AlertState.FIRING)
    assert one.starts_at == pytest.approx(began.timestamp(), abs=0.01)

    link = silence_link(alertmanager, {"alertname": one.name, **one.labels})
    silence(alertmanager, matchers_of(link))
    until(lambda: both.read().alerts[0].state is AlertState.SILENCED, "the silence", 60)


def matchers_of(link: str) -> dict[str, str]:
    """What the form reads from the link's filter, by Alertmanager's quoting."""
    text = unquote(link.partition("filter=")[2])
    pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', text)
    assert text == "{" + ",".join(f'{name}="{value}"' for name, value in pairs) + "}"
    return {name: re.sub(r"\\(.)", r"\1", value) for name, value in pairs}


def silence(url: str, matchers: dict[str, str]) -> None:
    now = time.time()
    body = {
        "matchers": [
            {"name": name, "value": value, "isRegex": False, "isEqual": True}
            for name, value in matchers.items()
        ],
        "startsAt": datetime.fromtimestamp(now, UTC).isoformat(),
        "endsAt": datetime.fromtimestamp(now + 600, UTC).isoformat(),
        "createdBy": "a test",
        "comment": "seen by a test",
    }
    answer = requests.post(f"{url}/api/v2/silences", json=body, timeout=5)
    assert answer.status_code == 200, answer.text


def test_the_quoting_is_what_alertmanager_reads(alertmanager: str) -> None:
    """Its own parser takes the matchers of the link and finds the alert by them."""
    link = silence_link(alertmanager, {"alertname": "RequestsFailing", **LABELS})
    text = unquote(link.partition("filter=")[2])
    matchers = re.findall(r'\w+="(?:[^"\\]|\\.)*"', text)
    assert len(matchers) == 4
    rows = requests.get(f"{alertmanager}/api/v2/alerts", params={"filter": matchers}, timeout=5).json()
    assert [row["labels"]["model"] for row in rows] == [LABELS["model"]]
