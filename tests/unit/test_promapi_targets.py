"""Who is who in a Prometheus: servers, HA copies, renamed labels, equal instances in two clusters."""

from __future__ import annotations

from history.promapi_targets import Targets, targets_of
from telemetry.identity import Server
from telemetry.prometheus_endpoint import PrometheusEndpoint

PLAIN = PrometheusEndpoint("http://prom:9090")


def labels(instance: str, **more: str) -> dict[str, str]:
    return {"instance": instance, "job": "triton", **more}


def test_every_instance_is_a_server_and_its_workload_the_label_or_the_job() -> None:
    found = targets_of(
        PLAIN,
        (),
        [labels("b:8002", workload="search"), labels("a:8002"), labels("c:8002", namespace="ml")],
    )
    assert [(one.server, one.workload, one.alive) for one in found.targets] == [
        ("a:8002", "triton", True),
        ("b:8002", "search", True),
        ("c:8002", "ml/triton", True),
    ]
    assert found.group == ("instance",) and found.duplicates == ()


def test_two_prometheus_of_a_pair_are_one_server_counted_once() -> None:
    pair = [labels("a:8002", prometheus_replica=one, prometheus="mon/k8s") for one in ("k8s-0", "k8s-1")]
    found = targets_of(PLAIN, (), pair)
    (target,) = found.targets
    assert found.duplicates == ("prometheus_replica",)
    assert [copy["prometheus_replica"] for copy in target.copies] == ["k8s-0", "k8s-1"]
    assert "prometheus_replica" not in target.labels


def test_two_jobs_that_read_the_same_page_are_copies_too() -> None:
    rows = [
        labels("a:8002", job="pods", endpoint="metrics", namespace="ml", pod="t-0"),
        labels("a:8002", job="triton", endpoint="http", namespace="ml", pod="t-0"),
    ]
    found = targets_of(PLAIN, (), rows)
    assert len(found.targets) == 1 and found.duplicates == ("endpoint", "job")


def test_a_configured_replica_label_counts_also_while_only_one_replica_is_there() -> None:
    endpoint = PrometheusEndpoint("http://p", replica_label="ha")
    found = targets_of(endpoint, (), [labels("a:8002", ha="1")])
    assert found.duplicates == ("ha",) and found.targets[0].labels == {"instance": "a:8002"}


def test_the_same_instance_in_two_clusters_is_two_servers_with_names_that_differ() -> None:
    found = targets_of(
        PLAIN,
        (),
        [labels("10.0.0.1:8002", cluster=one) for one in ("eu", "us")] + [labels("b:8002", cluster="eu")],
    )
    assert [one.server for one in found.targets] == ["b:8002", "eu/10.0.0.1:8002", "us/10.0.0.1:8002"]
    assert found.group == ("instance", "cluster") and found.duplicates == ()
    assert found.server_of({"instance": "10.0.0.1:8002", "cluster": "us"}) == "us/10.0.0.1:8002"
    assert found.selecting("eu/10.0.0.1:8002") == (("instance", "10.0.0.1:8002"), ("cluster", "eu"))


def operator() -> Targets:
    server = Server("search-0", None, None, workload="search", match=(("namespace", "ml"), ("pod", "t-0")))
    rows = [labels(f"10.0.0.{one}:8002", namespace="ml", pod=f"t-{one}", service="triton") for one in (0, 1)]
    return targets_of(PLAIN, (server,), rows)


def test_a_configured_server_is_found_by_its_match_and_others_keep_their_instance() -> None:
    found = operator()
    assert [one.server for one in found.targets] == ["10.0.0.1:8002", "search-0"]
    mine = found.get("search-0")
    assert mine is not None and mine.workload == "search"
    assert found.selecting("search-0") == (("namespace", "ml"), ("pod", "t-0"))
    assert found.server_of({"namespace": "ml", "pod": "t-0", "instance": "10.9.9.9:8002"}) == "search-0"


def test_a_link_may_name_id_instance_or_pod() -> None:
    found = operator()
    for text in ("search-0", "10.0.0.0:8002", "t-0"):
        target = found.find(text)
        assert target is not None and target.server == "search-0"
    other = found.find("t-1")
    assert other is not None and other.server == "10.0.0.1:8002"
    assert found.find("t-9") is None


def test_a_configured_server_without_match_is_that_of_its_metrics_address() -> None:
    server = Server("mine", "http://h:8000", "http://h:8002")
    found = targets_of(PLAIN, (server,), [labels("h:8002")])
    assert [one.server for one in found.targets] == ["mine"]
    assert found.selecting("mine") == (("instance", "h:8002"),)


def test_a_server_that_is_gone_stays_known_but_not_one_whose_address_lives_on_under_other_labels() -> None:
    live = [labels("a:8002", pod="new")]
    recent = [labels("a:8002", pod="old"), labels("gone:8002", pod="x"), labels("a:8002", pod="new")]
    found = targets_of(PLAIN, (), live, recent)
    assert [(one.server, one.alive) for one in found.targets] == [("a:8002", True), ("gone:8002", False)]


def test_an_unknown_id_is_asked_for_by_the_server_label() -> None:
    assert targets_of(PLAIN, (), []).selecting("x:1") == (("instance", "x:1"),)
    assert targets_of(PLAIN, (), []).server_of({"instance": "y:1"}) == "y:1"
    assert targets_of(PLAIN, (), []).server_of({}) == ""
