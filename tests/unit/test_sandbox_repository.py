"""How the working repository is derived from the example models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sandbox import FAULT_MODELS, SandboxError
from sandbox.options import PROJECT_ROOT
from sandbox.repository import GPU_SIMULATOR, choose_models, derive_config, ensemble_steps, model_sources

SOURCES = model_sources(PROJECT_ROOT)
GPU_CONTAINER_MODELS = {
    "batch_add_model", "batch_cost_model", "resnet18", "label_head", "ensemble_pipeline",
}  # fmt: skip


def config_of(folder: Path) -> str:
    """A model's config.pbtxt without its comments."""
    return re.sub(r"#.*", "", (folder / "config.pbtxt").read_text(encoding="utf-8"))


def test_the_models_of_the_container_and_of_the_sandbox_alone() -> None:
    shared = {name for name, folder in SOURCES.items() if folder.parent.name == "model_repository"}
    assert shared == GPU_CONTAINER_MODELS
    assert set(SOURCES) - shared == {"bert_qa", "filetype", GPU_SIMULATOR}
    assert not set(FAULT_MODELS) & set(SOURCES)


@pytest.mark.parametrize("name", sorted({**SOURCES, **FAULT_MODELS}))
def test_every_config_names_its_folder_and_explains_itself(name: str) -> None:
    folder = {**SOURCES, **FAULT_MODELS}[name]
    assert re.search(rf'^name: "{name}"$', config_of(folder), flags=re.MULTILINE)
    assert (folder / "config.pbtxt").read_text(encoding="utf-8").startswith("# ")


def test_onnx_models_stay_as_the_gpu_container_wants_them_in_git() -> None:
    for name in ("resnet18", "label_head"):
        config = config_of(SOURCES[name])
        assert 'backend: "onnxruntime"' in config
        assert "KIND_AUTO" in config
    assert "RANDOM WEIGHTS" in (SOURCES["resnet18"] / "config.pbtxt").read_text(encoding="utf-8")


def test_an_onnx_config_becomes_a_python_one_on_the_cpu_and_nothing_else_changes() -> None:
    before = config_of(SOURCES["resnet18"])
    after = derive_config(before, name=None, parameters={})
    assert after == before.replace('"onnxruntime"', '"python"').replace("KIND_AUTO", "KIND_CPU")
    assert after != before


def test_the_platform_spelling_of_onnx_and_kind_gpu_are_rewritten_too() -> None:
    text = 'name: "m"\nplatform: "onnxruntime_onnx"\ninstance_group [ { kind: KIND_GPU } ]\n'
    assert derive_config(text, name=None, parameters={}) == (
        'name: "m"\nbackend: "python"\ninstance_group [ { kind: KIND_CPU } ]\n'
    )


def test_an_ensemble_and_a_cpu_python_model_are_copied_as_they_are() -> None:
    for name in ("ensemble_pipeline", "batch_add_model"):
        config = config_of(SOURCES[name])
        assert derive_config(config, name=None, parameters={}) == config


def test_renaming_changes_the_model_not_its_tensors() -> None:
    config = derive_config(config_of(SOURCES["batch_add_model"]), name="second", parameters={})
    assert config.count('"second"') == 1
    assert 'name: "second"' in config
    assert 'name: "INPUT_A"' in config


def test_a_parameter_is_replaced_where_it_stands_or_added() -> None:
    written = config_of(SOURCES["batch_cost_model"])
    changed = derive_config(written, name=None, parameters={"execution_cost_us": "1", "new": 'say "\\d"'})
    assert '{ key: "execution_cost_us" value: { string_value: "1" } }' in changed
    assert '{ key: "row_cost_us" value: { string_value: "300" } }' in changed
    assert changed.endswith('parameters { key: "new" value: { string_value: "say \\"\\\\d\\"" } }\n')


def test_an_ensemble_brings_its_steps_and_the_gpu_simulator_is_a_choice() -> None:
    assert ensemble_steps(SOURCES["ensemble_pipeline"]) == ["resnet18", "label_head"]
    chosen = choose_models(PROJECT_ROOT, ("ensemble_pipeline",), simulated_gpu=False)
    assert set(chosen) == {"ensemble_pipeline", "resnet18", "label_head"}
    assert GPU_SIMULATOR in choose_models(PROJECT_ROOT, ("batch_add_model",), simulated_gpu=True)
    assert set(choose_models(PROJECT_ROOT, None, simulated_gpu=True)) == set(SOURCES)


def test_an_unknown_model_is_named_with_the_known_ones() -> None:
    with pytest.raises(SandboxError, match=r"no model 'resnet50'; it has .*resnet18"):
        choose_models(PROJECT_ROOT, ("resnet50",), simulated_gpu=False)
