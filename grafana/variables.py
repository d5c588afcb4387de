"""The boards' variables: chained, several values each, "All" also where a label is absent."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard

from grafana.panels import DATASOURCE
from grafana.parameters import Parameters
from grafana.queries import Queries

ALL = ".*"
"""Value of "All": a regular expression that also matches a label that is not there."""

TRITON = ("nv_inference_request_success", "nv_cpu_utilization", "nv_pinned_memory_pool_total_bytes")
"""What at least one of is on the page of any Triton server, with or without models."""

LLM = ("vllm:prompt_tokens_total", "nv_trt_llm_request_metrics")
"""Families by which engines that run without Triton are found too."""

TOP = ("5", "10", "20", "50")


def datasource() -> builders.DatasourceVariable:
    """Which Prometheus."""
    return builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus")


def servers(parameters: Parameters, families: tuple[str, ...] = TRITON) -> list[builders.QueryVariable]:
    """Cluster, namespace, job, server: each offers what fits the ones before it."""
    chain = {
        "cluster": parameters.cluster,
        "namespace": parameters.namespace,
        "job": parameters.job,
        "server": parameters.instance,
    }
    found: list[builders.QueryVariable] = []
    matchers = [f'__name__=~"{"|".join(families)}"']
    for name, label in chain.items():
        found.append(_query(name, name.capitalize(), f"label_values({{{', '.join(matchers)}}}, {label})"))
        matchers.append(f'{label}=~"${name}"')
    return found


def exporter_job(queries: Queries) -> builders.QueryVariable:
    """The job of Tritonscope's exporter: its series have another job than Triton's."""
    names, family = queries.parameters, "tritonscope_exporter_source_success"
    own = f'{names.job}=~"$exporter_job"'
    matchers = ", ".join(one for one in queries.servers.matchers_of(family) if one != own)
    query = f"label_values({family}{{{matchers}}}, {names.job})"
    return _query("exporter_job", "Exporter job", query)


def models(queries: Queries) -> list[builders.QueryVariable]:
    """Model and version, from successes: failures outlive a model."""
    names, found = queries.parameters, []
    servers_only = ", ".join(queries.servers.matchers_of("nv_inference_request_success"))
    family = "nv_inference_request_success"
    found.append(_query("model", "Model", f"label_values({family}{{{servers_only}}}, {names.model})"))
    of_models = f'{servers_only}, {names.model}=~"$model"'
    version = _query("version", "Version", f"label_values({family}{{{of_models}}}, {names.version})")
    found.append(version.sort(dashboard.VariableSort.NUMERICAL_ASC))
    return found


def gpus(queries: Queries) -> builders.QueryVariable:
    """GPUs by uuid, as Triton or else DCGM reports them at the end of the range."""
    variable = _query("gpu", "GPU", f"query_result({queries.reported_gpus()})")
    return variable.regex('/gpu_uuid="([^"]+)"/')


def top() -> builders.CustomVariable:
    """How many models a chart shows."""
    variable = builders.CustomVariable("top").label("Top").values(",".join(TOP))
    return variable.current(dashboard.VariableOption(text=TOP[1], value=TOP[1], selected=True))


def app(parameters: Parameters) -> builders.TextBoxVariable:
    """Address of the Tritonscope app, for links."""
    address = parameters.app_url
    variable = builders.TextBoxVariable("app").label("Tritonscope").default_value(address)
    return variable.current(dashboard.VariableOption(text=address, value=address, selected=True))


def _query(name: str, label: str, text: str) -> builders.QueryVariable:
    everything = dashboard.VariableOption(text="All", value="$__all", selected=True)
    return (
        builders.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query({"query": text, "refId": name})
        .multi(True)
        .include_all(True)
        .all_value(ALL)
        .current(everything)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
    )
