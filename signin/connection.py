"""One connection as the ASGI server describes it: where it comes from, and what it says of itself."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any

Scope = MutableMapping[str, Any]

_FORWARDED = ("x-forwarded-for", "forwarded", "x-real-ip", "x-forwarded-host", "x-forwarded-proto", "via")
"""Whatever has one of these came through a proxy."""


@dataclass(frozen=True, slots=True)
class Connection:
    """`address` is where the connection comes from, "" if the server does not know it.

    Headers by lower-case name, each as often as it was sent. `secure`: over TLS.
    """

    address: str
    headers: Mapping[str, tuple[str, ...]]
    secure: bool = False

    @classmethod
    def of(cls, scope: Scope) -> Connection:
        """From an ASGI scope of an HTTP request or a websocket."""
        headers: dict[str, tuple[str, ...]] = {}
        for name, value in scope.get("headers") or ():
            key = name.decode("latin-1").lower()
            headers[key] = (*headers.get(key, ()), value.decode("latin-1").strip())
        client = scope.get("client")
        return cls(str(client[0]) if client else "", headers, scope.get("scheme") in ("https", "wss"))

    def header(self, name: str) -> str:
        """A header that was sent once; "" if it is missing or stands there several times."""
        values = self.headers.get(name, ())
        return values[0] if len(values) == 1 else ""

    @property
    def is_local(self) -> bool:
        """True for a browser on this machine: from loopback, through no proxy, to a name of this machine.

        The name matters: a foreign page may give its own name the address 127.0.0.1 and would be let in.
        """
        if any(name in self.headers for name in _FORWARDED):
            return False
        return is_loopback(self.address) and is_loopback(host_name(self.header("host")))

    @property
    def seems_rewritten(self) -> bool:
        """True if `address` was taken from a header by the ASGI server: then nobody knows who connected."""
        listed = map(str.strip, ",".join(self.headers.get("x-forwarded-for", ())).split(","))
        return any(self.address in (entry, host_name(entry)) for entry in listed if entry)

    def comes_from(self, networks: Iterable[str]) -> bool:
        """True if the connection itself, not a header, comes from one of these networks (CIDR)."""
        address = _address(self.address)
        if address is None or self.seems_rewritten:
            return False
        return any(address in ipaddress.ip_network(network, strict=False) for network in networks)

    @property
    def cookies(self) -> Mapping[str, str]:
        """The cookies, of which no broken one keeps the others away."""
        found: dict[str, str] = {}
        for header in self.headers.get("cookie", ()):
            for part in header.split(";"):
                try:
                    parsed = SimpleCookie(part)
                except CookieError:
                    continue
                found |= {name: morsel.value for name, morsel in parsed.items() if name not in found}
        return found


def host_name(host: str) -> str:
    """The name in a Host header, without port and brackets, in lower case."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def is_loopback(name: str) -> bool:
    """True for localhost and the loopback addresses."""
    address = _address(name)
    if address is not None:
        return address.is_loopback
    return name == "localhost" or name.endswith(".localhost")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped if mapped is not None else address
