"""Becomes another program that the system ends as soon as the starter is gone, however the starter ended.

    python -I -S bound_exec.py STARTER_PID PROGRAM [ARGUMENT ...]

Written for Popen: the request to the kernel (PR_SET_PDEATHSIG) is made in the child and survives exec, so
that no preexec_fn, which is unsafe beside threads, is needed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask for the signal, make sure that the starter still lives, and exec the program."""
    starter_pid = int(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"cannot bind to process {starter_pid}: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != starter_pid:
        sys.exit(f"process {starter_pid} ended before its child began")
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
