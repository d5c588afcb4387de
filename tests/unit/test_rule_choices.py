"""`rules:` of the settings against the rules there are."""

from __future__ import annotations

from pathlib import Path

from runtime import Runtime
from settings import load_settings

TEXT = """servers:
  - a:8000
rules:
  QueueDominates:
    except: [batch_*]
  queuedominate: {enabled: false}
  Something:
    enabled: false
"""


def test_a_rule_that_does_not_exist_is_a_notice_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "tritonscope.yml"
    file.write_text(TEXT)
    settings = load_settings({}, file)
    assert settings.notices == ()
    assert [(notice.source, notice.line, notice.text) for notice in Runtime(settings).notices] == [
        (
            "tritonscope.yml",
            6,
            "rules: there is no rule queuedominate (did you mean QueueDominates?): not used",
        ),
        ("tritonscope.yml", 7, "rules: there is no rule Something: not used"),
    ]


def test_where_a_choice_stands_does_not_make_it_another_one(tmp_path: Path) -> None:
    file = tmp_path / "tritonscope.yml"
    file.write_text(TEXT)
    before = load_settings({}, file)
    file.write_text("# moved down\n" + TEXT)
    after = before.reloaded()
    assert after.rules["QueueDominates"].line == 5
    assert before.waiting_for_restart(after) == ()
