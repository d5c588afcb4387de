"""tritonclient.http with its traps closed: one client per thread, every foreign error as one of ours.

The client sits on gevent: used from another thread than the one that made it, it fails or hangs. gevent
keeps an event loop (two file descriptors) for every thread that used it: it is destroyed with the client.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import gevent
from tritonclient.http import InferenceServerClient
from tritonclient.utils import InferenceServerException

from control.request_errors import infer_failure
from telemetry.errors import (
    ActionFailed,
    NoAnswer,
    NotHttp,
    Restricted,
    SettingsError,
    TlsFailed,
    TritonscopeError,
    Unreachable,
    WrongContent,
)
from telemetry.identity import Server
from telemetry.restricted import restricted_sentence
from telemetry.transport import check_headers, host_of


@contextmanager
def triton_client(server: Server, timeout_seconds: float, model: str) -> Iterator[InferenceServerClient]:
    """A client for the block and this thread only; raises TritonscopeErrors only.

    `timeout_seconds` holds for connecting and for each wait on the network. `model` is for the sentences.
    """
    if server.http_url is None:
        raise SettingsError(f"{server.id} has no HTTP address in the settings")
    check_headers(server.headers)
    client = None
    try:
        client = open_client(server.http_url, timeout_seconds, server.ca_file)
        yield client
    except TritonscopeError:
        raise
    except Exception as error:
        raise call_error(error, server.http_url, timeout_seconds, model) from error
    finally:
        if client is not None:
            client.close()
        gevent.get_hub().destroy(destroy_loop=True)


def open_client(http_url: str, timeout_seconds: float, ca_file: str | None) -> InferenceServerClient:
    """A client from a complete address: the library wants it without the scheme."""
    parts = urlsplit(http_url)
    return InferenceServerClient(
        f"{parts.netloc}{parts.path}",
        connection_timeout=timeout_seconds,
        network_timeout=timeout_seconds,
        ssl=parts.scheme == "https",
        ssl_options={"ca_certs": ca_file} if ca_file else None,
    )


def call_error(error: Exception, http_url: str, timeout_seconds: float, model: str) -> TritonscopeError:
    """The one place where exceptions of tritonclient, gevent and the socket become ours."""
    where, detail = host_of(http_url), f"{type(error).__name__}: {error}"
    if isinstance(error, InferenceServerException):
        return _answered(error, where, model)
    if isinstance(error, TimeoutError):
        return NoAnswer(
            f"No answer from {where} within {timeout_seconds:g} s (the server may still run the request). "
            "Wait longer with a larger time-out; a model whose execute returns nothing never answers",
            detail=detail,
        )
    if isinstance(error, ssl.SSLError):
        return TlsFailed(
            f"TLS with {where} failed: wrong scheme, or a certificate that is not trusted", detail=detail
        )
    if isinstance(error, ConnectionRefusedError):
        return Unreachable(f"{where} is not reachable (refused)", detail=detail)
    if isinstance(error, socket.gaierror):
        return Unreachable(f"{where} is not reachable: nobody knows that host name", detail=detail)
    if type(error).__name__ == "HTTPConnectionClosed" or isinstance(error, ConnectionError):
        return Unreachable(f"{where} closed the connection before it answered", detail=detail)
    if isinstance(error, http.client.HTTPException):
        return NotHttp(f"This port ({where}) does not speak HTTP: is it the gRPC port?", detail=detail)
    if isinstance(error, OSError):
        return Unreachable(f"{where} is not reachable", detail=detail)
    return WrongContent(f"{where} sent an answer that cannot be read", detail=detail)


def _answered(error: InferenceServerException, where: str, model: str) -> TritonscopeError:
    text, code = error.message() or "", error.status()
    status = int(code) if code and code.isdigit() else None
    if status in (401, 403):
        return Restricted(
            restricted_sentence(where, "inference", status, text),
            detail=text,
            status=status,
        )
    if status == 405:
        return WrongContent(
            f"{where} takes no inference requests (HTTP 405): is it the metrics port?",
            detail=text,
            status=status,
        )
    return ActionFailed(infer_failure(model, text, status), detail=text or None, status=status)
