"""Who is who: servers, models, GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

SIMULATED_GPU_PREFIX = "GPU-SIMULATED-"
"""Uuid prefix of the sandbox's simulated GPU; whatever carries it is badged as simulated."""

_ADDRESSABLE_NAME = re.compile(r"[A-Za-z0-9._~-]+")


@dataclass(frozen=True, slots=True)
class Server:
    """One Triton process (one replica).

    `http_url` and `metrics_url` are complete base addresses without a trailing slash, None when that
    side of the server is not configured. `match` are the Prometheus matchers of its series.
    """

    id: str
    http_url: str | None
    metrics_url: str | None
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    ca_file: str | None = None
    workload: str = ""
    match: tuple[tuple[str, str], ...] = ()
    control: bool = False
    """Control is switched on for this server in the settings (the sandbox needs no switch)."""
    expected_server_name: str | None = None
    """The random --id this run gave its own tritonserver; only a server that answers with it is ours."""
    grpc_url: str | None = None
    """Address of the gRPC API (`host:port`, with `grpcs://` for TLS) for test requests, None if not given."""
    api_headers: Mapping[str, Mapping[str, str]] = field(
        default_factory=lambda: MappingProxyType({}), repr=False
    )
    """Further headers by group of Triton's API (`model-repository`): keys of `--http-restricted-api`."""

    def headers_for(self, api: str) -> dict[str, str]:
        """What is sent with a call of this group ("" = of none): a key goes only where it is wanted."""
        return {**self.headers, **self.api_headers.get(api, {})}

    @property
    def header_values(self) -> tuple[str, ...]:
        """Values of all headers: secrets, which nothing may show or record."""
        return (
            *self.headers.values(),
            *(value for one in self.api_headers.values() for value in one.values()),
        )

    load_run_limit_per_second: float | None = None
    """Load runs may send so many requests/s; None = no load runs (the sandbox needs no such switch)."""


@dataclass(frozen=True, slots=True, order=True)
class ModelKey:
    """A model is (server id, name, version); version "" means that no version is known."""

    server: str
    name: str
    version: str = ""

    def label(self) -> str:
        """Name and version as a person reads them: `resnet18 v1`."""
        return f"{self.name} v{self.version}" if self.version else self.name


@dataclass(frozen=True, slots=True, order=True)
class GpuKey:
    """A GPU is its uuid; `server` is the one that reported it."""

    server: str
    uuid: str

    @property
    def simulated(self) -> bool:
        """True for the sandbox's simulated GPU."""
        return self.uuid.startswith(SIMULATED_GPU_PREFIX)


def version_number(version: str) -> int:
    """A model version as the number by which versions are ordered, -1 for one that is none."""
    return int(version) if version.isdecimal() and len(version) < 20 else -1


def is_http_addressable(model_name: str) -> bool:
    """True if Triton's HTTP API can address the name: it does not decode percent-encoded paths."""
    return bool(_ADDRESSABLE_NAME.fullmatch(model_name))
