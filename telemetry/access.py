"""Who looks or acts, and what each may do on which server: also known where nothing can be written."""

from __future__ import annotations

from collections.abc import Mapping
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


ANY_SERVER = "*"
"""Stands for every server that is not named."""
ALL_RIGHTS = frozenset(Right)
NO_RIGHTS: frozenset[Right] = frozenset()


@dataclass(frozen=True, slots=True)
class Identity:
    """One person, as far as is known, with the rights by server id; `ANY_SERVER` for the servers not named.

    Make one with `Access.identity`; pages get theirs from `ui.person.me`. The default is nobody.
    """

    name: str = "anonymous"
    how: How = How.ANONYMOUS
    rights: Mapping[str, frozenset[Right]] = field(default_factory=lambda: MappingProxyType({}))

    def on(self, server_id: str) -> frozenset[Right]:
        """The rights on this server; without `view` there are none."""
        rights = self.rights.get(server_id, self.rights.get(ANY_SERVER, NO_RIGHTS))
        return rights if Right.VIEW in rights else NO_RIGHTS

    def may(self, right: Right, server_id: str) -> bool:
        """True if the person has this right on this server."""
        return right in self.on(server_id)

    def sees(self, server_id: str) -> bool:
        """True if the server exists for this person: one that is not seen is absent everywhere."""
        return self.may(Right.VIEW, server_id)

    def sees_details(self, server_id: str) -> bool:
        """True for more than a viewer: config parameter values, journal details, saved requests."""
        return len(self.on(server_id)) > 1


_EVERYTHING = MappingProxyType({ANY_SERVER: ALL_RIGHTS})

LOCAL = Identity("local", How.LOCAL, _EVERYTHING)
"""The person at this machine, where the settings say nothing about access: what `control` allows."""
PROCESS = Identity("tritonscope", How.PROCESS, _EVERYTHING)
"""The app itself: only for putting back what an action of a person left behind."""
NOBODY = Identity()
"""Somebody without any right."""
