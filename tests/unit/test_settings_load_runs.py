"""`load_runs:` of a server: the limit, and what is wrong in it costs the permission, not the server."""

from pathlib import Path

import pytest

from settings import Settings, load_settings


def load(tmp_path: Path, load_runs: str) -> Settings:
    file = tmp_path / "tritonscope.yml"
    file.write_text(
        f"servers:\n  - id: a\n    url: host:8000\n    load_runs: {load_runs}\n", encoding="utf-8"
    )
    return load_settings({}, file)


@pytest.mark.parametrize(("written", "limit"), [("50", 50.0), ("0.5", 0.5)])
def test_the_limit_of_a_server(tmp_path: Path, written: str, limit: float) -> None:
    settings = load(tmp_path, f"{{max_requests_per_second: {written}}}")
    assert [server.load_run_limit_per_second for server in settings.servers] == [limit]
    assert settings.notices == ()


@pytest.mark.parametrize(
    ("written", "notice"),
    [
        ("{max_requests_per_second: 0}", "load_runs: max_requests_per_second must be a number above 0"),
        ("{max_requests_per_second: .inf}", "load_runs: max_requests_per_second must be a number above 0"),
        ("{max_requests_per_second: yes}", "load_runs: max_requests_per_second must be a number above 0"),
        ("{max_requests_per_second: many}", "load_runs: max_requests_per_second must be a number above 0"),
        ("{limit: 5}", "load_runs: limit is unknown, it has max_requests_per_second only"),
        ("50", "load_runs must be names with values: not used"),
    ],
)
def test_an_unusable_limit_means_no_load_runs(tmp_path: Path, written: str, notice: str) -> None:
    settings = load(tmp_path, written)
    assert [server.load_run_limit_per_second for server in settings.servers] == [None]
    assert [one.line for one in settings.notices] == [4]
    assert settings.notices[0].text.startswith(notice)


def test_without_it_no_load_run_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "tritonscope.yml"
    file.write_text("servers:\n  - id: a\n    url: host:8000\n    control: true\n", encoding="utf-8")
    assert [one.load_run_limit_per_second for one in load_settings({}, file).servers] == [None]
