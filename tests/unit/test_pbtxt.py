"""config.pbtxt: the project's own are read, what is written is read again, garbage is one sentence."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from telemetry.errors import InvalidRequest
from telemetry.pbtxt import block_text, parse_pbtxt

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path
    for folder in ("model_repository", "sandbox/models")
    for path in (ROOT / folder).rglob("config.pbtxt")
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_the_projects_own_files_are_read(path: Path) -> None:
    read = parse_pbtxt(path.read_text())
    assert read["name"] == path.parent.name
    assert "backend" in read or read["platform"] == "ensemble"
    inputs = read["input"] if isinstance(read["input"], list) else [read["input"]]
    assert all(one["data_type"].startswith("TYPE_") for one in inputs)


def test_the_forms_of_the_format() -> None:
    read = parse_pbtxt(
        """
        # a comment with { and "
        name: 'm' ; max_batch_size: 0x10  # sixteen
        text: "a\\n\\"b\\"" "c"
        ratio: -1.5e3f, on: true off: false
        dims: 1 dims: [ 2, -3 ]
        step < a { } > step { a: { b: 1, } }
        empty: [ ]
        """
    )
    assert read == {
        "name": "m",
        "max_batch_size": 16,
        "text": 'a\n"b"c',
        "ratio": -1500.0,
        "on": True,
        "off": False,
        "dims": [1, 2, -3],
        "step": [{"a": {}}, {"a": {"b": 1}}],
        "empty": [],
    }
    assert parse_pbtxt("") == parse_pbtxt("# nothing\n") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_batch_size: 4\nname: \n", "line 2 has 'the end of the file'"),
        ("a {\n b: 1\n", "'the end of the file'"),
        ("a: 1\n}\n", "line 2 has '}'"),
        ('a: "open\n', "line 1 has '\"open'"),
        ("a: [ 1 2 ]", "has '2'"),
        ("a\x00b: 1", "line 1"),
        ("a {" * 100 + "}" * 100, "nested too deeply"),
        ("a: " + "[" * 5000, "nested too deeply"),
    ],
)
def test_what_is_no_config_is_one_sentence_with_the_line(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        parse_pbtxt(text)
    assert said in wrong.value.sentence
    assert "\n" not in wrong.value.sentence


def test_garbage_never_does_worse_than_a_sentence() -> None:
    dice = random.Random(7)
    whole = FILES[0].read_text()
    for _ in range(300):
        letters = list(whole)
        for _ in range(dice.randint(1, 8)):
            letters[dice.randrange(len(letters))] = dice.choice("{}[]<>:,;\"'#\\ \n\x00a9-.\u00e9")
        try:
            parse_pbtxt("".join(letters))
        except InvalidRequest as error:
            assert error.sentence.startswith("config.pbtxt cannot be read")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_batch_size", 8),
        ("dynamic_batching", {}),
        ("dynamic_batching", {"preferred_batch_size": [2, 4], "preserve_ordering": True,
                              "default_queue_policy": {"timeout_action": "DELAY", "max_queue_size": 3}}),
        ("instance_group", [{"count": 2, "kind": "KIND_GPU", "gpus": [0, 1]}, {"count": 1}]),
        ("version_policy", {"specific": {"versions": [1, 3]}}),
        ("label_filename", 'a "quoted"\nname\\'),
    ],
)  # fmt: skip
def test_what_is_written_is_read_again(name: str, value: Any) -> None:
    assert parse_pbtxt(block_text(name, value)) == {name: value}
