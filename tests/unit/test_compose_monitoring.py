"""Prometheus, Alertmanager and Grafana of the stack: names, ports and labels agree across their files."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from settings import load_settings
from tests.compose_stack import ROOT, bind_mounts, host_names, load_stack, load_yaml

STACK = load_stack()
SERVICES = STACK["services"]
PROMETHEUS = load_yaml("prometheus/prometheus.yml")
KUBERNETES = load_yaml("prometheus/kubernetes.yml")
JOBS = {job["job_name"]: job for job in PROMETHEUS["scrape_configs"]}
KUBERNETES_JOBS = {job["job_name"]: job for job in KUBERNETES["scrape_configs"]}
TRITONS_LABELS = {"model", "version", "gpu_uuid"}
LISTENS = {
    "triton": {8000, 8001, 8002},
    "app": {8501},
    "exporter": {9105},
    "exporter-host-pids": {9105},
    "prometheus": {9090},
    "alertmanager": {9093},
    "grafana": {3000},
    "dcgm-exporter": {9400},
}


def static_targets(job: dict[str, Any]) -> list[str]:
    return [target for group in job.get("static_configs", ()) for target in group["targets"]]


def scraped(job: dict[str, Any]) -> list[str]:
    """host:port that Prometheus connects to for this job, relabelling included."""
    for step in job.get("relabel_configs", ()):
        if step.get("target_label") == "__address__":
            return [step["replacement"]]
    found = [f"{name}:{sd['port']}" for sd in job.get("dns_sd_configs", ()) for name in sd["names"]]
    return static_targets(job) + found


def written_labels(job: dict[str, Any]) -> set[str]:
    static = {label for group in job.get("static_configs", ()) for label in group.get("labels", ())}
    return static | {
        step["target_label"] for step in job.get("relabel_configs", ()) if "target_label" in step
    }


@pytest.mark.parametrize("service", LISTENS)
def test_the_ports_that_are_published_are_the_ports_that_are_listened_on(service: str) -> None:
    published = {int(port.split(":")[2]) for port in SERVICES[service].get("ports", ())}
    assert published <= LISTENS[service]
    assert published == LISTENS[service] or service == "exporter-host-pids"


@pytest.mark.parametrize("job", JOBS)
def test_prometheus_scrapes_containers_of_the_stack_where_they_listen(job: str) -> None:
    for address in scraped(JOBS[job]):
        host, _, port = address.partition(":")
        assert int(port) in LISTENS[host], address
        assert host in host_names(STACK)


def test_the_jobs_are_those_of_the_stack() -> None:
    assert {address for job in JOBS.values() for address in scraped(job)} == {
        "triton:8002",
        "exporter:9105",
        "exporter-host-pids:9105",
        "app:8501",
        "dcgm-exporter:9400",
    }
    assert SERVICES["exporter"]["command"][-1] == "9105"


def test_the_exporter_is_asked_for_a_server_that_it_knows_under_tritons_own_instance() -> None:
    [server] = load_settings({}, ROOT / "compose/tritonscope.yml").servers
    [group] = JOBS["triton"]["static_configs"]
    assert group["targets"] == [urlsplit(server.metrics_url or "").netloc]
    assert group["labels"] == {"workload": server.workload, "__server": server.id}
    exporter = JOBS["tritonscope-exporter"]
    assert exporter["static_configs"] == JOBS["triton"]["static_configs"]
    assert exporter["file_sd_configs"] == JOBS["triton"]["file_sd_configs"]
    assert [step.get("target_label") for step in exporter["relabel_configs"]] == [
        "instance",  # before the address is replaced: it is Triton's
        "__param_target",  # the address, unless
        "__param_target",  # __server says the id
        "__address__",
    ]
    assert exporter["metrics_path"] == "/probe"
    beside = JOBS["tritonscope-processes"]
    assert beside["params"] == {"target": [server.id]}
    fixed = {step["target_label"]: step["replacement"] for step in beside["relabel_configs"]}
    assert fixed == {"instance": group["targets"][0], "workload": server.workload}


def test_labels_are_honoured_where_the_page_says_whose_they_are_and_nowhere_else() -> None:
    assert {name for name, job in JOBS.items() if job.get("honor_labels")} == {
        "tritonscope-exporter",
        "tritonscope-processes",
    }
    assert {name for name, job in KUBERNETES_JOBS.items() if job.get("honor_labels")} == {"dcgm-exporter"}


@pytest.mark.parametrize("job", [*JOBS.values(), *KUBERNETES_JOBS.values()], ids=lambda job: job["job_name"])
def test_no_target_has_a_label_of_tritons(job: dict[str, Any]) -> None:
    assert not written_labels(job) & TRITONS_LABELS


@pytest.mark.parametrize("job", ["triton", "tritonscope-exporter"])
def test_in_kubernetes_such_target_labels_are_dropped_last(job: str) -> None:
    last = KUBERNETES_JOBS[job]["relabel_configs"][-1]
    assert last == {"action": "labeldrop", "regex": "model|version|gpu_uuid"}
    assert set(last["regex"].split("|")) == TRITONS_LABELS


def test_the_windows_of_the_rules_fit_the_scrape_intervals() -> None:
    for file in (PROMETHEUS, KUBERNETES):
        interval = int(file["global"]["scrape_interval"].removesuffix("s"))
        assert 15 <= interval <= 60
        assert int(file["global"]["scrape_timeout"].removesuffix("s")) <= interval


def test_alerts_link_to_the_app_and_go_to_the_alertmanager() -> None:
    label = PROMETHEUS["global"]["external_labels"]["tritonscope_url"]
    assert label == "${TRITONSCOPE_PUBLIC_URL}"
    assert SERVICES["prometheus"]["environment"]["TRITONSCOPE_PUBLIC_URL"] == "http://127.0.0.1:8501"
    [manager] = PROMETHEUS["alerting"]["alertmanagers"]
    assert static_targets(manager) == ["alertmanager:9093"]
    assert PROMETHEUS["rule_files"] == KUBERNETES["rule_files"] == ["rules/*.yml"]
    assert ("prometheus", "./prometheus", "/etc/prometheus") in bind_mounts(STACK)


def test_the_example_of_a_fleet_has_what_both_jobs_need() -> None:
    groups = load_yaml("prometheus/file_sd/servers.example.yml")
    assert len(groups) == 3
    for group in groups:
        assert set(group["labels"]) == {"workload", "__server"}
        assert all(re.fullmatch(r"[\w.-]+:8002", target) for target in group["targets"])
        assert len(group["targets"]) == 1, "the id names one server"
    ignored = (ROOT / "prometheus/file_sd/.gitignore").read_text()
    for sd in ("servers", "dcgm"):
        assert f"/{sd}.yml" in ignored
        assert (ROOT / f"prometheus/file_sd/{sd}.example.yml").exists()


def test_grafana_finds_prometheus_the_alertmanager_and_the_boards() -> None:
    sources = load_yaml("grafana/provisioning/datasources/tritonscope.yml")["datasources"]
    addresses = {source["type"]: urlsplit(source["url"]) for source in sources}
    assert set(addresses) == {"prometheus", "alertmanager"}
    for kind, address in addresses.items():
        assert (address.hostname, {address.port}) == (kind, LISTENS[kind])
    assert len({source["uid"] for source in sources}) == 2
    [prometheus] = [source for source in sources if source["type"] == "prometheus"]
    assert prometheus["isDefault"] is True
    assert prometheus["jsonData"]["timeInterval"] == PROMETHEUS["global"]["scrape_interval"]
    [provider] = load_yaml("grafana/provisioning/dashboards/tritonscope.yml")["providers"]
    assert ("grafana", "./grafana/dashboards", provider["options"]["path"]) in bind_mounts(STACK)


def test_alertmanager_groups_by_workload_and_sends_nothing_by_itself() -> None:
    config = load_yaml("prometheus/alertmanager.yml")
    route = config["route"]
    assert {"workload", "alertname"} <= set(route["group_by"])
    assert "model" not in route["group_by"]
    severities = {step["matchers"][0].split('"')[1]: step["receiver"] for step in route["routes"]}
    assert severities == {"page": "page", "info": "info"}
    assert route["receiver"] == "ticket"
    assert config["receivers"] == [{"name": "page"}, {"name": "ticket"}, {"name": "info"}]


def test_an_alert_without_a_workload_silences_nothing() -> None:
    rules = load_yaml("prometheus/alertmanager/inhibition.yml")["inhibit_rules"]
    assert load_yaml("prometheus/alertmanager.yml")["inhibit_rules"] == rules
    for rule in rules:
        assert 'workload=~".+"' in rule["source_matchers"]
        assert {"cluster", "namespace", "workload"} <= set(rule["equal"])


def test_the_key_has_one_header_name() -> None:
    script = (ROOT / "compose/triton_server.sh").read_text()
    [server] = load_settings({"TRITON_ADMIN_KEY": "k"}, ROOT / "compose/tritonscope.yml").servers
    assert re.findall(r"model-repository,trace,logging:([\w-]+)=", script) == list(server.headers) * 2
