"""response_error: answers with TritonError instead of raising."""

import triton_python_backend_utils as pb_utils
from fault import Share, echo, parameters


class TritonPythonModel:
    """Echoes, or answers with an error when the share is due."""

    def initialize(self, args):
        given = parameters(args)
        self._share = Share(float(given["error_ratio"]))
        self._message = given["message"]

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        if self._share.is_due():
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(self._message))
        return echo(request)
