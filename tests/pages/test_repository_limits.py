"""The page Repository at its limits: a server that is away, a configuration beyond what the form offers."""

from __future__ import annotations

import re
import time

import runtime
from collectors.config import parse_config
from telemetry.errors import Unreachable
from telemetry.scrape import Scrape, Source
from tests.pages.write_side import ConfigsOnly, install, open_page, panel, recorded


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).strip()


def test_the_first_line_is_not_fine_while_the_server_does_not_answer() -> None:
    install()
    assert "ts-dot ok" in panel(open_page("test_request", server="lab", model="fast_add"), "header")
    for source in (Source.METRICS, Source.STATISTICS, Source.INDEX, Source.METADATA, Source.CONFIG):
        error = Unreachable("lab is not reachable: connection refused")
        runtime.current().accept(Scrape("lab", source, time.time(), 0.01, error=error))
    for address in ("repository", "test_request", "load_runs"):
        header = panel(open_page(address, server="lab", model="fast_add"), "header")
        assert "ts-dot ok" not in header, address
    assert "as lab told before it stopped answering" in words(panel(open_page("repository"), "header"))


def test_values_beyond_what_the_form_offers_are_shown_and_break_nothing() -> None:
    control = install()
    raw = recorded("config_fast_add") | {
        "max_batch_size": 100_000,
        "version_policy": {"latest": {"num_versions": 2_000_000}},
        "dynamic_batching": {
            "preferred_batch_size": [4],
            "max_queue_delay_microseconds": 90_000_000,
            "default_queue_policy": {
                "timeout_action": "DELAY", "default_timeout_microseconds": 2**40, "max_queue_size": 2**31,
            },
        },
        "instance_group": [{"name": "g", "kind": "KIND_NEW", "count": 1000, "gpus": []}],
    }  # fmt: skip
    assert isinstance(control.reader, ConfigsOnly)
    control.reader._configs["fast_add"] = parse_config(raw)
    page = open_page("repository", do="override", on="lab", what="fast_add")
    assert not page.exception
    assert page.number_input(key="override_max_batch_size").value == 100_000
    assert page.number_input(key="override_delay").value == 90_000_000
    assert page.number_input(key="override_count_0").value == 1000
    assert page.selectbox(key="override_kind_0").value == "KIND_NEW"
    assert "max_batch_size must be 0 to 65,536, it is 100,000" in words(panel(page, "difference"))
    assert page.button(key="go").disabled
