"""The failures of loads, one row per text of the server: when, what happened and why, what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadErrorRow:
    """If `pattern` is found in the server's text, `what` and `remedy` say it; its groups are filled in.

    More special rows stand before more general ones.
    """

    case: str
    pattern: re.Pattern[str]
    what: str
    remedy: str


def _row(case: str, pattern: str, what: str, remedy: str) -> LoadErrorRow:
    return LoadErrorRow(case, re.compile(pattern, re.IGNORECASE), what, remedy)


ROWS: tuple[LoadErrorRow, ...] = (
    # ---- the repository: the server's log alone has these texts, the answer says "failed to poll" only
    _row(
        "model not in the repository",
        r"model not found in any model repository",
        "the repository has no model of that name",
        "Check the spelling (case counts) and that the server reads the repository you put it into",
    ),
    _row(
        "config.pbtxt: two batchers",
        r"Error parsing text-format \S+: (?P<line>\d+):\d+: Field \"(?P<one>\w+_batching)\" is specified "
        r"along with field \"(?P<other>\w+_batching)\"",
        "line {line} of its config.pbtxt gives {one} beside {other}, and Triton takes one batcher only",
        "Remove one of the two blocks",
    ),
    _row(
        "config.pbtxt: unknown field",
        r"Error parsing text-format \S+: (?P<line>\d+):\d+: Message type \"\S+\" has no field named "
        r"\"(?P<field>[^\"]*)\"",
        "line {line} of its config.pbtxt has the field {field}, which this Triton does not know",
        "Correct the spelling, or use a Triton version that has the field",
    ),
    _row(
        "config.pbtxt: unknown value",
        r"Error parsing text-format \S+: (?P<line>\d+):\d+: Unknown enumeration value of "
        r"\"(?P<value>[^\"]*)\" for field \"(?P<field>[^\"]*)\"",
        "line {line} of its config.pbtxt gives {field} the value {value}, which does not exist",
        "Use one of the names in Triton's model configuration, for example TYPE_FP32 or KIND_CPU",
    ),
    _row(
        "config.pbtxt: not readable",
        r"Error parsing text-format \S+: (?P<line>\d+):\d+: (?P<error>[^\n]*)",
        "line {line} of its config.pbtxt is not valid: {error}",
        "Correct that line: mostly a quote, a brace or a comma is missing there or just before",
    ),
    _row(
        "config.pbtxt: not readable, place unknown",
        r"failed to read text proto",
        "its config.pbtxt is not valid text",
        "The line that follows in the server's log names the place",
    ),
    _row(
        "config.pbtxt: another name than the folder",
        r"unexpected directory name '(?P<folder>[^']*)' for model '(?P<name>[^']*)'",
        "its configuration calls it {name} and its folder is called {folder}",
        "Make both the same, or leave name out of config.pbtxt",
    ),
    _row(
        "max_batch_size below 0",
        r"'max_batch_size' must be non-negative",
        "its max_batch_size is below 0",
        "Write 0 for a model that takes no batches, or the largest batch it takes",
    ),
    _row(
        "preferred size above max_batch_size",
        r"preferred size must be <= max batch size",
        "a preferred_batch_size is above its max_batch_size",
        "Lower the preferred size or raise max_batch_size",
    ),
    _row(
        "empty folder or no backend",
        r"Could not determine backend for model",
        "its folder holds no model, or its config.pbtxt names no backend",
        'Put the files into a version folder such as 1/, and name the backend: backend: "python"',
    ),
    _row(
        "response cache on a decoupled model",
        r"Response Cache does not currently support model \S+ with 'decoupled'",
        "it has the response cache on and is decoupled, which Triton does not support together",
        "Remove response_cache, or the decoupled transaction policy",
    ),
    _row(
        "repository agent missing",
        r"unable to find '(?P<library>[^']*)' for repo agent '(?P<agent>[^']*)'",
        "it wants the repository agent {agent}, which this server does not have",
        "Remove model_repository_agents from config.pbtxt, or install {library} on the server",
    ),
    _row(
        "ensemble without steps",
        r"must specify 'step' for ensemble",
        "it is an ensemble and names no step",
        "Add the steps to ensemble_scheduling in its config.pbtxt",
    ),
    _row(
        "override not valid",
        r"Invalid config override: (?P<line>[^\n]*)",
        "the configuration in the load request is not valid: {line}",
        "Send the whole effective configuration with valid changes",
    ),
    _row(
        "files without a configuration",
        r"Load parameter 'config' must be specified for model file override",
        "the load request brought files and no configuration",
        "Send both, or put the model into the repository",
    ),
    # ---- the load request
    _row(
        "configuration not sent as text",
        r"attempt to access JSON non-string as string",
        "the configuration in the load request is an object",
        "Send it as one JSON string",
    ),
    _row(
        "unknown load parameter",
        r"unexpected error on creating Triton parameter",
        "the load request has a parameter Triton does not know",
        "Send config and file:... parameters only",
    ),
    # ---- versions
    _row(
        "no version",
        r"at least one version must be available",
        "it has no version folder that its version policy allows",
        "Give it a folder named by a plain number such as 1 (not v1, not 01), or change version_policy",
    ),
    _row(
        "name in two repositories",
        r"appears in two or more repositories",
        "a model of that name is in two of the server's repositories",
        "Rename or remove one of them, or start the server with --model-namespacing=true",
    ),
    # ---- ensembles
    _row(
        "ensemble: step not loaded",
        r"ensemble '[^']*' depends on '(?P<step>[^']*)' which has no loaded version\."
        r"(?:.*?is at \w+ state: (?P<line>[^\n]*))?",
        "its step {step} could not be loaded: {line}",
        "Load {step} by itself, correct what it says, then load this ensemble",
    ),
    _row(
        "ensemble: step does not exist",
        r"contains models that are not available or ambiguous: (?P<step>[^\n;]*)",
        "its step {step} is not in the repository, or is in two of them",
        "Correct model_name in ensemble_scheduling, or add the model",
    ),
    _row(
        "ensemble: datatypes do not fit",
        r"ensemble tensor (?P<tensor>\S+): inconsistent data type: (?P<one>\S+) is inferred from model "
        r"(?P<first>\S+) while (?P<two>\S+) is inferred from model (?P<second>\S+)",
        "its tensor {tensor} is {one} in {first} and {two} in {second}",
        "Make the datatypes of both sides the same",
    ),
    _row(
        "ensemble: shapes do not fit",
        r"ensemble tensor (?P<tensor>\S+): inconsistent shape: (?P<line>[^\n;]*)",
        "the shapes of its tensor {tensor} do not fit: {line}",
        "Make the dims of both sides the same",
    ),
    _row(
        "ensemble: batch too large",
        r"allows maximum batch size (?P<mine>\d+), but it contains model (?P<step>\S+) which only allows "
        r"maximum batch size to be (?P<limit>\d+)",
        "its max_batch_size {mine} is above that of its step {step}, {limit}",
        "Lower it to {limit}, or raise that of {step}",
    ),
    _row(
        "ensemble: tensor mapped wrongly",
        r"ensemble tensor (?P<tensor>\S+) is mapped (?P<way>from|to) non-existing (?P<what>input|output) "
        r"(?P<name>\S+) in model (?P<step>[^\s;]+)",
        "its tensor {tensor} is mapped {way} the {what} {name} of {step}, which does not exist",
        "Correct the input_map or output_map of that step",
    ),
    _row(
        "ensemble: not consistent",
        r"in ensemble \S+, (?P<line>[^\n;]*)",
        "its steps do not fit together: {line}",
        "Correct ensemble_scheduling in its config.pbtxt",
    ),
    # ---- the backend and where it runs
    _row(
        "backend missing",
        r"unable to find (?:backend|shared) library for backend '(?P<backend>[^']*)'",
        "the server has no backend '{backend}'",
        "Use a server image that has it, or another backend",
    ),
    _row(
        "GPU asked for, none there",
        r"has kind KIND_GPU but no GPUs are available",
        "its instance group asks for a GPU (KIND_GPU) and the server has none",
        "Use KIND_AUTO or KIND_CPU, or give the server a GPU",
    ),
    _row(
        "GPU number not there",
        r"specifies invalid or unsupported gpu id (?P<gpu>\d+)",
        "its instance group names GPU {gpu}, which the server does not have or cannot use",
        "Correct gpus in instance_group; the full text lists those it can use",
    ),
    _row(
        "GPUs for a kind that takes none",
        r"has kind (?P<kind>KIND_\w+) but specifies one or more GPUs",
        "its instance group is of {kind} and lists GPUs",
        "Remove gpus, or use KIND_GPU",
    ),
    _row(
        "out of GPU memory",
        r"(?P<line>[^\n]*(?:CUDA|GPU|cuBLAS|HIP)[^\n]*(?:out of memory|OOM)[^\n]*)",
        "out of GPU memory: {line}",
        "Free memory (unload another model, fewer instances), or use a smaller batch or precision",
    ),
    _row(
        "out of memory",
        r"(?P<line>[^\n]*(?:out of memory|bad_alloc|MemoryError|cannot allocate memory)[^\n]*)",
        "out of memory: {line}",
        "Give the server more memory, or load fewer models or instances",
    ),
    # ---- the model's own code and files
    _row(
        "no class TritonPythonModel",
        r"has no attribute 'TritonPythonModel'",
        "its model.py has no class TritonPythonModel",
        "Name the class so; Triton looks for no other",
    ),
    _row(
        "Python syntax",
        r"(?P<line>(?:SyntaxError|IndentationError|TabError): [^\n]*)",
        "its model.py is not valid Python: {line}",
        "Correct that line",
    ),
    _row(
        "numpy missing",
        r"No module named '(?P<module>numpy(?:\.[^']*)?)'",
        "Python module '{module}' is missing: Triton's Python models cannot run without it",
        "Install numpy for the Python that the server uses, or start the server inside its environment",
    ),
    _row(
        "Python module missing",
        r"No module named '(?P<module>[^']*)'",
        "Python module '{module}' is missing where the server runs its models",
        "Install it there, or give the model its own environment (EXECUTION_ENV_PATH)",
    ),
    _row(
        "Python import",
        r"(?P<line>ImportError: [^\n]*)",
        "it cannot import what it needs: {line}",
        "Compare the versions of that package with what the model was written for",
    ),
    _row(
        "Python environment missing",
        r"Failed to get the canonical path for (?P<line>[^\n]*)",
        "its Python environment (EXECUTION_ENV_PATH) is not where its config.pbtxt says",
        "Correct the path, as the server sees it, or put the archive there",
    ),
    _row(
        "Python process ended",
        r"Stub process '[^']*' is not healthy",
        "its Python process ended while starting",
        "See the server's log: mostly a crash in a library, os._exit, or the system ran out of memory",
    ),
    _row(
        "warm-up: inputs missing",
        r"expected (?P<want>\d+) inputs but got (?P<got>\d+) inputs",
        "its model_warmup gives {got} inputs where {want} are needed",
        "Complete model_warmup in config.pbtxt, or remove it",
    ),
    _row(
        "warm-up: file missing",
        r"failed to open text file for read \S*/warmup/(?P<file>[^:\s]*)",
        "its model_warmup wants the file warmup/{file}, which cannot be read",
        "Put it into the model's folder warmup/, or change model_warmup",
    ),
    _row(
        "dims missing",
        r"model (?P<what>input|output) '(?P<name>[^']*)' must specify 'dims'",
        "its {what} {name} has no dims",
        "Write them in config.pbtxt; -1 stands for a dimension that varies",
    ),
    _row(
        "Python error",
        r"^(?P<line>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)\b[^\n]*)",
        "{line}",
        "The model's own code raised this while it was loaded: the full text names the line of model.py",
    ),
)
