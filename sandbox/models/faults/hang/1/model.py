"""hang: execute blocks while a file exists, for a limited time."""

import time
from pathlib import Path

from fault import echo, parameters

LOOK_SECONDS = 0.05


class TritonPythonModel:
    """Blocks, then echoes."""

    def initialize(self, args):
        given = parameters(args)
        self._file = given["while_file_exists"]
        self._limit_seconds = float(given["limit_seconds"])

    def execute(self, requests):
        deadline = time.monotonic() + self._limit_seconds
        while self._held() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        return [echo(request) for request in requests]

    def _held(self):
        return not self._file or Path(self._file).exists()
