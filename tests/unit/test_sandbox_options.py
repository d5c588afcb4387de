"""What the sandbox is told, and where it can run."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from sandbox import SandboxError, UnsupportedPlatformError, parse_ports
from sandbox.environment import (
    app_port_from_environment,
    check_platform,
    find_install,
    ports_from_environment,
)


def test_ports_are_three_numbers_in_the_order_http_grpc_metrics() -> None:
    assert parse_ports("18000, 18001 ,18002") == (18000, 18001, 18002)
    assert parse_ports("0,0,0") == (0, 0, 0)


@pytest.mark.parametrize("text", ["", "8000", "8000,8001", "8000,8001,8002,8003", "a,b,c", "8000,8001,70000"])
def test_other_texts_are_refused_with_the_setting_and_an_example(text: str) -> None:
    with pytest.raises(SandboxError, match=r"TRITONSCOPE_SANDBOX_PORTS must be .* 8000,8001,8002"):
        parse_ports(text)


def test_the_same_port_twice_is_refused() -> None:
    with pytest.raises(SandboxError, match="names the same port twice: '8000,8001,8000'"):
        parse_ports("8000,8001,8000")


def test_the_environment_gives_ports_and_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITONSCOPE_SANDBOX_PORTS", raising=False)
    monkeypatch.delenv("TRITONSCOPE_APP_PORT", raising=False)
    assert ports_from_environment() == (8000, 8001, 8002)
    assert app_port_from_environment() == 8501
    monkeypatch.setenv("TRITONSCOPE_SANDBOX_PORTS", "1,2,3")
    monkeypatch.setenv("TRITONSCOPE_APP_PORT", "99")
    assert ports_from_environment() == (1, 2, 3)
    assert app_port_from_environment() == 99


@pytest.mark.parametrize("text", ["http", "-1", "65536", "85 01"])
def test_a_wrong_app_port_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TRITONSCOPE_APP_PORT", text)
    with pytest.raises(SandboxError, match="TRITONSCOPE_APP_PORT must be a port number"):
        app_port_from_environment()


def _pretend(monkeypatch: pytest.MonkeyPatch, system: str, machine: str, libc: tuple[str, str]) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "libc_ver", lambda: libc)


@pytest.mark.parametrize(
    ("system", "machine", "libc", "named"),
    [
        ("Linux", "aarch64", ("glibc", "2.39"), "Linux aarch64 glibc 2.39"),
        ("Darwin", "arm64", ("", ""), "Darwin arm64"),
        ("Windows", "AMD64", ("", ""), "Windows AMD64"),
        ("Linux", "x86_64", ("glibc", "2.31"), "Linux x86_64 glibc 2.31"),
        ("Linux", "x86_64", ("", ""), "Linux x86_64"),
    ],
)
def test_an_unsupported_platform_is_named_in_one_sentence_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, libc: tuple[str, str], named: str
) -> None:
    _pretend(monkeypatch, system, machine, libc)
    with pytest.raises(UnsupportedPlatformError) as refused:
        check_platform()
    sentence = str(refused.value)
    assert f"this is {named}:" in sentence
    assert "docker compose" in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("version", ["2.35", "2.36", "3.0"])
def test_recent_x86_64_linux_is_supported(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    _pretend(monkeypatch, "Linux", "x86_64", ("glibc", version))
    check_platform()


def test_an_absent_installation_names_make_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch, "Linux", "x86_64", ("glibc", "2.36"))
    monkeypatch.setenv("TRITONSCOPE_TRITON_VENV", "/nowhere/venv")
    with pytest.raises(SandboxError, match=r"/nowhere/venv: run `make setup`"):
        find_install(Path("/nowhere"))
