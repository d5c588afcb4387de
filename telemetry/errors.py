"""Every error the product raises on purpose.

TritonscopeError             a sentence for a person, with what to do
├── SettingsError            the configuration cannot be used at all
├── UnusableFile             a file somebody handed in is damaged, or not what it should be
├── SourceError              reading one source of one server failed
│   ├── Unreachable          refused, no route, unknown host
│   ├── NoAnswer             connected or connecting, but no answer in time
│   ├── NotHttp              something answered, but it does not speak HTTP
│   ├── TlsFailed            the TLS handshake or the certificate check failed
│   ├── Restricted           401 or 403: the server wants a credential we did not send
│   ├── NotFound             404 or 400 "not available": the thing asked for is not there
│   ├── WrongContent         an answer, but not of the kind this source speaks
│   └── ServerRefused        any other HTTP error answer
└── ControlError             a write was not sent, or did not succeed
    ├── NotAllowed           the policy refused it: nothing was sent
    ├── AlreadyRunning       the same thing is being done by somebody else: nothing was sent
    ├── InvalidRequest       it cannot work as written: nothing was sent
    ├── NotRecorded          the journal could not be written: nothing was sent
    └── ActionFailed         sent, and the server refused or failed it

Foreign exceptions become one of these in `telemetry.transport`, those of tritonclient in
`control.triton_client`, and nowhere else.
"""

from __future__ import annotations


class TritonscopeError(Exception):
    """A sentence a person can act on. `detail` is the raw text behind the fold, never shown unasked."""

    def __init__(self, sentence: str, *, detail: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.detail = detail


class SettingsError(TritonscopeError):
    """The configuration cannot be used at all."""


class UnusableFile(TritonscopeError):
    """A file somebody handed in is damaged, too large, or not of the kind that is read here."""


class SourceError(TritonscopeError):
    """Reading one source of one server failed. `status` is the HTTP status, None without an answer."""

    def __init__(self, sentence: str, *, detail: str | None = None, status: int | None = None) -> None:
        super().__init__(sentence, detail=detail)
        self.status = status


class Unreachable(SourceError):
    """Refused, no route to it, or a host name nobody knows."""


class NoAnswer(SourceError):
    """No answer within the time-out; the server may still be working on the request."""


class NotHttp(SourceError):
    """Something answered that does not speak HTTP (a gRPC port, for example)."""


class TlsFailed(SourceError):
    """The TLS handshake or the certificate check failed."""


class Restricted(SourceError):
    """401 or 403: the server wants a credential that was not sent or not accepted."""


class NotFound(SourceError):
    """404, or Triton's 400 for a model that is not available."""


class WrongContent(SourceError):
    """An answer that is not what this source speaks: a sign-in page in place of metrics."""


class ServerRefused(SourceError):
    """Any other HTTP error answer; `status` and `detail` say which."""


class ControlError(TritonscopeError):
    """A write was not sent, or did not succeed."""


class NotAllowed(ControlError):
    """The policy refused the action; nothing was sent."""


class AlreadyRunning(ControlError):
    """The same action on the same model is under way; nothing was sent."""


class InvalidRequest(ControlError):
    """The action cannot work as written; nothing was sent."""


class NotRecorded(ControlError):
    """The journal could not be written, and what is not recorded is not done; nothing was sent."""


class ActionFailed(ControlError):
    """The action was sent and the server refused or failed it. `status` is the HTTP status if any."""

    def __init__(self, sentence: str, *, detail: str | None = None, status: int | None = None) -> None:
        super().__init__(sentence, detail=detail)
        self.status = status
