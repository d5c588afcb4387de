"""`discovery:` of the settings, and how a `file_sd` file or a DNS name becomes servers."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from collectors.exporter_families import instance_of
from collectors.finding_servers import DNS_SECONDS, DnsFinder, FileFinder, addresses
from settings import Settings, load_settings
from telemetry.discovery import Discovery, Kind

FLEET = """
- targets: [triton-a.example:8002, "triton-b.example:9002"]
  labels: {workload: vision, team: search}
- targets: ["[2001:db8::7]"]
  labels: {namespace: search, pod: triton-0, __server: c, __url: "https://gate.example/c"}
"""


def discovery(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> Settings:
    file = tmp_path / "tritonscope.yml"
    file.write_text(text, encoding="utf-8")
    return load_settings(environ or {}, file)


def written(path: Path, text: str) -> FileFinder:
    path.write_text(text, encoding="utf-8")
    return FileFinder(Discovery(Kind.FILE, str(path)))


def rewrite(path: Path, text: str) -> None:
    """As a person saves it: another time of change, even within the clock's step."""
    before = path.stat().st_mtime_ns
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(before + 10**9, before + 10**9))


def test_entries_of_the_settings(tmp_path: Path) -> None:
    settings = discovery(
        tmp_path,
        """
discovery:
  - file: fleet/*.yml
    control: true
    headers_from_env: {Authorization: TOKEN}
  - dns: triton.search.svc
    http_port: 9000
    metrics_port: 9002
    scheme: https
    workload: search
""",
        {"TOKEN": "Bearer s3cret", "TRITONSCOPE_DISCOVERY_FILE": "more.json"},
    )
    assert settings.notices == ()
    assert settings.servers == ()
    more, files, name = settings.discoveries
    assert (more.kind, more.target, more.line) == (Kind.FILE, "more.json", None)
    assert (files.pattern, files.line, files.control) == (tmp_path / "fleet/*.yml", 3, True)
    assert files.headers["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in repr(settings)
    assert (name.kind, name.http_port, name.metrics_port, name.scheme, name.workload, name.control) == (
        Kind.DNS, 9000, 9002, "https", "search", False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "line", "words"),
    [
        ("- {file: a.yml, dns: b}", 2, "give either `file:` or `dns:`"),
        ("- {control: true}", 2, "give either `file:` or `dns:`"),
        ("- {file: a.yml, fil: b}", 2, "unknown key fil"),
        ("- {dns: a, http_port: 70000}", 2, "http_port is '70000'"),
        ("- {dns: a, scheme: ftp}", 2, "scheme is 'ftp'"),
        ("file: a.yml", 2, "discovery must be a list"),
    ],
)
def test_an_entry_that_cannot_be_used_is_named_with_its_line(
    tmp_path: Path, entry: str, line: int, words: str
) -> None:
    settings = discovery(tmp_path, f"discovery:\n  {entry}\n")
    assert settings.discoveries == ()
    (notice,) = settings.notices
    assert (notice.source, notice.line) == ("tritonscope.yml", line)
    assert words in notice.text


def test_targets_and_labels_of_a_file_become_servers(tmp_path: Path) -> None:
    a, b, c = written(tmp_path / "fleet.yml", FLEET).look().servers
    assert (a.id, a.http_url, a.metrics_url, a.workload) == (
        "triton-a.example:8002", "http://triton-a.example:8000", "http://triton-a.example:8002", "vision",
    )  # fmt: skip
    assert a.match == () and instance_of(a) == "triton-a.example:8002"
    assert (b.id, b.http_url) == ("triton-b.example:9002", "http://triton-b.example:8000")
    assert (c.id, c.http_url, c.metrics_url) == (
        "c", "https://gate.example/c", "http://[2001:db8::7]:8002",
    )  # fmt: skip
    assert c.match == (("namespace", "search"), ("pod", "triton-0"))
    assert c.workload == ""


def test_json_with_tabs_is_read_as_prometheus_reads_it(tmp_path: Path) -> None:
    entries = [{"targets": ["h:8002"], "labels": {"__scheme__": "https", "__metrics_path__": "/t/metrics"}}]
    (server,) = written(tmp_path / "fleet.json", json.dumps(entries, indent="\t")).look().servers
    assert (server.metrics_url, server.http_url) == ("https://h:8002/t", "https://h:8000")


def test_a_server_without_an_http_address(tmp_path: Path) -> None:
    text = "- {targets: [h], labels: {__url: none}}\n"
    (server,) = written(tmp_path / "fleet.yml", text).look().servers
    assert (server.http_url, server.metrics_url) == (None, "http://h:8002")


def test_what_cannot_be_used_of_a_file_costs_itself(tmp_path: Path) -> None:
    text = '- targets: [good:8002, "bad host:8002"]\n  labels: {workload: [x]}\n- labels: {a: b}\n'
    found = written(tmp_path / "fleet.yml", text).look()
    assert [server.id for server in found.servers] == ["good:8002"]
    assert [(notice.source, notice.line) for notice in found.notices] == [
        ("fleet.yml", 2), ("fleet.yml", 1), ("fleet.yml", 3),
    ]  # fmt: skip
    assert "blanks in it: this target is not used" in found.notices[1].text


@pytest.mark.parametrize(
    ("broken", "line"),
    [("- targets: [a:8002\n- targets: [b:8002]\n", 1), ("targets: [a]\n", 1), ("-  {\n\tx\n", 1)],
)
def test_a_broken_file_keeps_the_servers_before_and_says_where(
    tmp_path: Path, broken: str, line: int
) -> None:
    path = tmp_path / "fleet.yml"
    finder = written(path, FLEET)
    before = finder.look().servers
    rewrite(path, broken)
    found = finder.look()
    assert found.servers == before and len(before) == 3
    (notice,) = found.notices
    assert notice.source == "fleet.yml" and notice.line is not None and notice.line >= line
    assert notice.text.endswith("the servers found before stay")
    assert finder.look() == found
    rewrite(path, "- targets: [only:8002]\n")
    assert [server.id for server in finder.look().servers] == ["only:8002"]
    assert finder.look().notices == ()


def test_an_empty_file_has_no_servers_and_a_missing_one_says_so(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yml"
    finder = written(path, FLEET)
    assert len(finder.look().servers) == 3
    rewrite(path, "\n")
    assert finder.look().servers == () and finder.look().notices == ()
    path.unlink()
    found = finder.look()
    assert found.servers == ()
    (notice,) = found.notices
    assert "no such file" in notice.text


def test_all_files_of_a_pattern_count(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("- targets: [a:8002]\n")
    (tmp_path / "b.yml").write_text("- targets: [b:8002]\n")
    finder = FileFinder(Discovery(Kind.FILE, "*.yml", folder=tmp_path))
    assert [server.id for server in finder.look().servers] == ["a:8002", "b:8002"]
    (tmp_path / "a.yml").unlink()
    assert [server.id for server in finder.look().servers] == ["b:8002"]


class Names:
    """A resolver whose answer is set; it counts how often it is asked."""

    def __init__(self, *answer: str) -> None:
        self.answer: Sequence[str] | socket.gaierror = answer
        self.asked = 0

    def __call__(self, name: str) -> Sequence[str]:
        self.asked += 1
        if isinstance(self.answer, socket.gaierror):
            raise self.answer
        return self.answer


def test_every_address_of_a_name_is_a_server_of_one_workload() -> None:
    names = Names("10.0.0.7", "2001:db8::7")
    found = DnsFinder(Discovery(Kind.DNS, "triton.search.svc"), names, clock=lambda: 0.0).look()
    assert [(server.id, server.http_url, server.workload) for server in found.servers] == [
        ("10.0.0.7:8002", "http://10.0.0.7:8000", "triton.search.svc"),
        ("[2001:db8::7]:8002", "http://[2001:db8::7]:8000", "triton.search.svc"),
    ]


def test_a_name_is_asked_again_after_its_time_and_an_outage_keeps_the_servers() -> None:
    now = [0.0]
    names = Names("10.0.0.7")
    finder = DnsFinder(Discovery(Kind.DNS, "triton", "tritonscope.yml", 4), names, clock=lambda: now[0])
    first = finder.look().servers
    names.answer = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    now[0] = DNS_SECONDS - 1
    assert finder.look().servers == first and names.asked == 1
    now[0] = DNS_SECONDS
    found = finder.look()
    assert found.servers == first and names.asked == 2
    (notice,) = found.notices
    assert (notice.source, notice.line) == ("tritonscope.yml", 4)
    assert "cannot be resolved now" in notice.text
    names.answer = ("10.0.0.8",)
    now[0] = 2 * DNS_SECONDS
    assert [server.id for server in finder.look().servers] == ["10.0.0.8:8002"]


def test_a_name_that_does_not_exist_has_no_servers() -> None:
    names = Names()
    names.answer = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    found = DnsFinder(Discovery(Kind.DNS, "typo"), names).look()
    assert found.servers == ()
    assert [notice.text for notice in found.notices] == ["the name typo does not exist: no server there"]


def test_the_machines_own_name_resolves() -> None:
    assert {"127.0.0.1", "::1"} & set(addresses("localhost"))
