"""The encoder that a training uses: a folder, the default one, or none."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from service.inference.model.default import find_default_encoder
from service.inference.model.encoder_folder import EncoderFolder

NO_ENCODER: Final = "none"


def load_encoder(choice: str | None) -> EncoderFolder | None:
    """None is the encoder for English that comes with labelwatch, `none` are hashed text features alone."""
    if choice == NO_ENCODER:
        return None
    return EncoderFolder.load(find_default_encoder() if choice is None else Path(choice))
