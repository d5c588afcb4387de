"""The failures of inference requests, one row per text of the server: when, what happened, what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """If `pattern` is found in the server's text, `what` and `remedy` say it; its groups are filled in.

    `model` is always known. More special rows stand before more general ones.
    """

    case: str
    pattern: re.Pattern[str]
    what: str
    remedy: str

    def match(self, text: str) -> re.Match[str] | None:
        """The match, None if the text is another one."""
        return self.pattern.search(text)


def _row(case: str, pattern: str, what: str, remedy: str) -> Row:
    return Row(case, re.compile(pattern, re.IGNORECASE | re.DOTALL), what, remedy)


_LINE = r"(?P<line>[^\n]*)"

ROWS: tuple[Row, ...] = (
    # ---- the queue
    _row(
        "queue full",
        r"Exceeds maximum queue size",
        "Queue full: {model} has as many waiting requests as it accepts (503)",
        "Send fewer at a time, or raise max_queue_size or the number of instances",
    ),
    _row(
        "queue time-out",
        r"Request timeout expired",
        "The request waited longer in the queue of {model} than its queue policy allows (503)",
        "Send fewer at a time, add instances, or raise default_timeout_microseconds",
    ),
    # ---- which model
    _row(
        "model not loaded",
        r"has no available versions",
        "{model} has no version that is ready",
        "Load it first, on the page Repository, or wait if it is being loaded",
    ),
    _row(
        "version not there",
        r"version (?P<version>\S+) is not found",
        "{model} has no version {version} that is ready",
        "Ask for another version, or none for the newest one",
    ),
    _row(
        "model not ready",
        r"is not at ready state|Model version not ready",
        "{model} is being loaded or unloaded",
        "Wait until the page Repository says ready",
    ),
    _row(
        "unknown model",
        r"Request for unknown model",
        "The server knows no model {model}",
        "The name is case-sensitive: compare it with the page Repository",
    ),
    _row(
        "version that is no number",
        r"^Not Found$",
        "The server knows no such address: the version is not a number, or this Triton is too old for it",
        "Versions are whole numbers; /generate needs Triton 23.10 or newer",
    ),
    # ---- decoupled models and /generate
    _row(
        "decoupled model over infer",
        r"HTTP end point doesn't support models with decoupled",
        "{model} streams (decoupled): it may send any number of responses, and HTTP infer carries one (501)",
        "Use generate stream or gRPC stream",
    ),
    _row(
        "decoupled model over plain gRPC",
        r"ModelInfer RPC doesn't support models with decoupled",
        "{model} streams (decoupled): it may send any number of responses, which one gRPC call cannot carry",
        "Use gRPC stream, or generate stream",
    ),
    _row(
        "generate with 0 or many responses",
        r"generate expects model to produce exactly 1 response",
        "{model} sent no response or more than one, and /generate carries exactly one "
        "(the server says so with HTTP 200)",
        "Use generate stream",
    ),
    # ---- the Python backend
    _row(
        "dead Python process",
        r"Stub process '(?P<stub>[^']*)' is not healthy",
        "The Python process {stub} has died; the server still calls its model READY",
        "Touch its model.py and load it again: a new process takes over. Unloading hangs once it was asked "
        "after its death (24.10)",
    ),
    _row(
        "BF16 read as numpy",
        r"message: (?P<line>[^\n]*bf16[^\n]*)",
        "{model} cannot read BF16 as numpy: {line}",
        "Its code must use to_dlpack and from_dlpack: the backend's numpy has no BF16",
    ),
    _row(
        "out of memory",
        r"(?P<line>[^\n]*out of memory[^\n]*)",
        "{model} ran out of memory: {line}",
        "Send fewer rows, or free memory: unload other models or take away instances",
    ),
    _row(
        "exception in the model",
        r"Failed to process the request\(s\) for model '[^']*', message: (?P<line>[^\n]+)",
        "{model} failed on this request: {line}",
        "The exception comes from the model's code: the whole text names file and line",
    ),
    # ---- inputs and outputs
    _row(
        "input missing",
        r"missing required input\(s\) \[(?P<inputs>[^\]]*)\]",
        "{model} was not given all inputs: {inputs} missing",
        "Give values for every input that is not optional",
    ),
    _row(
        "inputs missing or too many",
        r"expected (?P<want>[^.]*?) inputs? but got (?P<got>\d+) inputs?",
        "{model} wants {want} inputs and got {got}",
        "Compare the inputs with the model's configuration",
    ),
    _row(
        "input that does not exist",
        r"unexpected inference input '(?P<input>[^']*)'",
        "{model} has no input {input}",
        "Leave it out: names are case-sensitive",
    ),
    _row(
        "output that does not exist",
        r"unexpected inference output '(?P<output>[^']*)'",
        "{model} has no output {output}",
        "Ask for outputs of its configuration, or for none to get all",
    ),
    _row(
        "no inputs given",
        r"request has 0 inputs",
        "The request for {model} has no inputs",
        "Give values for at least one input",
    ),
    _row(
        "wrong datatype",
        r"input '(?P<input>[^']*)' data-type is '(?P<got>\w+)', but model '[^']*' expects '(?P<want>\w+)'",
        "Input {input} of {model} wants {want} and got {got}",
        "Send values of that datatype",
    ),
    _row(
        "unknown datatype",
        r"invalid datatype for input (?P<input>\S+)",
        "Triton has no such datatype as was given for input {input}",
        "Use BOOL, INT8 to INT64, UINT8 to UINT64, FP16, BF16, FP32, FP64 or BYTES",
    ),
    _row(
        "wrong shape",
        r"unexpected shape for input '(?P<input>[^']*)'.*?Expected (?P<want>\[[^\]]*\]),"
        r" got (?P<got>\[[^\]]*\])",
        "Input {input} of {model} wants the shape {want} and got {got}",
        "The first dimension is the batch where the model batches: [1,...] for one row",
    ),
    _row(
        "sequence with several rows",
        r"must specify batch-size 1 due to requirements of sequence batcher",
        "{model} keeps sequences: every step has exactly one row",
        "Send one row; several rows are several sequences",
    ),
    _row(
        "batch too big",
        r"batch-size must be <= (?P<limit>\d+)",
        "At most {limit} rows per request to {model}",
        "Send fewer rows at a time, or raise max_batch_size",
    ),
    _row(
        "rows differ between inputs",
        r"input '(?P<input>[^']*)' batch size does not match other inputs",
        "Input {input} of {model} has another number of rows than the other inputs",
        "Give every input the same number of rows",
    ),
    _row(
        "bytes do not match the shape",
        r"input byte size mismatch for input '(?P<input>[^']*)'.*Expected (?P<want>\d+), got (?P<got>\d+)",
        "The values of input {input} take {got} bytes, and its shape wants {want}",
        "Make shape and values agree",
    ),
    _row(
        "elements do not match the shape",
        r"Shape does not match true shape of 'data' field",
        "The number of values does not match the shape",
        "Make shape and values agree",
    ),
    # ---- JSON
    _row(
        "FP16 or BF16 in JSON",
        r"receiving (?P<datatype>\w+) data via JSON is not supported.*input (?P<input>\S+)",
        "Triton takes no {datatype} as JSON (input {input})",
        "Send it binary: infer does, generate cannot",
    ),
    _row(
        "FP16 or BF16 asked as JSON",
        r"sending (?P<datatype>\w+) data via JSON is not supported",
        "Triton gives no {datatype} as JSON",
        "Ask for binary outputs: infer does, generate cannot",
    ),
    _row(
        "text given as numbers",
        r"Unable to parse JSON bytes array",
        "A value of a BYTES input is not a text",
        "Put it in quotation marks",
    ),
    _row(
        "truth values given as numbers",
        r"attempt to access JSON non-boolean as boolean",
        "A BOOL is not true or false: 0 and 1 are not taken in JSON",
        "Write true and false",
    ),
    _row(
        "reserved parameter of the wrong type",
        r"Unable to parse '(?P<name>priority|timeout|sequence_\w+|binary_\w+)': (?P<line>[^\n]*)",
        "The request parameter {name} has the wrong type: {line}",
        "priority and timeout are whole numbers from 0, sequence_start and sequence_end are true or false",
    ),
    _row(
        "values of the wrong kind",
        r"Unable to parse 'data': attempt to access JSON non-(?P<want>[\w-]+)",
        "A value is not of its input's datatype: it must be a {want}",
        "No fractions or quotation marks for integers, none below 0 for unsigned ones, no null",
    ),
    _row(
        "no inputs key",
        r"Unable to parse 'inputs'",
        'The body has no list "inputs"',
        'A request is {{"inputs": [{{"name", "shape", "datatype", "data"}}]}}',
    ),
    _row(
        "body is not JSON",
        r"failed to parse the request JSON buffer: (?P<line>[^\n]*)",
        "The body is not valid JSON: {line}",
        "Check quotation marks and brackets; with binary data, the header Inference-Header-Content-Length",
    ),
    _row(
        "empty body",
        r"Raw request must only have 1 input",
        "The body was empty or only bytes, and {model} has more than one input to put them in",
        "Send the JSON form, which names the inputs",
    ),
    # ---- parameters
    _row(
        "parameter with a reserved name",
        r"parameter keys starting with 'triton_' are reserved",
        "Request parameters that begin with triton_ belong to Triton",
        "Choose another name",
    ),
    _row(
        "parameter of a type that is not taken",
        r"parameter '(?P<name>[^']*)' has invalid type",
        "The request parameter {name} is null, a list or an object",
        "Parameters are texts, whole numbers, true or false, and numbers",
    ),
    # ---- sequences
    _row(
        "sequence without an id",
        r"must specify a non-zero or non-empty correlation ID",
        "{model} keeps sequences: every request needs a sequence_id that is not 0",
        "Send a whole sequence: Tritonscope sets id, start and end",
    ),
    _row(
        "sequence not begun, ended, or idle too long",
        r"sequence (?P<id>\S+) to model '[^']*' must specify the START flag",
        "{model} knows no open sequence {id}: it was not begun, has ended, or was idle for too long",
        "Begin again with the first step; max_sequence_idle_microseconds says how long it may pause",
    ),
    # ---- the way there
    _row(
        "compression that Triton does not know",
        r"Unsupported compression type",
        "The server does not know the request's Content-Encoding (501)",
        "Use gzip or deflate, or none: a proxy in between may have changed it",
    ),
    _row(
        "request too large",
        r"Request body too large|exceeds the maximum allowed|http-max-input-size|^Request Entity Too Large",
        "The request is larger than the server takes (64 MiB from Triton 25.06 on)",
        "Send fewer rows at a time, or start Triton with a larger --http-max-input-size",
    ),
)
