"""Encodes words as subword ids in windows of the model's length, and records which subword belongs to which word."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import accumulate, chain
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from service.errors import InvalidInput, ModelError
from service.inference.pooling import Overlaps, find_run_starts
from service.inference.tokenization.tokenizer import load_tokenizer
from service.inference.tokenization.windows import cut_windows
from service.inference.tokenization.word_cache import SubwordCache
from service.inference.tokenization.word_joining import join_words
from service.inference.tokenization.word_shape import (
    N_CASING_CLASSES,
    classify_casing,
    has_lone_surrogate,
    is_plainly_visible,
    is_visible,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt
    from tokenizers import Encoding

    from service.inference.tokenization.tokenizer import TokenizerSource

    Ints = npt.NDArray[np.int64]
    Indices = npt.NDArray[np.intp]

NO_SUBWORD = "the tokenizer gives no subword for it"
NOT_VISIBLE = "it has no visible character"
NOT_UNICODE = "it is not valid Unicode text"

_ALL_SCORED: Mapping[int, str] = MappingProxyType({})


class TokenWindow(NamedTuple):
    """One sequence for the graph with its special tokens; only the outputs of [keep_start, keep_end) are used."""

    ids: Ints
    token_types: Ints | None
    keep_start: int
    keep_end: int


@dataclass(frozen=True, slots=True)
class EncodedSentence:
    """A sentence as input of the model.

    The kept parts of its windows, one after the other, are its subwords; `overlaps` maps those to words. `unscored`
    holds the reason for each word that has no subword.
    """

    n_words: int
    n_subwords: int
    windows: tuple[TokenWindow, ...]
    overlaps: Overlaps
    unscored: Mapping[int, str]
    words: Sequence[str]


class _FlatBatch(NamedTuple):
    """The subwords of many sentences in one array, and their pairs of subword and word. Indices count over all."""

    ids: Ints
    sentence_starts: Indices  # of each sentence's subwords; the last entry is their number
    subword: Indices
    word: Indices
    characters: npt.NDArray[np.float64]
    casing: Sequence[int]  # the class of each word; empty if the model takes none


class Encoder:
    """Encodes sentences for one model. Safe to use from several threads."""

    def __init__(self, folder: TokenizerSource) -> None:
        # Tokenising takes 1 % of the graph's time (5 of 480 ms for 256 sentences): threads of its own would only
        # compete with the graph for cores.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self._folder = folder
        self._tokenizer = load_tokenizer(folder)
        self._prefix = np.array(self._tokenizer.prefix, np.int64)
        self._suffix = np.array(self._tokenizer.suffix, np.int64)
        self._subword_cache = SubwordCache(self._tokenizer.tokenizer)
        self._special_token_types = np.zeros_like(self._prefix), np.zeros_like(self._suffix)
        self.capacity = folder.max_length - len(self._prefix) - len(self._suffix)
        if self.capacity < 1:
            raise ModelError(
                f"{folder.path}: a length of {folder.max_length} leaves no room for words; raise max_length"
            )

    @property
    def pad_id(self) -> int:
        return self._tokenizer.pad_id

    def build_probes(self, lengths: Sequence[int], seed: int = 0) -> list[TokenWindow]:
        """Sequences of about these lengths, drawn from the whole vocabulary, for the self-test of a graph."""
        rng = np.random.default_rng(seed)
        usable = np.flatnonzero(~self._tokenizer.is_special[: self._tokenizer.vocab_size])
        sizes = [min(length, self.capacity) for length in lengths]
        shapes = [rng.integers(0, N_CASING_CLASSES, n) if self._folder.casing_classes else None for n in sizes]
        return [self._build_window(rng.choice(usable, n), types, 0, n) for n, types in zip(sizes, shapes, strict=True)]

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[EncodedSentence]:
        """One `EncodedSentence` per sentence, in order."""
        unscored = [explain_unreadable_words(index, sentence) for index, sentence in enumerate(sentences)]
        words = [_blank_words(sentence, reasons) for sentence, reasons in zip(sentences, unscored, strict=True)]
        word_starts = _compute_starts(map(len, words))
        flat = (self._tokenize_words if self._folder.joining == "words" else self._tokenize_texts)(words, word_starts)
        types = self._compute_token_types(flat) if self._folder.casing_classes else None
        return self._split_sentences(flat, word_starts, types, unscored, sentences)

    def _tokenize_words(self, sentences: Sequence[Sequence[str]], word_starts: Indices) -> _FlatBatch:
        """Tokenizes each word by itself: a subword belongs to one word."""
        tokenized = self._subword_cache.tokenize([word for words in sentences for word in words])
        # Lists, not generators: most of these are short.
        sizes = [len(subwords.ids) for subwords in tokenized]
        ids = np.array([subword for subwords in tokenized for subword in subwords.ids], np.int64)
        characters = np.array([count for subwords in tokenized for count in subwords.characters], np.float64)
        ids, starts, keep = self._replace_special_tokens(ids, _compute_starts(sizes)[word_starts])
        word = np.repeat(np.arange(len(tokenized)), sizes)
        casing = [subwords.casing for subwords in tokenized]
        return _FlatBatch(ids, starts, np.arange(len(ids)), word[keep], characters[keep], casing)

    def _tokenize_texts(self, sentences: Sequence[Sequence[str]], word_starts: Indices) -> _FlatBatch:
        """Tokenizes sentences as text: a subword belongs to each word that it shares a character with."""
        joined = [join_words(words, capitalise_caps=self._folder.capitalise_caps) for words in sentences]
        encodings = self._tokenizer.tokenizer.encode_batch([text.text for text in joined], add_special_tokens=False)
        ids, starts, spans = _flatten_encodings(encodings)
        ids, starts, keep = self._replace_special_tokens(ids, starts)
        # Treat all texts as one, so that one search finds the words of every subword.
        text_starts = _compute_starts(len(text.text) for text in joined)
        spans = spans[keep] + np.repeat(text_starts[:-1], np.diff(starts))[:, None]
        n_words = int(word_starts[-1])
        begin, end = (
            np.fromiter(chain.from_iterable(bounds), np.intp, n_words)
            + np.repeat(text_starts[:-1], np.diff(word_starts))
            for bounds in ((text.starts for text in joined), (text.ends for text in joined))
        )
        casing = [classify_casing(word) for words in sentences for word in words] if self._folder.casing_classes else ()
        return _FlatBatch(ids, starts, *_find_overlaps(spans, begin, end), casing)

    def _replace_special_tokens(self, ids: Ints, starts: Indices) -> tuple[Ints, Indices, Indices | slice]:
        """Replaces special tokens that a word was tokenized to, because some vocabularies hold them as ordinary entries.

        The unknown token takes their place; a vocabulary without one drops them. Also returns what is kept.
        """
        wrong = self._tokenizer.is_special[ids]
        if not wrong.any():
            return ids, starts, slice(None)
        if self._tokenizer.unknown_id is not None:
            return np.where(wrong, self._tokenizer.unknown_id, ids), starts, slice(None)
        keep = np.flatnonzero(~wrong)
        return ids[keep], np.searchsorted(keep, starts), keep

    @staticmethod
    def _compute_token_types(flat: _FlatBatch) -> Ints:
        """The casing class of each subword's (first) word."""
        types = np.zeros(len(flat.ids), np.int64)
        lead = find_run_starts(flat.subword)
        types[flat.subword[lead]] = np.array(flat.casing, np.int64)[flat.word[lead]]
        return types

    def _split_sentences(
        self,
        flat: _FlatBatch,
        word_starts: Indices,
        token_types: Ints | None,
        unscored: Sequence[dict[int, str]],
        sentences: Sequence[Sequence[str]],
    ) -> list[EncodedSentence]:
        """Cuts the flat arrays into sentences."""
        # Pairs of words that were tokenized one by one are sorted already.
        build_overlaps = Overlaps.from_sorted_pairs if self._folder.joining == "words" else Overlaps.from_pairs
        everything = build_overlaps(flat.subword, flat.word, flat.characters)
        pair_starts = np.searchsorted(everything.word, word_starts)
        first_starts = np.searchsorted(everything.first_pairs, pair_starts).tolist()
        sentence = np.repeat(np.arange(len(unscored)), np.diff(pair_starts))
        subword = everything.subword - flat.sentence_starts[sentence]
        word = everything.word - word_starts[sentence]
        pair_starts, starts, words = pair_starts.tolist(), flat.sentence_starts.tolist(), word_starts.tolist()
        encoded = []
        for i, reasons in enumerate(unscored):
            pairs = slice(pair_starts[i], pair_starts[i + 1])
            overlaps = Overlaps(
                subword[pairs],
                word[pairs],
                everything.characters[pairs],
                everything.first_pairs[first_starts[i] : first_starts[i + 1]] - pair_starts[i],
            )
            n_words, start, end = words[i + 1] - words[i], starts[i], starts[i + 1]
            if len(overlaps.first_pairs) + len(reasons) < n_words:
                without_subword = set(range(n_words)) - set(overlaps.word.tolist()) - reasons.keys()
                reasons.update(dict.fromkeys(sorted(without_subword), NO_SUBWORD))
            windows = self._build_windows(
                flat.ids[start:end], None if token_types is None else token_types[start:end], overlaps
            )
            encoded.append(
                EncodedSentence(
                    n_words, end - start if windows else 0, windows, overlaps, reasons or _ALL_SCORED, sentences[i]
                )
            )
        return encoded

    def _build_windows(self, ids: Ints, token_types: Ints | None, overlaps: Overlaps) -> tuple[TokenWindow, ...]:
        if not len(overlaps.word):
            return ()
        if len(ids) <= self.capacity:
            return (self._build_window(ids, token_types, 0, len(ids)),)
        return tuple(
            self._build_window(
                ids[start:end], None if token_types is None else token_types[start:end], keep - start, keep_end - start
            )
            for start, end, keep, keep_end in cut_windows(_find_word_boundaries(overlaps, len(ids)), self.capacity)
        )

    def _build_window(self, ids: Ints, token_types: Ints | None, keep_start: int, keep_end: int) -> TokenWindow:
        """Puts subwords between the special tokens."""
        offset = len(self._prefix)
        return TokenWindow(
            np.concatenate([self._prefix, ids, self._suffix]),
            None
            if token_types is None
            else np.concatenate([self._special_token_types[0], token_types, self._special_token_types[1]]),
            offset + keep_start,
            offset + keep_end,
        )


def explain_unreadable_words(index: int, words: Sequence[str]) -> dict[int, str]:
    """The words of sentence `index` that cannot be scored, each with the reason. Raises if it is no list of words."""
    if isinstance(words, str):
        raise InvalidInput("is one string: give a list of words", field="tokens", sentence=index)
    try:
        if is_plainly_visible(words):
            return {}
    except TypeError:
        raise _build_word_type_error(index, words) from None
    reasons: dict[int, str] = {}
    for position, word in enumerate(words):
        if has_lone_surrogate(word):
            reasons[position] = NOT_UNICODE
        elif not is_visible(word):
            reasons[position] = NOT_VISIBLE
    return reasons


def _blank_words(words: Sequence[str], reasons: Mapping[int, str]) -> Sequence[str]:
    """The words, with an empty string for each word that cannot be scored."""
    if reasons:
        return ["" if position in reasons else word for position, word in enumerate(words)]
    return words if isinstance(words, (list, tuple)) else list(words)


def _build_word_type_error(sentence: int, words: Sequence[object]) -> InvalidInput:
    index, kind = next((i, type(word).__name__) for i, word in enumerate(words) if not isinstance(word, str))
    return InvalidInput(f"is of type {kind}: a word must be a string", field="tokens", sentence=sentence, word=index)


def _compute_starts(sizes: Iterable[int]) -> Indices:
    """The offsets of consecutive parts with these sizes, and the end of the last part."""
    return np.array([0, *accumulate(sizes)], np.intp)


def _flatten_encodings(encodings: Sequence[Encoding]) -> tuple[Ints, Indices, Indices]:
    """Ids, the offset of each sentence's ids, and the characters [start, end) of each id."""
    starts = _compute_starts(map(len, encodings))
    total = int(starts[-1])
    ids = np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), np.int64, total)
    offsets: Iterable[int] = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
    return ids, starts, np.fromiter(offsets, np.intp, 2 * total).reshape(total, 2)


def _find_overlaps(spans: Indices, begin: Indices, end: Indices) -> tuple[Indices, Indices, npt.NDArray[np.float64]]:
    """Pairs of a span and a word [begin, end) that share characters, and how many. Words are in order."""
    non_empty = np.flatnonzero(end > begin)
    begin, end = begin[non_empty], end[non_empty]
    low = np.searchsorted(end, spans[:, 0], side="right")
    high = np.searchsorted(begin, spans[:, 1], side="left")
    sizes = np.where(spans[:, 1] > spans[:, 0], np.maximum(high - low, 0), 0)
    subword = np.repeat(np.arange(len(spans)), sizes)
    word = np.arange(len(subword)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + low[subword]
    shared = np.minimum(end[word], spans[subword, 1]) - np.maximum(begin[word], spans[subword, 0])
    return subword, non_empty[word], shared.astype(np.float64)


def _find_word_boundaries(overlaps: Overlaps, n_subwords: int) -> list[int]:
    """The positions where a window may start or end without splitting the subwords of a word."""
    low = overlaps.subword[overlaps.first_pairs]
    high = overlaps.subword[np.append(overlaps.first_pairs[1:], len(overlaps.word)) - 1]
    inside = np.zeros(n_subwords + 2, np.intp)
    np.add.at(inside, low + 1, 1)
    np.add.at(inside, high + 1, -1)
    return [*np.flatnonzero(np.cumsum(inside[:n_subwords]) == 0).tolist(), n_subwords]
