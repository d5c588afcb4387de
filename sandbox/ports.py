"""Free and taken TCP ports on the loopback address."""

from __future__ import annotations

import contextlib
import socket

from sandbox.errors import PortTakenError
from sandbox.options import HOST, PORTS_SETTING, SandboxOptions


def is_taken(port: int, host: str = HOST) -> bool:
    """Whether something listens on the port, or the system does not let us listen there."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As tritonserver does: connections of an earlier server, still closing, do not make a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def free_ports(count: int = 3) -> tuple[int, ...]:
    """So many different ports that nothing listens on at this moment."""
    with contextlib.ExitStack() as held:
        sockets = [
            held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) for _ in range(count)
        ]
        for one in sockets:
            one.bind((HOST, 0))
        return tuple(int(one.getsockname()[1]) for one in sockets)


def choose_ports(options: SandboxOptions) -> tuple[int, int, int]:
    """The ports (http, grpc, metrics) as asked, 0 replaced by free ones; PortTakenError names a taken one."""
    wanted = {"HTTP": options.http_port, "gRPC": options.grpc_port, "metrics": options.metrics_port}
    for use, port in wanted.items():
        if port and is_taken(port):
            raise PortTakenError(
                f"Port {port}, wanted for Triton's {use}, is taken by another program: end it, or set "
                f"{PORTS_SETTING} to three free ports (http,grpc,metrics), for example "
                f"{PORTS_SETTING}=18000,18001,18002."
            )
    spare = iter(free_ports(len(wanted)))
    http, grpc, metrics = (port or next(spare) for port in wanted.values())
    return http, grpc, metrics
