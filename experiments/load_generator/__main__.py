"""Read the order, warm up, wait for `go`, load, write the result."""

from __future__ import annotations

import base64
import gc
import json
import sys
import threading
from typing import Any

from experiments.load_generator.loop import MEASURE, WARM_UP, Loop


class Starter:
    """The process at the other end of the pipes."""

    def __init__(self) -> None:
        self.stopped = False
        self._go = threading.Event()

    def listen(self) -> None:
        """Hear `go` and `stop` until the other end closes, which means stop."""
        for line in sys.stdin:
            if line.strip() == "go":
                self._go.set()
            else:
                break
        self.stopped = True
        self._go.set()

    def await_go(self) -> None:
        """Wait until the measured load may begin."""
        self._go.wait()


def tell(row: dict[str, Any]) -> None:
    """One line to the starter."""
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def main() -> None:
    """One order from beginning to end."""
    order = json.loads(sys.stdin.readline())
    order["messages"] = [base64.b64decode(message) for message in order["messages"]]
    starter = Starter()
    threading.Thread(target=starter.listen, daemon=True).start()
    # Nothing here makes cycles, and a collection in the middle would be measured as latency of the server.
    gc.disable()
    loop = Loop(order, tell, lambda: starter.stopped)
    loop.connect()
    warm_up = loop.run(WARM_UP, order["warmup_seconds"], None) if order["warmup_seconds"] > 0 else None
    tell({"ready": True})
    starter.await_go()
    if warm_up is not None and loop.reason:
        # It went no further: what failed then is all there is to tell.
        tell({"result": warm_up})
    else:
        tell({"result": loop.run(MEASURE, order["seconds"], order["count"])})


if __name__ == "__main__":
    main()
