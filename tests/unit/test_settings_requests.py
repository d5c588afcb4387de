"""`saved_requests:` and `grpc_url`: off unless written, and what is wrong in them costs itself only."""

from pathlib import Path

import pytest

from settings import Settings, load_settings
from telemetry.saved_requests_choice import SavedRequestsChoice


def load(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "tritonscope.yml"
    file.write_text(text, encoding="utf-8")
    return load_settings({}, file)


def test_nothing_is_saved_unless_a_folder_is_named(tmp_path: Path) -> None:
    assert load(tmp_path, "refresh_seconds: 2\n").saved_requests is None
    settings = load(tmp_path, "saved_requests:\n  path: kept\n  retention_days: 0.5\n")
    assert settings.saved_requests == SavedRequestsChoice(tmp_path / "kept", 0.5)
    assert load(tmp_path, "saved_requests:\n  path: /kept\n").saved_requests == SavedRequestsChoice(
        Path("/kept"), 30.0
    )
    assert settings.notices == ()


@pytest.mark.parametrize(
    ("written", "days", "line", "notice"),
    [
        ("  retention_days: 3", None, 2, "saved_requests needs `path:`; no test request can be saved"),
        ("  - kept", None, 2, "saved_requests needs `path:`; no test request can be saved"),
        (
            "  path: kept\n  retention_days: 0",
            30.0,
            3,
            "retention_days must be above 0 and at most 3650, not 0",
        ),
        ("  path: kept\n  retention_days: long", 30.0, 3, "retention_days must be above 0 and at most 3650"),
        ("  path: kept\n  folder: x", 30.0, 3, "saved_requests: unknown setting folder: not used"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_line(
    tmp_path: Path, written: str, days: float | None, line: int, notice: str
) -> None:
    settings = load(tmp_path, f"saved_requests:\n{written}\n")
    choice = settings.saved_requests
    assert (choice.retention_days if choice else None) == days
    (found,) = settings.notices
    assert found.text.startswith(notice)
    assert found.line == line


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("host:8001", "host:8001"),
        ("grpc://host:8001", "host:8001"),
        ("grpcs://host:8001", "grpcs://host:8001"),
    ],
)
def test_a_server_may_have_a_grpc_address(tmp_path: Path, written: str, address: str) -> None:
    (server,) = load(tmp_path, f"servers:\n  - url: host:8000\n    grpc_url: {written}\n").servers
    assert server.grpc_url == address


@pytest.mark.parametrize("written", ["host", "http://host:8001", "host:port", ":8001"])
def test_a_grpc_address_that_is_none_costs_itself(tmp_path: Path, written: str) -> None:
    settings = load(tmp_path, f'servers:\n  - url: host:8000\n    grpc_url: "{written}"\n')
    assert [server.grpc_url for server in settings.servers] == [None]
    (found,) = settings.notices
    assert found.text == f"grpc_url must be host:port, not {written!r}: gRPC is not offered"
    assert found.line == 3
