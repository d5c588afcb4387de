"""Becomes another program that ends, with all its descendants, when the starter ends, however that happens.

    python -I -S bound_exec.py STARTER_PID PROGRAM [ARGUMENT ...]

Written for Popen with a new session. The request to the kernel (PR_SET_PDEATHSIG) is made in the child and
survives exec, so that no preexec_fn, unsafe beside threads, is needed. Its signal reaches the program
only: a watcher in the process group ends what the program leaves behind, such as a python stub that waits for
an answer of its dead server.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
WATCHER = Path(__file__).with_name("group_watch.py")


def main() -> None:
    """Ask for the signal, make sure that the starter still lives, start the watcher, and exec the program."""
    starter_pid = int(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"cannot bind to process {starter_pid}: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != starter_pid:
        sys.exit(f"process {starter_pid} ended before its child began")
    start_watcher()
    os.execvp(sys.argv[2], sys.argv[2:])


def start_watcher() -> None:
    """Start the watcher of this process; nobody's child, since the program expects none."""
    handle = os.pidfd_open(os.getpid())
    os.set_inheritable(handle, True)
    first = os.fork()
    if first == 0:
        if os.fork() == 0:
            os.execv(sys.executable, [sys.executable, "-I", "-S", str(WATCHER), str(handle)])
        os._exit(0)
    os.waitpid(first, 0)
    os.close(handle)


if __name__ == "__main__":
    main()
