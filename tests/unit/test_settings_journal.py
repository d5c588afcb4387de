"""`journal:` in the settings: where it is by default, and what a slip in it costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from settings import Settings, load_settings
from telemetry.journal_choice import JournalChoice, default_path


@pytest.fixture(autouse=True)
def real_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written here: the folder that people get is what is asked for."""
    monkeypatch.setattr("settings.default_path", default_path)


def load(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> Settings:
    file = tmp_path / "tritonscope.yml"
    file.write_text(text, encoding="utf-8")
    return load_settings(environ or {}, file)


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"HOME": "/people/op"}, "/people/op/.local/state/tritonscope/journal.jsonl"),
        ({"HOME": "/people/op", "XDG_STATE_HOME": "/state"}, "/state/tritonscope/journal.jsonl"),
        ({}, "/var/lib/tritonscope/journal.jsonl"),
        ({"HOME": "/people/op", "TRITONSCOPE_SANDBOX_STATE": "/run/x/state.json"}, "/run/x/journal.jsonl"),
        ({"HOME": "/people/op", "TRITONSCOPE_JOURNAL_PATH": "/logs/j"}, "/logs/j"),
    ],
)
def test_the_file_is_in_the_users_state_folder_or_beside_the_sandboxs_state(
    tmp_path: Path, environ: Mapping[str, str], path: str
) -> None:
    choice = load(tmp_path, "refresh_seconds: 2\n", environ).journal
    assert choice == JournalChoice(Path(path), 5_000_000, 5, stdout=True, reason_required=False)


def test_everything_can_be_chosen_and_a_relative_file_is_beside_the_settings(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "journal:\n  path: logs/actions.jsonl\n  max_bytes: 20000\n  keep: 0\n  stdout: false\n"
        "  reason: required\n",
    )
    assert settings.notices == ()
    assert settings.journal == JournalChoice(
        tmp_path / "logs" / "actions.jsonl", 20_000, 0, stdout=False, reason_required=True
    )


def test_a_slip_costs_itself_and_says_its_line(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "journal:\n  path: [a]\n  max_bytes: 5\n  keep: -1\n  stdout: maybe\n  reason: always\n  size: 3\n",
        {"HOME": "/people/op"},
    )
    assert settings.journal == JournalChoice(
        Path("/people/op/.local/state/tritonscope/journal.jsonl"), stdout=True
    )
    assert sorted((notice.line, notice.text) for notice in settings.notices) == [
        (2, "journal: path must be a path: the default is used"),
        (3, "journal: max_bytes must be a number from 10000: 5000000 is used"),
        (4, "journal: keep must be a number from 0: 5 is used"),
        (5, "journal: stdout must be true or false: true is used"),
        (6, "journal: reason must be optional or required: optional is used"),
        (7, "journal: unknown setting size: not used"),
    ]


def test_a_journal_that_is_no_section_is_noticed(tmp_path: Path) -> None:
    (notice,) = load(tmp_path, "journal: /tmp/x\n", {"HOME": "/people/op"}).notices
    assert (notice.line, notice.text) == (1, "journal must hold settings by name, for example `path:`")
