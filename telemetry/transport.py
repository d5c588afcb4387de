"""The one HTTP client: addresses, headers, TLS, time-outs, and every foreign error as one of ours."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import requests

from telemetry.errors import (
    NoAnswer,
    NotFound,
    NotHttp,
    Restricted,
    ServerRefused,
    SettingsError,
    SourceError,
    TlsFailed,
    Unreachable,
    WrongContent,
)
from telemetry.identity import Server

USER_AGENT = "tritonscope"
MAX_ANSWER_BYTES = 256 * 2**20
"""Answers above this are refused: 256 MiB is a thousand times the page of a 200-model server."""

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")


def normalise_address(address: str) -> str:
    """`scheme://host:port/base` without a trailing slash, from any form people paste.

    Accepts a missing scheme (http is meant), blanks around it, a trailing slash and a base path.
    Raises SettingsError with a sentence for anything else.
    """
    text = address.strip()
    if not text:
        raise SettingsError("the address is empty: give host:port, for example 127.0.0.1:8000")
    if not _SCHEME.match(text):
        text = f"http://{text}"
    parts = urlsplit(text)
    try:
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise SettingsError(
            f"address {address.strip()!r}: the port is not a number from 1 to 65535"
        ) from error
    if parts.scheme not in ("http", "https"):
        raise SettingsError(
            f"address {address.strip()!r}: only http and https are supported, not {parts.scheme}"
        )
    if not host or any(letter.isspace() for letter in parts.netloc):
        raise SettingsError(f"address {address.strip()!r}: the host name is missing or has blanks in it")
    if parts.username or parts.password:
        raise SettingsError("put user and password into headers, not into the address: addresses are shown")
    if port == 0:
        raise SettingsError(f"address {address.strip()!r}: the port is not a number from 1 to 65535")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise SettingsError for a header that cannot be sent; the message never holds the value."""
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise SettingsError(f"header name {name!r} has characters that HTTP does not allow")
        if "\n" in value or "\r" in value:
            raise SettingsError(f"the value of header {name} has a line break in it: remove it")


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer that arrived: status, content type as sent, body as text."""

    status: int
    content_type: str
    text: str


class Transport:
    """HTTP to one server, with its headers and CA file on every call; safe to use from many threads.

    Every thread has its own connection pool. Errors are `telemetry.errors.SourceError`s only.
    """

    def __init__(self, server: Server, *, timeout_seconds: float = 3.0) -> None:
        self._server = server
        self._timeout_seconds = timeout_seconds
        self._local = threading.local()

    def get(self, url: str, *, timeout_seconds: float | None = None) -> Answer:
        """GET; raises SourceError unless the status is 200."""
        return self._send("GET", url, None, timeout_seconds)

    def post(self, url: str, body: str = "", *, timeout_seconds: float | None = None) -> Answer:
        """POST of a JSON text; raises SourceError unless the status is 200."""
        return self._send("POST", url, body, timeout_seconds)

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = requests.Session()
            session.trust_env = False
            session.headers.update({"User-Agent": USER_AGENT, **self._server.headers})
            session.verify = self._server.ca_file or True
            self._local.session = session
        return session

    def _send(self, method: str, url: str, body: str | None, timeout_seconds: float | None) -> Answer:
        limit = timeout_seconds or self._timeout_seconds
        headers = {"Content-Type": "application/json"} if body else None
        data = None if body is None else body.encode()
        try:
            with self._session().request(
                method,
                url,
                data=data,
                headers=headers,
                timeout=(limit, limit),
                stream=True,
                allow_redirects=False,
            ) as response:
                answer = Answer(
                    response.status_code, response.headers.get("Content-Type", ""), _body(response, limit)
                )
        except requests.RequestException as error:
            raise source_error(error, url, limit) from error
        return _checked(answer, url)


def _body(response: requests.Response, limit_seconds: float) -> str:
    deadline = time.monotonic() + limit_seconds
    chunks: list[bytes] = []
    size = 0
    for chunk in response.iter_content(chunk_size=1 << 16):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise requests.exceptions.ContentDecodingError(f"more than {MAX_ANSWER_BYTES} bytes")
        if time.monotonic() > deadline:
            raise requests.exceptions.ReadTimeout(f"the answer was not complete after {limit_seconds:g} s")
    return b"".join(chunks).decode("utf-8", errors="replace")


def _checked(answer: Answer, url: str) -> Answer:
    if answer.status == 200:
        return answer
    where, detail = host_of(url), answer.text.strip()[:4000] or None
    if answer.status in (401, 403):
        raise Restricted(
            f"{where} restricts this API (HTTP {answer.status}): add the header it expects to the settings",
            detail=detail,
            status=answer.status,
        )
    if answer.status == 404:
        raise NotFound(f"{where} has no such path or model (HTTP 404)", detail=detail, status=404)
    if 300 <= answer.status < 400:
        raise WrongContent(
            f"{where} redirects elsewhere (HTTP {answer.status}): a proxy or a sign-in page, not Triton",
            detail=detail,
            status=answer.status,
        )
    raise ServerRefused(f"{where} answered with HTTP {answer.status}", detail=detail, status=answer.status)


def host_of(url: str) -> str:
    """`host:port` of an address, for sentences."""
    return urlsplit(url).netloc


def source_error(error: Exception, url: str, limit_seconds: float) -> SourceError:
    """The one place where exceptions of requests and the socket become a SourceError with a sentence."""
    where, detail = host_of(url), f"{type(error).__name__}: {error}"
    text = str(error)
    if isinstance(error, requests.exceptions.SSLError):
        return TlsFailed(
            f"TLS with {where} failed: wrong scheme, or a certificate that is not trusted", detail=detail
        )
    if isinstance(error, requests.exceptions.Timeout):
        return NoAnswer(
            f"{where} gave no answer within {limit_seconds:g} s (it may still be working on it)",
            detail=detail,
        )
    if any(mark in text for mark in ("BadStatusLine", "HTTPParseError", "Invalid header", "LineTooLong")):
        return NotHttp(f"{where} does not speak HTTP: is it the gRPC port?", detail=detail)
    if any(mark in text for mark in ("Name or service not known", "NameResolutionError", "getaddrinfo")):
        return Unreachable(f"{where} is not reachable: nobody knows that host name", detail=detail)
    if "Connection refused" in text:
        return Unreachable(f"{where} is not reachable: connection refused", detail=detail)
    if isinstance(error, requests.exceptions.ConnectionError):
        return Unreachable(f"{where} is not reachable: the connection broke", detail=detail)
    return WrongContent(f"{where} sent an answer that cannot be read", detail=detail)
