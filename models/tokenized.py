"""Sentences as subwords, for scripts that run an encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from manifest import MAX_LENGTH

from service.inference.tokenization.word_shape import classify_casing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from corpus import Sentence
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class TokenizedSentence:
    ids: list[int]
    types: list[int]
    words: list[int]  # word index of each subword, -1 for special tokens


def encode_all(tokenizer: Tokenizer, sentences: Sequence[Sentence], *, casing: bool) -> list[TokenizedSentence]:
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_LENGTH)
    encoded = []
    for sentence, encoding in zip(
        sentences, tokenizer.encode_batch([list(s.words) for s in sentences], is_pretokenized=True), strict=True
    ):
        words = [-1 if index is None else index for index in encoding.word_ids]
        shapes = [classify_casing(word) if casing else 0 for word in sentence.words]
        encoded.append(TokenizedSentence(encoding.ids, [shapes[w] if w >= 0 else 0 for w in words], words))
    return encoded
