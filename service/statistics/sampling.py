"""Uniform draws from a sentence's name, so that every replica and every replay draws the same.

The draws are parts of one hash. Each purpose has eight bytes of its own, so that its draws are independent of the others.
"""

from __future__ import annotations

import hashlib
from enum import Enum


class DrawPurpose(Enum):
    """What a number is drawn for. The value is the offset of its eight bytes in the SHA-256 hash."""

    CONTROL_SAMPLE = 0
    RING_POSITION = 8
    RANK_SHIFT = 16


def draw_uniform(dataset: str, sentence_id: str, purpose: DrawPurpose) -> float:
    """A number in [0, 1) that depends on nothing but its arguments."""
    digest = hashlib.sha256(f"{dataset}/{sentence_id}".encode()).digest()
    return int.from_bytes(digest[purpose.value : purpose.value + 8]) / 2**64


def is_in_control_sample(dataset: str, sentence_id: str, share: float) -> bool:
    """Drawn from the sentence's name, so that a replay draws the same sentences."""
    return share > 0 and draw_uniform(dataset, sentence_id, DrawPurpose.CONTROL_SAMPLE) < share
