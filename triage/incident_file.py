"""The incident file: one zip of JSON, texts and .npy arrays, written as a stream and read with limits."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import quote

from history.bank import BankState
from history.ring import RingState
from history.tape import Tape, Taped
from telemetry.errors import UnusableFile
from telemetry.facts import ModelConfig
from telemetry.masking import Mask
from telemetry.plain import from_plain, to_plain
from telemetry.scrape import Notice, Scrape, Source
from triage.incident import FORMAT, Facts, Incident, Manifest, Taken, config_without_secrets
from triage.incident_replay import Opened
from triage.incident_scrapes import (
    ARRAYS,
    LATEST,
    array_bytes_into,
    array_of,
    bank_of,
    scrape_data,
    scrape_of,
    series_data,
    series_of,
)
from triage.incident_summary import summary_page
from triage.text import to_json

Result = TypeVar("Result")

MANIFEST, FACTS, RING, SCRAPES, TAPED = (
    "manifest.json",
    "facts.json",
    "ring.json",
    "scrapes.json",
    "taped.json",
)
FINDINGS, SUMMARY, README = "findings.json", "summary.html", "README.txt"
MAX_FILE_BYTES = 256 << 20
MAX_UNPACKED_BYTES = 1 << 30
MAX_MEMBERS = 20_000
MAX_MEMBER_BYTES = 256 << 20
_RAW = {Source.METRICS: "metrics.txt", Source.STATISTICS: "statistics.json", Source.INDEX: "index.json"}
_LONGEST_SECONDS = 1e6
_LEVEL = 1
"""Numbers hardly shrink further with more effort."""
_README = """An incident file of Tritonscope: what was known of the servers named in manifest.json.

summary.html      for the ticket: verdict, findings, timeline, charts
findings.json     the findings, as `python -m triage --json` prints them
raw/              the servers' last answers as they came, credentials masked
ring.json, ring/  all numbers over time, arrays in numpy's .npy format, unix milliseconds
facts.json        events, actions, configurations, memory around loads
scrapes.json      the last reading of each source

To look at it:    python -m triage replay FILE      (the app, read-only)
In a terminal:    python -m triage --incident FILE  (exit status 0 healthy, 1 findings)
"""


def save(taken: Taken, path: Path) -> Opened:
    """Write the file; returns the incident as a reader of the file has it, findings included.

    It is judged from what was written: whoever opens it finds the same.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        _write_incident(_Writer(archive, taken.mask), taken.incident)
    tape = None if taken.distant is None else Tape(taken.distant)
    incident = read(path)
    opened = Opened(incident, distant=tape)
    found = opened.judged()
    taped = () if tape is None else tape.answers()
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        writer = _Writer(archive, taken.mask)
        writer.json(TAPED, to_plain(taped))
        writer.text(FINDINGS, to_json(found))
        writer.text(SUMMARY, summary_page(opened))
        writer.text(README, _README)
    return opened if not taped else Opened(replace(incident, taped=taped))


def read(path: Path) -> Incident:
    """The incident in the file. Raises UnusableFile with one sentence for anything else."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UnusableFile(f"{path.name} is larger than {MAX_FILE_BYTES >> 20} MiB: it is not opened")
        with zipfile.ZipFile(path) as archive:
            return _incident(_Reader(archive, path.name))
    except OSError as error:
        raise UnusableFile(f"{path.name} cannot be read: {error.strerror or error}") from error
    except zipfile.BadZipFile as error:
        raise UnusableFile(f"{path.name} is no incident file, or it is damaged: {error}") from error


def open_file(path: Path) -> Opened:
    """The incident in the file, judged. Raises UnusableFile, also for numbers that nobody can have read."""
    opened = Opened(read(path))
    try:
        opened.judged()
    except (ArithmeticError, ValueError, LookupError, TypeError, AttributeError, MemoryError) as error:
        raise UnusableFile(f"{path.name} is damaged: its figures cannot be computed ({error})") from error
    return opened


def member(path: Path, name: str) -> str:
    """One text of the file, such as SUMMARY. Raises UnusableFile."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _Reader(archive, path.name).bytes(name).decode("utf-8", errors="replace")
    except (OSError, zipfile.BadZipFile) as error:
        raise UnusableFile(f"{path.name} cannot be read: {error}") from error


def recorded_findings(path: Path) -> Any:
    """What `findings.json` says: the findings by the rules of the version that captured it."""
    try:
        return json.loads(member(path, FINDINGS))
    except ValueError as error:
        raise UnusableFile(f"{path.name} is damaged: {FINDINGS} is not JSON") from error


# ---- writing


class _Writer:
    """Everything but arrays goes through the mask."""

    def __init__(self, archive: zipfile.ZipFile, mask: Mask) -> None:
        self._archive, self._mask = archive, mask

    def json(self, name: str, data: Any) -> None:
        self._archive.writestr(name, json.dumps(self._mask.data(data), separators=(",", ":")))

    def text(self, name: str, text: str) -> None:
        self._archive.writestr(name, self._mask.text(text))

    def array(self, name: str, kind: str, array: Any) -> None:
        with self._archive.open(name, "w", force_zip64=True) as file:
            array_bytes_into(file, kind, array)


def _write_incident(writer: _Writer, incident: Incident) -> None:
    writer.json(MANIFEST, to_plain(incident.manifest))
    writer.json(FACTS, to_plain(incident.facts))
    scrapes, latest, last = _distinct(incident.ring)
    writer.json(SCRAPES, {"scrapes": list(map(scrape_data, scrapes)), "latest": latest, "last": last})
    rows = []
    for place, (server, source, state) in enumerate(incident.ring.banks):
        rows.append(
            {
                "server": server,
                "source": source.value,
                "series": series_data(state.series),
                "first_answer_ms": state.first_answer_ms,
                "last_answer_ms": state.last_answer_ms,
            }
        )
        for kind in ARRAYS:
            writer.array(f"ring/{place}/{kind}.npy", kind, getattr(state, kind))
    notices = [[server, at, to_plain(notice)] for server, at, notice in incident.ring.notices]
    writer.json(RING, {"banks": rows, "notices": notices})
    for scrape in incident.ring.last:
        _write_raw(writer, scrape)


def _distinct(ring: RingState) -> tuple[list[Scrape], list[int], list[int]]:
    """Each scrape once, and which of them are the latest attempts and the last answers."""
    scrapes: dict[int, Scrape] = {id(one): one for one in (*ring.latest, *ring.last)}
    place = {key: number for number, key in enumerate(scrapes)}
    return (
        list(scrapes.values()),
        [place[id(one)] for one in ring.latest],
        [place[id(one)] for one in ring.last],
    )


def _write_raw(writer: _Writer, scrape: Scrape) -> None:
    folder = f"raw/{_file_name(scrape.server)}"
    if scrape.raw is not None and scrape.source in _RAW:
        writer.text(f"{folder}/{_RAW[scrape.source]}", scrape.raw)
    elif scrape.source is Source.CONFIG and isinstance(scrape.payload, Mapping):
        configs = [one for one in scrape.payload.values() if isinstance(one, ModelConfig)]
        writer.json(f"{folder}/configs.json", {one.name: config_without_secrets(one).raw for one in configs})


def _file_name(server: str) -> str:
    """Different for different servers, and never a way out of the folder."""
    name = quote(server, safe="")
    return "%2E" + name[1:] if name.startswith(".") else name


# ---- reading


class _Reader:
    """Members by name, within the limits; whatever else the zip holds is never unpacked."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._archive, self._name = archive, name
        infos = archive.infolist()
        self._infos = {info.filename: info for info in infos}
        if MANIFEST not in self._infos:
            raise UnusableFile(f"{name} is no incident file of Tritonscope: it has no {MANIFEST}")
        if len(infos) > MAX_MEMBERS or sum(info.file_size for info in infos) > MAX_UNPACKED_BYTES:
            limit = f"{MAX_MEMBERS:,} members and {MAX_UNPACKED_BYTES >> 30} GiB"
            raise UnusableFile(f"{name} unpacks to more than {limit}: it is not opened")

    def has(self, member: str) -> bool:
        return member in self._infos

    def bytes(self, member: str) -> bytes:
        info = self._infos.get(member)
        if info is None:
            raise UnusableFile(f"{self._name} is damaged: {member} is missing")
        if info.file_size > MAX_MEMBER_BYTES:
            raise UnusableFile(f"{self._name}: {member} is too large to be read")
        with self._damaged(member), self._archive.open(info) as file:
            return _exactly(file, info.file_size)

    def json(self, member: str, parse: Callable[[Any], Result]) -> Result:
        """The member as what `parse` makes of it."""
        data = self.bytes(member)
        with self._damaged(member):
            return parse(json.loads(data))

    def array(self, member: str, kind: str) -> Any:
        data = self.bytes(member)
        with self._damaged(member):
            return array_of(kind, data)

    @contextmanager
    def _damaged(self, member: str) -> Iterator[None]:
        """One sentence for the many ways in which content can be wrong."""
        try:
            yield
        except UnusableFile:
            raise
        except (
            ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError,
            MemoryError, EOFError, RuntimeError, NotImplementedError, zlib.error, zipfile.BadZipFile,
        ) as error:  # fmt: skip
            words = str(error).splitlines()[:1] or [type(error).__name__]
            raise UnusableFile(f"{self._name} is damaged: {member}: {words[0][:200]}") from error


def _exactly(file: IO[bytes], size: int) -> bytes:
    """What the directory of the zip promises and not a byte more, however it was packed."""
    data = file.read(size + 1)
    if len(data) != size:
        raise ValueError("it has another size than the zip says")
    return data


def _incident(reader: _Reader) -> Incident:
    manifest = reader.json(MANIFEST, _manifest)
    facts = reader.json(FACTS, lambda data: from_plain(Facts, data))
    latest, last = reader.json(SCRAPES, _scrapes)
    rows, notices = reader.json(RING, _ring_rows)
    banks = tuple(
        (server, source, _bank(reader, place, series, row))
        for place, (server, source, series, row) in enumerate(rows)
    )
    taped = reader.json(TAPED, lambda data: from_plain(tuple[Taped, ...], data)) if reader.has(TAPED) else ()
    return Incident(manifest, RingState(banks, latest, last, notices), facts, taped)


def _manifest(data: Any) -> Manifest:
    version = data.get("format") if isinstance(data, dict) else None
    if not isinstance(version, int):
        raise ValueError("it does not say its format")
    if version > FORMAT:
        raise UnusableFile(
            f"this incident file has format {version}, of a newer Tritonscope; this one reads up to {FORMAT}"
        )
    manifest: Manifest = from_plain(Manifest, data)
    times = (manifest.start, manifest.captured_at, *manifest.gone.values())
    spans = (manifest.window_seconds, manifest.interval_seconds, *manifest.intervals.values())
    if (
        not all(0.0 <= one < LATEST for one in times)
        or manifest.captured_at - manifest.start > 1000 * _LONGEST_SECONDS
    ):
        raise ValueError("its times are none")
    if not all(0.0 < one < _LONGEST_SECONDS for one in spans):
        raise ValueError("its window or an interval is none")
    return manifest


def _scrapes(data: Any) -> tuple[tuple[Scrape, ...], tuple[Scrape, ...]]:
    scrapes = [scrape_of(one) for one in data["scrapes"]]
    latest, last = (
        tuple(scrapes[from_plain(int, place)] for place in data[name]) for name in ("latest", "last")
    )
    return latest, last


def _ring_rows(data: Any) -> tuple[list[Any], tuple[tuple[str, float, Notice], ...]]:
    rows = [
        (from_plain(str, row["server"]), Source(row["source"]), series_of(row["series"]), row)
        for row in data["banks"]
    ]
    return rows, from_plain(tuple[tuple[str, float, Notice], ...], data["notices"])


def _bank(reader: _Reader, place: int, series: Any, row: Mapping[str, Any]) -> BankState:
    arrays = {kind: reader.array(f"ring/{place}/{kind}.npy", kind) for kind in ARRAYS}
    with reader._damaged(RING):
        return bank_of(series, row, arrays)
