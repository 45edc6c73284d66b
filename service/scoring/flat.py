"""Many sentences as one array of words.

Every score works on flat arrays: the words of all sentences one after the other, and the start of each sentence.
`flatten` and `from_flat_arrays` validate: their results are aligned, finite and normalised, and no other function
validates again.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from service.errors import InvalidInput
from service.labels.label_set import DROPPED

if TYPE_CHECKING:
    from collections.abc import Sequence, Sized

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.intp]
Bools: TypeAlias = NDArray[np.bool_]

SUM_TOLERANCE = 1e-3
"""How far the sum of a word's probabilities may be from 1: half-precision rows pass, logits and percentages don't."""


@dataclass(frozen=True, slots=True, eq=False)
class FlatSentences:
    """The words of all sentences; sentence s is `starts[s]:ends[s]`. Not validated: see `from_flat_arrays` and `flatten`."""

    probs: Floats
    given: Ints
    starts: Ints

    @property
    def n_words(self) -> int:
        return len(self.given)

    @property
    def n_classes(self) -> int:
        return int(self.probs.shape[1])

    @property
    def n_sentences(self) -> int:
        return len(self.starts)

    @property
    def ends(self) -> Ints:
        return np.append(self.starts[1:], self.n_words)[: self.n_sentences]

    @property
    def lengths(self) -> Ints:
        return segment_lengths(self.starts, self.n_words)


def from_flat_arrays(probs: ArrayLike, given: ArrayLike, lengths: ArrayLike) -> FlatSentences:
    """Validates arrays that are flat already: probabilities [N, K], labels [N], words per sentence [S]."""
    sizes = _to_integers(lengths, "lengths")
    if (empty := np.flatnonzero(sizes < 1)).size:
        raise InvalidInput("a sentence needs at least one word", field="lengths", sentence=int(empty[0]))
    labels = _to_integers(given, "given")
    table = _to_table(probs)
    if table is None:
        raise InvalidInput("should be a table of numbers, words by classes", field="probs")
    rows = np.ascontiguousarray(table)
    if not len(rows) == len(labels) == sizes.sum():
        raise InvalidInput(
            f"{len(rows)} rows of probabilities and {len(labels)} labels for sentences of {sizes.sum()} words in all"
        )
    return _validate(rows, labels, sizes)


def flatten(given_nested: Sequence[Sequence[int] | Ints], probs_nested: Sequence[ArrayLike]) -> FlatSentences:
    """Validates and flattens one sequence of labels and one table of probabilities [words, K] per sentence."""
    if len(given_nested) != len(probs_nested):
        raise InvalidInput(f"labels of {len(given_nested)} sentences, probabilities of {len(probs_nested)}")
    sizes = _measure_lengths(given_nested, "given")
    row_counts = _measure_lengths(probs_nested, "probs")
    if not np.array_equal(sizes, row_counts):
        sentence = int(np.flatnonzero(sizes != row_counts)[0])
        raise InvalidInput(
            f"{sizes[sentence]} labels for {row_counts[sentence]} rows of probabilities", sentence=sentence
        )
    if not sizes.all():
        raise InvalidInput("a sentence needs at least one word", sentence=int(np.flatnonzero(sizes == 0)[0]))
    if not len(sizes):
        return FlatSentences(np.empty((0, 0)), np.empty(0, np.intp), np.empty(0, np.intp))
    return _validate(_concatenate_rows(probs_nested), _concatenate_labels(given_nested), sizes)


def _validate(probs: Floats, given: Ints, sizes: Ints) -> FlatSentences:
    starts = np.zeros_like(sizes)
    np.cumsum(sizes[:-1], out=starts[1:])
    if not len(given):
        return FlatSentences(probs, given, starts)
    n_classes = probs.shape[1]
    if given.min() < 0 or given.max() >= n_classes:
        word = int(np.flatnonzero((given < 0) | (given >= n_classes))[0])
        raise _build_word_error(
            starts, word, "given", f"label {given[word]} is not one of the classes 0 to {n_classes - 1}"
        )
    # Not a matrix product, which would start the threads of the BLAS library for this small sum.
    off: Floats = np.abs(np.einsum("ij->i", probs) - 1)
    # In this form NaN fails both comparisons.
    if not (probs.min() >= 0 and off.max() <= SUM_TOLERANCE):
        _raise_invalid_row(probs, off, starts)
    return FlatSentences(probs, given, starts)


def _raise_invalid_row(probs: Floats, off: Floats, starts: Ints) -> NoReturn:
    """Names the first row that is not a probability distribution, and why."""
    word = int(np.flatnonzero(~((probs.min(axis=1) >= 0) & (off <= SUM_TOLERANCE)))[0])
    row = probs[word]
    if not np.isfinite(row).all():
        column = int(np.flatnonzero(~np.isfinite(row))[0])
        problem = f"the probability of class {column} is {row[column]}"
    elif row.min() < 0:
        column = int(np.flatnonzero(row < 0)[0])
        problem = f"the probability of class {column} is negative: {row[column]}"
    else:
        problem = f"the probabilities sum to {row.sum():.6g}, not to 1"
    raise _build_word_error(starts, word, "probs", problem)


def _build_word_error(starts: Ints, word: int, field: str, problem: str) -> InvalidInput:
    sentence = int(np.searchsorted(starts, word, side="right")) - 1
    return InvalidInput(problem, field=field, sentence=sentence, word=word - int(starts[sentence]))


def _to_integers(values: ArrayLike, field: str) -> Ints:
    """One dimension of integers. Floats are refused even if they are whole: they may be probabilities or scores."""
    try:
        array_1d: NDArray[Any] = np.asarray(values)
    except ValueError:
        raise InvalidInput("should be one flat row of integers", field=field) from None
    if array_1d.ndim != 1 or (array_1d.size and array_1d.dtype.kind not in "iu"):
        raise InvalidInput(f"should be one flat row of integers, not {array_1d.ndim}-d {array_1d.dtype}", field=field)
    return array_1d.astype(np.intp, copy=False)


def _measure_lengths(nested: Sequence[Any], field: str) -> Ints:
    try:
        return np.fromiter(map(len, nested), np.intp, count=len(nested))
    except TypeError:
        sentence = next(i for i, part in enumerate(nested) if not _has_length(part))
        raise InvalidInput("should be a sequence with one entry per word", field=field, sentence=sentence) from None


def _has_length(part: Sized) -> bool:
    try:
        len(part)
    except TypeError:
        return False
    return True


def _concatenate_labels(nested: Sequence[Sequence[int] | Ints]) -> Ints:
    arrays = [part for part in nested if isinstance(part, np.ndarray)]
    if len(arrays) == len(nested) and all(part.ndim == 1 and part.dtype.kind in "iu" for part in arrays):
        return np.concatenate(arrays, dtype=np.intp, casting="same_kind")
    try:
        # array("q") accepts only integers; numpy would turn 1.5 into 1.
        packed = array("q", list(chain.from_iterable(nested)))
    except (TypeError, OverflowError):
        _raise_invalid_label(nested)
    return np.frombuffer(packed, dtype=np.int64).astype(np.intp, copy=False)


def _raise_invalid_label(nested: Sequence[Sequence[int] | Ints]) -> NoReturn:
    for sentence, part in enumerate(nested):
        for word, label in enumerate(part):
            try:
                array("q", [label])
            except (TypeError, OverflowError):
                raise InvalidInput(
                    f"label {label!r} is not the number of a class", field="given", sentence=sentence, word=word
                ) from None
    raise AssertionError("unreachable: some label was refused before")


def _concatenate_rows(nested: Sequence[ArrayLike]) -> Floats:
    try:
        rows: Floats = np.concatenate(nested, dtype=np.float64)
    except (TypeError, ValueError):
        _raise_invalid_table(nested)
    if rows.ndim != 2:
        _raise_invalid_table(nested)
    return rows


def _raise_invalid_table(nested: Sequence[ArrayLike]) -> NoReturn:
    n_classes = None
    for sentence, part in enumerate(nested):
        table = _to_table(part)
        if table is None:
            raise InvalidInput("should be a table of numbers, words by classes", field="probs", sentence=sentence)
        n_classes = table.shape[1] if n_classes is None else n_classes
        if table.shape[1] != n_classes:
            raise InvalidInput(
                f"{table.shape[1]} classes where sentence 0 has {n_classes}", field="probs", sentence=sentence
            )
    raise AssertionError("unreachable: some table was refused before")


def _to_table(values: ArrayLike) -> Floats | None:
    """Two dimensions of real numbers, or None."""
    try:
        table: NDArray[Any] = np.asarray(values)
    except ValueError:
        return None
    return table.astype(np.float64, copy=False) if table.ndim == 2 and table.dtype.kind in "fiu" else None


def segment_lengths(starts: Ints, n_words: int) -> Ints:
    return np.diff(starts, append=n_words)


# `reduceat` is wrong for empty segments; validation above refuses them.


def segment_min(values: Floats, segments: FlatSentences | Ints) -> Floats:
    return np.minimum.reduceat(values, _get_starts(segments))


def segment_max(values: Floats, segments: FlatSentences | Ints) -> Floats:
    return np.maximum.reduceat(values, _get_starts(segments))


def segment_sum(values: Floats | Ints | Bools, segments: FlatSentences | Ints) -> Floats:
    return np.add.reduceat(values, _get_starts(segments), dtype=np.float64)


def segment_mean(values: Floats | Ints | Bools, segments: FlatSentences | Ints) -> Floats:
    return segment_sum(values, segments) / segment_lengths(_get_starts(segments), len(values))


def _get_starts(segments: FlatSentences | Ints) -> Ints:
    return segments.starts if isinstance(segments, FlatSentences) else segments


def merge_classes(probs: Floats, mapping: Sequence[int], *, uniform_if_dropped: bool = False) -> Floats:
    """Sums the columns of classes that become one: column i is added to `mapping[i]`, or dropped if that is -1.

    If a class is dropped, the rest is normalised again: its probability goes to the other classes in proportion. A word
    whose whole probability is dropped is an error, or with `uniform_if_dropped` equally probable in all classes.
    """
    targets = _check_mapping(mapping, probs.shape[1])
    merged = np.zeros((len(probs), int(targets.max()) + 1))
    for source, target in enumerate(targets):
        if target != DROPPED:
            merged[:, target] += probs[:, source]
    if (targets == DROPPED).any():
        mass = merged.sum(axis=1, keepdims=True)
        if (lost := np.flatnonzero(mass == 0)).size:
            if uniform_if_dropped:
                merged[lost], mass[lost] = 1.0, merged.shape[1]
            else:
                raise InvalidInput("all its probability is on classes that the mapping drops", word=int(lost[0]))
        merged /= mass
    return merged


def drop_columns(probs: Floats, columns: Sequence[int]) -> Floats:
    """Moves the probability of these classes to the others in proportion. The classes keep their places.

    A word whose whole probability is on them is equally probable in all others.
    """
    remaining = probs.copy()
    remaining[:, columns] = 0.0
    mass = remaining.sum(axis=1, keepdims=True)
    if (lost := np.flatnonzero(mass == 0)).size:
        others = np.setdiff1d(np.arange(probs.shape[1]), columns)
        remaining[np.ix_(lost, others)], mass[lost] = 1.0, len(others)
    remaining /= mass
    return remaining


def merge_labels(given: Ints, mapping: Sequence[int]) -> Ints:
    """The merged classes of given labels. A label of a dropped class is an error, since its word can't be scored."""
    targets = _check_mapping(mapping, len(mapping))
    if (outside := np.flatnonzero((given < 0) | (given >= len(targets)))).size:
        word = int(outside[0])
        raise InvalidInput(
            f"label {given[word]} is not one of the classes 0 to {len(targets) - 1}", field="given", word=word
        )
    merged = targets[given]
    if (lost := np.flatnonzero(merged == DROPPED)).size:
        word = int(lost[0])
        raise InvalidInput(f"its class {given[word]} is dropped by the mapping", field="given", word=word)
    return merged


def _check_mapping(mapping: Sequence[int], n_classes: int) -> Ints:
    targets = _to_integers(mapping, "mapping")
    if len(targets) != n_classes:
        raise InvalidInput(f"{len(targets)} entries for {n_classes} classes", field="mapping")
    if not len(targets) or targets.min() < DROPPED or targets.max() < 0:
        raise InvalidInput("should name a class from 0 on for each class, -1 to drop it, and keep one", field="mapping")
    return targets
