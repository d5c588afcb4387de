"""The sandbox's files are read for the sandbox alone, and a model's name is no way out of its repository."""

from __future__ import annotations

import json
from pathlib import Path

from experiments.sandbox_files import LOG_TAIL_BYTES, SandboxFiles


def run_folder(folder: Path) -> Path:
    (folder / "models" / "mine").mkdir(parents=True)
    (folder / "models" / "bare").mkdir()
    (folder / "models" / "mine" / "config.pbtxt").write_text("max_batch_size: 4\n")
    (folder / "config.pbtxt").write_text("outside\n")
    (folder / "triton.log").write_text("x" * LOG_TAIL_BYTES + "the end\n")
    state = {"log_path": str(folder / "triton.log"), "repository_path": str(folder / "models")}
    (folder / "state.json").write_text(json.dumps(state))
    return folder / "state.json"


def test_the_config_and_the_end_of_the_log(tmp_path: Path) -> None:
    files = SandboxFiles(run_folder(tmp_path), lambda server_id: server_id == "sandbox")
    assert files.config_text("sandbox", "mine") == "max_batch_size: 4\n"
    assert files.config_text("sandbox", "bare") == files.config_text("sandbox", "not_there") == ""
    tail = files.log_tail("sandbox")
    assert tail is not None and len(tail) == LOG_TAIL_BYTES and tail.endswith("the end\n")


def test_nothing_is_read_for_another_server_or_outside_the_repository(tmp_path: Path) -> None:
    files = SandboxFiles(run_folder(tmp_path), lambda server_id: server_id == "sandbox")
    assert files.config_text("production", "mine") is None
    assert files.log_tail("production") is None
    for name in ("..", ".", "", "../mine", "mine/../..", "/etc"):
        assert files.config_text("sandbox", name) is None, name


def test_a_state_that_cannot_be_read_is_no_state(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    for text in ("{", "[]", "{}", '{"log_path": 3}'):
        state.write_text(text)
        files = SandboxFiles(state, lambda server_id: True)
        assert (files.config_text("sandbox", "m"), files.log_tail("sandbox")) == (None, None)
    assert SandboxFiles(None, lambda server_id: True).log_tail("sandbox") is None
    assert SandboxFiles(tmp_path / "gone.json", lambda server_id: True).log_tail("sandbox") is None
