"""The weights that the wheel and the image contain, as components of a bill of materials."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Weights(NamedTuple):
    folder: str
    name: str
    licence: str
    origin: str


WEIGHTS: Final = (
    Weights(
        "models/default",
        "labelwatch-small-en",
        "Apache-2.0",
        "all-MiniLM-L6-v2 (Apache-2.0), fine-tuned on CoNLL-2003 labels over the Reuters corpus, whose text is "
        "restricted: the weights are derived from it, the text is not included",
    ),
    Weights(
        "models/light",
        "labelwatch-light-en",
        "Apache-2.0",
        "four layers of labelwatch-small-en, trained further on the same labels: the same applies",
    ),
    Weights(
        "models/encoder", "labelwatch-encoder-en", "Apache-2.0", "all-MiniLM-L6-v2 (Apache-2.0), converted to ONNX"
    ),
)


def build_component(root: Path, weights: Weights) -> dict[str, Any]:
    files = sorted(path for path in (root / weights.folder).iterdir() if path.is_file())
    return {
        "type": "machine-learning-model",
        "bom-ref": weights.name,
        "name": weights.name,
        "description": weights.origin,
        "licenses": [{"license": {"id": weights.licence}}],
        "components": [
            {
                "type": "file",
                "bom-ref": f"{weights.name}/{path.name}",
                "name": path.name,
                "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
            }
            for path in files
        ],
    }
