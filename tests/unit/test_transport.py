"""Addresses, headers and the sentences for what goes wrong on the way."""

import http.client
import socket
from ssl import SSLError

import pytest
import requests
import urllib3

from telemetry.errors import (
    NoAnswer,
    NotHttp,
    SettingsError,
    SourceError,
    TlsFailed,
    Unreachable,
    WrongContent,
)
from telemetry.transport import check_headers, normalise_address, source_error


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://h:8000", "http://h:8000"),
        ("https://h", "https://h"),
        ("h:8000/", "http://h:8000"),
        ("h:8000/base", "http://h:8000/base"),
        ("  h:8000/base//  ", "http://h:8000/base"),
        ("HTTP://h:8000", "http://h:8000"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("localhost", "http://localhost"),
    ],
)
def test_d10_forms_of_an_address(address: str, expected: str) -> None:
    assert normalise_address(address) == expected


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("", "the address is empty: give host:port, for example 127.0.0.1:8000"),
        ("   ", "the address is empty: give host:port, for example 127.0.0.1:8000"),
        ("ftp://h", "address 'ftp://h': only http and https are supported, not ftp"),
        ("h:port", "the port of the address is not a number from 1 to 65535"),
        ("h:0", "the port of the address is not a number from 1 to 65535"),
        ("h:99999", "the port of the address is not a number from 1 to 65535"),
        ("http://", "address 'http://': the host name is missing or there are blanks in it"),
        (":8000", "address ':8000': the host name is missing or there are blanks in it"),
        ("my host:8000", "address 'my host:8000': the host name is missing or there are blanks in it"),
        ("http://[::1", "the address is not host:port (an IPv6 host needs brackets)"),
        ("h:8000/?x=1", "address 'h:8000/?x=1': leave out what follows the path (? or #)"),
    ],
)
def test_addresses_that_cannot_be_used(address: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as raised:
        normalise_address(address)
    assert raised.value.sentence == sentence


@pytest.mark.parametrize(
    "address", ["http://me:s3cret@h:8000", "me:s3cret@h", "ftp://me:s3cret@h", "http://me:s3cret@h:x"]
)
def test_a_password_in_an_address_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(SettingsError) as raised:
        normalise_address(address)
    assert "s3cret" not in raised.value.sentence


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("A", "s3cret\nX: y"),
        ("A", "s3cret\r"),
        ("A", " s3cret"),
        ("A", "s3cret\x00"),
        ("A", "s3cret ✓"),
        ("A B", "s3cret"),
        ("", "s3cret"),
    ],
)
def test_headers_that_cannot_be_sent(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as raised:
        check_headers({name: value})
    assert "s3cret" not in raised.value.sentence


def test_headers_that_can_be_sent() -> None:
    check_headers({"Authorization": "Bearer a.b-c=", "X-Tab": "a\tb", "X-Latin": "é", "X-Empty": ""})


def wrapped(inner: Exception) -> requests.ConnectionError:
    """As requests hands on what urllib3 met."""
    pool = urllib3.HTTPConnectionPool("h", 8000)
    return requests.ConnectionError(urllib3.exceptions.MaxRetryError(pool, "/", inner))


def refused() -> urllib3.exceptions.NewConnectionError:
    error = urllib3.exceptions.NewConnectionError(urllib3.connection.HTTPConnection("h"), "refused")
    error.__cause__ = ConnectionRefusedError(111, "Connection refused")
    return error


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (wrapped(refused()), Unreachable, "h:8000 is not reachable: connection refused"),
        (
            wrapped(
                urllib3.exceptions.NameResolutionError(
                    "h", urllib3.connection.HTTPConnection("h"), socket.gaierror(-2)
                )
            ),
            Unreachable,
            "h:8000 is not reachable: nobody knows that host name",
        ),
        (
            requests.ReadTimeout(),
            NoAnswer,
            "h:8000 gave no answer within 1.5 s (it may still be working on it)",
        ),
        (
            requests.ConnectTimeout(),
            NoAnswer,
            "h:8000 gave no answer within 1.5 s (it may still be working on it)",
        ),
        (
            requests.exceptions.SSLError(SSLError("wrong version number")),
            TlsFailed,
            "TLS with h:8000 failed: wrong scheme, or a certificate that is not trusted",
        ),
        (
            OSError("Could not find a suitable TLS CA certificate bundle, invalid path: x"),
            TlsFailed,
            "TLS with h:8000 is not possible: the CA file cannot be read",
        ),
        (OSError(113, "No route to host"), Unreachable, "h:8000 is not reachable: no route to it"),
        (
            requests.exceptions.InvalidURL("label too long"),
            WrongContent,
            "h:8000 cannot be asked: the address or a header is not usable",
        ),
        (
            requests.exceptions.ChunkedEncodingError("cut"),
            Unreachable,
            "h:8000 is not reachable: the connection broke",
        ),
    ],
)
def test_foreign_errors_become_sentences(error: Exception, kind: type[SourceError], sentence: str) -> None:
    found = source_error(error, "http://h:8000/v2", 1.5)
    assert type(found) is kind
    assert found.sentence == sentence
    assert found.detail


def test_something_that_is_not_http() -> None:
    error = requests.ConnectionError(
        urllib3.exceptions.ProtocolError("Connection aborted.", http.client.BadStatusLine("\x00"))
    )
    found = source_error(error, "http://h:8001/v2", 1)
    assert type(found) is NotHttp
    assert found.sentence == "h:8001 does not speak HTTP: is it the gRPC port?"
