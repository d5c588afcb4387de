"""flaky: execute raises for a share of the requests."""

from fault import Share, echo, parameters


class TritonPythonModel:
    """Echoes, or raises when the share is due."""

    def initialize(self, args):
        given = parameters(args)
        self._share = Share(float(given["failure_ratio"]))
        self._message = given["message"]

    def execute(self, requests):
        # Without batching there is one request in an execution, so that the share is exact.
        if self._share.is_due():
            raise RuntimeError(self._message)
        return [echo(request) for request in requests]
