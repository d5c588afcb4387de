"""What the fault models share; linked into each version folder, where the python backend finds it."""

import json

import triton_python_backend_utils as pb_utils


def parameters(args):
    """The config's parameters as plain strings."""
    written = json.loads(args["model_config"])["parameters"]
    return {key: value["string_value"] for key, value in written.items()}


def echo(request):
    """A response whose OUTPUT is the request's INPUT."""
    values = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
    return pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("OUTPUT", values)])


class Share:
    """Says yes to the given share (0 to 1) of its calls, evenly spread and always alike."""

    def __init__(self, ratio):
        self._ratio = ratio
        self._due = 0.0

    def is_due(self):
        """Whether this call belongs to the share."""
        self._due += self._ratio
        # Sums of a share such as 0.1 fall short of 1 by rounding.
        if self._due < 1.0 - 1e-9:
            return False
        self._due -= 1.0
        return True
