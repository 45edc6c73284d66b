"""Writes a trained model folder: encoder, heads and manifest, complete or not at all."""

from __future__ import annotations

import json
import os
import shutil
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from service.errors import InvalidInput
from service.inference.model.files import hash_file
from service.inference.model.manifest import CROSS_FITTED_VERSION, DEFAULT_MAX_LENGTH, MANIFEST_FILE
from service.inference.model.scratch_folder import write_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from service.inference.heads.weights import HeadWeights
    from service.inference.model.encoder_folder import EncoderFolder
    from service.training.sentences import TrainingSet

HEADS_FILE = "heads.npz"
VERSIONS = ("numpy", "onnxruntime", "scipy", "tokenizers")


def write_model_folder(
    out: Path,
    *,
    name: str,
    data: TrainingSet,
    weights: HeadWeights,
    encoder: EncoderFolder | None,
    held_out: Mapping[str, Any],
    held_out_types: Mapping[str, Any],
    figures: Mapping[str, Any],
    training: Mapping[str, Any],
) -> None:
    """Writes all of the folder or nothing. An old model is replaced; of two writers the later one wins."""
    with write_folder(out, replace=True) as scratch:
        files = {"heads": HEADS_FILE}
        weights.save(scratch / HEADS_FILE)
        content: dict[str, Any] = {
            "name": name,
            "format": CROSS_FITTED_VERSION,
            "kind": "cross-fitted",
            "labels": list(data.classes),
            "scheme": data.scheme.value,
            "unscored_types": list(data.unscored_types),
            "max_length": DEFAULT_MAX_LENGTH,
            "invariant": "exact",
        }
        if encoder is not None:
            for file in encoder.list_files():
                target = scratch / file.relative_to(encoder.path)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
            files = {role: file for role, file in encoder.manifest.files.items() if role != "weights"} | files
            content |= {
                "max_length": encoder.max_length,
                "joining": encoder.joining,
                "ort_level": encoder.manifest.ort_level,
                "invariant": encoder.manifest.invariant,
                "pad_id": encoder.pad_id,
            }
        content["files"] = files
        written = sorted(file for file in scratch.rglob("*") if file.is_file())
        content["sha256"] = {file.relative_to(scratch).as_posix(): hash_file(file) for file in written}
        content |= {
            "held_out": dict(held_out),
            "held_out_types": dict(held_out_types),
            "figures": dict(figures),
            "training": dict(training),
            "versions": {package: version(package) for package in VERSIONS},
        }
        manifest = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (scratch / MANIFEST_FILE).write_text(manifest, encoding="utf-8")


def check_model_target(out: Path) -> None:
    """Fails if no model could be written to `out`. Call it before training, which takes minutes."""
    if out.exists() and not (out / MANIFEST_FILE).is_file():
        raise InvalidInput(f"{out} exists and is not a model folder: choose another name", field="name")
    folder = next(path for path in out.parents if path.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidInput(
            f"no folder can be created in {folder}: set LABELWATCH_MODELS_PATH to a folder that can be written to",
            field="name",
        )
