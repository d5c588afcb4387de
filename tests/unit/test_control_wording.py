"""The server's error answers as text."""

from __future__ import annotations

from control.wording import server_text


def test_the_error_is_found_by_the_body_whatever_it_is() -> None:
    assert server_text('{"error":"why"}') == "why"
    assert server_text("plain why\n") == "plain why"
    assert server_text('["a list"]') == '["a list"]'
    assert server_text(None) == ""
