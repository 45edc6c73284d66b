"""The manifest of a model folder: `model.json`, or one derived from the `config.json` of a Hugging Face export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from service.contracts.validation import to_invalid_input
from service.errors import InvalidInput, ModelError
from service.inference.model.files import read_json_object
from service.inference.pooling import Pooling
from service.labels.detection import detect_class_scheme, merge_by_type
from service.labels.schemes import Scheme

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Precision = Literal["fast", "exact"]
Joining = Literal["words", "text"]
OrtLevel = Literal["basic", "all"]

MANIFEST_FILE = "model.json"
CONFIG_FILE = "config.json"
TOKENIZER_FILE = "tokenizer.json"
MANIFEST_VERSION = 1
CROSS_FITTED_VERSION = 2  # a labelwatch that knows no trained heads refuses the folder
GRAPH_FILES = ("model.onnx", "onnx/model.onnx")
MIN_LENGTH = 8
DEFAULT_MAX_LENGTH = 512

# Their positions start after the padding's id: the first pad + 1 rows of the position table belong to no token.
_POSITIONS_AFTER_PADDING = frozenset(
    {
        "camembert",
        "data2vec-text",
        "esm",
        "ibert",
        "longformer",
        "mpnet",
        "roberta",
        "roberta-prelayernorm",
        "xlm-roberta",
    }
    | {"xlm-roberta-xl", "xmod"}
)


class HeldOutSums(BaseModel):
    """Per class: the sum of its probability over held-out words with that label, and their number."""

    model_config = ConfigDict(frozen=True)

    sums: tuple[float, ...]
    counts: tuple[int, ...]


class Manifest(BaseModel):
    """`model.json`, without the fields that are for people only (figures, versions)."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(min_length=1)
    format: Literal[1, 2]
    kind: Literal["classifier", "cross-fitted"] = "classifier"
    labels: tuple[str, ...] = Field(min_length=2)
    scheme: Scheme
    max_length: int = Field(ge=MIN_LENGTH)
    casing_classes: bool = False
    joining: Joining = "words"
    pooling: Pooling = "mean"
    capitalise_caps: bool = False
    ort_level: OrtLevel = "all"
    invariant: Literal["exact", "close"] = "close"
    pad_id: int | None = Field(default=None, ge=0)
    files: dict[str, str]
    sha256: dict[str, str] = Field(default_factory=dict)
    held_out: HeldOutSums | None = None
    unscored_types: tuple[str, ...] = ()  # types with too few examples to train: their words are not judged
    held_out_types: HeldOutSums | None = (
        None  # of classes merged to types: their sums can't be computed from `held_out`
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Manifest:
        if len(set(self.labels)) < len(self.labels):
            raise ValueError("`labels` names a class twice")
        if (self.format == CROSS_FITTED_VERSION) != (self.kind == "cross-fitted"):
            raise ValueError(f'`format` {CROSS_FITTED_VERSION} goes with `kind` "cross-fitted"')
        if self.capitalise_caps and self.joining != "text":
            raise ValueError('`capitalise_caps` goes with `joining` "text" only')
        types = len(merge_by_type(self.labels, self.scheme)[0])
        for name, held_out, size in (
            ("held_out", self.held_out, len(self.labels)),
            ("held_out_types", self.held_out_types, types),
        ):
            if held_out is None:
                continue
            if not len(held_out.sums) == len(held_out.counts) == size:
                raise ValueError(f"`{name}` needs {size} sums and as many counts")
            if any(
                not 0 <= total <= count * (1 + 1e-6)
                for total, count in zip(held_out.sums, held_out.counts, strict=True)
            ):
                raise ValueError(f"`{name}` has a sum that is negative or larger than its count")
        return self


def read_held_out_f1(content: Mapping[str, Any]) -> float | None:
    """The F1 in `figures` of a manifest: cross-validated (`f1`, of `labelwatch train`) or of a test set (`test_f1`)."""
    figures = content.get("figures")
    if not isinstance(figures, dict):
        return None
    f1 = figures.get("f1", figures.get("test_f1"))
    return float(f1) if isinstance(f1, float | int) and not isinstance(f1, bool) and 0 <= f1 <= 1 else None


def read_manifest(folder: Path) -> tuple[Manifest, dict[str, Any]]:
    """The manifest, and the whole content of its file, which goes into the digest."""
    if (folder / MANIFEST_FILE).exists():
        content = read_json_object(folder / MANIFEST_FILE)
        return _validate_manifest(content, folder / MANIFEST_FILE), content
    if not (folder / CONFIG_FILE).exists():
        raise ModelError(
            f"{folder} has neither {MANIFEST_FILE} nor {CONFIG_FILE}: name a folder with model.onnx, tokenizer.json and config.json, "
            "as Hugging Face tools export it"
        )
    content = _derive_manifest(folder)
    return _validate_manifest(content, folder / CONFIG_FILE), content


def _validate_manifest(content: dict[str, Any], path: Path) -> Manifest:
    version = content.get("format")
    if isinstance(version, int) and version > CROSS_FITTED_VERSION:
        raise ModelError(
            f"{path} is of format {version}, this labelwatch reads up to {CROSS_FITTED_VERSION}: use a newer labelwatch"
        )
    try:
        return Manifest.model_validate(content)
    except ValidationError as error:
        raise ModelError(f"{path}: {to_invalid_input(error)}; correct it or export it again") from error


def _derive_manifest(folder: Path) -> dict[str, Any]:
    config = read_json_object(folder / CONFIG_FILE)
    labels = _read_labels(config, folder / CONFIG_FILE)
    try:
        scheme = detect_class_scheme(labels)
    except InvalidInput as error:
        raise ModelError(f"{folder / CONFIG_FILE}: the scheme of the labels can't be detected: {error}") from error
    graph = next((name for name in GRAPH_FILES if (folder / name).is_file()), None)
    if graph is None:
        raise ModelError(
            f"{folder / GRAPH_FILES[0]} is missing: export the model to ONNX (optimum-cli export onnx) into the folder"
        )
    if not (folder / TOKENIZER_FILE).is_file():
        raise ModelError(
            f"{folder / TOKENIZER_FILE} is missing: save the model's fast tokenizer into the folder (save_pretrained does); "
            "a vocabulary alone does not say how words are cut"
        )
    pad = config.get("pad_token_id")
    return {
        "name": folder.resolve().name or "model",
        "format": MANIFEST_VERSION,
        "labels": labels,
        "scheme": scheme.value,
        "max_length": _choose_max_length(folder, config, pad),
        "pad_id": pad if isinstance(pad, int) and pad >= 0 else None,
        "files": {"fast": graph, "tokenizer": TOKENIZER_FILE},
    }


def _read_labels(config: dict[str, Any], path: Path) -> list[str]:
    names = config.get("id2label")
    if not isinstance(names, dict) or not names:
        raise ModelError(f"{path} has no id2label: add the class names in the order of the model's outputs")
    try:
        by_id = {int(key): name for key, name in names.items()}
    except ValueError as error:
        raise ModelError(
            f"{path}: id2label has a key that is not a number ({error}): number the classes from 0"
        ) from error
    missing = sorted(set(range(len(by_id))) - by_id.keys())
    if missing or len(by_id) < len(names):
        raise ModelError(
            f"{path}: id2label has {len(names)} names but none for class {missing[0] if missing else 'each'}: "
            "number the classes from 0 without holes"
        )
    wrong = next((name for name in by_id.values() if not isinstance(name, str)), None)
    if wrong is not None:
        raise ModelError(f"{path}: id2label has {wrong!r} where a class name is expected: write it as a string")
    return [by_id[index] for index in range(len(by_id))]


def _choose_max_length(folder: Path, config: dict[str, Any], pad: object) -> int:
    """The size of the position table or the tokenizer's own limit, whichever is lower; never over the default.

    Models with room for thousands of tokens still learn entities from sentences, and attention over one window of
    8,192 tokens takes a gigabyte: long sentences use overlapping windows instead. A model.json may say otherwise.
    """
    limits = []
    positions = config.get("max_position_embeddings", config.get("n_positions"))
    if isinstance(positions, int) and positions > 0:
        if config.get("model_type") in _POSITIONS_AFTER_PADDING:
            positions -= 1 + (pad if isinstance(pad, int) and pad >= 0 else 1)
        limits.append(positions)
    settings = folder / "tokenizer_config.json"
    if settings.is_file():
        longest = read_json_object(settings).get("model_max_length")
        if isinstance(longest, int) and 0 < longest < 1 << 20:  # exporters write 1e30 for "no limit"
            limits.append(longest)
    return min([DEFAULT_MAX_LENGTH, *limits])
