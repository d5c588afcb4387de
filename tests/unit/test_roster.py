"""Servers come and go: with tritonscope.yml, with `file_sd` files; what is broken changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collectors.roster import REMEMBERED_SECONDS, Change, Roster
from settings import load_settings

START = 1_700_000_000.0


class Place:
    """A folder with tritonscope.yml and fleet.yml, and the time."""

    def __init__(self, folder: Path, settings: str, fleet: str | None = None) -> None:
        self.folder, self.now, self._written = folder, START, 0
        self.write("tritonscope.yml", settings)
        if fleet is not None:
            self.write("fleet.yml", fleet)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        self._written += 10**9
        os.utime(path, ns=(self._written, self._written))

    def roster(self, environ: dict[str, str] | None = None) -> Roster:
        settings = load_settings(environ or {}, self.folder / "tritonscope.yml")
        return Roster(settings, clock=lambda: self.now)


def ids(roster: Roster) -> list[str]:
    return [server.id for server in roster.servers]


def told(change: Change) -> tuple[list[str], list[str], list[str], list[str]]:
    return (
        [one.server.id for one in change.came],
        [one.server.id for one in change.went],
        [one.server.id for one in change.changed],
        list(change.forgotten),
    )


FILE = "discovery:\n  - file: fleet.yml\n"
OWN = "servers:\n  - {id: a, url: 'a:8000'}\n"


def test_servers_of_a_file_come_and_go(tmp_path: Path) -> None:
    place = Place(tmp_path, OWN + FILE, "- targets: [b:8002]\n")
    roster = place.roster()
    assert ids(roster) == ["a"]
    first = roster.check()
    assert first.first and told(first) == (["b:8002"], [], [], [])
    assert ids(roster) == ["a", "b:8002"]
    assert not roster.check()
    place.write("fleet.yml", "- targets: [c:8002]\n")
    change = roster.check()
    assert not change.first and told(change) == (["c:8002"], ["b:8002"], [], [])
    assert change.went[0].origin == "fleet.yml"
    assert roster.gone == {"b:8002": START}


def test_a_server_that_went_is_forgotten_after_an_hour_and_may_return_before(tmp_path: Path) -> None:
    place = Place(tmp_path, OWN + FILE, "- targets: [b:8002, c:8002]\n")
    roster = place.roster()
    roster.check()
    place.write("fleet.yml", "[]\n")
    roster.check()
    place.now = START + 60
    place.write("fleet.yml", "- targets: [c:8002]\n")
    assert told(roster.check()) == (["c:8002"], [], [], [])
    assert roster.gone == {"b:8002": START}
    place.now = START + REMEMBERED_SECONDS + 1
    assert told(roster.check()) == ([], [], [], ["b:8002"])
    assert roster.gone == {}


def test_servers_of_the_settings_file_are_read_again(tmp_path: Path) -> None:
    place = Place(tmp_path, OWN)
    roster = place.roster()
    assert not roster.check()
    place.write("tritonscope.yml", "servers:\n  - {id: a, url: 'a:8000', control: true}\n  - b:8000\n")
    assert told(roster.check()) == (["b:8000"], [], ["a"], [])
    assert roster.servers[0].control
    place.write("tritonscope.yml", FILE)
    place.write("fleet.yml", "- targets: [d:8002]\n")
    assert told(roster.check()) == (["d:8002"], ["a", "b:8000"], [], [])
    assert roster.notices == ()


def test_other_settings_say_that_a_restart_is_needed(tmp_path: Path) -> None:
    place = Place(tmp_path, "refresh_seconds: 2\n" + OWN)
    roster = place.roster({"TRITONSCOPE_RETENTION_SECONDS": "900"})
    changed = OWN + "refresh_seconds: 5\nretention_seconds: 7200\nslo:\n  - {model: '*', errors: 99 %}\n"
    place.write("tritonscope.yml", changed + "history:\n  prometheus: {url: 'p:9090'}\n")
    assert not roster.check()
    # What the environment sets is as it was.
    assert [(notice.source, notice.line, notice.text) for notice in roster.notices] == [
        ("tritonscope.yml", 3, "refresh_seconds was changed: restart to use it"),
        ("tritonscope.yml", 7, "history was changed: restart to use it"),
        ("tritonscope.yml", 5, "slo was changed: restart to use it"),
    ]
    place.write("tritonscope.yml", "refresh_seconds: 2\n" + OWN)
    roster.check()
    assert roster.notices == ()


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        ("servers:\n  - {id: a, url: 'a:8000'}\n  - {id: b, url: [}\n", 3),
        ("servers: nobody\n", 1),
        ("- a\n- b\n", 1),
    ],
)
def test_a_broken_settings_file_changes_nothing_and_says_where(
    tmp_path: Path, broken: str, line: int
) -> None:
    place = Place(tmp_path, "servers:\n  - {id: a, url: 'a:8000'}\n  - {id: b, url: 'b:8000'}\n")
    roster = place.roster()
    roster.check()
    place.write("tritonscope.yml", broken)
    assert not roster.check()
    assert ids(roster) == ["a", "b"]
    (notice,) = roster.notices
    assert (notice.source, notice.line) == ("tritonscope.yml", line)
    assert notice.text.endswith("the servers found before stay")
    place.write("tritonscope.yml", OWN)
    assert told(roster.check()) == ([], ["b"], [], [])
    assert roster.notices == ()


def test_a_settings_file_that_vanishes_changes_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path, OWN)
    roster = place.roster()
    (tmp_path / "tritonscope.yml").unlink()
    assert not roster.check()
    assert ids(roster) == ["a"]
    assert [(notice.source, notice.line) for notice in roster.notices] == [("tritonscope.yml", None)]


def test_a_server_that_is_written_down_is_not_found_a_second_time(tmp_path: Path) -> None:
    fleet = "- targets: [a:8002]\n- targets: [gate:9000]\n  labels: {__server: a}\n- targets: [b:8002]\n"
    roster = Place(tmp_path, OWN + FILE, fleet).roster()
    roster.check()
    assert ids(roster) == ["a", "b:8002"]
    assert roster.servers[0].http_url == "http://a:8000"
    assert roster.notices == ()


def test_two_targets_of_one_name_are_told(tmp_path: Path) -> None:
    fleet = "- {targets: [b:8002, c:8002, b:8002], labels: {__server: x}}\n"
    roster = Place(tmp_path, OWN + FILE, fleet).roster()
    roster.check()
    assert [server.metrics_url for server in roster.servers[1:]] == ["http://b:8002"]
    (notice,) = roster.notices
    assert "several targets are called x: only http://b:8002 is watched" in notice.text


def test_without_any_server_written_down_nothing_is_made_up(tmp_path: Path) -> None:
    roster = Place(tmp_path, FILE).roster()
    roster.check()
    assert roster.servers == ()
    (notice,) = roster.notices
    assert (notice.source, notice.line) == ("tritonscope.yml", 2)
    assert "fleet.yml: no such file" in notice.text
