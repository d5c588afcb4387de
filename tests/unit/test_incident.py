"""Incident files: what goes in comes out, secrets stay out, damage gives one sentence."""

from __future__ import annotations

import io
import json
import socket
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from collectors.repository import index_samples
from history.bank import ABSENT_BITS
from history.protocol import Grid
from history.tape import Tape
from replay import Replay, replayed
from settings import Settings
from signals.definition import Level
from telemetry.errors import NoAnswer, SettingsError, UnusableFile
from telemetry.facts import IndexEntry, ModelState
from telemetry.identity import ModelKey
from telemetry.masking import MASKED
from telemetry.plain import from_plain, to_plain
from telemetry.scrape import Source
from tests.incident_process import HEADER_SECRET, SECRET, START, Watched
from triage import incident_file
from triage.finding import Judgement
from triage.incident_file import member, open_file, read, recorded_findings
from triage.incident_replay import Opened
from triage.text import finding_data


@pytest.fixture
def watched() -> Watched:
    return Watched().everything()


@pytest.fixture
def file(watched: Watched, tmp_path: Path) -> Path:
    path = tmp_path / "incident.zip"
    watched.saved(path)
    return path


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refused(*_arguments: object, **_named: object) -> None:
        raise AssertionError("a replay must not open a connection")

    monkeypatch.setattr(socket.socket, "connect", refused)
    yield


def told(judgement: Judgement) -> list[object]:
    return [
        (one.rule, one.severity, one.server, one.model, one.sentence, one.since, one.evidence, one.remedy,
         one.change, one.excluded, [two.rule for two in one.follows])
        for one in judgement.findings
    ]  # fmt: skip


def test_a_replay_finds_the_same_as_the_process_that_was_captured(
    watched: Watched, file: Path, no_network: None
) -> None:
    process = watched.process
    process._figures._clock = lambda: START + 12
    there = replayed(file, Settings())
    assert isinstance(there, Replay)
    rules = {one.rule for one in there.judgement().findings}
    assert {"ModelLoadFailed", "ServerDown"} <= rules and len(rules) >= 3
    # The reason of the load error quotes a secret, which only the file masks.
    masked = [one for one in told(process.judgement()) if SECRET not in str(one)]
    assert [one for one in told(there.judgement()) if MASKED not in str(one)] == masked
    assert there.judgement().at == there.clock() == START + 12
    assert there.verdict(there.judgement()).sentence == process.verdict(process.judgement()).sentence
    assert there.now() == START + 10
    assert there.control is None and not there.running and there.is_sandbox("sandbox")


def test_figures_facts_and_series_come_back_as_they_were(watched: Watched, file: Path) -> None:
    there, process = replayed(file, Settings()), watched.process
    key = ModelKey("sandbox", "alpha", "1")
    grid = Grid(START, START + 10, 2.0)
    for signal in ("queue_us_mean", "batch_size_mean", "pending"):
        mine, theirs = (one.signal_range(signal, grid, level=Level.MODEL) for one in (process, there))
        assert mine.keys == theirs.keys
        np.testing.assert_array_equal(mine.values, theirs.values)
    row = there.report().model(key)
    assert row is not None and row.signals.number("batch_size_mean") == pytest.approx(4.0)
    page = there.ring.last("sandbox", Source.METRICS)
    before = process.ring.last("sandbox", Source.METRICS)
    assert page is not None and before is not None
    assert list(page.payload.texts) == list(before.payload.texts)  # type: ignore[attr-defined]
    assert page.payload.families == before.payload.families  # type: ignore[attr-defined]
    processes = there.ring.last("sandbox", Source.PROCESSES)
    assert (
        processes is not None
        and processes.payload
        == process.ring.last(  # type: ignore[union-attr]
            "sandbox", Source.PROCESSES
        ).payload
    )
    probes = [one.ring.last("sandbox", Source.PROBES) for one in (there, process)]
    assert probes[0] is not None and probes[0].payload == probes[1].payload  # type: ignore[union-attr]
    assert there.probes.results() == process.probes.results() != {}
    failed = there.ring.latest("other", Source.METRICS)
    assert failed is not None and isinstance(failed.error, NoAnswer) and "no answer" in failed.error.sentence
    assert there.ring.last("other", Source.METRICS) is None
    assert [one.text for one in there.events.events()] == [one.text for one in process.events.events()]
    assert [one.action.who for one in there.records()] == ["anna"]
    drift = there.drifts()[key]
    assert (drift.words(str), drift.who) == (process.drifts()[key].words(str), "anna")
    assert drift.difference == "max_batch_size 8 (its file: 4)"
    assert there.happenings().config_changes.keys() == {("sandbox", "alpha")}


def test_a_printed_nan_and_an_absent_series_stay_different_things(file: Path) -> None:
    banks = {(server, source): state for server, source, state in read(file).ring.banks}
    state = banks["sandbox", Source.METRICS]
    row = [one.name for one in state.series].index("own")
    bits = state.values[row].view(np.int64)
    assert bits[0] == ABSENT_BITS
    assert np.isnan(state.values[row, 1]) and bits[1] != ABSENT_BITS
    assert not banks["other", Source.METRICS].answered.any()
    assert len(banks["other", Source.METRICS].times_ms) == 3


def test_no_member_of_the_file_holds_a_secret(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        for name in names:
            content = archive.read(name)
            for secret in (SECRET, HEADER_SECRET, "//me"):
                assert secret.encode() not in content, name
    assert {"manifest.json", "findings.json", "summary.html", "raw/sandbox/metrics.txt"} <= set(names)
    configs = json.loads(member(file, "raw/sandbox/configs.json"))
    assert configs["alpha"]["parameters"] == {
        "API_TOKEN": {"string_value": MASKED},
        "EXECUTION_MODE": {"string_value": MASKED},
    }
    assert configs["alpha"]["max_batch_size"] == 8
    assert member(file, "raw/sandbox/index.json") == f"[{MASKED}]"


def test_the_findings_in_the_file_are_those_of_a_replay(file: Path) -> None:
    recorded = recorded_findings(file)
    judged = Opened(read(file)).judged()
    assert recorded["findings"] == json.loads(
        json.dumps([finding_data(one, judged) for one in judged.judgement.findings])
    )
    assert recorded["verdict"]["sentence"] == judged.verdict.sentence


def test_who_may_not_see_a_server_or_details_does_not_take_them_along(
    watched: Watched, tmp_path: Path
) -> None:
    path = tmp_path / "part.zip"
    opened = watched.saved(path, sees=lambda server: server == "sandbox", details=lambda _server: False)
    assert [one.id for one in opened.servers] == ["sandbox"]
    assert [(one.action.who, one.action.why, one.detail) for one in opened.records()] == [("", "", None)]
    with zipfile.ZipFile(path) as archive:
        assert not any(
            b"anna" in archive.read(name) or b"g:8002" in archive.read(name) for name in archive.namelist()
        )
    assert any("left out" in note for note in opened.incident.manifest.notes)
    with pytest.raises(SettingsError, match="nothing to capture"):
        watched.saved(path, sees=lambda _server: False)


def test_a_shorter_range_leaves_older_numbers_out(watched: Watched, tmp_path: Path) -> None:
    opened = watched.saved(tmp_path / "short.zip", minutes=0.1)
    assert opened.ring.sample_times("sandbox", Source.METRICS, 0, 2 * START).tolist() == [START + 10]
    assert opened.incident.manifest.start == START + 8


def test_the_summary_needs_nothing_else_and_escapes(file: Path) -> None:
    page = member(file, "summary.html")
    assert "<script" not in page and "src=" not in page and "href=" not in page and "url(" not in page
    assert "<svg" in page and "polyline" in page
    assert "broken" in page and MASKED in page
    assert "overridden" in page and "by anna" in page
    assert "2.51.0" in page


def test_names_from_a_server_are_escaped_in_the_summary(watched: Watched, tmp_path: Path) -> None:
    entries = (IndexEntry("<b>evil", "1", ModelState.UNAVAILABLE, "<script>alert(1)</script>"),)
    watched.accept(Source.INDEX, START + 11, index_samples(entries), entries, None)
    path = tmp_path / "evil.zip"
    watched.saved(path)
    page = member(path, "summary.html")
    assert "&lt;b&gt;evil" in page and "<b>evil" not in page and "<script" not in page


def rewritten(file: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    """The zip with members changed, or left out where `change` gives None."""
    other = file.with_name("changed.zip")
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = change(name, old.read(name))
            if content is not None:
                new.writestr(name, content)
    return other


DAMAGE: dict[str, tuple[Callable[[str, bytes], bytes | None], str]] = {
    "no manifest": (lambda name, data: None if name == "manifest.json" else data, "no incident file"),
    "a newer format": (
        lambda name, data: data.replace(b'"format":1', b'"format":2') if name == "manifest.json" else data,
        "format 2",
    ),
    "cut JSON": (lambda name, data: data[:-20] if name == "facts.json" else data, "facts.json"),
    "another type": (
        lambda name, data: (
            data.replace(b'"captured_at":', b'"captured_at":"x","y":') if name == "manifest.json" else data
        ),
        "manifest.json",
    ),
    "a missing array": (
        lambda name, data: None if name == "ring/0/values.npy" else data,
        "values.npy is missing",
    ),
    "a short array": (lambda name, data: data[:-8] if name.endswith("times_ms.npy") else data, "times_ms"),
    "a pickle": (
        lambda name, data: _pickled() if name == "ring/0/values.npy" else data,
        "values is not what its header says",
    ),
    "a huge header": (
        lambda name, data: _header((1 << 40, 1 << 20)) if name == "ring/0/values.npy" else data,
        "values is not what its header says",
    ),
    "a window of no length": (
        lambda name, data: (
            data.replace(b'"window_seconds":30', b'"window_seconds":0') if name == "manifest.json" else data
        ),
        "window",
    ),
    "a time that is none": (
        lambda name, data: (
            data.replace(b'"captured_at":', b'"captured_at":NaN,"y":') if name == "manifest.json" else data
        ),
        "times",
    ),
    "a reading of the far future": (
        lambda name, data: (
            data.replace(b'"at":1700000010.0', b'"at":1e19') if name == "scrapes.json" else data
        ),
        "the time of a reading",
    ),
    "deep JSON": (lambda name, data: b"[" * 200_000 if name == "facts.json" else data, "facts.json"),
}


def _pickled() -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.array([{}], dtype=object), version=(1, 0), allow_pickle=True)
    return file.getvalue()


def _header(shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue()


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_gives_one_sentence(file: Path, name: str) -> None:
    change, words = DAMAGE[name]
    with pytest.raises(UnusableFile) as error:
        open_file(rewritten(file, change))
    assert words in error.value.sentence
    assert "\n" not in error.value.sentence and len(error.value.sentence) < 400


def test_a_foreign_file_and_a_bomb_give_one_sentence(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "letter.txt"
    text.write_text("Dear all")
    with pytest.raises(UnusableFile, match=r"letter\.txt is no incident file"):
        read(text)
    with pytest.raises(UnusableFile, match="cannot be read"):
        read(tmp_path / "missing.zip")
    half = tmp_path / "half.zip"
    half.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(UnusableFile, match="damaged"):
        read(half)
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b" " * (9 << 20))
    monkeypatch.setattr(incident_file, "MAX_UNPACKED_BYTES", 8 << 20)
    assert bomb.stat().st_size < 100_000
    with pytest.raises(UnusableFile, match="it is not opened"):
        read(bomb)
    monkeypatch.setattr(incident_file, "MAX_FILE_BYTES", 1000)
    with pytest.raises(UnusableFile, match="larger than"):
        read(file)


def test_a_tape_answers_what_was_asked_and_nothing_else(watched: Watched) -> None:
    ring, grid = watched.process.ring, Grid(START, START + 10, 5.0)
    family, by = "nv_inference_request_success", ("server", "model", "version")
    tape = Tape(ring)
    vector = tape.increase(family, by, 10.0, START + 10)
    frame = tape.gauge_range(family, by, grid)
    again = Tape(taped=from_plain(tuple[type(tape.answers()[0]), ...], to_plain(tape.answers())))
    assert vector and again.increase(family, by, 10.0, START + 10) == vector
    np.testing.assert_array_equal(again.gauge_range(family, by, grid).values, frame.values)
    assert again.increase(family, by, 20.0, START + 10) == {}
    assert again.gauge_range(family, by, replace(grid, step_seconds=1.0)).keys == ()
