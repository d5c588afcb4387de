"""Who somebody is: what the proxy, the issuer's cookie or the password's cookie vouch for, else anonymous."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from signin.connection import Connection
from signin.tickets import Tickets
from telemetry.access import LOCAL, NOBODY, Access, How, Identity

Claims = Mapping[str, Any]
HEADER = "x-tritonscope-visitor"
"""The gate's header for the pages; what a client sends under this name is thrown away."""
COOKIE = "tritonscope_session"
_PASSWORD, _VISITOR = "password cookie", "visitor header"
MAX_NAME_LETTERS = 80
_ANONYMOUS_SECONDS = 86400.0 * 30


@dataclass(frozen=True, slots=True)
class Visitor:
    """A person with what is known of them; the rights follow from the settings. `session` ends at sign-out.

    `seconds` until one must sign in again.
    """

    name: str
    how: How
    groups: tuple[str, ...] = ()
    address: str = ""
    session: str = ""
    seconds: float = _ANONYMOUS_SECONDS

    def identity(self, access: Access) -> Identity:
        """The person with their rights as the settings are now."""
        if self.how is How.LOCAL:
            return NOBODY if access.configured else LOCAL
        if self.how is How.ANONYMOUS:
            return access.anonymous(self.address)
        if self.how is How.PASSWORD:
            return access.with_password(self.name) if access.password is not None else NOBODY
        return access.signed_in(self.name, self.how, self.groups)

    def sealed(self, tickets: Tickets) -> str:
        """As the header for the pages."""
        note = {"name": self.name, "how": self.how, "groups": self.groups, "address": self.address}
        return tickets.seal({**note, "session": self.session}, self.seconds, purpose=_VISITOR)


def opened(sealed: str, tickets: Tickets) -> Visitor | None:
    """The visitor of the gate's header; None if it is none, too old, or the session was ended."""
    note = tickets.open(sealed, purpose=_VISITOR)
    if note is None:
        return None
    return Visitor(
        str(note["name"]),
        How(str(note["how"])),
        tuple(map(str, note["groups"])) if isinstance(note["groups"], list) else (),
        str(note["address"]),
        str(note["session"]),
    )


class Visitors:
    """Tells who is at the other end. `claims`: what a valid cookie of the issuer says, None without one."""

    def __init__(
        self,
        access: Access,
        tickets: Tickets,
        claims: Callable[[Mapping[str, str]], Claims | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.access = access
        self._tickets = tickets
        self._claims = claims
        self._clock = clock

    def of(self, connection: Connection) -> Visitor:
        """Whoever it is; every doubt ends in somebody who is not signed in."""
        return (
            self._by_proxy(connection)
            or self._by_issuer(connection)
            or self._by_password(connection)
            or self._unknown(connection)
        )

    def password_cookie(self, name: str, session: str) -> str:
        """The cookie of somebody who knew the password."""
        note = {"name": tidy(name), "session": session}
        return self._tickets.seal(note, self.access.session_seconds, purpose=_PASSWORD)

    def password_may_open(self, connection: Connection) -> bool:
        """True where the shared password counts: on this machine, or where the settings say so."""
        shared = self.access.password
        return shared is not None and (shared.beyond_loopback or connection.is_local)

    def _by_proxy(self, connection: Connection) -> Visitor | None:
        proxy = self.access.proxy
        if proxy is None or not connection.comes_from(proxy.addresses):
            return None
        name = tidy(connection.header(proxy.name_header))
        if not name:
            return None
        groups = connection.header(proxy.groups_header).split(",")
        named = tuple(filter(None, map(str.strip, groups)))
        return Visitor(name, How.PROXY, named, connection.address, seconds=self.access.session_seconds)

    def _by_issuer(self, connection: Connection) -> Visitor | None:
        oidc = self.access.oidc
        claims = self._claims(connection.cookies) if oidc is not None else None
        if oidc is None or claims is None:
            return None
        name = tidy(str(_claim(claims, oidc.name_claim) or claims.get("sub") or ""))
        issued = claims.get("iat")
        left = self.access.session_seconds
        if isinstance(issued, (int, float)):
            left -= self._clock() - issued
        session = hashlib.sha256(repr(sorted(claims.items())).encode()).hexdigest()
        if not name or left <= 0 or self._tickets.has_ended(session):
            return None
        groups = _claim(claims, oidc.groups_claim)
        named = groups if isinstance(groups, (list, tuple)) else [groups] if isinstance(groups, str) else []
        return Visitor(name, How.OIDC, tuple(map(str, named)), connection.address, session, left)

    def _by_password(self, connection: Connection) -> Visitor | None:
        sealed = connection.cookies.get(COOKIE, "")
        note = self._tickets.open(sealed, purpose=_PASSWORD) if sealed else None
        if note is None or not self.password_may_open(connection):
            return None
        left = _number(note["until"]) - self._clock()
        return Visitor(str(note["name"]), How.PASSWORD, (), connection.address, str(note["session"]), left)

    def _unknown(self, connection: Connection) -> Visitor:
        if not self.access.configured and connection.is_local:
            return Visitor(LOCAL.name, How.LOCAL, address=connection.address)
        return Visitor("anonymous", How.ANONYMOUS, address=connection.address)


def tidy(name: str) -> str:
    """A name as it may stand in a page and a journal: one line of printable letters, not endless."""
    printable = "".join(letter if letter.isprintable() else " " for letter in name)
    return " ".join(printable.split())[:MAX_NAME_LETTERS]


def _claim(claims: Claims, path: str) -> Any:
    """A claim; `a.b` is b inside a, unless a claim has that very name."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
