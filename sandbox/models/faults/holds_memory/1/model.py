"""holds_memory: keeps a known number of bytes, and more of them with each load if it is told to."""

from pathlib import Path

import numpy as np
from fault import echo, parameters


class TritonPythonModel:
    """Fills its memory in initialize, so that every page is really there, then echoes."""

    def initialize(self, args):
        told = parameters(args)
        earlier = self._count_load(told["loads_file"]) if told["loads_file"] else 0
        held_bytes = int(told["held_bytes"]) + earlier * int(told["more_bytes_per_load"])
        self._held = np.ones(held_bytes, dtype=np.uint8)

    def _count_load(self, name):
        """How often it was loaded before, remembered in a file: a process that is gone remembers nothing."""
        path = Path(name)
        earlier = int(path.read_text()) if path.exists() else 0
        path.write_text(str(earlier + 1))
        return earlier

    def execute(self, requests):
        return [echo(request) for request in requests]
