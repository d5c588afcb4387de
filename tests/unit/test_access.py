"""Who may do what: the section `access:` of the settings, and what it gives to whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from settings import Settings, load_settings
from telemetry.access import ALL_RIGHTS, LOCAL, NO_RIGHTS, NOBODY, ROLES, VIEWER, How, Identity, Right

OIDC = """
  oidc:
    metadata_url: https://issuer.example.com/.well-known/openid-configuration
    client_id: tritonscope
    client_secret_from_env: CLIENT_SECRET
    redirect_uri: https://tritonscope.example.com/oauth2callback
"""


def loaded(tmp_path: Path, text: str, **environ: str) -> Settings:
    file = tmp_path / "tritonscope.yml"
    file.write_text(text, encoding="utf-8")
    return load_settings({"CLIENT_SECRET": "a secret of the client", **environ}, file)


def test_without_the_section_the_person_at_the_machine_may_do_what_control_allows(tmp_path: Path) -> None:
    access = loaded(tmp_path, "servers: [triton:8000]").access
    assert not access.configured
    assert LOCAL.on("triton:8000") == ALL_RIGHTS
    assert access.anonymous("10.0.0.7").on("triton:8000") == VIEWER
    assert access.anonymous("10.0.0.7").name == "anonymous (10.0.0.7)"


@pytest.mark.parametrize("word", ["no", "none", "sign-in required"])
def test_everybody_must_sign_in(tmp_path: Path, word: str) -> None:
    settings = loaded(tmp_path, f"access:\n  anonymous: {word}{OIDC}")
    assert settings.access.sign_in_required
    assert settings.access.anonymous() == NOBODY
    assert not settings.access.metrics_open, "until the settings open it for Prometheus"
    assert settings.access.signed_in("a@example.com", How.OIDC).on("any") == VIEWER
    assert settings.notices == ()


def test_rights_are_the_sum_of_name_and_groups(tmp_path: Path) -> None:
    text = """
access:
  roles: {loader: [load]}
  people: {a@example.com: tester}
  groups: {triton-loaders: loader, triton-admins: admin}
"""
    access = loaded(tmp_path, text).access
    mine = access.signed_in("a@example.com", How.PROXY, ["triton-loaders", "others"])
    assert mine.on("any") == {Right.VIEW, Right.INFER, Right.LOAD}
    assert access.signed_in("b@example.com", How.PROXY, ["triton-admins"]).on("any") == ALL_RIGHTS
    assert access.signed_in("b@example.com", How.PROXY, ["Triton-Admins"]).on("any") == VIEWER


def test_what_stands_under_a_server_replaces_the_general_rules_there(tmp_path: Path) -> None:
    text = """
access:
  groups: {ops: operator}
  servers:
    secret: {groups: {research: tester}}
    "lab-*": {anonymous: viewer, groups: {ops: admin}}
"""
    access = loaded(tmp_path, text).access
    ops, research = (access.signed_in("x", How.OIDC, [group]) for group in ("ops", "research"))
    assert not ops.sees("secret")
    assert not access.anonymous().sees("secret")
    assert research.on("secret") == {Right.VIEW, Right.INFER}
    assert ops.may(Right.OVERRIDE, "lab-7")
    assert research.on("lab-7") == VIEWER
    assert ops.on("other") == ROLES["operator"]
    assert not research.sees_details("lab-7")
    assert research.sees_details("secret")


def test_rights_without_view_are_none() -> None:
    assert Identity("x", How.OIDC, {"*": frozenset({Right.LOAD})}).on("any") == NO_RIGHTS


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("  anonymous: boss", "anonymous: there is no role 'boss'"),
        ("  groups: {ops: boss}", "groups: ops: there is no role 'boss'"),
        ("  roles: {boss: [view, fly]}", "roles: boss: 'fly' is no right"),
        ("  password: hunter2hunter2", "password: it must not stand in the file"),
        ("  password: {from_env: MISSING}", "the environment variable MISSING is not set"),
        ("  password: {from_env: SHORT}", "it needs 12 characters at least"),
        ("  proxy: {name_header: X-User}", "`addresses:` is missing: without it no header is believed"),
        ("  proxy: {addresses: [somewhere]}", "'somewhere' is no address or network"),
        ('  proxy: {addresses: [10.0.0.1], name_header: "X\\nY"}', "characters that HTTP does not allow"),
        ("  oidc: {client_id: x}", "oidc: `metadata_url:` is missing"),
        ("  metrics: closed", "metrics must be `open` or `view`"),
        ("  session_hours: 9999", "session_hours must be a number of hours"),
        ("  anonymus: no", "unknown setting anonymus"),
        ("  servers: {lab: admin}", "servers: lab must hold"),
    ],
)
def test_what_is_written_wrongly_is_told_and_gives_nothing(tmp_path: Path, lines: str, said: str) -> None:
    settings = loaded(tmp_path, f"access:\n{lines}\n", SHORT="short")
    assert said in " ".join(notice.text for notice in settings.notices)
    access = settings.access
    assert (access.oidc, access.proxy, access.password) == (None, None, None)
    assert access.signed_in("x", How.OIDC, ["ops"]).on("lab") <= VIEWER
    assert access.anonymous().on("lab") <= VIEWER


def test_a_section_that_cannot_be_read_gives_nobody_anything(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "access:\n  anonymous: [no\n  x: : :\nservers:\n  - triton:8000\n")
    assert [server.id for server in settings.servers] == ["triton:8000"]
    assert settings.access.configured
    assert settings.access.anonymous() == NOBODY
    assert not settings.access.signed_in("x", How.OIDC, ["ops"]).sees("triton:8000")
    assert any("nobody may see or do anything" in notice.text for notice in settings.notices)


def test_the_environment_alone_is_enough_for_a_password(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "", TRITONSCOPE_PASSWORD="correct horse battery", TRITONSCOPE_ANONYMOUS="no")
    assert settings.access.sign_in_required
    assert settings.access.password is not None
    assert not settings.access.password.beyond_loopback
    holder = settings.access.with_password("night shift")
    assert holder.name == "night shift (shared password)"
    assert holder.on("any") == ROLES["operator"]


def test_no_secret_is_ever_shown(tmp_path: Path) -> None:
    access = loaded(tmp_path, f"access:{OIDC}", TRITONSCOPE_PASSWORD="correct horse battery").access
    assert access.oidc is not None
    assert access.oidc.client_secret == "a secret of the client"
    for secret in ("correct horse", "a secret of the client"):
        assert secret not in repr(access)
