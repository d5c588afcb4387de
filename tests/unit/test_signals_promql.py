"""The PromQL text of every signal: it parses, keeps foreign labels, and follows the builder's label names."""

from __future__ import annotations

import re
from pathlib import Path

import promql_parser
import pytest

from signals.definition import LABELS, Definition, Level
from signals.definitions import DEFINITIONS, definition, of_level
from signals.evaluation import Dialect
from signals.reference import render
from telemetry.catalogue import known

ROOT = Path(__file__).parents[2]
OURS = Dialect(window="5m")
THEIRS = Dialect(
    server="pod", model="model_name", version="model_version", window="2m", matchers='cluster="prod"'
)
FAMILY = re.compile(r"\b(?:nv_|tritonscope_|DCGM_)\w+")

all_of_them = pytest.mark.parametrize("row", DEFINITIONS, ids=lambda row: f"{row.level}-{row.name}")


@all_of_them
def test_it_parses(row: Definition) -> None:
    for dialect in (OURS, THEIRS):
        assert promql_parser.parse(row.promql(dialect)) is not None


@all_of_them
def test_it_names_only_known_families(row: Definition) -> None:
    families = set(FAMILY.findall(row.promql(OURS)))
    assert families
    for family in families:
        base = re.sub(r"(?<=_summary_us)_(?:count|sum)$", "", family)
        assert known(base), family


@all_of_them
def test_every_selector_carries_the_matchers_and_the_window(row: Definition) -> None:
    text = row.promql(THEIRS)
    assert len(FAMILY.findall(text)) == text.count('cluster="prod"')
    assert "5m" not in text and "$__" not in text
    for window in re.findall(r"\[([^\]]+)\]", text):
        assert window == "2m"


@all_of_them
def test_label_names_are_the_builders(row: Definition) -> None:
    text = row.promql(THEIRS)
    for grouping in re.findall(r"\b(?:by|on|without|group_left) \(([^)]*)\)", text):
        names = {name.strip() for name in grouping.split(",") if name.strip()}
        assert not names & {"server", "instance", "model", "version"}


def test_no_division_can_give_nan() -> None:
    for row in DEFINITIONS:
        text = row.promql(OURS)
        assert text.count("> 0)") >= text.count(" / ")
        assert not re.search(r"/ \(*clamp_min", text)


def test_sums_keep_labels_that_are_not_ours() -> None:
    """`without`, not `by`: cluster, namespace and team reach the alert. Only a join over steps is by name."""
    for row in DEFINITIONS:
        text = row.promql(OURS)
        if "tritonscope_ensemble_step *" not in text and "group_left () sum by" not in text:
            assert " by (" not in text


def test_a_plain_example() -> None:
    assert definition("batch_size_mean", Level.MODEL).promql(OURS) == (
        "((sum without (gpu_uuid) (increase(nv_inference_count[5m]))"
        " unless on (instance, model) tritonscope_model_queues_itself)"
        " / ((sum without (gpu_uuid) (increase(nv_inference_exec_count[5m]))"
        " unless on (instance, model) tritonscope_model_queues_itself) > 0))"
    )


def test_names_are_unique_in_a_level_and_say_their_unit() -> None:
    for level in Level:
        names = [row.name for row in of_level(level)]
        assert len(names) == len(set(names))
    for row in DEFINITIONS:
        if "_us_" in row.name:
            assert row.unit == "us"
        if row.name.endswith("_ratio"):
            assert row.unit == "ratio"
        if "_bytes" in row.name:
            assert row.unit == "bytes"
        assert set(LABELS[row.level]).isdisjoint(row.keys)


def test_an_unknown_signal_is_an_error() -> None:
    with pytest.raises(KeyError, match="no signal 'latency'"):
        definition("latency")
    with pytest.raises(KeyError, match="of a gpu"):
        definition("pending", Level.GPU)


def test_the_reference_is_what_the_definitions_say() -> None:
    stored = (ROOT / "docs" / "signals.md").read_text(encoding="utf-8")
    assert stored == render(), "docs/signals.md is stale: run make generate"
