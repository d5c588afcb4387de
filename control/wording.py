"""The server's error texts in words an operator would use. The raw text always stays behind the fold.

Every pattern was seen on a real server; the texts are those of Triton 2.51.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from telemetry.errors import Restricted, SourceError
from telemetry.reasons import reason_line

NOT_EXPLICIT_MARK = "explicit model load / unload is not allowed"

_LOAD_HEAD = re.compile(
    r"^load failed for model '[^']*': (?:version (?P<version>\d+) is at \w+ state: )?(?P<reason>.*)$",
    re.DOTALL,
)


def server_text(raw: str | None) -> str:
    """The text inside `{"error": text}`, or the body itself: the content type is not reliable."""
    if not raw:
        return ""
    try:
        body = json.loads(raw)
    except ValueError:
        return raw.strip()
    error = body.get("error") if isinstance(body, dict) else None
    return (error if isinstance(error, str) else raw).strip()


@dataclass(frozen=True, slots=True)
class _Known:
    """A known text: if `pattern` is found, `words` say it, with the pattern's groups filled in."""

    pattern: re.Pattern[str]
    words: str

    def say(self, text: str, model: str) -> str | None:
        """The words with the groups filled in, None if the text is another one."""
        found = self.pattern.search(text)
        if found is None:
            return None
        groups = {name: reason_line(value or "") for name, value in found.groupdict().items()}
        return self.words.format(**{"model": model, **groups}).removesuffix(": ")


def _explained(table: tuple[_Known, ...], text: str, model: str) -> str | None:
    said = (known.say(text, model) for known in table)
    return next((sentence for sentence in said if sentence is not None), None)


def _known(pattern: str, words: str) -> _Known:
    return _Known(re.compile(pattern, re.IGNORECASE), words)


_LOAD_CAUSES: tuple[_Known, ...] = (
    _known(
        r"ensemble '[^']*' depends on '(?P<step>[^']*)' which has no loaded version\."
        r"(?:.*?is at \w+ state: (?P<line>[^\n]*))?",
        "its step {step} could not be loaded: {line}",
    ),
    _known(
        r"unable to find backend library for backend '(?P<backend>[^']*)'",
        "the server has no backend '{backend}': use a server image that has it, or another backend",
    ),
    _known(
        r"has kind KIND_GPU but no GPUs are available",
        "its instance group asks for a GPU (KIND_GPU) and the server has none: use KIND_AUTO or KIND_CPU",
    ),
    _known(
        r"specifies invalid or unsupported gpu id (?P<gpu>\d+)",
        "its instance group names GPU {gpu}, which the server does not have",
    ),
    _known(r"(?P<line>[^\n]*out of memory[^\n]*)", "out of memory: {line}"),
    _known(
        r"at least one version must be available",
        "no version folder (needs e.g. an empty folder 1/), or the version policy allows none of them",
    ),
    _known(r"has no attribute 'TritonPythonModel'", "its model.py has no class TritonPythonModel"),
    _known(
        r"No module named '(?P<module>[^']*)'",
        "Python module '{module}' is missing where the server runs its models",
    ),
    _known(
        r"Stub process '[^']*' is not healthy",
        "its Python process ended while starting: see the server log",
    ),
    _known(
        r"expected (?P<want>\d+) inputs but got (?P<got>\d+) inputs",
        "its model_warmup gives {got} inputs where {want} are needed",
    ),
)


def explain_reason(reason: str) -> str:
    """An UNAVAILABLE model's reason in words, without the model: `ValueError: missing weights file`."""
    if reason in ("", "unloaded"):
        return reason
    return _explained(_LOAD_CAUSES, reason, "") or reason_line(reason)


def load_failure(model: str, raw: str | None) -> str:
    """A refused load in one sentence: `bad v1 not loaded: ValueError: missing weights file on purpose`."""
    text = server_text(raw)
    if "failed to poll from model repository" in text:
        return (
            f"{model} not loaded: Triton could not read this model (wrong name, config.pbtxt or override); "
            "see the server log"
        )
    head = _LOAD_HEAD.match(text)
    reason = head.group("reason") if head else text
    version = head.group("version") if head else None
    if "at least one version must be available" in text:
        return f"{model}: {explain_reason(text)}"
    name = f"{model} v{version}" if version else model
    return f"{name} not loaded: {explain_reason(reason) or 'the server gave no reason'}"


def index_failure(model: str, version: str, reason: str) -> str:
    """A failed load as the index tells it."""
    name = f"{model} v{version}" if version else model
    return f"{name} not loaded: {explain_reason(reason) or 'the server gave no reason'}"


_INFER_CAUSES: tuple[_Known, ...] = (
    _known(
        r"Exceeds maximum queue size", "Queue full: {model} has as many waiting requests as it accepts (503)"
    ),
    _known(
        r"Request timeout expired",
        "The request waited longer in the queue of {model} than its queue policy allows (503)",
    ),
    _known(
        r"doesn't support models with decoupled transaction policy",
        "This model streams (decoupled); HTTP infer is not possible",
    ),
    _known(r"has no available versions", "{model} is not loaded: load it first"),
    _known(r"version (?P<version>\S+) is not found", "{model} has no version {version}"),
    _known(r"Request for unknown model", "The server knows no model {model}"),
    _known(
        r"Stub process '[^']*' is not healthy",
        "The Python process of {model} has died; the server still calls it READY. Unload and load it again",
    ),
    _known(r"(?P<line>[^\n]*out of memory[^\n]*)", "{model} ran out of memory"),
    _known(
        r"Failed to process the request\(s\) for model '[^']*', message: (?P<line>[^\n]+)",
        "{model} failed on this request: {line}",
    ),
    _known(r"batch-size must be <= (?P<limit>\d+)", "At most {limit} rows per request to {model}"),
    _known(
        r"unexpected shape for input '(?P<input>[^']*)'.*Expected (?P<want>\[[^\]]*\]),"
        r" got (?P<got>\[[^\]]*\])",
        "Input {input} of {model} wants the shape {want} and got {got}",
    ),
    _known(
        r"data-type is '(?P<got>\w+)', but model '[^']*' expects '(?P<want>\w+)'",
        "{model} wants {want} and got {got}",
    ),
    _known(
        r"missing required input\(s\) \[(?P<inputs>[^\]]*)\]",
        "{model} was not given all inputs: {inputs} missing",
    ),
)


def infer_failure(model: str, raw: str | None, status: int | None) -> str:
    """A refused or failed inference request in one sentence."""
    text = server_text(raw)
    known = _explained(_INFER_CAUSES, text, model)
    if known is not None:
        return known
    code = f" (HTTP {status})" if status else ""
    return f"{model} refused the request{code}: {reason_line(text) or 'the server gave no reason'}"


def source_sentence(error: SourceError) -> str:
    """A failed call that no table explains: what the transport says of it, with the server's first line."""
    text = reason_line(server_text(error.detail)) if error.status else ""
    if text and not isinstance(error, Restricted):
        return f"{error.sentence}: {text}"
    return error.sentence
