"""Execution providers of onnxruntime: what runs a graph, such as the CPU or a GPU.

onnxruntime falls back to the CPU without an error if a provider is missing or does not start. Here both are errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import onnxruntime as ort

from service.errors import ModelError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

SETTING: Final = "LABELWATCH_MODEL_PROVIDERS"


class Provider(NamedTuple):
    ort_name: str
    package: str  # the package on PyPI that contains it


PROVIDERS: Final = {
    "cpu": Provider("CPUExecutionProvider", "onnxruntime"),
    "cuda": Provider("CUDAExecutionProvider", "onnxruntime-gpu"),
    "tensorrt": Provider("TensorrtExecutionProvider", "onnxruntime-gpu"),
    "openvino": Provider("OpenVINOExecutionProvider", "onnxruntime-openvino"),
    "coreml": Provider("CoreMLExecutionProvider", "onnxruntime (on macOS)"),
    "directml": Provider("DmlExecutionProvider", "onnxruntime-directml"),
    "migraphx": Provider("MIGraphXExecutionProvider", "onnxruntime-migraphx"),
}
CPU_ONLY: Final = (PROVIDERS["cpu"].ort_name,)
ALIASES: Final = {provider.ort_name.lower(): name for name, provider in PROVIDERS.items()}


def parse_providers(text: str) -> tuple[str, ...]:
    """The names that onnxruntime has for comma separated providers, the preferred one first.

    Those names are understood too, in any case. Raises `SettingsError` for one that is unknown, or that the installed
    onnxruntime does not contain.
    """
    names = [ALIASES.get(name, name) for part in text.split(",") if (name := part.strip().lower())]
    for name in names:
        if name not in PROVIDERS:
            raise SettingsError(f"{SETTING}: {name!r} is not one of {', '.join(PROVIDERS)}")
    if not names:
        raise SettingsError(f"{SETTING}: name at least one of {', '.join(PROVIDERS)}")
    available = ort.get_available_providers()
    for name in names:
        ort_name, package = PROVIDERS[name]
        if ort_name not in available:
            raise SettingsError(
                f"{SETTING}: the installed onnxruntime has no {ort_name}: install {package} in place of onnxruntime, or "
                f"remove {name}"
            )
    return tuple(PROVIDERS[name].ort_name for name in dict.fromkeys(names))


def check_started(requested: Sequence[str], started: Sequence[str]) -> None:
    """Raises `ModelError` if a session runs without a provider that was requested."""
    missing = [name for name in requested if name not in started]
    if missing:
        raise ModelError(
            f"{', '.join(missing)} did not start: check its driver and libraries, or remove it from {SETTING}"
        )
