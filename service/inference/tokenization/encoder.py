"""Words to subwords: ids in windows that a model can read, and which subword belongs to which word."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import accumulate, chain
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from service.errors import InvalidInput, ModelError
from service.inference.pooling import Overlaps, run_starts
from service.inference.tokenization.tokenizer import load_subwords
from service.inference.tokenization.windows import cut_windows
from service.inference.tokenization.word_cache import WordPieces
from service.inference.tokenization.word_joining import (
    CASING_CLASSES,
    casing_class,
    has_lone_surrogate,
    is_visible,
    join_words,
    plainly_visible,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt
    from tokenizers import Encoding

    from service.inference.model.folder import ModelFolder

    Ints = npt.NDArray[np.int64]
    Indices = npt.NDArray[np.intp]

NO_SUBWORD = "the tokenizer gives no subword for it"
NOT_VISIBLE = "it has no visible character"
NOT_UNICODE = "it is not valid Unicode text"

_ALL_SCORED: Mapping[int, str] = MappingProxyType({})


class Window(NamedTuple):
    """One sequence for the graph, special tokens included, and the positions [keep, keep_end) that are read from it."""

    ids: Ints
    types: Ints | None
    keep: int
    keep_end: int


@dataclass(frozen=True, slots=True)
class Encoded:
    """A sentence as the model gets it.

    What is kept of its windows, one after the other, are its subwords in order; `overlaps` ties those to words.
    `unscored` says for each word that has no subword why.
    """

    n_words: int
    n_subwords: int
    windows: tuple[Window, ...]
    overlaps: Overlaps
    unscored: Mapping[int, str]


class _Flat(NamedTuple):
    """The subwords of many sentences in one array, and the pairs of subword and word, both counted over all of them."""

    ids: Ints
    starts: Indices  # of each sentence's subwords, and their number at the end
    subword: Indices
    word: Indices
    characters: npt.NDArray[np.float64]
    casing: Sequence[int]  # the class of each word; empty where the model takes none


class Encoder:
    """Encodes sentences for one model. Safe to use from several threads."""

    def __init__(self, folder: ModelFolder) -> None:
        # Cores belong to the graph; tokenising is 1/50 of its work, and rayon's own threads would fight for them.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self._folder = folder
        self._subwords = load_subwords(folder)
        self._prefix = np.array(self._subwords.prefix, np.int64)
        self._suffix = np.array(self._subwords.suffix, np.int64)
        self._pieces = WordPieces(self._subwords.tokenizer)
        self._plain = np.zeros_like(self._prefix), np.zeros_like(self._suffix)
        self.capacity = folder.max_length - len(self._prefix) - len(self._suffix)
        if self.capacity < 1:
            raise ModelError(
                f"{folder.path}: a length of {folder.max_length} leaves no room for words; raise max_length"
            )

    @property
    def pad_id(self) -> int:
        return self._subwords.pad_id

    def probes(self, lengths: Sequence[int], seed: int = 0) -> list[Window]:
        """Sequences of about these numbers of subwords, drawn from the whole vocabulary: for trying a graph out."""
        rng = np.random.default_rng(seed)
        usable = np.flatnonzero(~self._subwords.special[: self._subwords.n_ordinary])
        sizes = [min(length, self.capacity) for length in lengths]
        shapes = [rng.integers(0, CASING_CLASSES, n) if self._folder.casing_classes else None for n in sizes]
        return [self._window(rng.choice(usable, n), types, 0, n) for n, types in zip(sizes, shapes, strict=True)]

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[Encoded]:
        """One Encoded a sentence, in order."""
        unscored: list[dict[int, str]] = []
        words = [self._readable(index, sentence, unscored) for index, sentence in enumerate(sentences)]
        word_starts = _starts(len(each) for each in words)
        flat = (self._by_word if self._folder.joining == "words" else self._by_text)(words, word_starts)
        types = self._types(flat) if self._folder.casing_classes else None
        return self._split(flat, word_starts, types, unscored)

    def _readable(self, index: int, words: Sequence[str], unscored: list[dict[int, str]]) -> Sequence[str]:
        """The words, with an empty one for each that nothing can be said of."""
        if isinstance(words, str):
            raise InvalidInput("is one string: give a list of words", field="tokens", sentence=index)
        why: dict[int, str] = {}
        unscored.append(why)
        try:
            if plainly_visible(words):
                return words if isinstance(words, (list, tuple)) else list(words)
        except TypeError:
            raise _not_a_word(index, words) from None
        for place, word in enumerate(words):
            if has_lone_surrogate(word):
                why[place] = NOT_UNICODE
            elif not is_visible(word):
                why[place] = NOT_VISIBLE
        return ["" if place in why else word for place, word in enumerate(words)]

    def _by_word(self, sentences: Sequence[Sequence[str]], word_starts: Indices) -> _Flat:
        """Each word by itself: a subword belongs to one word."""
        pieces = self._pieces.of([word for words in sentences for word in words])
        # Lists, not generators: most of these are short.
        sizes = [len(each.ids) for each in pieces]
        ids = np.array([one for each in pieces for one in each.ids], np.int64)
        characters = np.array([one for each in pieces for one in each.characters], np.float64)
        ids, starts, keep = self._without_special(ids, _starts(sizes)[word_starts])
        word = np.repeat(np.arange(len(pieces)), sizes)
        casing = [each.casing for each in pieces]
        return _Flat(ids, starts, np.arange(len(ids)), word[keep], characters[keep], casing)

    def _by_text(self, sentences: Sequence[Sequence[str]], word_starts: Indices) -> _Flat:
        """Sentences as text: a subword belongs to each word that it shares a character with."""
        joined = [join_words(words, capitalise_caps=self._folder.capitalise_caps) for words in sentences]
        encodings = self._subwords.tokenizer.encode_batch([each.text for each in joined], add_special_tokens=False)
        ids, starts, spans = _flattened(encodings)
        ids, starts, keep = self._without_special(ids, starts)
        # All texts as one, so that one search finds the words of every subword.
        text_starts = _starts(len(each.text) for each in joined)
        spans = spans[keep] + np.repeat(text_starts[:-1], np.diff(starts))[:, None]
        n_words = int(word_starts[-1])
        begin, end = (
            np.fromiter(chain.from_iterable(each), np.intp, n_words) + np.repeat(text_starts[:-1], np.diff(word_starts))
            for each in ((one.starts for one in joined), (one.ends for one in joined))
        )
        casing = [casing_class(word) for words in sentences for word in words] if self._folder.casing_classes else ()
        return _Flat(ids, starts, *_sharing(spans, begin, end), casing)

    def _without_special(self, ids: Ints, starts: Indices) -> tuple[Ints, Indices, Indices | slice]:
        """No word may stand as a special token, which some vocabularies hold as entries of their own.

        Where it would, the unknown token takes its place; without one it is left out. The last answer is what stays.
        """
        wrong = self._subwords.special[ids]
        if not wrong.any():
            return ids, starts, slice(None)
        if self._subwords.unknown_id is not None:
            return np.where(wrong, self._subwords.unknown_id, ids), starts, slice(None)
        keep = np.flatnonzero(~wrong)
        return ids[keep], np.searchsorted(keep, starts), keep

    @staticmethod
    def _types(flat: _Flat) -> Ints:
        """The casing class of each subword's (first) word."""
        types = np.zeros(len(flat.ids), np.int64)
        lead = run_starts(flat.subword)
        types[flat.subword[lead]] = np.array(flat.casing, np.int64)[flat.word[lead]]
        return types

    def _split(
        self, flat: _Flat, word_starts: Indices, types: Ints | None, unscored: Sequence[dict[int, str]]
    ) -> list[Encoded]:
        """The flat arrays, cut into sentences."""
        # Word by word they come in order.
        overlaps_of = Overlaps.in_order if self._folder.joining == "words" else Overlaps.of
        everything = overlaps_of(flat.subword, flat.word, flat.characters)
        pair_starts = np.searchsorted(everything.word, word_starts)
        first_starts = np.searchsorted(everything.first, pair_starts).tolist()
        sentence = np.repeat(np.arange(len(unscored)), np.diff(pair_starts))
        subword = everything.subword - flat.starts[sentence]
        word = everything.word - word_starts[sentence]
        pair_starts, starts, words = pair_starts.tolist(), flat.starts.tolist(), word_starts.tolist()
        answers = []
        for i, why in enumerate(unscored):
            pairs = slice(pair_starts[i], pair_starts[i + 1])
            overlaps = Overlaps(
                subword[pairs],
                word[pairs],
                everything.characters[pairs],
                everything.first[first_starts[i] : first_starts[i + 1]] - pair_starts[i],
            )
            n_words, start, end = words[i + 1] - words[i], starts[i], starts[i + 1]
            if len(overlaps.first) + len(why) < n_words:
                silent = set(range(n_words)) - set(overlaps.word.tolist()) - why.keys()
                why.update(dict.fromkeys(sorted(silent), NO_SUBWORD))
            windows = self._windows(flat.ids[start:end], None if types is None else types[start:end], overlaps)
            answers.append(Encoded(n_words, end - start if windows else 0, windows, overlaps, why or _ALL_SCORED))
        return answers

    def _windows(self, ids: Ints, types: Ints | None, overlaps: Overlaps) -> tuple[Window, ...]:
        if not len(overlaps.word):
            return ()
        if len(ids) <= self.capacity:
            return (self._window(ids, types, 0, len(ids)),)
        return tuple(
            self._window(ids[start:end], None if types is None else types[start:end], keep - start, keep_end - start)
            for start, end, keep, keep_end in cut_windows(_unbroken(overlaps, len(ids)), self.capacity)
        )

    def _window(self, ids: Ints, types: Ints | None, keep: int, keep_end: int) -> Window:
        """These subwords between the special tokens."""
        edge = len(self._prefix)
        return Window(
            np.concatenate([self._prefix, ids, self._suffix]),
            None if types is None else np.concatenate([self._plain[0], types, self._plain[1]]),
            edge + keep,
            edge + keep_end,
        )


def _not_a_word(sentence: int, words: Sequence[object]) -> InvalidInput:
    place, kind = next((i, type(word).__name__) for i, word in enumerate(words) if not isinstance(word, str))
    return InvalidInput(f"is of type {kind}: a word must be a string", field="tokens", sentence=sentence, word=place)


def _starts(sizes: Iterable[int]) -> Indices:
    """Where things of these sizes start when they stand in a row, and where the last one ends."""
    return np.array([0, *accumulate(sizes)], np.intp)


def _flattened(encodings: Sequence[Encoding]) -> tuple[Ints, Indices, Indices]:
    """Ids, where each sentence's start, and the characters [start, end) of each."""
    starts = _starts(len(each) for each in encodings)
    total = int(starts[-1])
    ids = np.fromiter(chain.from_iterable(each.ids for each in encodings), np.int64, total)
    offsets: Iterable[int] = chain.from_iterable(chain.from_iterable(each.offsets for each in encodings))
    return ids, starts, np.fromiter(offsets, np.intp, 2 * total).reshape(total, 2)


def _sharing(spans: Indices, begin: Indices, end: Indices) -> tuple[Indices, Indices, npt.NDArray[np.float64]]:
    """Each pair of a span and a word [begin, end) that share characters, and how many. Words stand in order."""
    real = np.flatnonzero(end > begin)
    begin, end = begin[real], end[real]
    low = np.searchsorted(end, spans[:, 0], side="right")
    high = np.searchsorted(begin, spans[:, 1], side="left")
    sizes = np.where(spans[:, 1] > spans[:, 0], np.maximum(high - low, 0), 0)
    subword = np.repeat(np.arange(len(spans)), sizes)
    place = np.arange(len(subword)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + low[subword]
    shared = np.minimum(end[place], spans[subword, 1]) - np.maximum(begin[place], spans[subword, 0])
    return subword, real[place], shared.astype(np.float64)


def _unbroken(overlaps: Overlaps, n_subwords: int) -> list[int]:
    """Where a window may start or end without parting the subwords of a word."""
    low = overlaps.subword[overlaps.first]
    high = overlaps.subword[np.append(overlaps.first[1:], len(overlaps.word)) - 1]
    inside = np.zeros(n_subwords + 2, np.intp)
    np.add.at(inside, low + 1, 1)
    np.add.at(inside, high + 1, -1)
    return [*np.flatnonzero(np.cumsum(inside[:n_subwords]) == 0).tolist(), n_subwords]
