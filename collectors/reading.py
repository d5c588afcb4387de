"""What every collector shares: one timed reading, and JSON answers with a sentence for every wrong shape."""

from __future__ import annotations

import abc
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from telemetry.errors import SourceError, WrongContent
from telemetry.identity import Server
from telemetry.scrape import Notice, Samples, Scrape, Source
from telemetry.transport import Transport

_WHOLE = re.compile(r"-?[0-9]{1,20}")
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
"""Triton's integers have 64 bits; what is beyond them is no number of its."""


class Collector(Protocol):
    """Reads one source of one server once."""

    @property
    def server(self) -> Server:
        """The server it reads."""

    @property
    def source(self) -> Source:
        """The source it reads."""

    def collect(self) -> Scrape | None:
        """One reading, None if nothing had to be asked; a SourceError is in the scrape, never raised."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a successful reading found."""

    payload: object
    samples: Samples = field(default_factory=Samples.empty)
    notices: tuple[Notice, ...] = ()
    raw: str | None = field(default=None, repr=False)


class OneCall(abc.ABC):
    """A collector that reads its source with one call: `_read` makes it, or raises SourceError."""

    source: ClassVar[Source]

    def __init__(self, server: Server, transport: Transport, *, timeout_seconds: float) -> None:
        self.server = server
        self._transport = transport
        self._timeout_seconds = timeout_seconds

    def collect(self) -> Scrape:
        """One reading."""
        return timed(self.server, self.source, self._read)

    @abc.abstractmethod
    def _read(self) -> Reading: ...


def timed(server: Server, source: Source, read: Callable[[], Reading]) -> Scrape:
    """Run `read` and stamp it with the unix time at which it began, as Prometheus stamps samples."""
    at, start = time.time(), time.monotonic()
    try:
        reading = read()
    except SourceError as error:
        return Scrape(server.id, source, at, time.monotonic() - start, error=error)
    return Scrape(
        server.id,
        source,
        at,
        time.monotonic() - start,
        reading.samples,
        reading.payload,
        reading.notices,
        raw=reading.raw,
    )


def base_url(server: Server) -> str:
    """The address of the server's HTTP API, without a trailing slash; SourceError if none is configured."""
    if server.http_url is None:
        raise SourceError(f"server {server.id} has no HTTP address in the settings (`url`)")
    return server.http_url


def decode_json(text: str, who: str) -> object:
    """The JSON value of an answer; `who` begins the sentence of the WrongContent for anything else."""
    start = text.lstrip()[:1]
    if not start:
        raise WrongContent(
            f"{who} answered with nothing, as Triton's metrics port does: "
            "its HTTP API is usually on port 8000"
        )
    if start == "<":
        raise WrongContent(f"{who} answered with a web page, not with JSON: a proxy or a sign-in page")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongContent(
            f"{who} answered with something that is not JSON", detail=f"{error}: {text[:400]}"
        ) from error


def wrong_shape(who: str, what: str, value: object) -> WrongContent:
    """The error for JSON that is not what this call answers with."""
    return WrongContent(f"{who} did not answer with {what}", detail=json.dumps(value, default=str)[:400])


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one: fields that are missing or odd count as absent."""
    return value if isinstance(value, dict) else {}


def listing(value: object) -> list[Any]:
    """The value if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def whole(value: object) -> int | None:
    """An integer of 64 bits, also one in a string (gRPC's JSON writes int64 so); None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        value = int(value) if _WHOLE.fullmatch(value) else None
    elif isinstance(value, float):
        value = int(value) if value.is_integer() else None
    return value if isinstance(value, int) and _SMALLEST <= value <= _LARGEST else None


def words(value: object) -> str:
    """A string; a number as its text (versions may come as numbers); "" for anything else."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""
