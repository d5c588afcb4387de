"""Who looks or acts, and what each may do on which server: also known where nothing can be written."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Right(StrEnum):
    """What a person may be allowed to do on a server; the value stands in the settings."""

    VIEW = "view"
    INFER = "infer"
    LOAD = "load"
    """Load, unload and reload, as the files on disk say."""
    OVERRIDE = "override"
    """Load with another configuration, and back."""
    LOAD_RUN = "load-run"
    LOG = "log"


class How(StrEnum):
    """How a person is known; the value is the word for it."""

    LOCAL = "on this machine"
    OIDC = "single sign-on"
    PROXY = "sign-in of the proxy"
    PASSWORD = "shared password"
    ANONYMOUS = "not signed in"
    PROCESS = "the app itself"


Rights = frozenset[Right]

ANY_SERVER = "*"
"""Stands for every server that is not named."""
ALL_RIGHTS: Rights = frozenset(Right)
NO_RIGHTS: Rights = frozenset()
VIEWER: Rights = frozenset({Right.VIEW})
ROLES: Mapping[str, Rights] = MappingProxyType(
    {
        "none": NO_RIGHTS,
        "viewer": VIEWER,
        "tester": VIEWER | {Right.INFER},
        "operator": VIEWER | {Right.INFER, Right.LOAD, Right.LOAD_RUN, Right.LOG},
        "admin": ALL_RIGHTS,
    }
)
"""The roles that are there without any setting."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One person, as far as is known. `rights` by server id or pattern (`*`, `?`): the first that fits.

    Made by `Access`; pages get theirs from `ui.person.me`. The default is nobody.
    """

    name: str = "anonymous"
    how: How = How.ANONYMOUS
    rights: Mapping[str, Rights] = field(default_factory=lambda: MappingProxyType({}))

    def on(self, server_id: str) -> Rights:
        """The rights on this server; without `view` there are none."""
        rights = self.rights.get(server_id)
        if rights is None:
            fitting = (
                held for pattern, held in self.rights.items() if fnmatch.fnmatchcase(server_id, pattern)
            )
            rights = next(fitting, NO_RIGHTS)
        return rights if Right.VIEW in rights else NO_RIGHTS

    @property
    def short_name(self) -> str:
        """The name where how it is known stands beside it."""
        return self.name.removesuffix(f" ({self.how})")

    def listed(self, server_id: str) -> str:
        """The rights on this server in words, in the order in which they are given out: `view, infer`."""
        held = self.on(server_id)
        return ", ".join(right.value for right in Right if right in held)

    def may(self, right: Right, server_id: str) -> bool:
        """True if the person has this right on this server."""
        return right in self.on(server_id)

    def sees(self, server_id: str) -> bool:
        """True if the server exists for this person: one that is not seen is absent everywhere."""
        return self.may(Right.VIEW, server_id)

    def sees_all(self, server_ids: Iterable[str]) -> bool:
        """True if each of these servers exists for this person."""
        return all(map(self.sees, server_ids))

    def sees_details(self, server_id: str) -> bool:
        """True for more than a viewer: config parameter values, journal details, saved requests."""
        return len(self.on(server_id)) > 1


_EVERYTHING = MappingProxyType({ANY_SERVER: ALL_RIGHTS})

LOCAL = Identity("local", How.LOCAL, _EVERYTHING)
"""The person at this machine, where the settings say nothing about access: what `control` allows."""
PROCESS = Identity("tritonscope", How.PROCESS, _EVERYTHING)
"""The app itself: only for putting back what an action of a person left behind."""
GOLDEN = Identity(
    "golden requests", How.PROCESS, MappingProxyType({ANY_SERVER: frozenset({Right.VIEW, Right.INFER})})
)
"""The app itself where it sends golden requests every few minutes; it may do nothing else."""
NOBODY = Identity()
"""Somebody without any right."""


@dataclass(frozen=True, slots=True)
class Grants:
    """What is granted to whom, generally or on one server; whoever is not named gets nothing."""

    anonymous: Rights = NO_RIGHTS
    signed_in: Rights = NO_RIGHTS
    """Everybody who is known by name."""
    password: Rights = NO_RIGHTS
    people: Mapping[str, Rights] = field(default_factory=lambda: MappingProxyType({}))
    groups: Mapping[str, Rights] = field(default_factory=lambda: MappingProxyType({}))

    def of_person(self, name: str, groups: Iterable[str]) -> Rights:
        """What a person known by name gets: the sum of all that fits."""
        found = self.anonymous | self.signed_in | self.people.get(name, NO_RIGHTS)
        return found.union(*(self.groups.get(group, NO_RIGHTS) for group in groups))


@dataclass(frozen=True, slots=True)
class Oidc:
    """Single sign-on: an OpenID Connect issuer, and where its claims say who somebody is."""

    metadata_url: str
    client_id: str
    redirect_uri: str
    client_secret: str = field(repr=False)
    cookie_secret: str = field(repr=False)
    name_claim: str = "email"
    groups_claim: str = "groups"
    label: str = "single sign-on"


@dataclass(frozen=True, slots=True)
class TrustedProxy:
    """A proxy that signs people in: its addresses (CIDR), and the headers it says who they are in."""

    addresses: tuple[str, ...]
    name_header: str = "x-forwarded-email"
    groups_header: str = "x-forwarded-groups"


@dataclass(frozen=True, slots=True)
class SharedPassword:
    """One password for everybody who knows it; it opens from this machine only unless told otherwise."""

    value: str = field(repr=False)
    beyond_loopback: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """Who may do what, as the settings say. `configured` is False where they say nothing about it.

    `servers` by id or pattern: what stands there replaces `general` on that server.
    """

    general: Grants = field(default_factory=lambda: Grants(anonymous=VIEWER))
    servers: Mapping[str, Grants] = field(default_factory=lambda: MappingProxyType({}))
    configured: bool = False
    sign_in_required: bool = False
    session_seconds: float = 12 * 3600.0
    metrics_open: bool = True
    public_url: str = ""
    oidc: Oidc | None = None
    proxy: TrustedProxy | None = None
    password: SharedPassword | None = None

    @property
    def can_sign_in(self) -> bool:
        """True if there is a way to sign in at this app itself."""
        return self.oidc is not None or self.password is not None

    def anonymous(self, address: str = "") -> Identity:
        """Somebody who has not signed in, with the address the connection came from, if it is known."""
        if self.sign_in_required:
            return NOBODY
        name = f"anonymous ({address})" if address else "anonymous"
        return Identity(name, How.ANONYMOUS, self._rights(lambda grants: grants.anonymous))

    def signed_in(self, name: str, how: How, groups: Iterable[str] = ()) -> Identity:
        """A person whose name and groups somebody trusted vouches for."""
        mine = frozenset(groups)
        return Identity(name, how, self._rights(lambda grants: grants.of_person(name, mine)))

    def with_password(self, name: str) -> Identity:
        """Somebody who knew the shared password and gave this name."""
        rights = self._rights(lambda grants: grants.anonymous | grants.password)
        return Identity(f"{name} ({How.PASSWORD})", How.PASSWORD, rights)

    def _rights(self, of: Callable[[Grants], Rights]) -> Mapping[str, Rights]:
        found = {pattern: of(grants) for pattern, grants in self.servers.items()}
        return MappingProxyType(found | {ANY_SERVER: of(self.general)})
