"""The sandbox's commands: run, restart, traffic, models, laboratory."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from sandbox.environment import app_port_from_environment, find_install, ports_from_environment
from sandbox.errors import SandboxError
from sandbox.launcher import DEFAULT_APP_COMMAND, Launcher, LaunchOptions, restart_running
from sandbox.onnx_files import cached_onnx_files, place_onnx_files
from sandbox.options import HOST, PROJECT_ROOT, SandboxOptions
from sandbox.traffic import TrafficSender, profile_named
from sandbox.traffic_profiles import DEFAULT_PROFILE, PROFILES


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m sandbox", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)

    run = commands.add_parser("run", help="start Triton, traffic and the app; Ctrl-C ends all of them")
    run.add_argument("--traffic", choices=tuple(PROFILES), default=DEFAULT_PROFILE, help="first profile")
    run.add_argument("--app-command", default=DEFAULT_APP_COMMAND, help="{port} becomes the app's port")
    run.add_argument("--no-app", action="store_true", help="Triton and traffic only")
    run.add_argument("--rate-scale", type=_positive, default=1.0, help="multiplies the traffic's rates")

    restart = commands.add_parser("restart", help="restart the Triton of a running `run`")
    restart.add_argument("--http-port", type=int, help="of that run (default: the sandbox's)")

    traffic = commands.add_parser("traffic", help="send real requests to the example models")
    traffic.add_argument("profile", choices=tuple(PROFILES))
    traffic.add_argument("--url", help="Triton's HTTP address (default: the sandbox's)")
    traffic.add_argument("--seconds", type=_positive, help="how long (default: until Ctrl-C)")
    traffic.add_argument("--rate-scale", type=_positive, default=1.0, help="multiplies the paced rates")

    models = commands.add_parser("models", help="put the generated model.onnx files into a repository")
    models.add_argument("--into", type=Path, required=True, help="for example model_repository")

    laboratory = commands.add_parser(
        "laboratory", help="play faults and healthy situations and see what triage says of them"
    )
    laboratory.add_argument("--only", action="append", default=[], metavar="NAME", help="repeat for several")
    laboratory.add_argument(
        "--minutes", type=float, help="after the onset (default: faults until they are named, else 3)"
    )
    laboratory.add_argument("--list", action="store_true", help="names, and what must be found")
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run one command; its exit status, 2 with one sentence if it cannot be done."""
    chosen = parser().parse_args(arguments)
    actions = {
        "run": _run,
        "restart": _restart,
        "traffic": _traffic,
        "models": _models,
        "laboratory": _laboratory,
    }
    try:
        return actions[chosen.command](chosen)
    except SandboxError as error:
        _tell(str(error))
        return 2


def _run(chosen: argparse.Namespace) -> int:
    http_port, grpc_port, metrics_port = ports_from_environment()
    options = LaunchOptions(
        sandbox=SandboxOptions(http_port=http_port, grpc_port=grpc_port, metrics_port=metrics_port),
        app_port=app_port_from_environment(),
        app_command="" if chosen.no_app else chosen.app_command,
        profile=chosen.traffic,
        rate_scale=chosen.rate_scale,
    )
    return Launcher(options).run()


def _restart(chosen: argparse.Namespace) -> int:
    http_port = chosen.http_port or ports_from_environment()[0]
    _tell(f"asked process {restart_running(http_port)} to restart tritonserver")
    return 0


def _traffic(chosen: argparse.Namespace) -> int:
    url = chosen.url or f"http://{HOST}:{ports_from_environment()[0]}"
    profile = profile_named(chosen.profile)
    sender = TrafficSender(url, profile, rate_scale=chosen.rate_scale, tell=_tell)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: sender.stop())
    _tell(f"{profile.name} to {url}: {profile.text}")
    sender.run(chosen.seconds)
    counts = [f"{model} {count} {outcome}" for (model, outcome), count in sorted(sender.answers.items())]
    _tell(f"sent: {', '.join(counts) or 'nothing'}")
    return 0


def _models(chosen: argparse.Namespace) -> int:
    files = cached_onnx_files(find_install(), PROJECT_ROOT, _tell)
    for path in place_onnx_files(files, chosen.into):
        _tell(f"wrote {path}")
    return 0


def _laboratory(chosen: argparse.Namespace) -> int:
    # It brings the whole product along, which the other commands do without.
    from sandbox.laboratory.command import main as play

    return play(chosen.only, chosen.minutes, listed=chosen.list)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _tell(line: str) -> None:
    print(f"sandbox: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
