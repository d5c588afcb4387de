"""docs/exporter.md: the exporter's families from their definitions, the PromQL from the signals."""
# ruff: noqa: E501 - tables and queries cannot be wrapped

from __future__ import annotations

from collections.abc import Iterator

from collectors.exporter_families import DEFAULT_MAX_SERIES, HEALTH
from collectors.exporter_reading import CONFIG_SECONDS, METADATA_SECONDS
from collectors.exporter_values import STATES, families_by_importance
from signals.definition import Definition, Level
from signals.definitions import of_level
from signals.evaluation import Dialect
from telemetry.catalogue import Metric
from telemetry.reasons import ReasonClass
from telemetry.scrape import Source

WINDOW = "5m"

_HEAD = f"""# The exporter

Written by `make generate` from `collectors/exporter_*.py` and `signals/`.

`python -m collectors.exporter` publishes for Prometheus what Triton's own metrics page lacks: the state of every
model and why a load failed, batch sizes, the busy share of the instances, memory per model, the facts of the
configuration that rules need, and how the reading itself fares. It never repeats a family of Triton's page
(`nv_...`): Prometheus reads that page itself.

It reads a server only when Prometheus asks, and keeps no numbers in between: a model that vanishes vanishes here in
the same scrape.

## Start it

```
TRITONSCOPE_URL=http://triton:8000 TRITONSCOPE_METRICS_URL=http://triton:8002 \\
    .venv/bin/python -m collectors.exporter --address 0.0.0.0
```

| option | default | |
|---|---|---|
| `--address` | 127.0.0.1 | where it listens: another, if Prometheus runs on another machine or in another container. It asks nobody who they are; the firewall does |
| `--port` | 9105 | |
| `--raw-batch-sizes` | off | executions and times for each single batch size, beside the histogram |
| `--max-series` | {DEFAULT_MAX_SERIES} | most series of one server |

`make setup` makes `.venv`. In a container: `docker build --target app -t tritonscope .` and the command
`python -m collectors.exporter --address 0.0.0.0`. It changes nothing on a server.

The servers are those of the settings (`TRITONSCOPE_URL`, `TRITONSCOPE_SERVERS` or `tritonscope.yml`, see
[settings.md](settings.md)) and those found where `discovery:` says ([servers.md](servers.md)), with their headers and
certificates; they come and go while it runs. With a Prometheus `file_sd` file no list is written twice:
`TRITONSCOPE_DISCOVERY_FILE=file_sd/servers.yml`.

A request names a server by its id (of `tritonscope.yml` or `__server`; with `TRITONSCOPE_URL` host:port of that
address; `/` lists them) or by the `instance` of its series, which is the address that Prometheus scrapes. Any other
address in a request is never asked.

| address | what it answers |
|---|---|
| `/probe?target=ID` | the page about one server; 404 for any other, with the ids it knows |
| `/metrics` | with exactly one server configured: the page about it and about the exporter (a sidecar). With several: the exporter alone, and a line that points to `/probe` |
| `/healthz` | `{{"status": "ok", "servers": [ids]}}` |

All sources of a server are read at once, within 80 % of the time-out that Prometheus sends along
(`X-Prometheus-Scrape-Timeout-Seconds`, 10 s without it). A server that hangs has its own threads and costs nobody
else anything; what it did answer in time is published, and `tritonscope_exporter_source_success` is 0 for the rest.
A server that is down is an answer too: 200, with every source at 0.

Metadata is read again after {METADATA_SECONDS:g} s, a configuration after 5 minutes, and at once when a model's state changes,
its counters fell (a reload) or the server was away. One scrape spends {CONFIG_SECONDS:g} s on configurations at most, so those of
a thousand models arrive over a few scrapes: `tritonscope_exporter_model_configs{{state="pending"}}` says how many are
still to come.

## Scrape it

As a probe, one exporter for all servers:

```yaml
scrape_configs:
- job_name: triton                    # Triton's own page
  static_configs:
    - &triton
      targets: [triton:8002]
      # labels: {{__server: search-1}}  # the server's id, where its address is not the one in the exporter's settings
  # file_sd_configs: [&fleet {{files: [file_sd/servers.yml]}}]         a fleet
- job_name: tritonscope-exporter
  metrics_path: /probe
  honor_labels: true                  # the exporter writes the instance of the Triton it describes
  static_configs: [*triton]
  # file_sd_configs: [*fleet]
  relabel_configs:
    - {{source_labels: [__address__], target_label: instance}}
    - {{source_labels: [__address__], target_label: __param_target}}
    - {{source_labels: [__server], regex: (.+), target_label: __param_target}}
    - {{target_label: __address__, replacement: "exporter:9105"}}
```

As a sidecar, one exporter beside each server: it is scraped at `/metrics`, and Prometheus writes Triton's own
`instance` over the one that the sidecar knows.

```yaml
- job_name: tritonscope-exporter
  static_configs:
    - targets: [triton-host:9105]
      labels: {{instance: "triton-host:8002"}}    # as the job triton calls it
  metric_relabel_configs:
    - {{regex: exported_instance, action: labeldrop}}
```

In Kubernetes that label comes from the pod's address: `prometheus/kubernetes.yml`, or `prometheus/operator.yml` for the
Prometheus Operator. `prometheus/prometheus.yml` has the probe with file_sd.

One of the two ways for each server, and one job for each page: what is scraped twice counts twice, and some rules fail
with "duplicate series".

Every series carries the `instance` of the Triton it describes: `match.instance` of the settings, else host:port of
the server's metrics address as it is configured. So the series join Triton's own:

```
nv_inference_pending_request_count * on (instance, model, version) group_left () (tritonscope_model_state{{state="READY"}} == 1)
```

Where Prometheus calls the server otherwise (a pod's address, say), write that name into `match: {{instance: ...}}`. The
other labels of `match` (`namespace`, `pod`) are written too, except names that the families below use.

## Families

In order of importance. When a server has more series than `--max-series`, the least important families go, each
wholly, until the rest fits; `tritonscope_exporter_series_dropped{{family}}` says which and how many series. All labels are
beside `instance`.

| family | type | unit | labels | meaning | from |
|---|---|---|---|---|---|
"""

_ABOUT_FAMILIES = f"""
- `state` of `tritonscope_model_state` is one of {", ".join(STATES)}:
  one series each, 1 for the present one. NEVER_LOADED is an entry of the index without a state: never loaded, or its
  configuration was rejected (Triton does not tell them apart).
- `reason_class` of `tritonscope_model_load_failed` is one of {", ".join(ReasonClass)}.
  The index's text itself is on the Repository page: free text never becomes a label.
- `tritonscope_batch_size` has the buckets 1, 2, 4, ... up to the first that holds the model's largest batch.
- `tritonscope_batch_compute_us_total` is the total of each model, without `batch_size`; with `--raw-batch-sizes` it has a
  series for each size instead, and `sum without (batch_size)` gives the same.
- `tritonscope_model_memory_bytes` with `source="reported"` is what the backend says it allocated at load. Only some
  backends report it, and only when told to. With `source="process"` it is the whole private memory of the processes
  that run a Python model (`kind="CPU"`), and what NVML says they hold on a card (`kind="GPU"`, `device` is its uuid):
  where the exporter shares the server's view of processes, see `docs/vram.md`. What nobody tells is absent, never 0.
- Facts of the configuration are those of models that are ready now. An ensemble has no instances and forms no batches
  itself: its steps do.
- Counters begin at the load of the model: a reload is a reset, which `rate` and `increase` know.

### About the reading

Always there, outside the budget.

| family | type | unit | labels | meaning |
|---|---|---|---|---|
"""

_QUERIES = """
`/metrics` adds `tritonscope_exporter_servers`, `tritonscope_exporter_probes_total{target, outcome}` and the exporter's
`process_...` families.

## Queries

The signals that need the exporter, as the app computes them (all signals: [signals.md](signals.md)). Those by
`batch_size` need `--raw-batch-sizes`.
"""

_MORE = """
The histogram answers without raw sizes:

```
# the batch size below which nine of ten executions stay
histogram_quantile(0.9, rate(tritonscope_batch_size_bucket[5m]))
# the share of executions with a single inference
rate(tritonscope_batch_size_bucket{le="1.0"}[5m]) / ignoring (le) (rate(tritonscope_batch_size_count[5m]) > 0)
```

And what the exporter itself can tell:

```
# the server answers Prometheus but not its HTTP API
tritonscope_exporter_source_success{source="index"} == 0
# models that could not be loaded, by kind of failure
sum by (instance, reason_class) (tritonscope_model_load_failed)
# more series than the budget
sum without (family) (tritonscope_exporter_series_dropped) > 0
```
"""


def render() -> str:
    """The text of docs/exporter.md."""
    rows = [_family(row, raw) for row, raw in families_by_importance()]
    health = [f"| `{row.family}` | {_type(row)} | {_labels(row)} | {row.help} |" for row in HEALTH]
    tables = "\n".join(rows) + "\n" + _ABOUT_FAMILIES + "\n".join(health) + "\n"
    queries = "\n".join(_query(one) for one in _with_exporter())
    return _HEAD + tables + _QUERIES + "\n" + queries + _MORE


def _family(row: Metric, raw: bool) -> str:
    only = "; only with `--raw-batch-sizes`" if raw else ""
    return f"| `{row.family}` | {_type(row)} | {_labels(row)} | {row.help}{only} | {row.source} |"


def _type(row: Metric) -> str:
    return f"{row.kind} | {row.unit or '–'}"


def _labels(row: Metric) -> str:
    names = (*row.labels, "le") if row.kind == "histogram" else row.labels
    return ", ".join(f"`{name}`" for name in names) or "–"


def _with_exporter() -> Iterator[Definition]:
    """Signals of a model that are made of the exporter's numbers, not only told apart by its facts."""
    counted = [row.family for row, _ in families_by_importance() if row.source is Source.STATISTICS]
    for one in of_level(Level.MODEL):
        text = one.promql(Dialect(window=WINDOW))
        if any(family in text for family in counted):
            yield one


def _query(one: Definition) -> str:
    text = one.promql(Dialect(window=WINDOW))
    return f"**{one.title}** (`{one.name}`{', ' + one.unit if one.unit else ''})\n\n```\n{text}\n```\n"
