"""Waits for the end of a process, given as an open pidfd, and then ends its own process group.

python -I -S group_watch.py PIDFD
"""

from __future__ import annotations

import os
import select
import signal
import sys


def main() -> None:
    """Outlive the polite signals to the group, then kill the group, this process included."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ended = select.poll()
    ended.register(int(sys.argv[1]), select.POLLIN)
    ended.poll()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
