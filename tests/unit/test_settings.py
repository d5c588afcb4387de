"""Settings: environment, file, addresses, secrets; what is wrong costs itself and says its line."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

import settings as settings_module
from settings import Settings, load_settings
from telemetry.scrape import Notice
from tools.settings_file import render

ROOT = Path(__file__).parents[2]


def load(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> Settings:
    file = tmp_path / "tritonscope.yml"
    file.write_text(text, encoding="utf-8")
    return load_settings(environ or {}, file)


def addresses(settings: Settings) -> dict[str, tuple[str | None, str | None]]:
    return {server.id: (server.http_url, server.metrics_url) for server in settings.servers}


def noticed(settings: Settings) -> list[tuple[int | None, str]]:
    return [(notice.line, notice.text) for notice in settings.notices]


def test_without_any_setting_the_usual_ports_of_this_machine_are_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings({})
    assert addresses(settings) == {"127.0.0.1:8000": ("http://127.0.0.1:8000", "http://127.0.0.1:8002")}
    assert settings.notices == ()
    assert (settings.refresh_seconds, settings.live_window_seconds, settings.app_port) == (2.0, 60.0, 8501)


def test_a_file_with_everything(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("Bearer from-file\n")
    (tmp_path / "ca.pem").write_text("x")
    settings = load(
        tmp_path,
        """
refresh_seconds: 5
retention_seconds: 7200
servers:
  - id: a
    url: https://h1/base/
    metrics_url: h1:9002/metrics
    headers: {X-Team: search, X-Number: 7}
    headers_from_env: {Authorization: TOKEN}
    headers_from_file: {X-Secret: token}
    ca_file: ca.pem
    workload: search
    match: {pod: triton-0, namespace: search}
    control: true
  - h2:8000
  - id: metrics-only
    metrics_url: h3:8002
  - id: closed
    url: h4:8000
    metrics_url: none
""",
        {"TOKEN": "Bearer secret-1"},
    )
    assert settings.notices == ()
    assert (settings.refresh_seconds, settings.retention_seconds) == (5.0, 7200.0)
    assert addresses(settings) == {
        "a": ("https://h1/base", "http://h1:9002"),
        "h2:8000": ("http://h2:8000", "http://h2:8002"),
        "metrics-only": (None, "http://h3:8002"),
        "closed": ("http://h4:8000", None),
    }
    a = settings.servers[0]
    assert dict(a.headers) == {
        "X-Team": "search",
        "X-Number": "7",
        "Authorization": "Bearer secret-1",
        "X-Secret": "Bearer from-file",
    }
    assert a.ca_file == str(tmp_path / "ca.pem")
    assert (a.workload, a.match, a.control) == (
        "search",
        (("namespace", "search"), ("pod", "triton-0")),
        True,
    )
    assert not settings.servers[1].control


def test_values_of_headers_are_in_no_representation(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "servers:\n  - url: h:8000\n    headers: {Authorization: Bearer s3cret}\n",
    )
    assert settings.servers[0].headers["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in repr(settings) + str(settings) + repr(settings.servers[0])


def test_d13_a_header_with_a_line_break_is_refused_and_not_shown(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        'servers:\n  - url: h:8000\n    headers:\n      Authorization: "s3cret\\nX: y"\n      Good: "1"\n',
    )
    assert dict(settings.servers[0].headers) == {"Good": "1"}
    (notice,) = settings.notices
    assert notice.line == 4
    assert "line break" in notice.text
    assert "s3cret" not in repr(settings.notices)


def test_a_header_whose_variable_or_file_is_missing_is_not_sent(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "servers:\n  - url: h:8000\n    headers_from_env: {A: NOT_SET}\n    headers_from_file: {B: gone}\n",
    )
    assert dict(settings.servers[0].headers) == {}
    assert noticed(settings) == [
        (3, "the environment variable NOT_SET is not set; header A is not sent"),
        (4, "the file gone cannot be read; header B is not sent"),
    ]


def test_a_bad_entry_costs_that_entry_and_says_its_line(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        """refresh_secs: 5
live_window_seconds: soon
servers:
  - id: good
    url: h1:8000
  - id: bad-scheme
    url: grpc://h2:8001
  - id: no-address
    workload: x
  - id: good
    url: h3:8000
  - id: typo
    url: h4:8000
    metric_url: h4:9002
  - 17
  - id: odd
    url: h5:8000
    headers: [a]
    match: {pod: {a: b}}
    control: perhaps
""",
    )
    assert list(addresses(settings)) == ["good", "typo", "odd"]
    assert addresses(settings)["good"] == ("http://h1:8000", "http://h1:8002")
    assert settings.live_window_seconds == 60
    assert sorted(noticed(settings), key=lambda pair: pair[0] or 0) == [
        (1, "unknown setting refresh_secs (did you mean refresh_seconds?): not used"),
        (
            2,
            "live_window_seconds: 'soon' cannot be used "
            "(Input should be a valid number, unable to parse string as a number)",
        ),
        (
            7,
            "address 'grpc://h2:8001': only http and https are supported, not grpc: this server is not used",
        ),
        (
            8,
            "a server needs `url` (host:port of its HTTP API) or `metrics_url`: this server is not used",
        ),
        (10, "a server good is defined already: this one is not used"),
        (14, "unknown setting metric_url (did you mean metrics_url?): not used"),
        (15, "a server needs at least `url:`: this entry is not used"),
        (18, "headers must be names with values: not used"),
        (19, "match: pod must have one value: not used"),
        (20, "control must be true or false: false is used"),
    ]


def test_text_that_is_not_yaml_costs_the_entry_it_is_in_and_nothing_of_it_reaches_a_neighbour(
    tmp_path: Path,
) -> None:
    settings = load(
        tmp_path,
        """refresh_seconds: 4
servers:
  - id: a
    url: h1:8000
  - id: "b
    url: h2:8000
    control: true
    headers: {Authorization: s3cret}
  - id: c
    url: h3:8000
""",
        {"TRITONSCOPE_SERVERS": "env=h9:8000"},
    )
    assert list(addresses(settings)) == ["env", "a", "c"]
    assert not any(server.control or server.headers for server in settings.servers)
    assert settings.refresh_seconds == 4
    assert [notice.line for notice in settings.notices] == [5]
    assert settings.notices[0].source == "tritonscope.yml"


def test_a_file_that_is_not_yaml_at_all_keeps_what_the_environment_gives(tmp_path: Path) -> None:
    settings = load(tmp_path, "}{\n", {"TRITONSCOPE_URL": "h:8000"})
    assert list(addresses(settings)) == ["h:8000"]
    assert [notice.line for notice in settings.notices] == [1]


def test_a_broken_file_does_not_make_up_a_server(tmp_path: Path) -> None:
    assert load(tmp_path, "servers: {{\n").servers == ()
    assert load(tmp_path, "- 1\n").servers == ()
    missing = load_settings({"TRITONSCOPE_CONFIG": str(tmp_path / "nowhere.yml")})
    assert missing.servers == ()
    assert missing.notices == (
        Notice("nowhere.yml", None, "this file does not exist: only the environment counts"),
    )


def test_servers_from_the_environment(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "servers:\n  - {id: a, url: 'h8:8000'}\n  - {id: z, url: 'h9:8000'}\n",
        {
            "TRITONSCOPE_SERVERS": "a=http://h1:8000/, h2:8000, ,",
            "TRITONSCOPE_URL": "h3:8000",
            "TRITONSCOPE_METRICS_URL": "h3:9002",
            "TRITONSCOPE_REFRESH_SECONDS": "3",
        },
    )
    assert addresses(settings) == {
        "a": ("http://h1:8000", "http://h1:8002"),
        "h2:8000": ("http://h2:8000", "http://h2:8002"),
        "h3:8000": ("http://h3:8000", "http://h3:9002"),
        "z": ("http://h9:8000", "http://h9:8002"),
    }
    assert settings.refresh_seconds == 3
    assert noticed(settings) == [(2, "a server a is defined already: this one is not used")]


def test_the_environment_wins_over_the_file_but_not_with_nonsense(tmp_path: Path) -> None:
    text = "refresh_seconds: 7\napp_port: 9000\n"
    settings = load(tmp_path, text, {"TRITONSCOPE_REFRESH_SECONDS": "0.001", "TRITONSCOPE_APP_PORT": "9001"})
    assert (settings.refresh_seconds, settings.app_port) == (7, 9001)
    assert settings.notices[0].source == "TRITONSCOPE_REFRESH_SECONDS"


def test_the_live_window_is_never_under_four_intervals(tmp_path: Path) -> None:
    settings = load(tmp_path, "refresh_seconds: 10\nlive_window_seconds: 20\n")
    assert settings.live_window_seconds == 40
    assert noticed(settings) == [(None, "20 s is less than 4 intervals: 40 s is used")]
    quiet = load(tmp_path, "refresh_seconds: 30\n")
    assert (quiet.live_window_seconds, quiet.notices) == (120, ())


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        ("h:8001", "url has port 8001, usually Triton's gRPC API; its HTTP API is usually on 8000"),
        ("h:8002", "url has port 8002, usually Triton's metrics page; its HTTP API is usually on 8000"),
    ],
)
def test_d10_a_usual_other_port_gets_a_hint(tmp_path: Path, address: str, hint: str) -> None:
    settings = load(tmp_path, f"servers:\n  - id: a\n    url: {address}\n")
    assert noticed(settings) == [(3, hint)]
    assert addresses(settings)["a"][0] == f"http://{address}"


def test_the_sandbox_comes_from_its_state_file(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text(
        '{"server_id": "tritonscope-1a2b", "http_url": "http://127.0.0.1:8000",'
        ' "metrics_url": "http://127.0.0.1:8002/metrics"}'
    )
    settings = load(tmp_path, "", {"TRITONSCOPE_SANDBOX_STATE": str(state)})
    (server,) = settings.servers
    assert (server.id, server.expected_server_name) == ("sandbox", "tritonscope-1a2b")
    assert (server.http_url, server.metrics_url) == ("http://127.0.0.1:8000", "http://127.0.0.1:8002")
    assert not server.control
    assert settings.sandbox_state == state
    both = load(
        tmp_path,
        "servers:\n  - {id: sandbox, url: 'h:8000'}\n  - {id: b, url: 'h:8000'}\n",
        {"TRITONSCOPE_SANDBOX_STATE": str(state)},
    )
    assert list(addresses(both)) == ["sandbox", "b"]
    assert both.servers[0].expected_server_name == "tritonscope-1a2b"


@pytest.mark.parametrize("content", [None, "", "[]", '{"server_id": "x"}'])
def test_a_state_file_that_cannot_be_read_is_said(tmp_path: Path, content: str | None) -> None:
    state = tmp_path / "state.json"
    if content is not None:
        state.write_text(content)
    settings = load(tmp_path, "", {"TRITONSCOPE_SANDBOX_STATE": str(state)})
    assert settings.servers == ()
    assert settings.notices[0].source == "TRITONSCOPE_SANDBOX_STATE"


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Settings().refresh_seconds = 1


def test_the_reference_is_up_to_date_and_complete() -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert text == render()
    for name in settings_module.SCALARS:
        assert f"`TRITONSCOPE_{name.upper()}`" in text


def test_the_example_of_the_reference_is_read_without_a_notice(tmp_path: Path) -> None:
    example = render().split("```yaml\n")[1].split("```")[0]
    (tmp_path / "company-ca.pem").write_text("x")
    (tmp_path / "prometheus-token").write_text("Bearer y")
    settings = load(tmp_path, example, {"TRITON_AUTHORIZATION": "Bearer x"})
    assert settings.notices == ()
    assert [server.id for server in settings.servers] == ["search-1", "lab", "far-away"]
    assert settings.prometheus is not None
    assert settings.prometheus.url == "https://prometheus.example.com"
