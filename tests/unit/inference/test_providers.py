"""Execution providers: which are accepted, and what an error says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnxruntime as ort
import pytest

from service.errors import ModelError, SettingsError
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.inference.providers import CPU_ONLY, PROVIDERS, check_started, parse_providers

if TYPE_CHECKING:
    from pathlib import Path


MISSING = next(name for name, each in PROVIDERS.items() if each.ort_name not in ort.get_available_providers())


def test_providers_are_named_in_order_and_once() -> None:
    assert parse_providers(" CPU, cpu ,") == CPU_ONLY
    known = {each.ort_name for each in PROVIDERS.values()}
    assert known <= set(ort.get_all_providers())


def test_the_names_that_onnxruntime_has_are_understood_in_any_case() -> None:
    assert parse_providers("CPUExecutionProvider, cpu, cpuexecutionprovider") == CPU_ONLY
    for name, provider in PROVIDERS.items():
        problems = []
        for text in (name, provider.ort_name, provider.ort_name.upper()):
            try:
                problems.append(str(parse_providers(text)))
            except SettingsError as error:
                problems.append(str(error))
        assert len(set(problems)) == 1


def test_a_provider_that_onnxruntime_lacks_is_refused_with_the_package_to_install() -> None:
    with pytest.raises(SettingsError) as refused:
        parse_providers(f"{MISSING},cpu")
    assert str(refused.value) == (
        f"LABELWATCH_MODEL_PROVIDERS: the installed onnxruntime has no {PROVIDERS[MISSING].ort_name}: install "
        f"{PROVIDERS[MISSING].package} in place of onnxruntime, or remove {MISSING}"
    )


@pytest.mark.parametrize("text", ["gpu", "", " , "])
def test_an_unknown_or_missing_name_is_refused_with_the_names(text: str) -> None:
    with pytest.raises(SettingsError, match="cpu, cuda, tensorrt, openvino"):
        parse_providers(text)


def test_a_provider_that_does_not_start_is_an_error() -> None:
    check_started(CPU_ONLY, ["AzureExecutionProvider", *CPU_ONLY])
    with pytest.raises(ModelError, match="CUDAExecutionProvider did not start"):
        check_started(["CUDAExecutionProvider", *CPU_ONLY], CPU_ONLY)


def test_a_session_has_the_providers_it_was_given(tiny_model: Path) -> None:
    folder = ModelFolder.load(tiny_model)
    classifier = Classifier(folder, providers=["AzureExecutionProvider", *CPU_ONLY])
    assert classifier.batching == Classifier(folder).batching
    with pytest.raises(ModelError, match="did not start"), pytest.warns(UserWarning, match="not in available"):
        Classifier(folder, providers=[PROVIDERS[MISSING].ort_name, *CPU_ONLY])
