"""A model folder: what it holds, and that it is whole. Its graph is opened and tried by the classifier.

Two kinds are read: ours with a `model.json`, and any export of Hugging Face tools (model.onnx, tokenizer.json and
config.json with id2label). Whatever is wrong with one is a ModelError that says what, and what to do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from service.errors import ModelError
from service.inference.model.files import find_external_data, hash_file, hash_json, resolve_inside
from service.inference.model.manifest import (
    MANIFEST_FILE,
    HeldOutSums,
    Joining,
    Manifest,
    OrtLevel,
    Precision,
    read_manifest,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from service.inference.pooling import Pooling
    from service.labels.schemes import Scheme

__all__ = ["HeldOutSums", "Joining", "ModelFolder", "Precision"]


# What says nothing of how probabilities are made: a folder that is renamed keeps its statistics.
_INFORMATIONAL_KEYS = frozenset({"name", "figures", "versions"})


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A folder whose files are all there and as their manifest says."""

    path: Path
    name: str
    labels: tuple[str, ...]
    scheme: Scheme
    precision: Precision
    graph: Path
    tokenizer: Path
    max_length: int
    casing_classes: bool
    joining: Joining
    capitalise_caps: bool
    pooling: Pooling
    ort_level: OrtLevel
    exactly_invariant: bool
    pad_id: int | None
    held_out: HeldOutSums | None
    held_out_types: HeldOutSums | None
    fingerprint: str
    _manifest_digest: str = field(repr=False)

    @classmethod
    def load(cls, path: Path, *, precision: Precision = "fast") -> ModelFolder:
        if not path.is_dir():
            raise ModelError(f"{path} is not a folder: name the folder that holds the model")
        manifest, content = read_manifest(path)
        graph = _resolve_file(path, manifest, precision)
        tokenizer = _resolve_file(path, manifest, "tokenizer")
        sums = {file: hash_file(file) for file in (graph, *find_external_data(graph), tokenizer)}
        _verify_digests(path, manifest, sums)
        return cls(
            path=path,
            name=manifest.name,
            labels=manifest.labels,
            scheme=manifest.scheme,
            precision=precision,
            graph=graph,
            tokenizer=tokenizer,
            max_length=manifest.max_length,
            casing_classes=manifest.casing_classes,
            joining=manifest.joining,
            capitalise_caps=manifest.capitalise_caps,
            pooling=manifest.pooling,
            ort_level=manifest.ort_level,
            exactly_invariant=manifest.invariant == "exact",
            pad_id=manifest.pad_id,
            held_out=manifest.held_out,
            held_out_types=manifest.held_out_types,
            fingerprint=hash_json(list(sums.values())),
            _manifest_digest=hash_json(
                {key: value for key, value in content.items() if key not in _INFORMATIONAL_KEYS}
            ),
        )

    def compute_stats_key(self, pooling: Pooling, classes: Sequence[str]) -> str:
        """Names the statistics that go with these probabilities: whatever changes them changes the key."""
        return hash_json([self.fingerprint, self._manifest_digest, pooling, self.joining, list(classes)])[:16]


def _resolve_file(folder: Path, manifest: Manifest, role: str) -> Path:
    name = manifest.files.get(role)
    if name is None:
        has = ", ".join(sorted(set(manifest.files) - {"tokenizer"})) or "none"
        wanted = "tokenizer" if role == "tokenizer" else f"graph of precision {role!r}"
        raise ModelError(
            f"{folder} has no {wanted} (precisions it has: {has}): choose another or add it to its model.json"
        )
    return resolve_inside(folder, name, referenced_by=MANIFEST_FILE)


def _verify_digests(folder: Path, manifest: Manifest, sums: dict[Path, str]) -> None:
    for file, found in sums.items():
        name = file.relative_to(folder).as_posix()
        wanted = manifest.sha256.get(name)
        if wanted is not None and wanted.lower() != found:
            raise ModelError(
                f"{file} is not the file that model.json describes (sha256 {found[:12]}…, expected {wanted[:12]}…): "
                "it is damaged or of another version; copy the folder again"
            )
