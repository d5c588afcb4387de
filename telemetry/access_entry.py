"""The section `access:` as it is configured -> `Access`; what cannot be used gives nobody anything."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import urlsplit

from telemetry.access import (
    NO_RIGHTS,
    ROLES,
    VIEWER,
    Access,
    Grants,
    Oidc,
    Right,
    Rights,
    SharedPassword,
    TrustedProxy,
)
from telemetry.errors import SettingsError
from telemetry.located_yaml import Located
from telemetry.scrape import Notice
from telemetry.transport import check_headers, normalise_address

ACCESS_KEYS: dict[str, str] = {
    "anonymous": "role of whoever is not signed in; default: `viewer`; `no`: everybody must sign in",
    "signed_in": "role of everybody who is known by name, besides what `people` and `groups` give; "
    "default: `viewer`",
    "roles": "further roles by name, each a list of rights: `view`, `infer`, `load` (load, unload, reload), "
    "`override`, `load-run`, `log`",
    "people": "name (as the sign-in gives it): role",
    "groups": "group (as the sign-in gives it): role",
    "servers": "id of a server (or a pattern with `*` and `?`): its own `anonymous`, `signed_in`, `people`, "
    "`groups` and `password` (a role). They replace the general ones on that server: whoever is not named "
    "there does not see it",
    "session_hours": "after this time one must sign in again; default: 12",
    "metrics": "who may read the app's own /metrics: `open`, or `view`: only who sees every server; default: "
    "`open`, where everybody must sign in `view`",
    "public_url": "address people open the app at, where a proxy stands before it; https: Secure cookies",
    "oidc": "single sign-on with OpenID Connect, see below",
    "proxy": "a proxy before the app that signs people in, see below",
    "password": "one shared password, see below",
}
OIDC_KEYS: dict[str, str] = {
    "metadata_url": "address of the issuer's `.well-known/openid-configuration`",
    "client_id": "this app's name at the issuer",
    "client_secret_from_env": "environment variable that holds the client's secret",
    "client_secret_from_file": "file that holds it",
    "cookie_secret_from_env": "environment variable with 32 random characters or more that sign the cookies; "
    "without it they are valid until the app is started again",
    "cookie_secret_from_file": "file that holds them",
    "redirect_uri": "this app's public address with `/oauth2callback`; the issuer must know it",
    "name_claim": "claim with the name; default: `email`",
    "groups_claim": "claim with the groups, `a.b` for one inside another; default: `groups`",
    "label": "what the button says: Sign in with ...; default: `single sign-on`",
}
PROXY_KEYS: dict[str, str] = {
    "addresses": "addresses or networks (CIDR) the proxy connects from; headers from elsewhere count nothing",
    "name_header": "header with the name; default: `X-Forwarded-Email`",
    "groups_header": "header with the groups, commas between; default: `X-Forwarded-Groups`",
}
PASSWORD_KEYS: dict[str, str] = {
    "from_env": "environment variable that holds the password (12 characters at least)",
    "from_file": "file that holds it",
    "role": "role of who signs in with it; default: `operator`",
    "beyond_loopback": "`true`: also from other machines; default: from this machine only",
}
_SINGLE = ("anonymous", "signed_in", "password")
_GRANTS = (*_SINGLE, "people", "groups")
MIN_PASSWORD_LETTERS = 12
MIN_COOKIE_SECRET_LETTERS = 32
SIGN_IN = ("no", "none", "sign-in required")

_Way = TypeVar("_Way")


def access_of(
    source: str,
    located: Located | None,
    environ: Mapping[str, str],
    folder: Path,
    *,
    anonymous: str = "",
    password: str = "",
    written: bool = False,
) -> tuple[Access, list[Notice]]:
    """Access from `access:` of the file; `anonymous` and `password` from the environment win.

    Whatever cannot be used becomes a notice and gives less, never more. `written`: the file has the section,
    also if it was lost with a block that is no YAML.
    """
    if located is None and written:
        return _locked(source, "this section is empty or cannot be read")
    if located is None and not anonymous and not password:
        return Access(), []
    entry = _Entry(source, located, environ, folder)
    return entry.access(anonymous, password), entry.notices


def _locked(source: str, why: str) -> tuple[Access, list[Notice]]:
    """Access for nobody: the section is there and cannot be read."""
    text = f"access: {why}: nobody may see or do anything until it is mended"
    return Access(general=Grants(), configured=True, sign_in_required=True), [Notice(source, None, text)]


@dataclass
class _Entry:
    """One reading of the section."""

    source: str
    located: Located | None
    environ: Mapping[str, str] = field(repr=False)
    folder: Path
    notices: list[Notice] = field(default_factory=list)
    roles: dict[str, Rights] = field(default_factory=lambda: dict(ROLES))

    def access(self, anonymous: str, password: str) -> Access:
        if self.located is not None and self.located.entries is None:
            access, notices = _locked(self.source, "it must hold keys, for example `anonymous:`")
            self.notices += notices
            return access
        values = dict((self.located.entries or {}) if self.located else {})
        self._known("access", self.located, ACCESS_KEYS)
        if anonymous:
            values["anonymous"] = Located(0, scalar=anonymous)
        self._read_roles(values.get("roles"))
        shared, shared_rights = self._password(values.get("password"), password)
        required = _flag(values.get("anonymous")) is False or _text(values.get("anonymous")) in SIGN_IN
        general = Grants(
            anonymous=NO_RIGHTS if required else self._role("anonymous", values.get("anonymous"), VIEWER),
            signed_in=self._role("signed_in", values.get("signed_in"), VIEWER),
            password=shared_rights,
            people=self._roles_by_name("people", values.get("people")),
            groups=self._roles_by_name("groups", values.get("groups")),
        )
        oidc = self._guarded("oidc", values.get("oidc"), OIDC_KEYS, self._oidc)
        proxy = self._guarded("proxy", values.get("proxy"), PROXY_KEYS, self._proxy)
        if required and not (oidc or proxy or shared):
            self._note(values.get("anonymous"), "everybody must sign in, and there is no way to: nobody can")
        return Access(
            general=general,
            servers=MappingProxyType(dict(self._servers(values.get("servers")))),
            configured=True,
            sign_in_required=required,
            session_seconds=self._hours(values.get("session_hours")) * 3600.0,
            metrics_open=self._metrics(values.get("metrics"), required),
            public_url=self._public_url(values.get("public_url")),
            oidc=oidc,
            proxy=proxy,
            password=shared,
        )

    # ---- roles

    def _read_roles(self, node: Located | None) -> None:
        for name, entry in self._pairs("roles", node):
            words = [_text(item) for item in entry.items or ()] or [_text(entry)]
            unknown = [word for word in words if word not in set(Right)]
            if unknown:
                known = ", ".join(Right)
                self._note(entry, f"roles: {name}: {unknown[0]!r} is no right (there are {known}): not used")
            else:
                self.roles[name] = frozenset(map(Right, words)) | VIEWER

    def _role(self, key: str, node: Located | None, default: Rights = NO_RIGHTS) -> Rights:
        if node is None:
            return default
        name = "none" if _flag(node) is False or _text(node) in SIGN_IN else _text(node)
        if name not in self.roles:
            self._note(
                node, f"{key}: there is no role {name!r} (there are {', '.join(self.roles)}): no right"
            )
            return NO_RIGHTS
        return self.roles[name]

    def _roles_by_name(self, key: str, node: Located | None) -> Mapping[str, Rights]:
        found = {name: self._role(f"{key}: {name}", role) for name, role in self._pairs(key, node)}
        return MappingProxyType(found)

    def _servers(self, node: Located | None) -> Iterator[tuple[str, Grants]]:
        for server, entry in self._pairs("servers", node):
            values = entry.entries or {}
            if entry.entries is None:
                self._note(entry, f"servers: {server} must hold {', '.join(_GRANTS)}: nobody sees it")
            self._known(f"servers: {server}", entry, _GRANTS)
            roles = {key: self._role(f"{server}: {key}", values.get(key)) for key in _SINGLE}
            names = {key: self._roles_by_name(key, values.get(key)) for key in ("people", "groups")}
            yield (
                server,
                Grants(
                    roles["anonymous"],
                    roles["signed_in"],
                    roles["password"],
                    names["people"],
                    names["groups"],
                ),
            )

    # ---- ways to sign in

    def _password(self, node: Located | None, given: str) -> tuple[SharedPassword | None, Rights]:
        if node is None and not given:
            return None, NO_RIGHTS
        values = dict((node.entries or {}) if node is not None else {})
        if node is not None and node.entries is None:
            self._note(node, "password: it must not stand in the file: write `from_env:` or `from_file:`")
            return None, NO_RIGHTS
        self._known("password", node, PASSWORD_KEYS)
        try:
            value = given or self._secret("password", values, "from")
            if len(value) < MIN_PASSWORD_LETTERS:
                raise SettingsError(f"it needs {MIN_PASSWORD_LETTERS} characters at least")
        except SettingsError as error:
            self._note(node, f"password: {error.sentence}: nobody can sign in with it")
            return None, NO_RIGHTS
        rights = self._role("password: role", values.get("role"), self.roles["operator"])
        return SharedPassword(value, _flag(values.get("beyond_loopback")) is True), rights

    def _oidc(self, values: Mapping[str, Located]) -> Oidc:
        for key in ("metadata_url", "client_id", "redirect_uri"):
            if not _text(values.get(key)):
                raise SettingsError(f"`{key}:` is missing")
        redirect = _text(values.get("redirect_uri"))
        if not redirect.endswith("/oauth2callback"):
            raise SettingsError("redirect_uri must end with /oauth2callback")
        cookies = self._secret("cookie_secret", values, "cookie_secret_from", optional=True)
        if cookies and len(cookies) < MIN_COOKIE_SECRET_LETTERS:
            raise SettingsError(f"the cookie secret needs {MIN_COOKIE_SECRET_LETTERS} characters at least")
        return Oidc(
            metadata_url=normalise_address(_text(values.get("metadata_url"))),
            client_id=_text(values.get("client_id")),
            redirect_uri=normalise_address(redirect),
            client_secret=self._secret("client_secret", values, "client_secret_from"),
            cookie_secret=cookies,
            **{
                key: _text(values[key])
                for key in ("name_claim", "groups_claim", "label")
                if _text(values.get(key))
            },
        )

    def _proxy(self, values: Mapping[str, Located]) -> TrustedProxy:
        node = values.get("addresses")
        written = [_text(item) for item in node.items or ()] or [_text(node)] if node is not None else []
        if not any(written):
            raise SettingsError("`addresses:` is missing: without it no header is believed")
        for address in written:
            try:
                ipaddress.ip_network(address, strict=False)
            except ValueError:
                raise SettingsError(f"{address!r} is no address or network such as 10.0.0.0/8") from None
        given = {key: _text(values[key]) for key in ("name_header", "groups_header") if key in values}
        check_headers(dict.fromkeys(given.values(), ""))
        return TrustedProxy(tuple(written), **{key: name.lower() for key, name in given.items()})

    def _guarded(
        self,
        key: str,
        node: Located | None,
        known: Mapping[str, str],
        read: Callable[[Mapping[str, Located]], _Way],
    ) -> _Way | None:
        if node is None:
            return None
        self._known(key, node, known)
        try:
            return read(node.entries or {})
        except SettingsError as error:
            self._note(node, f"{key}: {error.sentence}: this way to sign in is not offered")
            return None

    def _secret(
        self, what: str, values: Mapping[str, Located], prefix: str, *, optional: bool = False
    ) -> str:
        variable, name = _text(values.get(f"{prefix}_env")), _text(values.get(f"{prefix}_file"))
        if variable:
            value = self.environ.get(variable, "").strip()
            if not value:
                raise SettingsError(f"the environment variable {variable} is not set")
            return value
        if not name:
            if optional:
                return ""
            raise SettingsError(f"write `{prefix}_env:` or `{prefix}_file:` for the {what}")
        try:
            return (self.folder / name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise SettingsError(f"the file {name} cannot be read") from None

    # ---- single values

    def _hours(self, node: Located | None) -> float:
        try:
            hours = float(_text(node)) if node is not None else 12.0
        except ValueError:
            hours = 0.0
        if not 0.0 < hours <= 24 * 31:
            self._note(node, "session_hours must be a number of hours up to 744: 1 is used")
            return 1.0
        return hours

    def _metrics(self, node: Located | None, sign_in: bool) -> bool:
        word = _text(node) if node is not None else "view" if sign_in else "open"
        if word not in ("open", "view"):
            self._note(node, "metrics must be `open` or `view`: view is used")
        return word == "open"

    def _public_url(self, node: Located | None) -> str:
        if node is None:
            return ""
        try:
            parts = urlsplit(normalise_address(_text(node)))
            return f"{parts.scheme}://{parts.netloc}"
        except SettingsError as error:
            self._note(node, f"public_url: {error.sentence}: not used")
            return ""

    def _pairs(self, key: str, node: Located | None) -> Iterator[tuple[str, Located]]:
        if node is None or node == Located(node.line):
            return
        if node.entries is None:
            self._note(node, f"{key} must be names with values: not used")
            return
        yield from node.entries.items()

    def _known(self, where: str, node: Located | None, known: Mapping[str, str] | tuple[str, ...]) -> None:
        for key, line in (node.key_lines if node is not None else {}).items():
            if key not in known:
                self.notices.append(
                    Notice(self.source, line, f"{where}: unknown setting {key} (there are "
                                              f"{', '.join(known)}): not used")
                )  # fmt: skip

    def _note(self, node: Located | None, text: str) -> None:
        line = node.line or None if node is not None else None
        self.notices.append(Notice(self.source, line, f"access: {text}"))


def _text(node: Located | None) -> str:
    scalar = None if node is None else node.scalar
    return "" if scalar is None or isinstance(scalar, bool) else str(scalar).strip()


def _flag(node: Located | None) -> bool | None:
    return node.scalar if node is not None and isinstance(node.scalar, bool) else None
