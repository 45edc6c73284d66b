"""Writes `model.json`: what the service has to know of a model folder, and what people want to know."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

NAME = "labelwatch-small-en"
MAX_LENGTH = 256  # as long as the sentences it was trained on; quantize.py keeps as many positions
FILES = {
    "fast": "model.onnx",
    "exact": "model.exact.onnx",
    "weights": "model.weights",
    "tokenizer": "tokenizer.json",
}


def write_manifest(
    out: Path,
    *,
    labels: Sequence[str],
    figures: Mapping[str, Any],
    held_out: Mapping[str, Any] | None,
    versions: Mapping[str, str],
    held_out_types: Mapping[str, Any] | None = None,
    name: str = NAME,
) -> None:
    """`held_out` are sums and counts per class over held-out words, `held_out_types` the same of merged classes."""
    content: dict[str, Any] = {
        "name": name,
        "format": 1,
        "labels": list(labels),
        "scheme": "iob2",
        "max_length": MAX_LENGTH,
        "casing_classes": True,
        "joining": "words",
        "pooling": "mean",
        "capitalise_caps": False,
        "ort_level": "basic",
        "invariant": "exact",
        "files": FILES,
        "sha256": {file: hashlib.sha256((out / file).read_bytes()).hexdigest() for file in FILES.values()},
    }
    for key, held in (("held_out", held_out), ("held_out_types", held_out_types)):
        if held is not None:
            content[key] = {"sums": list(held["sums"]), "counts": list(held["counts"])}
    content |= {"figures": dict(figures), "versions": dict(versions)}
    (out / "model.json").write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
