"""Keys of Triton's restricted APIs: which calls get which, and what a 403 says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from settings import load_settings
from telemetry.errors import Restricted
from telemetry.identity import Server
from telemetry.restricted import APIS, api_of
from telemetry.transport import Transport


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/v2", "metadata"),
        ("/base/v2", "metadata"),
        ("/v2/models/add", "metadata"),
        ("/v2/models/add/versions/3", "metadata"),
        ("/v2/models/add/config", "model-config"),
        ("/v2/models/add/versions/3/config", "model-config"),
        ("/v2/models/add/stats", "statistics"),
        ("/v2/models/stats", "statistics"),
        ("/v2/models/add/infer", "inference"),
        ("/v2/models/add/generate_stream", "inference"),
        ("/v2/models/add/ready", "health"),
        ("/v2/health/live", "health"),
        ("/v2/repository/index", "model-repository"),
        ("/base/v2/repository/models/add/load", "model-repository"),
        ("/v2/logging", "logging"),
        ("/v2/models/add/trace/setting", "trace"),
        ("/v2/systemsharedmemory/status", "shared-memory"),
        ("/metrics", ""),
    ],
)
def test_the_group_of_a_call(path: str, api: str) -> None:
    assert api_of(path) == api
    assert api in ("", *APIS)


def test_a_key_goes_only_where_it_is_wanted(httpserver: HTTPServer) -> None:
    for path in ("/v2/repository/index", "/v2/models/stats", "/metrics"):
        httpserver.expect_request(path).respond_with_data("{}")
    keys = {"model-repository": {"k": "v"}}
    server = Server("lab", httpserver.url_for(""), None, {"Authorization": "t"}, api_headers=keys)
    transport = Transport(server)
    transport.post(httpserver.url_for("/v2/repository/index"))
    transport.get(httpserver.url_for("/v2/models/stats"))
    transport.get(httpserver.url_for("/metrics"))
    sent = {request.path: request.headers for request, _ in httpserver.log}
    assert sent["/v2/repository/index"]["k"] == "v"
    assert "k" not in sent["/v2/models/stats"]
    assert "k" not in sent["/metrics"]
    assert all(headers["Authorization"] == "t" for headers in sent.values())
    assert set(server.header_values) == {"t", "v"}


def test_a_403_says_what_to_set(httpserver: HTTPServer) -> None:
    text = '{"error":"This API is restricted, expecting header \'admin-key\'"}'
    httpserver.expect_request("/v2/repository/index").respond_with_data(text, status=403)
    with pytest.raises(Restricted) as caught:
        Transport(Server("lab", None, None)).post(httpserver.url_for("/v2/repository/index"))
    assert (
        "restricts its model-repository API (HTTP 403, it expects the header admin-key): write "
        "`api_headers_from_env: {model-repository: {admin-key: VARIABLE}}` at this server in tritonscope.yml"
    ) in caught.value.sentence


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("a\nX-Injected: 1", "the value of header admin-key has a line break in it"),
        ("a\r\nX-Injected: 1", "the value of header admin-key has a line break in it"),
    ],
)
def test_a_header_with_a_line_break_is_not_sent(tmp_path: Path, value: str, said: str) -> None:
    file = tmp_path / "tritonscope.yml"
    file.write_text(
        "servers:\n  - url: a:8000\n    headers_from_env: {admin-key: KEY}\n"
        "    api_headers_from_env: {model-repository: {admin-key: KEY}}\n"
        "  - url: b:8000\n    headers: {admin-key: \"b\\nX: 1\"}\n"
    )  # fmt: skip
    settings = load_settings({"KEY": value}, file)
    assert [(dict(server.headers), dict(server.api_headers)) for server in settings.servers] == [
        ({}, {"model-repository": {}}), ({}, {}),
    ]  # fmt: skip
    told = [notice.text for notice in settings.notices]
    assert [said in text for text in told] == [True, True, True]
    assert "X-Injected" not in " ".join(told)


def test_groups_from_environment_and_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from a file\n")
    file = tmp_path / "tritonscope.yml"
    file.write_text(
        "servers:\n  - url: a:8000\n"
        "    api_headers_from_env: {model-repository: {admin-key: KEY}, nothing: {a: KEY}}\n"
        "    api_headers_from_file: {inference: {infer-key: key}}\n"
    )
    settings = load_settings({"KEY": "from the environment"}, file)
    server = settings.servers[0]
    assert server.headers_for("model-repository") == {"admin-key": "from the environment"}
    assert server.headers_for("inference") == {"infer-key": "from a file"}
    assert server.headers_for("statistics") == {}
    assert [notice.text.partition(" (")[0] for notice in settings.notices] == [
        "api_headers_from_env: Triton has no API 'nothing'"
    ]
    assert "from the environment" not in repr(server)
