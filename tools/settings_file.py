"""docs/settings.md: every setting with its default and its meaning, from where the settings are read."""

from __future__ import annotations

from settings import PREFIX, SCALARS, VARIABLES, Settings
from telemetry.access_entry import ACCESS_KEYS, OIDC_KEYS, PASSWORD_KEYS, PROXY_KEYS
from telemetry.discovery import DISCOVERY_KEYS, FILE_LABELS
from telemetry.elsewhere import ALERTMANAGER_KEYS, GRAFANA_KEYS, LOGS_KEYS
from telemetry.golden_choice import GOLDEN_KEYS
from telemetry.journal_choice import JOURNAL_KEYS
from telemetry.objective import OBJECTIVE_KEYS, RULE_KEYS
from telemetry.prometheus_endpoint import PROMETHEUS_KEYS
from telemetry.saved_requests_choice import SAVED_REQUESTS_KEYS
from telemetry.server_entry import SERVER_KEYS


def render() -> str:
    """The text of docs/settings.md, from the model itself."""
    general = [
        f"| `{name}` | `{PREFIX}{name.upper()}` | {_shown(Settings.model_fields[name].default)} "
        f"| {Settings.model_fields[name].description} |"
        for name in SCALARS
    ]
    servers = [f"| `{key}` | {text} |" for key, text in SERVER_KEYS.items()]
    prometheus = [f"| `{key}` | {text} |" for key, text in PROMETHEUS_KEYS.items()]
    variables = [f"| `{PREFIX}{name}` | {text} |" for name, text in VARIABLES.items()]
    return "\n".join(
        (
            _INTRODUCTION,
            "## General settings\n\n| in the file | in the environment | default | meaning |",
            "|---|---|---|---|",
            *general,
            "\n## A server (an item of `servers:`)\n\n| key | meaning |\n|---|---|",
            *servers,
            _DISCOVERY,
            "| key | meaning |\n|---|---|",
            *(f"| `{key}` | {text} |" for key, text in DISCOVERY_KEYS.items()),
            "\nLabels of a `file_sd` entry that count here:\n\n| label | meaning |\n|---|---|",
            *(f"| `{name}` | {text} |" for name, text in FILE_LABELS.items()),
            "\n## History from Prometheus (`history: prometheus:`)\n\n| key | meaning |\n|---|---|",
            *prometheus,
            "\n## Objectives (an item of `slo:`)\n\n| key | meaning |\n|---|---|",
            *(f"| `{key}` | {text} |" for key, text in OBJECTIVE_KEYS.items()),
            "\n## Rules (an entry of `rules:`, by the name of a rule)\n\n| key | meaning |\n|---|---|",
            *(f"| `{key}` | {text} |" for key, text in RULE_KEYS.items()),
            "\n## The journal of actions (`journal:`)\n\n| key | meaning |\n|---|---|",
            *(f"| `{key}` | {text} |" for key, text in JOURNAL_KEYS.items()),
            "\n## Saved test requests (`saved_requests:`)\n\n| key | meaning |\n|---|---|",
            *(f"| `{key}` | {text} |" for key, text in SAVED_REQUESTS_KEYS.items()),
            "\n## Golden requests (`golden:`)\n\n| key | meaning |\n|---|---|",
            *(f"| `{key}` | {text} |" for key, text in GOLDEN_KEYS.items()),
            "\n## Alertmanager (`alertmanager:`)\n\n| key | meaning |\n|---|---|",
            *(f"| `{key}` | {text} |" for key, text in ALERTMANAGER_KEYS.items()),
            "\n## Grafana (`grafana:`)\n\n| key | meaning |\n|---|---|",
            *(f"| `{key}` | {text} |" for key, text in GRAFANA_KEYS.items()),
            "\n## Logs (`logs:`)\n\n| key | meaning |\n|---|---|",
            *(f"| `{key}` | {text} |" for key, text in LOGS_KEYS.items()),
            _ACCESS,
            "| key | meaning |\n|---|---|",
            *(f"| `{key}` | {text} |" for key, text in ACCESS_KEYS.items()),
            "\n### Single sign-on (`access: oidc:`)\n\n| key | meaning |\n|---|---|",
            *(f"| `{key}` | {text} |" for key, text in OIDC_KEYS.items()),
            "\n### A proxy that signs people in (`access: proxy:`)\n\n| key | meaning |\n|---|---|",
            *(f"| `{key}` | {text} |" for key, text in PROXY_KEYS.items()),
            "\n### A shared password (`access: password:`)\n\n| key | meaning |\n|---|---|",
            *(f"| `{key}` | {text} |" for key, text in PASSWORD_KEYS.items()),
            "\n## The environment alone\n\n| variable | meaning |\n|---|---|",
            *variables,
            _EXAMPLE,
        )
    )


def _shown(value: object) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


_INTRODUCTION = """# Settings

Written by `make generate` from `settings.py`. Everything has a default: without any setting the app watches
`http://127.0.0.1:8000` with metrics on port 8002. The environment wins over the file.

What cannot be used costs itself only. A server that is written wrongly is left out, the others are watched;
the sidebar lists every such place with its line.
"""

_DISCOVERY = """
## Servers that come and go (an item of `discovery:`)

They are watched as long as they are listed, and `servers:` itself is read again when this file changes:
[servers.md](servers.md). Every other setting counts after a restart, which a notice says.
"""

_ACCESS = """
## Who may see and do what (`access:`)

Without this section somebody at the machine itself (a connection from loopback without a proxy) may do what
`control` allows, and everybody else is a viewer. With it, only what it says counts; what is written wrongly
gives nobody anything. Roles: `viewer` (view), `tester` (view, infer), `operator` (view, infer, load, load-run
and log), `admin` (also override), `none`. A server that somebody may not view is absent from all they see.
How to use each way to sign in, with examples: [security.md](security.md).
"""

_EXAMPLE = """
## Example: tritonscope.yml

```yaml
refresh_seconds: 2
servers:
  - id: search-1
    url: https://triton-1.example.com/search
    metrics_url: http://triton-1.example.com:8002
    headers_from_env: {Authorization: TRITON_AUTHORIZATION}
    ca_file: company-ca.pem
    workload: search
    match: {namespace: search, pod: triton-0}
  - id: lab
    url: lab-gpu:8000
    control: true
  - id: far-away
    match: {namespace: search, pod: triton-7}
discovery:
  - file: prometheus/file_sd/servers.yml
  - dns: triton-headless.search.svc.cluster.local
history:
  prometheus:
    url: https://prometheus.example.com
    headers_from_file: {Authorization: prometheus-token}
    matchers: {cluster: prod}
```

Values of headers are never shown or logged. Relative files are looked for beside the configuration file.
"""
