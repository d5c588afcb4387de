"""A running app as a command asks it: signed in where the app wants that, with a shared password or a header.

Secrets come from files or the settings, never from the command line, where every user of a machine can read
them. No sentence holds one.
"""

from __future__ import annotations

import contextlib
import html
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlencode

from telemetry.errors import Restricted, ServerRefused, SettingsError, TritonscopeError, WrongContent
from telemetry.identity import Server
from telemetry.transport import Transport, check_headers, host_of, normalise_address
from triage.incident_file import MAX_FILE_BYTES

INCIDENT, SIGN_IN, SIGN_OUT = "/incident.zip", "/sign-in", "/sign-out"
_FORM = "application/x-www-form-urlencoded"
_PATIENCE_SECONDS = 120.0
_SEE_OTHER = 303
STANDARD_INPUT = "-"
HOW_TO_SIGN_IN = (
    "sign in with --sign-in NAME (the shared password of the settings or of --password-from-file), give the "
    "header that the proxy before it wants with --header-from-file, or use the app's own button Incident file"
)


class RunningApp:
    """Asks one app; a context manager that signs out at its end. Raises TritonscopeError."""

    def __init__(
        self, address: str, headers: Mapping[str, str] | None = None, ca_file: Path | None = None
    ) -> None:
        self._url = normalise_address(address)
        self._where = host_of(self._url)
        given = dict(headers or {})
        check_headers(given)
        server = Server("app", self._url, None, given, str(ca_file) if ca_file is not None else None)
        # One session: cookies that the app sets go along with what follows.
        self._transport = Transport(server, timeout_seconds=10.0)
        self._token = ""
        self._signed_in = False

    def __enter__(self) -> Self:
        """Nothing is asked yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Sign out, so that the session ends with the command, and close the connection."""
        if self._signed_in:
            # The file is there; a session that could not be ended ends by itself.
            with contextlib.suppress(TritonscopeError):
                self._send(SIGN_OUT, {})
        self._transport.close()

    def sign_in(self, name: str, password: str) -> None:
        """Sign in as NAME with the app's shared password, as its form does."""
        if not password:
            raise SettingsError(
                "no shared password is known here: set TRITONSCOPE_PASSWORD, or access: password: in "
                "tritonscope.yml, or name a file with --password-from-file"
            )
        try:
            form = self._transport.get(f"{self._url}{SIGN_IN}").text
        except TritonscopeError as error:
            raise SettingsError(f"{error.sentence}; {self._where} has no page to sign in at") from error
        token = re.search(r'name="token" value="([^"]*)"', form)
        if token is None or 'name="password"' not in form:
            told = _told(form)
            why = "takes no shared password from here"
            raise SettingsError(f"{self._where} {why}{f': {told}' if told else f': {HOW_TO_SIGN_IN}'}")
        self._token = html.unescape(token[1])
        self._send(SIGN_IN, {"name": name, "password": password, "next": "/"})
        self._signed_in = True

    def incident(self, out: Path, minutes: float | None) -> None:
        """Write the app's incident file of the last `minutes`, None = of all that it holds, to `out`."""
        query = "" if minutes is None else f"?minutes={quote(f'{minutes:g}')}"
        try:
            self._transport.download(
                f"{self._url}{INCIDENT}{query}",
                out,
                timeout_seconds=_PATIENCE_SECONDS,
                limit_bytes=MAX_FILE_BYTES,
            )
        except Restricted as error:
            raise SettingsError(self._refused(error)) from error
        except WrongContent as error:
            if error.status is None:
                raise
            raise SettingsError(
                f"{self._where} leads to another page (HTTP {error.status}), a sign-in before it as it "
                f"seems: {HOW_TO_SIGN_IN}"
            ) from error
        except ServerRefused as error:
            # The app says in one line what it cannot do.
            said = (error.detail or error.sentence).partition("\n")[0]
            raise SettingsError(f"{self._where}: {said}") from error

    def _refused(self, error: Restricted) -> str:
        if error.status == 401:
            return f"{self._where} wants a sign-in (HTTP 401): {HOW_TO_SIGN_IN}"
        who = "whoever signed in so" if self._signed_in else "whoever sent this"
        return f"{self._where} does not let {who} have an incident file (HTTP 403): ask for the right to view"

    def _send(self, path: str, fields: Mapping[str, str]) -> None:
        """A form of the app; where it is taken, the app leads on to another page."""
        body = urlencode({"token": self._token, **fields})
        try:
            self._transport.post(f"{self._url}{path}", body, content_type=_FORM)
        except (Restricted, ServerRefused) as error:
            told = _told(error.detail or "") or error.sentence
            raise SettingsError(f"{self._where} did not sign in: {told}") from error
        except WrongContent as error:
            if error.status != _SEE_OTHER:
                raise


def _told(page: str) -> str:
    """What the sign-in page says of a try, "" if it says nothing."""
    found = re.search(r'role="alert">([^<]*)<', page) or re.search(r"<p>(The shared password[^<]*)</p>", page)
    return html.unescape(found[1]).strip() if found else ""


def secret_in(name: str) -> str:
    """What stands in a file, or comes on standard input for `-`, without blanks around it; SettingsError."""
    where = "standard input" if name == STANDARD_INPUT else f"the file {name}"
    try:
        text = sys.stdin.read() if name == STANDARD_INPUT else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise SettingsError(f"{where} cannot be read") from None
    secret = text.strip()
    if not secret:
        raise SettingsError(f"{where} is empty")
    return secret


def headers_in(given: Sequence[str]) -> dict[str, str]:
    """Headers from `NAME=FILE`, the value being what stands in the file; raises SettingsError."""
    found = {}
    for one in given:
        name, mark, file = one.partition("=")
        if not (name and mark and file):
            raise SettingsError("--header-from-file wants NAME=FILE, for example Authorization=token.txt")
        found[name] = secret_in(file)
    return found
