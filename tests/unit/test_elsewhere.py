"""Alertmanager, Grafana and logs: read from the settings, linked to from findings, alerts told once."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pytest

from collectors.alertmanager import parse_alerts
from history.alerts import AlertWatch, alerts_of, merged
from history.promapi import PromSeries
from history.protocol import Grid
from settings import Settings, load_settings
from telemetry.alerts import Alert, AlertState
from telemetry.elsewhere import grafana_link, log_link, silence_link
from telemetry.errors import Unreachable

ALERTS = [
    {
        "labels": {"alertname": "QueueDominates", "instance": "a:8002", "model": "m", "cluster": "prod"},
        "annotations": {"summary": "m on a:8002 waits"},
        "startsAt": "2026-11-30T10:00:20.123Z",
        "endsAt": "2026-11-30T10:09:20.123Z",
        "status": {"state": "active", "silencedBy": [], "inhibitedBy": []},
        "fingerprint": "1",
    },
    {
        "labels": {"alertname": "ServerDown", "instance": "b:8002"},
        "annotations": {},
        "startsAt": "2026-11-30T10:01:00+00:00",
        "status": {"state": "suppressed", "silencedBy": ["x"], "inhibitedBy": []},
    },
]
AT = 1_796_032_820.123  # 2026-11-30 10:00:20 UTC


def load(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "tritonscope.yml"
    file.write_text(text, encoding="utf-8")
    return load_settings({"TOKEN": "Bearer s3cret"}, file)


def test_what_the_settings_name_is_linked_to(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "alertmanager:\n  url: am:9093/api/v2\n  public_url: https://am.example.com\n"
        "  headers_from_env: {Authorization: TOKEN}\n"
        "grafana:\n  url: https://grafana.example.com/g/\n"
        'logs:\n  url_template: "https://loki.example.com/x?q={{pod=%22{server}%22}}&f={from_ms}"\n',
    )
    assert settings.notices == ()
    elsewhere = settings.elsewhere
    assert elsewhere.alertmanager is not None
    assert (elsewhere.alertmanager.url, elsewhere.alertmanager.public_url) == (
        "http://am:9093",
        "https://am.example.com",
    )
    assert dict(elsewhere.alertmanager.headers) == {"Authorization": "Bearer s3cret"}
    assert "s3cret" not in repr(settings)
    assert elsewhere.grafana_url == "https://grafana.example.com/g"
    assert elsewhere.log_template.startswith("https://loki.example.com/x?q={")


@pytest.mark.parametrize(
    ("written", "line", "notice"),
    [
        ("alertmanager: x", 1, "alertmanager needs `url:`: not used"),
        ("alertmanager:\n  url: ftp://x", 2, "alertmanager: address 'ftp://x'"),
        ("grafana:\n  uri: x", 2, "grafana: unknown setting uri"),
        ("logs:\n  url_template: http://x/{pod}", 2, "logs: url_template knows no {pod}: not used"),
        ("logs:\n  url_template: javascript:alert(1)", 2, "logs: url_template must be an address"),
    ],
)
def test_what_cannot_be_used_costs_itself_only(tmp_path: Path, written: str, line: int, notice: str) -> None:
    settings = load(tmp_path, f"{written}\n")
    assert settings.elsewhere.alertmanager is None
    assert (settings.elsewhere.grafana_url, settings.elsewhere.log_template) == ("", "")
    assert [(one.line, one.text.startswith(notice)) for one in settings.notices][:1] == [(line, True)]


def test_links_hold_the_server_the_model_and_the_time() -> None:
    link = log_link(
        "https://x/{server}/{model}?v={version}&a={from}&b={to_iso}&c={to_ms}",
        server="a b&c", model='m"', version="1", start=AT, end=AT + 60,
    )  # fmt: skip
    assert link == "https://x/a%20b%26c/m%22?v=1&a=1796032820&b=2026-11-30T10%3A01%3A20Z&c=1796032880123"
    board = grafana_link("https://g", server="a:8002", model="m", version="", start=AT, end=AT + 60)
    assert board == (
        "https://g/d/tritonscope-model?var-server=a%3A8002&var-model=m&from=1796032820123&to=1796032880123"
    )
    assert grafana_link("https://g", server="a", model="", version="", start=0, end=1).startswith(
        "https://g/d/tritonscope-fleet?var-server=a&from=0"
    )
    silence = silence_link("https://am", {"alertname": "X", "model": 'a"b\\', "version": ""})
    assert unquote(silence) == 'https://am/#/silences/new?filter={alertname="X",model="a\\"b\\\\"}'


def test_loki_in_grafana_gets_the_server_and_the_time_as_json() -> None:
    """The template that docs/triage.md shows."""
    link = log_link(
        "https://grafana.example.com/explore?schemaVersion=1&panes=%7B%22a%22:%7B%22datasource%22:%22loki%22,"
        "%22queries%22:%5B%7B%22refId%22:%22A%22,%22expr%22:%22%7Binstance%3D%5C%22{server}%5C%22%7D%22%7D%5D,"
        "%22range%22:%7B%22from%22:%22{from_ms}%22,%22to%22:%22{to_ms}%22%7D%7D%7D",
        server="triton-a:8002", model="m", version="1", start=100.0, end=160.0,
    )  # fmt: skip
    pane = json.loads(parse_qs(urlsplit(link).query)["panes"][0])["a"]
    assert pane["queries"][0]["expr"] == '{instance="triton-a:8002"}'
    assert pane["range"] == {"from": "100000", "to": "160000"}


def test_alerts_of_alertmanager_with_who_is_told() -> None:
    first, second = parse_alerts(ALERTS)
    assert (first.name, first.server, first.model) == ("QueueDominates", "a:8002", "m")
    assert first.starts_at == pytest.approx(AT)
    assert (first.state, first.ends_at, first.summary) == (AlertState.FIRING, None, "m on a:8002 waits")
    assert second.state is AlertState.SILENCED


def series(*times: float) -> PromSeries:
    labels = {
        "__name__": "ALERTS", "alertname": "QueueDominates", "alertstate": "firing",
        "instance": "a:8002", "model": "m",
    }  # fmt: skip
    return PromSeries(labels, np.array(times), ("1",) * len(times))


def test_each_stretch_of_a_series_of_prometheus_is_one_alert_and_the_last_may_still_hold() -> None:
    found = list(alerts_of(series(60, 120, 180, 540, 600), Grid(0, 600, 60)))
    assert [(one.starts_at, one.ends_at, one.state) for one in found] == [
        (60, 180, AlertState.RESOLVED),
        (540, None, AlertState.FIRING),
    ]
    assert found[0].labels == {"instance": "a:8002", "model": "m"}


def test_an_alert_that_both_tell_is_one_with_alertmanagers_state_and_the_earlier_begin() -> None:
    end = AT // 60 * 60
    old, now = alerts_of(series(end - 1800, end - 300, end - 240, end - 180), Grid(0, end - 180, 60))
    assert now.ends_at is None
    told = merged((old, now), parse_alerts(ALERTS))
    assert [(one.name, one.source, one.starts_at) for one in told] == [
        ("ServerDown", "Alertmanager", pytest.approx(AT + 39.877)),
        ("QueueDominates", "Alertmanager", end - 300),
        ("QueueDominates", "Prometheus", end - 1800),
    ]


def test_who_cannot_be_asked_is_said_and_what_they_told_is_kept() -> None:
    class Reader:
        broken = False

        def alerts(self) -> tuple[Alert, ...]:
            if self.broken:
                raise Unreachable("am:9093 is not reachable: connection refused")
            return parse_alerts(ALERTS)

    reader = Reader()
    watch = AlertWatch(None, reader, clock=lambda: AT)
    assert watch.configured and watch.seen().read_at is None
    assert len(watch.read().alerts) == 2
    reader.broken = True
    seen = watch.read()
    assert seen.errors == ("am:9093 is not reachable: connection refused",)
    assert [one.name for one in seen.alerts] == ["ServerDown", "QueueDominates"]
    assert not AlertWatch(None, None).configured
