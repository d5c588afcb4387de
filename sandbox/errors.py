"""What can go wrong with the sandbox, each as one sentence that says what to do."""

from telemetry.errors import TritonscopeError


class SandboxError(TritonscopeError):
    """The sandbox could not do what was asked; the text is meant for people."""


class UnsupportedPlatformError(SandboxError):
    """This machine cannot run the tritonserver binary of the wheel."""


class PortTakenError(SandboxError):
    """Another program already listens where the sandbox should."""
