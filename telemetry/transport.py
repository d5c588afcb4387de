"""The one HTTP client: addresses, headers, TLS, time-outs, and every foreign error as one of ours."""

from __future__ import annotations

import errno
import http.client
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import requests
import urllib3

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
from telemetry.restricted import api_of, restricted_sentence

USER_AGENT = "tritonscope"
JSON = "application/json"
MAX_ANSWER_BYTES = 256 * 2**20
"""Answers above this are refused: 256 MiB is 300 times the page of 200 models with summaries."""

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL_LETTER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_CHUNK_BYTES = 1 << 16
_DETAIL_LETTERS = 4000
_FOREIGN = (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError)
"""All that requests, urllib3 and the socket raise for what a server or an address does."""


def normalise_address(address: str) -> str:
    """`scheme://host:port/base` without a trailing slash, from any form people paste.

    Accepts a missing scheme (http is meant), blanks around it, a trailing slash and a base path.
    Raises SettingsError with a sentence for anything else; the sentence never holds a password.
    """
    text = address.strip()
    if not text:
        raise SettingsError("the address is empty: give host:port, for example 127.0.0.1:8000")
    if not _SCHEME.match(text):
        text = f"http://{text}"
    parts, host = _split(text)
    if parts.username or parts.password:
        raise SettingsError("put user and password into headers, not into the address: addresses are shown")
    shown = repr(address.strip())
    if parts.scheme not in ("http", "https"):
        raise SettingsError(f"address {shown}: only http and https are supported, not {parts.scheme}")
    if not host or re.search(r"\s", parts.netloc + parts.path):
        raise SettingsError(f"address {shown}: the host name is missing or there are blanks in it")
    if parts.query or parts.fragment:
        raise SettingsError(f"address {shown}: leave out what follows the path (? or #)")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _split(text: str) -> tuple[SplitResult, str | None]:
    """Parts and host; the messages do not repeat the address: it may hold a password."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        if "port" in str(error).lower():
            raise SettingsError("the port of the address is not a number from 1 to 65535") from error
        raise SettingsError("the address is not host:port (an IPv6 host needs brackets)") from error
    if port == 0:
        raise SettingsError("the port of the address is not a number from 1 to 65535")
    return parts, host


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise SettingsError for a header that cannot be sent; the message never holds the value."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise SettingsError(f"header name {name!r} has characters that HTTP does not allow")
        if "\n" in value or "\r" in value:
            raise SettingsError(f"the value of header {name} has a line break in it: remove it")
        if value != value.strip():
            raise SettingsError(f"the value of header {name} begins or ends with a blank: remove it")
        if _CONTROL_LETTER.search(value) or not _is_latin_1(value):
            raise SettingsError(f"the value of header {name} has characters that HTTP does not allow")


def _is_latin_1(text: str) -> bool:
    return all(ord(letter) < 256 for letter in text)


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

    def post(
        self, url: str, body: str = "", *, timeout_seconds: float | None = None, content_type: str = JSON
    ) -> Answer:
        """POST of a text, JSON unless told otherwise; raises SourceError unless the status is 200."""
        return self._send("POST", url, body, timeout_seconds, content_type)

    def post_lines(self, url: str, body: str, *, timeout_seconds: float | None = None) -> Iterator[str]:
        """POST of JSON whose answer is read line by line as it arrives, without line ends.

        The time-out is for connecting and for every wait. Raises SourceError unless the status is 200.
        """
        limit = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        try:
            with self._session().post(
                url,
                data=body.encode(),
                headers={"Content-Type": JSON, **self._headers(url)},
                timeout=limit,
                stream=True,
                allow_redirects=False,
            ) as response:
                if response.status_code != 200:
                    text = _body(response, url, limit, time.monotonic() + limit)
                    _checked(
                        Answer(response.status_code, response.headers.get("Content-Type", ""), text), url
                    )
                yield from _lines(response, url)
        except _FOREIGN as error:
            raise source_error(error, url, limit) from error

    def download(self, url: str, path: Path, *, timeout_seconds: float, limit_bytes: int) -> None:
        """GET into a file as it arrives; the time-out is for connecting and for every wait.

        Raises SourceError unless the status is 200, and for more than `limit_bytes`.
        """
        try:
            with self._session().get(
                url, headers=self._headers(url), timeout=timeout_seconds, stream=True, allow_redirects=False
            ) as response:
                if response.status_code != 200:
                    text = _body(response, url, timeout_seconds, time.monotonic() + timeout_seconds)
                    _checked(
                        Answer(response.status_code, response.headers.get("Content-Type", ""), text), url
                    )
                size = 0
                with path.open("wb") as file:
                    while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=True):
                        size += file.write(chunk)
                        if size > limit_bytes:
                            raise WrongContent(f"{host_of(url)} sends more than {limit_bytes >> 20} MiB")
        except _FOREIGN as error:
            raise source_error(error, url, timeout_seconds) from error

    def close(self) -> None:
        """Close the calling thread's connections."""
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is not None:
            session.close()
            del self._local.session

    def _headers(self, url: str) -> dict[str, str]:
        return self._server.headers_for(api_of(urlsplit(url).path))

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = requests.Session()
            session.trust_env = False
            session.headers.update({"User-Agent": USER_AGENT})
            session.verify = self._server.ca_file or True
            self._local.session = session
        return session

    def _send(
        self,
        method: str,
        url: str,
        body: str | None,
        timeout_seconds: float | None,
        content_type: str = JSON,
    ) -> Answer:
        limit = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        headers = self._headers(url) | ({"Content-Type": content_type} if body else {})
        data = None if body is None else body.encode()
        deadline = time.monotonic() + limit
        try:
            with self._session().request(
                method,
                url,
                data=data,
                headers=headers,
                timeout=urllib3.Timeout(total=limit),  # type: ignore[arg-type]  # requests passes it on
                stream=True,
                allow_redirects=False,
            ) as response:
                text = _body(response, url, limit, deadline)
                answer = Answer(response.status_code, response.headers.get("Content-Type", ""), text)
        except _FOREIGN as error:
            raise source_error(error, url, limit) from error
        return _checked(answer, url)


def _body(response: requests.Response, url: str, limit_seconds: float, deadline: float) -> str:
    """The body as text. Read as it arrives: a server that trickles must not hold the reader for ever."""
    chunks: list[bytes] = []
    size = 0
    while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=True):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise WrongContent(f"{host_of(url)} sends more than {MAX_ANSWER_BYTES >> 20} MiB: not read")
        if time.monotonic() > deadline:
            raise NoAnswer(f"{host_of(url)} had not finished its answer after {limit_seconds:g} s")
    return b"".join(chunks).decode("utf-8", errors="replace")


def _lines(response: requests.Response, url: str) -> Iterator[str]:
    """Lines as they arrive, each at once: an event must not wait for the next one."""
    pending, size = b"", 0
    while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=True):
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise WrongContent(f"{host_of(url)} sends more than {MAX_ANSWER_BYTES >> 20} MiB: not read")
        *whole, pending = (pending + chunk).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", errors="replace").rstrip("\r")
    if pending:
        yield pending.decode("utf-8", errors="replace")


def _checked(answer: Answer, url: str) -> Answer:
    if answer.status == 200:
        return answer
    where, detail = host_of(url), answer.text.strip()[:_DETAIL_LETTERS] or None
    if answer.status in (401, 403):
        raise Restricted(
            restricted_sentence(where, api_of(urlsplit(url).path), answer.status, answer.text),
            detail=detail,
            status=answer.status,
        )
    if answer.status == 404:
        raise NotFound(f"{where} has no such path or model (HTTP 404)", detail=detail, status=404)
    if answer.status == 400 and "is not available" in answer.text:
        raise NotFound(f"{where} says that the model is not available (HTTP 400)", detail=detail, status=400)
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
    causes = tuple(_causes(error))

    def has(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    if any(isinstance(cause, OSError) and "CA certificate bundle" in str(cause) for cause in causes):
        return TlsFailed(f"TLS with {where} is not possible: the CA file cannot be read", detail=detail)
    if has(requests.exceptions.SSLError, urllib3.exceptions.SSLError):
        return TlsFailed(
            f"TLS with {where} failed: wrong scheme, or a certificate that is not trusted", detail=detail
        )
    if has(urllib3.exceptions.NameResolutionError, socket.gaierror):
        return Unreachable(f"{where} is not reachable: nobody knows that host name", detail=detail)
    if has(ConnectionRefusedError):
        return Unreachable(f"{where} is not reachable: connection refused", detail=detail)
    if any(getattr(cause, "errno", None) in (errno.EHOSTUNREACH, errno.ENETUNREACH) for cause in causes):
        return Unreachable(f"{where} is not reachable: no route to it", detail=detail)
    # urllib3's NewConnectionError is a time-out by inheritance, whatever it was.
    if has(urllib3.exceptions.NewConnectionError):
        return Unreachable(f"{where} is not reachable: no connection", detail=detail)
    if has(requests.exceptions.Timeout, urllib3.exceptions.TimeoutError, TimeoutError):
        return NoAnswer(
            f"{where} gave no answer within {limit_seconds:g} s (it may still be working on it)",
            detail=detail,
        )
    if has(http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
        return Unreachable(f"{where} closed the connection without an answer", detail=detail)
    if has(http.client.BadStatusLine, http.client.LineTooLong, requests.exceptions.InvalidHeader):
        return NotHttp(f"{where} does not speak HTTP: is it the gRPC port?", detail=detail)
    if has(requests.exceptions.ContentDecodingError, urllib3.exceptions.DecodeError):
        return WrongContent(f"{where} sent an answer that cannot be unpacked", detail=detail)
    broken = (requests.exceptions.ConnectionError, requests.exceptions.ChunkedEncodingError)
    if has(*broken, urllib3.exceptions.HTTPError, http.client.HTTPException):
        return Unreachable(f"{where} is not reachable: the connection broke", detail=detail)
    return WrongContent(f"{where} cannot be asked: the address or a header is not usable", detail=detail)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and everything it wraps: requests and urllib3 nest in arguments, reasons and causes."""
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        nested = (*one.args, getattr(one, "reason", None), one.__cause__, one.__context__)
        waiting.extend(item for item in nested if isinstance(item, BaseException))
