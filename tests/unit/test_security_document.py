"""docs/security.md: its examples are settings that work, its figures those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from settings import load_settings
from signin.gate import MAX_FORM_BYTES
from signin.throttle import GLOBAL_FREE_FAILURES, MAX_FAILURES, REFUSED_SECONDS
from telemetry.access import ROLES, Right
from telemetry.transport import MAX_ANSWER_BYTES

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
EXAMPLES = [re.sub(r"(?m)^   ", "", block) if block.startswith("   ") else block
            for block in re.findall(r"(?ms)^ *```yaml\n(.*?)^ *```", TEXT)]  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_can_be_used_as_it_stands(tmp_path: Path, example: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789 0123456789 0123456789")
    file = tmp_path / "tritonscope.yml"
    file.write_text(re.sub(r"/run/secrets/[\w-]+", str(secret), example))
    settings = load_settings({"TRITON_ADMIN_KEY": "key"}, file)
    assert settings.notices == ()
    assert settings.access.configured == ("access:" in example)


def test_the_roles_are_those_of_the_code() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", TEXT, flags=re.MULTILINE))
    assert set(rows) == set(ROLES)
    for name in ("viewer", "tester", "operator"):
        assert set(re.findall(r"`([\w-]+)`", rows[name])) == set(ROLES[name])
    assert ROLES["admin"] == set(Right)


def test_the_figures_are_those_of_the_code() -> None:
    assert (MAX_FAILURES, REFUSED_SECONDS, GLOBAL_FREE_FAILURES) == (10, 900, 30)
    assert (MAX_FORM_BYTES, MAX_ANSWER_BYTES >> 20) == (8192, 256)
    assert "maxUploadSize = 64" in (ROOT / ".streamlit" / "config.toml").read_text()


def test_every_named_test_and_document_exists() -> None:
    for path in re.findall(r"`(tests/[\w/.]+)`", TEXT):
        assert (ROOT / path).is_file(), path
    for name in re.findall(r"\]\(([\w.]+\.md)", TEXT):
        assert (ROOT / "docs" / name).is_file(), name
