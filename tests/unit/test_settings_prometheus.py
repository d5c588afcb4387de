"""`history.prometheus` of the settings: address, tenant, credentials, matchers; servers without address."""

from __future__ import annotations

from pathlib import Path

from settings import Settings, load_settings
from telemetry.prometheus_endpoint import PROMETHEUS_KEYS, PrometheusEndpoint


def load(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> Settings:
    file = tmp_path / "tritonscope.yml"
    file.write_text(text, encoding="utf-8")
    return load_settings(environ or {}, file)


def endpoint(settings: Settings) -> PrometheusEndpoint:
    assert settings.prometheus is not None
    return settings.prometheus


def noticed(settings: Settings) -> list[tuple[int | None, str]]:
    return [(notice.line, notice.text) for notice in settings.notices]


EVERYTHING = """
history:
  prometheus:
    url: prom:9090/api/v1
    tenant: team-a
    headers_from_env: {Authorization: TOKEN}
    headers_from_file: {X-Scope: token}
    ca_file: ca.pem
    matchers: {cluster: prod, namespace: "=~triton-.*", team: "!=lab", odd: 'a"b'}
    replica_label: prometheus_replica
    server_label: pod
    model_label: exported_model
    version_label: exported_version
    workload_label: deployment
    timeout_seconds: 4
"""


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "ca.pem").write_text("x")
    settings = load(tmp_path, EVERYTHING, {"TOKEN": "Bearer t"})
    found = endpoint(settings)
    assert found.url == "http://prom:9090"
    assert dict(found.headers) == {
        "Authorization": "Bearer t",
        "X-Scope": "secret",
        "X-Scope-OrgID": "team-a",
    }
    assert found.ca_file == str(tmp_path / "ca.pem")
    assert found.matchers == ('cluster="prod"', 'namespace=~"triton-.*"', 'odd="a\\"b"', 'team!="lab"')
    assert (found.replica_label, found.server_label, found.workload_label) == (
        "prometheus_replica",
        "pod",
        "deployment",
    )
    assert (found.model_label, found.version_label, found.timeout_seconds) == (
        "exported_model",
        "exported_version",
        4.0,
    )
    assert settings.notices == ()
    assert set(PROMETHEUS_KEYS) == {line.split(":")[0].strip() for line in EVERYTHING.splitlines()[3:]} | {
        "headers"
    }


def test_credentials_are_not_in_the_text_of_the_endpoint(tmp_path: Path) -> None:
    settings = load(tmp_path, EVERYTHING, {"TOKEN": "Bearer t0p"})
    assert "t0p" not in repr(settings) and "team-a" not in repr(settings)


def test_the_environment_alone_is_enough_and_then_no_server_is_assumed(tmp_path: Path) -> None:
    settings = load(tmp_path, "", {"TRITONSCOPE_PROMETHEUS_URL": "http://prom:9090/"})
    assert endpoint(settings).url == "http://prom:9090"
    assert settings.servers == () and settings.notices == ()


def test_the_environment_wins_over_the_address_of_the_file_and_leaves_the_rest(tmp_path: Path) -> None:
    text = "history:\n  prometheus:\n    url: a:1\n    tenant: t\n"
    found = endpoint(load(tmp_path, text, {"TRITONSCOPE_PROMETHEUS_URL": "b:2"}))
    assert found.url == "http://b:2" and found.headers["X-Scope-OrgID"] == "t"


def test_without_prometheus_there_is_none(tmp_path: Path) -> None:
    settings = load(tmp_path, "servers: [h:8000]\n")
    assert settings.prometheus is None


def test_what_is_wrong_costs_itself_and_says_its_line(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        """history:
  promtheus: {}
  prometheus:
    url: prom:9090
    timeout_seconds: soon
    replica_label: "a-b"
    matchers: {"1x": y, cluster: prod}
    tenant: "a\\nb"
    headers_from_env: {Authorization: MISSING}
    colour: red
""",
    )
    found = endpoint(settings)
    assert (
        found.timeout_seconds == 10.0 and found.replica_label == "" and found.matchers == ('cluster="prod"',)
    )
    assert dict(found.headers) == {}
    assert sorted(noticed(settings), key=lambda one: (one[0] or 0, one[1])) == [
        (2, "unknown setting promtheus (did you mean prometheus?): not used"),
        (5, "timeout_seconds must be 0.1 to 120, not soon: 10 is used"),
        (6, "replica_label: 'a-b' is not a label name: not used"),
        (7, "matchers: '1x' is not a label name"),
        (8, "tenant: the value of header X-Scope-OrgID has a line break in it: remove it"),
        (9, "the environment variable MISSING is not set; header Authorization is not sent"),
        (10, "unknown setting colour: not used"),
    ]


def test_a_wrong_address_says_what_to_do_and_costs_prometheus_only(tmp_path: Path) -> None:
    settings = load(tmp_path, "servers: [h:8000]\nhistory:\n  prometheus:\n    url: ftp://prom\n")
    assert settings.prometheus is None and len(settings.servers) == 1
    assert noticed(settings) == [
        (
            4,
            "history.prometheus: address 'ftp://prom': only http and https are supported, not ftp: "
            "Prometheus is not asked",
        )
    ]


def test_a_server_may_be_known_by_its_labels_alone_where_there_is_prometheus(tmp_path: Path) -> None:
    servers = "servers:\n  - match: {namespace: search, pod: triton-7}\n    workload: search\n"
    alone = load(tmp_path, servers)
    assert [server.id for server in alone.servers] == []
    assert "triton-7 has no address, and no Prometheus is configured" in alone.notices[0].text
    both = load(tmp_path, servers, {"TRITONSCOPE_PROMETHEUS_URL": "prom:9090"})
    (server,) = both.servers
    assert (server.id, server.http_url, server.metrics_url) == ("triton-7", None, None)
    assert server.match == (("namespace", "search"), ("pod", "triton-7"))
