"""A model folder: its files and settings, verified by their digests. The classifier opens and tests its graph.

Two kinds can be loaded: folders with a `model.json`, and exports of Hugging Face tools (model.onnx, tokenizer.json and
config.json with id2label). An unusable folder is a ModelError that says what to change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from service.contracts import BudgetPolicy, ConfidentPolicy
from service.errors import ModelError
from service.inference.model.files import find_external_data, hash_json, resolve_inside, verify_digests
from service.inference.model.manifest import (
    MANIFEST_FILE,
    HeldOutSums,
    Joining,
    Manifest,
    OrtLevel,
    Precision,
    read_held_out_f1,
    read_manifest,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from service.contracts import FlagPolicy
    from service.inference.pooling import Pooling
    from service.labels.schemes import Scheme

__all__ = ["HeldOutSums", "Joining", "ModelFolder", "Precision"]


TRAINED_BUDGET_SHARE = 0.05
# Keys without influence on the probabilities: a renamed folder keeps its statistics.
_INFORMATIONAL_KEYS = frozenset({"name", "figures", "versions", "training"})


@dataclass(frozen=True, slots=True, eq=False)
class ModelFolder:
    """A model folder whose files are complete and match their manifest. Two are equal only if they are one object."""

    path: Path
    name: str
    labels: tuple[str, ...]
    scheme: Scheme
    precision: Precision
    graph: Path | None  # none: heads over hashed features alone
    tokenizer: Path | None
    heads: Path | None
    unscored_types: tuple[str, ...]
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
    held_out_f1: float | None = None  # entity F1 on sentences that it was not trained on, if its manifest says so

    @classmethod
    def load(cls, path: Path, *, precision: Precision = "fast") -> ModelFolder:
        if not path.is_dir():
            raise ModelError(f"{path} is not a folder: name the folder that holds the model")
        manifest, content = read_manifest(path)
        heads = _resolve_file(path, manifest, "heads") if manifest.kind == "cross-fitted" else None
        graph = tokenizer = None
        files = [] if heads is None else [heads]
        if heads is None or "tokenizer" in manifest.files:
            graph = _resolve_file(path, manifest, precision)
            tokenizer = _resolve_file(path, manifest, "tokenizer")
            files = [graph, *find_external_data(graph), tokenizer, *files]
        digests = verify_digests(path, files, manifest.sha256, described_by=MANIFEST_FILE)
        return cls(
            path=path,
            name=manifest.name,
            labels=manifest.labels,
            scheme=manifest.scheme,
            precision=precision,
            graph=graph,
            tokenizer=tokenizer,
            heads=heads,
            unscored_types=manifest.unscored_types,
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
            fingerprint=hash_json(list(digests.values())),
            _manifest_digest=hash_json(
                {key: value for key, value in content.items() if key not in _INFORMATIONAL_KEYS}
            ),
            held_out_f1=read_held_out_f1(content),
        )

    @property
    def is_trained(self) -> bool:
        """Whether `labelwatch train` wrote it."""
        return self.heads is not None

    @property
    def default_flag_policy(self) -> FlagPolicy:
        """Flags of trained heads are less precise than their order: by default the worst ones go to review."""
        return BudgetPolicy(kind="budget", share=TRAINED_BUDGET_SHARE) if self.is_trained else ConfidentPolicy()

    @property
    def tokenizer_file(self) -> Path:
        if self.tokenizer is None:
            raise ModelError(f"{self.path} has no tokenizer: its heads read words only")
        return self.tokenizer

    def compute_stats_key(self, pooling: Pooling | None, classes: Sequence[str]) -> str:
        """The key of the statistics of these probabilities. A change that alters the probabilities changes the key."""
        pooling = pooling or self.pooling
        return hash_json([self.fingerprint, self._manifest_digest, pooling, self.joining, list(classes)])[:16]


def _resolve_file(folder: Path, manifest: Manifest, role: str) -> Path:
    name = manifest.files.get(role)
    if name is None:
        precisions = ", ".join(sorted(set(manifest.files) - {"tokenizer", "heads"})) or "none"
        missing = role if role in {"tokenizer", "heads"} else f"graph of precision {role!r}"
        raise ModelError(
            f"{folder} has no {missing} (precisions it has: {precisions}): choose another or add it to its model.json"
        )
    return resolve_inside(folder, name, referenced_by=MANIFEST_FILE)
