"""Source METADATA: `GET /v2`, the server's own name, version and extensions."""

from __future__ import annotations

from collectors.reading import OneCall, Reading, base_url, decode_json, listing, mapping, words, wrong_shape
from telemetry.facts import ServerMetadata
from telemetry.identity import Server
from telemetry.scrape import Source
from telemetry.transport import Transport, host_of


class MetadataCollector(OneCall):
    """Reads `GET /v2`; the payload is a `ServerMetadata`."""

    source = Source.METADATA

    def _read(self) -> Reading:
        return Reading(read_metadata(self.server, self._transport, self._timeout_seconds))


def read_metadata(server: Server, transport: Transport, timeout_seconds: float) -> ServerMetadata:
    """The server's metadata now; raises SourceError."""
    url = base_url(server) + "/v2"
    answer = transport.get(url, timeout_seconds=timeout_seconds)
    return parse_metadata(decode_json(answer.text, host_of(url)), who=host_of(url))


def parse_metadata(data: object, *, who: str = "the file") -> ServerMetadata:
    """Metadata of a server; raises WrongContent if there is neither name nor version."""
    row = mapping(data)
    name, version = words(row.get("name")), words(row.get("version"))
    if not name and not version:
        raise wrong_shape(who, "the metadata of a Triton server", data)
    return ServerMetadata(name, version, tuple(filter(None, map(words, listing(row.get("extensions"))))))
