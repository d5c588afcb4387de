"""YAML whose values know their line, and what is left of it when a part is broken."""

import pytest

from telemetry.located_yaml import Located, read_located


def plain(located: Located | None) -> object:
    if located is None:
        return None
    if located.entries is not None:
        return {key: plain(value) for key, value in located.entries.items()}
    if located.items is not None:
        return [plain(item) for item in located.items]
    return located.scalar


def test_values_know_their_line() -> None:
    root, notices = read_located("# c\na: 1\nb:\n  - x: yes\n\n  - 2\n", "f")
    assert notices == ()
    assert root is not None
    assert root.entries is not None
    b = root.entries["b"]
    assert b.items is not None
    assert (root.key_lines, b.items[0].key_lines, b.items[1].line) == ({"a": 2, "b": 3}, {"x": 4}, 6)
    assert plain(root) == {"a": 1, "b": [{"x": True}, 2]}


@pytest.mark.parametrize(
    ("text", "expected", "lines"),
    [
        ("a: 1\na: 2\n", {"a": 1}, [2]),
        ("a: &x [*x]\nb: 1\n", {"b": 1}, [1]),
        ("a: !!python/object:os.system x\nb: 1\n", {"b": 1}, [1]),
        ("a: 1\nb: *nope\nc: 3\n", {"a": 1, "c": 3}, [2]),
        ("a: 1\n\tb: 2\nc: 3\n", {"c": 3}, [2]),
        ("a: [1\nb: 2\n", {"b": 2}, [1]),
        ("l:\n- x: 1\n- y: {\n- z: 3\nb: 2\n", {"l": [{"x": 1}, {"z": 3}], "b": 2}, [3]),
        (
            "base: &b {x: 1, y: 2}\na:\n  <<: *b\n  y: 3\n",
            {"base": {"x": 1, "y": 2}, "a": {"y": 3, "x": 1}},
            [],
        ),
        ("", None, []),
    ],
)
def test_what_is_left_of_broken_text(text: str, expected: object, lines: list[int]) -> None:
    root, notices = read_located(text, "f")
    assert plain(root) == expected
    assert [notice.line for notice in notices] == lines


def test_aliases_cannot_grow_without_end() -> None:
    text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    for level in range(1, 8):
        text += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n"
    _, notices = read_located(text, "f")
    assert notices
