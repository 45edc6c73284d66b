"""An encoder folder: a graph that answers with hidden states of subwords, and its tokenizer. Heads are trained on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from service.contracts.validation import to_invalid_input
from service.errors import ModelError
from service.inference.model.files import find_external_data, read_json_object, resolve_inside, verify_digests
from service.inference.model.manifest import MIN_LENGTH, Joining, OrtLevel, Precision

if TYPE_CHECKING:
    from pathlib import Path

ENCODER_FILE = "encoder.json"


class EncoderManifest(BaseModel):
    """`encoder.json`. Fields that the service does not need (figures) are ignored."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(min_length=1)
    format: Literal[1]
    hidden_size: int = Field(ge=1)
    layers: tuple[int, ...] = Field(min_length=1)
    max_length: int = Field(ge=MIN_LENGTH)
    joining: Joining = "words"
    ort_level: OrtLevel = "all"
    invariant: Literal["exact", "close"] = "close"
    pad_id: int | None = Field(default=None, ge=0)
    files: dict[str, str]
    sha256: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EncoderFolder:
    """A folder whose files are all there and as their manifest says."""

    path: Path
    manifest: EncoderManifest
    tokenizer_file: Path
    casing_classes: bool = False
    capitalise_caps: bool = False

    @classmethod
    def load(cls, path: Path) -> EncoderFolder:
        if not (path / ENCODER_FILE).is_file():
            raise ModelError(
                f"{path} has no {ENCODER_FILE}: name a folder with an encoder, as `models/build_encoder.py` writes it"
            )
        try:
            manifest = EncoderManifest.model_validate(read_json_object(path / ENCODER_FILE))
        except ValidationError as error:
            raise ModelError(f"{path / ENCODER_FILE}: {to_invalid_input(error)}; build the encoder again") from error
        missing = next((role for role in ("fast", "tokenizer") if role not in manifest.files), None)
        if missing is not None:
            raise ModelError(f"{path / ENCODER_FILE}: `files` names no {missing}; build the encoder again")
        folder = cls(path, manifest, resolve_inside(path, manifest.files["tokenizer"], referenced_by=ENCODER_FILE))
        verify_digests(path, folder.list_files(), manifest.sha256, described_by=ENCODER_FILE)
        return folder

    @property
    def max_length(self) -> int:
        return self.manifest.max_length

    @property
    def joining(self) -> Joining:
        return self.manifest.joining

    @property
    def pad_id(self) -> int | None:
        return self.manifest.pad_id

    @property
    def state_width(self) -> int:
        """Outputs per subword: the hidden states of all layers side by side."""
        return self.manifest.hidden_size * len(self.manifest.layers)

    def get_graph(self, precision: Precision = "fast") -> Path:
        return resolve_inside(self.path, self.manifest.files[precision], referenced_by=ENCODER_FILE)

    def list_files(self) -> list[Path]:
        """Graphs, their weights and the tokenizer."""
        graphs = [self.get_graph(role) for role in ("fast", "exact") if role in self.manifest.files]
        weights = [file for graph in graphs for file in find_external_data(graph)]
        return list(dict.fromkeys([*graphs, *weights, self.tokenizer_file]))
