"""Saved requests: exact on disk, private, expiring, harmless when damaged; and the comparison of answers."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from control.expected_answers import Expected, Mode, compare, expected_of
from control.inference import InferenceRequest, Reply, Tensor, Way
from control.saved_requests import DAY_SECONDS, SavedRequest, SavedRequests, request_of, saved_from
from control.tensor_files import as_raw
from telemetry.errors import ControlError, InvalidRequest


def texts(*values: bytes) -> Tensor:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return Tensor("TEXT", "BYTES", array)


def floats(*values: float, name: str = "A") -> Tensor:
    return Tensor(name, "FP32", np.array(values, dtype=np.float32))


def kept(name: str = "a picture", expected: Expected | None = None, *tensors: Tensor) -> SavedRequest:
    request = InferenceRequest(
        "lab", "alpha", "2", tensors or (floats(1.5),), 7.0, {"temperature": 0.5, "n": 3}, Way.INFER
    )
    return saved_from(name, "an operator", (request,), expected)


def test_a_request_comes_back_bit_for_bit(tmp_path: Path) -> None:
    store = SavedRequests(tmp_path / "saved", 30)
    tensors = (
        floats(float("nan"), -0.0, float("inf"), 1e-45),
        Tensor("I", "INT64", np.array([[2**63 - 1, -(2**63)]], dtype=np.int64)),
        Tensor("B", "BF16", np.array([1.5, float("nan")], dtype=ml_dtypes.bfloat16)),
        Tensor("Z", "FP16", np.empty((1, 0), dtype=np.float16)),
        Tensor("T", "BOOL", np.array([True, False])),
        texts(b"", b"\xff\x00", "ü".encode()),
    )
    saved = kept("all kinds", expected_of((Reply("alpha", "2", tensors, 10.0),), Mode.EXACT), *tensors)
    store.save(saved)
    found = store.get(saved.id)
    (sent,) = request_of(found)
    assert (sent.server, sent.model, sent.version, sent.timeout_seconds, sent.way) == (
        "lab", "alpha", "2", 7.0, Way.INFER,
    )  # fmt: skip
    assert sent.parameters == {"temperature": 0.5, "n": 3}
    for before, after in zip(tensors, sent.tensors, strict=True):
        assert (before.name, before.datatype, before.shape) == (after.name, after.datatype, after.shape)
        assert as_raw(before.datatype, before.array) == as_raw(after.datatype, after.array)
        assert before.array.dtype == after.array.dtype
    assert found.expected is not None
    assert compare((Reply("alpha", "2", tensors, 10.0),), found.expected).as_expected
    assert request_of(found, "other")[0].server == "other"


def test_files_and_folder_are_the_owners_alone(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        store = SavedRequests(tmp_path / "deep" / "saved", 30)
        store.save(kept())
    finally:
        os.umask(previous)
    (path,) = store.folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700


def test_requests_are_listed_by_model_and_name_and_can_be_removed(tmp_path: Path) -> None:
    store = SavedRequests(tmp_path, 30)
    other = replace(kept("c"), model="beta")
    for saved in (kept("b"), kept("a"), other):
        store.save(saved)
    assert [saved.name for saved in store.requests("alpha")] == ["a", "b"]
    assert [saved.name for saved in store.requests()] == ["a", "b", "c"]
    store.delete(other.id)
    store.delete(other.id)
    assert store.requests("beta") == ()
    with pytest.raises(InvalidRequest, match="is gone or cannot be read"):
        store.get(other.id)


def test_the_retention_removes_also_what_cannot_be_read(tmp_path: Path) -> None:
    store = SavedRequests(tmp_path, 7)
    old, young = kept("old"), kept("young")
    store.save(young)
    now = young.saved_at
    store.save(replace(old, saved_at=now - 7 * DAY_SECONDS + 60))
    broken = tmp_path / f"{'0' * 32}.request.json"
    broken.write_text("{")
    os.utime(broken, (now - 8 * DAY_SECONDS,) * 2)
    stranger = tmp_path / "notes.txt"
    stranger.write_text("not ours")
    assert store.expire(now) == 1
    assert not broken.exists()
    assert store.expire(now + 120) == 1
    assert [saved.name for saved in store.requests()] == ["young"]
    assert stranger.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 1}', "[" * 50_000])
def test_a_damaged_file_costs_itself_only(tmp_path: Path, text: str) -> None:
    store = SavedRequests(tmp_path, 30)
    store.save(kept("good"))
    (tmp_path / f"{'a' * 32}.request.json").write_text(text)
    assert [saved.name for saved in store.requests()] == ["good"]


def test_a_file_with_fewer_bytes_than_its_shape_is_damaged(tmp_path: Path) -> None:
    store = SavedRequests(tmp_path, 30)
    saved = kept()
    store.save(saved)
    (path,) = tmp_path.iterdir()
    row = json.loads(path.read_text())
    row["steps"][0][0]["shape"] = [1000]
    path.write_text(json.dumps(row))
    assert store.requests() == ()


@pytest.mark.parametrize("saved_id", ["", "../../etc/passwd", "a" * 31, "A" * 32, "a" * 32 + "\n"])
def test_an_id_cannot_name_another_file(tmp_path: Path, saved_id: str) -> None:
    store = SavedRequests(tmp_path, 30)
    for call in (store.get, store.delete):
        with pytest.raises(InvalidRequest, match="not the id of a saved request"):
            call(saved_id)


@pytest.mark.parametrize("name", ["", "  ", "x" * 81])
def test_a_name_is_needed_and_bounded(name: str) -> None:
    with pytest.raises(InvalidRequest, match="name"):
        kept(name)
    assert kept("  two\n words ").name == "two words"


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = SavedRequests(tmp_path / "file" / "saved", 30)
    with pytest.raises(ControlError, match=r"^The request cannot be saved in .*: Not a directory$"):
        store.save(kept())
    assert store.requests() == ()


def test_an_expectation_can_be_set_and_taken_back(tmp_path: Path) -> None:
    store = SavedRequests(tmp_path, 30)
    saved = kept()
    store.save(saved)
    expected = expected_of((reply(1.0),), Mode.TOLERANCE, relative=0.1, latency_bound_us=500.0)
    assert store.expect(saved.id, expected).expected is not None
    found = store.get(saved.id).expected
    assert found is not None
    assert (found.mode, found.relative, found.latency_bound_us) == (Mode.TOLERANCE, 0.1, 500.0)
    assert store.expect(saved.id, None).expected is None
    assert store.get(saved.id).expected is None


def reply(*values: float, latency_us: float = 100.0, error: str = "") -> Reply:
    return Reply("alpha", "1", (floats(*values, name="OUT"),) if not error else (), latency_us, error)


NAN = float("nan")


@pytest.mark.parametrize(
    ("expected", "answer", "differences"),
    [
        (expected_of((reply(1.0, NAN),), Mode.EXACT), (reply(1.0, NAN),), ()),
        (
            expected_of((reply(1.0, 2.0),), Mode.EXACT),
            (reply(1.0, 2.0000002),),
            ("OUT differs in 1 of 2 values; the first, at 1: 2.0000002 instead of 2.0",),
        ),
        (
            expected_of((reply(0.0),), Mode.EXACT),
            (reply(-0.0),),
            ("OUT differs in 1 of 1 values; the first, at 0: -0.0 instead of 0.0",),
        ),
        (expected_of((reply(1.0, 2.0),), Mode.TOLERANCE), (reply(1.0, 2.0000002),), ()),
        (
            expected_of((reply(1.0),), Mode.TOLERANCE, relative=0.01),
            (reply(1.1),),
            ("OUT differs in 1 of 1 values; the first, at 0: 1.1 instead of 1.0",),
        ),
        (
            expected_of((reply(1.0),), Mode.EXACT),
            (reply(1.0, 2.0),),
            ("OUT has the shape [2] and [1] was expected",),
        ),
        (expected_of((reply(1.0),), Mode.SHAPE), (reply(99.0),), ()),
        (
            expected_of((reply(1.0),), Mode.SHAPE),
            (reply(NAN),),
            ("OUT has 1 values that are not finite",),
        ),
        (
            expected_of((reply(1.0), reply(2.0)), Mode.EXACT),
            (reply(1.0),),
            ("2 replies were expected and 1 came",),
        ),
        (
            expected_of((reply(1.0), reply(2.0)), Mode.EXACT),
            (reply(1.0), reply(3.0)),
            ("reply 2: OUT differs in 1 of 1 values; the first, at 0: 3.0 instead of 2.0",),
        ),
        (
            expected_of((reply(1.0),), Mode.EXACT),
            (reply(error="no"),),
            ("1 of 1 responses are errors", "OUT is missing"),
        ),
    ],
)
def test_an_answer_is_compared_with_what_is_expected(
    expected: Expected, answer: tuple[Reply, ...], differences: tuple[str, ...]
) -> None:
    verdict = compare(answer, expected)
    assert verdict.differences == differences
    assert verdict.as_expected == (not differences)


def test_text_and_64_bit_integers_are_compared_exactly() -> None:
    good = Reply("a", "1", (texts(b"\xff", b"x"), Tensor("I", "INT64", np.array([2**53 + 1]))), 1.0)
    expected = expected_of((good,), Mode.TOLERANCE)
    assert compare((good,), expected).as_expected
    bad = Reply("a", "1", (texts(b"\xff", b"y"), Tensor("I", "INT64", np.array([2**53]))), 1.0)
    assert compare((bad,), expected).differences == (
        "TEXT differs in 1 of 2 values; the first, at 1: y instead of x",
        "I differs in 1 of 1 values; the first, at 0: 9007199254740992 instead of 9007199254740993",
    )
    other = Reply("a", "1", (texts(b"\xff", b"x"), Tensor("I", "INT32", np.array([1], np.int32))), 1.0)
    assert compare((other,), expected).differences == ("I is INT32 and INT64 was expected",)


def test_a_size_that_may_vary_is_any_size() -> None:
    expected = expected_of((reply(1.0),), Mode.SHAPE)
    ((output,),) = expected.replies
    loose = replace(expected, replies=((replace(output, shape=(-1,)),),))
    assert compare((reply(1.0, 2.0, 3.0),), loose).as_expected


def test_the_slowest_reply_must_keep_the_bound() -> None:
    expected = expected_of((reply(1.0), reply(1.0)), Mode.EXACT, latency_bound_us=200.0)
    assert compare((reply(1.0), reply(1.0, latency_us=200.0)), expected).as_expected
    verdict = compare((reply(1.0), reply(1.0, latency_us=2500.0)), expected)
    assert verdict.too_slow == "2.5 ms is longer than the bound of 200 µs"
    assert not verdict.as_expected and verdict.differences == ()
