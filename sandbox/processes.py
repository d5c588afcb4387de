"""Child processes that leave nothing behind: bound to us, in a group of their own, ended as a group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

BOUND_EXEC = Path(__file__).with_name("bound_exec.py")

# The kernel's death signal follows the *thread* that started the child: this one lives until the end.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sandbox-spawner")


def start_bound(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    output: IO[bytes] | int | None = None,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in a new session; it is killed when this process ends in any way.

    `output` takes both of its streams.
    """
    bound = [sys.executable, "-I", "-S", str(BOUND_EXEC), str(os.getpid()), *command]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            bound,
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )

    return _spawner.submit(start).result()


def group_members(group: int) -> list[int]:
    """The living processes (zombies not counted) of a process group."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        # A process may end while the list is read.
        with contextlib.suppress(OSError):
            # After the name, which may hold anything, in its last parenthesis: state, parent, group.
            state, _parent, member_of = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(member_of) == group and state not in ("Z", "X"):
                members.append(int(stat.parent.name))
    return members


def end_group(
    process: subprocess.Popen[bytes], seconds: float, first: signal.Signals = signal.SIGTERM
) -> bool:
    """End a program started by `start_bound` with its descendants; whether it went without SIGKILL."""
    group = process.pid
    in_time = True
    if process.poll() is None:
        # A stopped process would sleep through the polite signal.
        _signal_group(group, signal.SIGCONT)
        process.send_signal(first)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            in_time = False
    _signal_group(group, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 5.0
    while group_members(group) and time.monotonic() < deadline:
        time.sleep(0.02)
    return in_time


def _signal_group(group: int, number: signal.Signals) -> None:
    # The group may be gone already: that is what is wanted.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
