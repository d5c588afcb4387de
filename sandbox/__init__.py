"""The embedded runtime: a real tritonserver as a child process, traffic, a simulated GPU, fault models."""

from sandbox.errors import PortTakenError, SandboxError, UnsupportedPlatformError
from sandbox.options import SandboxOptions, parse_ports
from sandbox.ports import free_ports
from sandbox.repository import FAULT_MODELS
from sandbox.server import Sandbox

__all__ = [
    "FAULT_MODELS",
    "PortTakenError",
    "Sandbox",
    "SandboxError",
    "SandboxOptions",
    "UnsupportedPlatformError",
    "free_ports",
    "parse_ports",
]
