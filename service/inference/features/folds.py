"""Which fold a sentence belongs to: a hash of its words, so that the same words are always in the same fold. PURE."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

N_FOLDS = 5


def compute_fold(words: Sequence[str], n_folds: int = N_FOLDS) -> int:
    """The fold of a sentence. Labels do not count: a sentence that is annotated again stays in its fold.

    >>> compute_fold(["Anna", "flew"]) == compute_fold(("Anna", "flew"))
    True
    """
    text = "\x1f".join(words).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") % n_folds
