"""Scrapes and arrays of an incident as plain data and as .npy files, and back."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from collectors.exposition import Family, MetricsPage
from history.bank import BankState
from telemetry import errors
from telemetry.errors import SourceError
from telemetry.facts import IndexEntry, ModelConfig, ModelStatistics, ServerMetadata
from telemetry.memory import ServerProcesses
from telemetry.plain import from_plain, to_plain
from telemetry.probe import ProbeResult
from telemetry.scrape import Notice, Samples, Scrape, Series, Source
from triage.incident import config_without_secrets

ARRAYS = ("times_ms", "answered", "values", "run_start_ms", "last_seen_ms")
"""Arrays of one source of one server, one file each."""
_TYPES = {"times_ms": "<i8", "answered": "|b1", "values": "<f8", "run_start_ms": "<i8", "last_seen_ms": "<i8"}
_MAX_HEADER_BYTES = 4096
LATEST = 1e11
"""Unix seconds; what comes later is no time of an incident."""

_PAYLOADS: dict[Source, Any] = {
    Source.STATISTICS: tuple[ModelStatistics, ...],
    Source.INDEX: tuple[IndexEntry, ...],
    Source.CONFIG: Mapping[str, ModelConfig],
    Source.METADATA: ServerMetadata,
    Source.PROCESSES: ServerProcesses,
    Source.PROBES: tuple[ProbeResult, ...],
}


def series_data(series: Sequence[Series]) -> list[Any]:
    """`[[name, [[label, value], ...]], ...]`."""
    return [[one.name, [list(pair) for pair in one.labels]] for one in series]


def series_of(data: Any) -> tuple[Series, ...]:
    """The series again; raises ValueError. There may be ten thousands: checked here and not by type hints."""
    found = tuple(Series(name, tuple(_pair(*pair) for pair in labels)) for name, labels in data)
    if not all(isinstance(one.name, str) for one in found):
        raise ValueError("the name of a series is no text")
    return found


def _pair(label: object, value: object) -> tuple[str, str]:
    if not (isinstance(label, str) and isinstance(value, str)):
        raise ValueError("a label is no text")
    return sys.intern(label), value


def scrape_data(scrape: Scrape) -> dict[str, Any]:
    """One scrape without its raw text, which is a file of its own."""
    page = scrape.payload if isinstance(scrape.payload, MetricsPage) else None
    own_samples = page is None or page.samples is not scrape.samples
    return {
        "server": scrape.server,
        "source": scrape.source.value,
        "at": scrape.at,
        "duration_seconds": scrape.duration_seconds,
        "samples": _samples_data(scrape.samples) if own_samples else None,
        "payload": _payload_data(scrape.payload, scrape.source),
        "notices": to_plain(scrape.notices),
        "error": _error_data(scrape.error),
    }


def scrape_of(data: Any) -> Scrape:
    """The scrape again; raises ValueError, KeyError or TypeError for anything else."""
    source = Source(data["source"])
    payload = _payload(data["payload"], source)
    if data["samples"] is not None:
        samples = _samples(data["samples"])
    else:
        samples = payload.samples if isinstance(payload, MetricsPage) else Samples.empty()
    return Scrape(
        from_plain(str, data["server"]),
        source,
        _time(data["at"]),
        from_plain(float, data["duration_seconds"]),
        samples,
        payload,
        from_plain(tuple[Notice, ...], data["notices"]),
        _error(data["error"]),
    )


def _time(data: Any) -> float:
    at: float = from_plain(float, data)
    if not 0.0 <= at < LATEST:
        raise ValueError("the time of a reading is none")
    return at


def _payload_data(payload: object, source: Source) -> Any:
    if isinstance(payload, MetricsPage):
        return {
            "samples": _samples_data(payload.samples),
            "texts": list(payload.texts),
            "families": to_plain(payload.families),
            "notices": to_plain(payload.notices),
            "cut_off": payload.cut_off,
        }
    if source not in _PAYLOADS:
        # A source that tells by its samples alone.
        return None
    if source is Source.CONFIG and isinstance(payload, Mapping):
        payload = {name: config_without_secrets(one) for name, one in payload.items()}
    return to_plain(payload)


def _payload(data: Any, source: Source) -> object:
    if data is None:
        return None
    if source is Source.METRICS:
        return MetricsPage(
            _samples(data["samples"]),
            from_plain(tuple[str, ...], data["texts"]),
            from_plain(Mapping[str, Family], data["families"]),
            from_plain(tuple[Notice, ...], data["notices"]),
            from_plain(bool, data["cut_off"]),
        )
    payload: object = from_plain(_PAYLOADS[source], data)
    return payload


def _samples_data(samples: Samples) -> dict[str, Any]:
    return {"series": series_data(samples.series), "values": samples.values.tolist()}


def _samples(data: Any) -> Samples:
    values = np.array(from_plain(tuple[float, ...], data["values"]), dtype=np.float64)
    return Samples(series_of(data["series"]), values)


def _error_data(error: SourceError | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {
        "kind": type(error).__name__,
        "sentence": error.sentence,
        "detail": error.detail,
        "status": error.status,
    }


def _error(data: Any) -> SourceError | None:
    if data is None:
        return None
    kind = getattr(errors, from_plain(str, data["kind"]), SourceError)
    if not (isinstance(kind, type) and issubclass(kind, SourceError)):
        kind = SourceError
    return kind(
        from_plain(str, data["sentence"]),
        detail=from_plain(str | None, data["detail"]),
        status=from_plain(int | None, data["status"]),
    )


# ---- arrays


def bank_of(series: tuple[Series, ...], meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> BankState:
    """The numbers again; raises ValueError where sizes do not fit."""
    times, values = arrays["times_ms"], arrays["values"]
    rows, columns = len(series), len(times)
    shapes = {
        "answered": (columns,),
        "values": (rows, columns),
        "run_start_ms": (rows,),
        "last_seen_ms": (rows,),
    }
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has another size than its times and series")
    if times.ndim != 1 or (np.diff(times) <= 0).any():
        raise ValueError("times do not grow")
    if len(set(series)) != rows:
        raise ValueError("a series stands there twice")
    return BankState(
        series,
        times,
        arrays["answered"],
        values,
        arrays["run_start_ms"],
        arrays["last_seen_ms"],
        from_plain(int | None, meta["first_answer_ms"]),
        from_plain(int | None, meta["last_answer_ms"]),
    )


def array_of(name: str, data: bytes) -> Any:
    """An array from the bytes of its .npy file, never more than they hold; raises ValueError."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError(f"{name} is another version of .npy")
    shape, fortran, kind = np.lib.format.read_array_header_1_0(file, max_header_size=_MAX_HEADER_BYTES)
    body = data[file.tell() :]
    wanted = np.dtype(_TYPES[name])
    count = 1
    for length in shape:
        count *= length
    if kind != wanted or fortran or count * wanted.itemsize != len(body) or len(shape) > 2:
        raise ValueError(f"{name} is not what its header says")
    if name == "answered" and body.translate(None, b"\0\1"):
        raise ValueError(f"{name} holds something else than yes and no")
    return np.frombuffer(body, dtype=wanted).reshape(shape)


def array_bytes_into(file: Any, name: str, array: Any) -> None:
    """Write an array as .npy into an open file."""
    plain = np.ascontiguousarray(array, dtype=np.dtype(_TYPES[name]))
    np.lib.format.write_array(file, plain, version=(1, 0), allow_pickle=False)
