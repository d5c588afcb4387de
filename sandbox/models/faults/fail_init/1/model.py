"""fail_init: cannot be loaded."""

from fault import parameters


class TritonPythonModel:
    """Raises in initialize."""

    def initialize(self, args):
        raise RuntimeError(parameters(args)["message"])

    def execute(self, requests):
        raise RuntimeError("fail_init was executed although its initialize had failed")
