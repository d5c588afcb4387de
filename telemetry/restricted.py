"""Triton's restricted APIs (`--http-restricted-api`): which one a call belongs to, and what a 403 means."""

from __future__ import annotations

import re

APIS = (
    "health", "metadata", "inference", "shared-memory", "model-config", "model-repository", "statistics",
    "trace", "logging",
)  # fmt: skip
"""The groups, as Triton names them; the metrics page is in none."""

_PATHS = tuple(
    (re.compile(pattern), api)
    for pattern, api in (
        (r"/v2/repository/", "model-repository"),
        (r"/v2/(systemsharedmemory|cudasharedmemory)(/|$)", "shared-memory"),
        (r"/v2/logging$", "logging"),
        (r"/v2(/models/[^/]+)?/trace/setting$", "trace"),
        (r"/(infer|generate|generate_stream)$", "inference"),
        (r"/config$", "model-config"),
        (r"/stats$", "statistics"),
        (r"/v2/health/|/ready$", "health"),
        (r"/v2(/models/[^/]+(/versions/[^/]+)?)?$", "metadata"),
    )
)
_EXPECTED = re.compile(r"expecting header '([^']+)'")


def api_of(path: str) -> str:
    """The group of a path of the HTTP API, "" for a path in none."""
    return next((api for pattern, api in _PATHS if pattern.search(path)), "")


def restricted_sentence(where: str, api: str, status: int, text: str) -> str:
    """What a 401 or 403 means and what to set; `text` is the server's, which may name the header it wants."""
    found = _EXPECTED.search(text)
    header = found[1] if found else "HEADER"
    wants = f", it expects the header {header}" if found else ""
    if not api:
        return f"{where} restricts this API (HTTP {status}{wants}): add the header to the settings"
    return (
        f"{where} restricts its {api} API (HTTP {status}{wants}): write "
        f"`api_headers_from_env: {{{api}: {{{header}: VARIABLE}}}}` at this server in tritonscope.yml"
    )
