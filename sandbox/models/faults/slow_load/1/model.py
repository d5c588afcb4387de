"""slow_load: takes its time to load."""

import time

from fault import echo, parameters


class TritonPythonModel:
    """Sleeps in initialize, then echoes."""

    def initialize(self, args):
        time.sleep(float(parameters(args)["load_seconds"]))

    def execute(self, requests):
        return [echo(request) for request in requests]
