"""The input of an evaluation: probabilities, given labels and true labels, validated once.

An .npz holds arrays `probs[N, K]`, `given[N]`, `corrected[N]` (class numbers), `lengths[S]` (words per
sentence), `keep[S]` (whether a sentence counts), `labels[K]` (class names), `merge[K]` (merged class of each class).
Optional are `dev_probs` and `dev_given`: held-out words of the same model, the prior of the running flag thresholds;
`words[N]` (strings), which memory needs; and `second_corrected[N]`, the true labels by someone else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Final

import numpy as np

from service.errors import InvalidInput
from service.inference.npz_arrays import check_floats, check_integers, load_arrays
from service.labels import get_entity_type
from service.scoring.confident import sum_by_class
from service.scoring.flat import FlatSentences, from_flat_arrays, merge_classes, merge_labels
from service.statistics.thresholds import HeldOutStats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

REQUIRED_ARRAYS: Final = ("probs", "given", "corrected", "lengths", "keep", "labels", "merge")
UNMERGED: Final = "unmerged"
MERGED: Final = "merged"


@dataclass(frozen=True, slots=True)
class Variant:
    """The kept sentences under one set of classes."""

    name: str
    classes: tuple[str, ...]
    flat: FlatSentences
    corrected: NDArray[np.intp]
    held_out: HeldOutStats | None = None
    words: tuple[str, ...] | None = None
    second_corrected: NDArray[np.intp] | None = None

    @property
    def agreed_sentences(self) -> NDArray[np.bool_] | None:
        """Sentences on which both corrections agree; None if there is only one."""
        if self.second_corrected is None:
            return None
        return np.logical_and.reduceat(self.corrected == self.second_corrected, self.flat.starts)

    @property
    def wrong_words(self) -> NDArray[np.bool_]:
        """Words whose given label is not the true label."""
        return np.asarray(self.flat.given != self.corrected)

    @property
    def wrong_sentences(self) -> NDArray[np.bool_]:
        """Sentences with at least one wrong word."""
        return np.logical_or.reduceat(self.wrong_words, self.flat.starts)

    @property
    def sentence_of_word(self) -> NDArray[np.intp]:
        """The sentence each word belongs to."""
        return np.repeat(np.arange(self.flat.n_sentences), self.flat.lengths)


@dataclass(frozen=True, slots=True)
class EvaluationData:
    """Validated input. Sentences that are not kept are left out of scoring and learning, as in the paper."""

    name: str
    flat: FlatSentences
    corrected: NDArray[np.intp]
    keep: NDArray[np.bool_]
    labels: tuple[str, ...]
    merge: tuple[int, ...]
    held_out: Mapping[str, HeldOutStats] = field(default_factory=dict)
    """By variant: sums of merged classes can't be computed from those of unmerged ones."""
    words: tuple[str, ...] | None = None
    second_corrected: NDArray[np.intp] | None = None

    @property
    def variants(self) -> tuple[str, ...]:
        """The sets of classes to judge. `merged` is left out if no classes merge."""
        return (UNMERGED, MERGED) if max(self.merge) + 1 < len(self.labels) else (UNMERGED,)

    def build_variant(self, name: str) -> Variant:
        """The kept sentences, with unmerged or merged classes."""
        words = np.repeat(self.keep, self.flat.lengths)
        probs, given, corrected = self.flat.probs[words], self.flat.given[words], self.corrected[words]
        second = None if self.second_corrected is None else self.second_corrected[words]
        classes = self.labels
        if name == MERGED:
            probs = merge_classes(probs, self.merge)
            given, corrected = merge_labels(given, self.merge), merge_labels(corrected, self.merge)
            second = None if second is None else merge_labels(second, self.merge)
            classes = name_merged_classes(self.labels, self.merge)
        lengths = self.flat.lengths[self.keep]
        flat = FlatSentences(probs, given, np.cumsum(lengths) - lengths)
        tokens = None if self.words is None else tuple(compress(self.words, words))
        return Variant(name, classes, flat, corrected, self.held_out.get(name), tokens, second)


def name_merged_classes(labels: Sequence[str], merge: Sequence[int]) -> tuple[str, ...]:
    """Names each merged class by the entity type of its first class."""
    return tuple(get_entity_type(labels[merge.index(number)]) for number in range(max(merge) + 1))


def read_evaluation_data(path: Path) -> EvaluationData:
    """Reads and validates an .npz. InvalidInput names the array that is wrong, and the entry."""
    arrays = load_arrays(path)
    for key in REQUIRED_ARRAYS:
        if key not in arrays:
            raise InvalidInput(f"{path.name} has no array {key!r}; it needs {', '.join(REQUIRED_ARRAYS)}", field=key)
    probs = check_floats(arrays["probs"], "probs")
    n_words, n_classes = probs.shape
    lengths = check_integers(arrays["lengths"], "lengths")
    if not len(lengths):
        raise InvalidInput(f"{path.name} contains no sentences", field="lengths")
    words = from_flat_arrays(probs, check_integers(arrays["given"], "given"), lengths)
    corrected = _check_class_ids(arrays["corrected"], "corrected", n_words, n_classes)
    keep = arrays["keep"]
    if keep.dtype != np.bool_ or keep.shape != lengths.shape:
        raise InvalidInput(f"needs a boolean for each of the {len(lengths)} sentences", field="keep")
    if not keep.any():
        raise InvalidInput("no sentence is kept, so there is nothing to evaluate", field="keep")
    labels = tuple(str(label) for label in arrays["labels"].ravel())
    if len(labels) != n_classes or len(set(labels)) != n_classes:
        raise InvalidInput(
            f"{len(labels)} names for {n_classes} classes: each class needs a unique name", field="labels"
        )
    merge = tuple(_check_class_ids(arrays["merge"], "merge", n_classes, n_classes).tolist())
    if set(merge) != set(range(max(merge) + 1)):
        raise InvalidInput("merged classes must be numbered 0, 1, 2 … without a gap", field="merge")
    return EvaluationData(
        path.stem,
        words,
        corrected,
        keep.astype(np.bool_),
        labels,
        merge,
        _parse_held_out(arrays, n_classes, merge),
        _parse_words(arrays, n_words),
        _check_class_ids(arrays["second_corrected"], "second_corrected", n_words, n_classes)
        if "second_corrected" in arrays
        else None,
    )


def check_same_sentences(data: EvaluationData, other: EvaluationData) -> None:
    """Checks that both have the same sentences, labels and classes, as paired metrics need."""
    is_same = {
        "labels": data.labels == other.labels,
        "merge": data.merge == other.merge,
        "lengths": np.array_equal(data.flat.lengths, other.flat.lengths),
        "keep": np.array_equal(data.keep, other.keep),
        "given": np.array_equal(data.flat.given, other.flat.given),
        "corrected": np.array_equal(data.corrected, other.corrected),
    }
    for key, equal in is_same.items():
        if not equal:
            raise InvalidInput(f"{data.name} and {other.name} differ here: not the same sentences", field=key)


def _check_class_ids(values: NDArray[np.generic], key: str, n: int, n_classes: int) -> NDArray[np.intp]:
    numbers = check_integers(values, key)
    if len(numbers) != n:
        raise InvalidInput(f"{len(numbers)} classes where {n} are needed", field=key)
    bad = np.flatnonzero((numbers < 0) | (numbers >= n_classes))
    if len(bad):
        raise InvalidInput(
            f"entry {bad[0]} is class {numbers[bad[0]]}, but there are only 0…{n_classes - 1}", field=key
        )
    return numbers


def _parse_words(arrays: Mapping[str, NDArray[np.generic]], n_words: int) -> tuple[str, ...] | None:
    if "words" not in arrays:
        return None
    words = arrays["words"]
    if words.dtype.kind != "U" or words.shape != (n_words,):
        raise InvalidInput(
            f"needs one string for each of the {n_words} words, got {words.dtype} {words.shape}", field="words"
        )
    return tuple(words.tolist())


def _parse_held_out(
    arrays: Mapping[str, NDArray[np.generic]], n_classes: int, merge: Sequence[int]
) -> dict[str, HeldOutStats]:
    given_keys = [key for key in ("dev_probs", "dev_given") if key in arrays]
    if not given_keys:
        return {}
    if len(given_keys) == 1:
        raise InvalidInput("give both dev_probs and dev_given, or neither", field=given_keys[0])
    probs = check_floats(arrays["dev_probs"], "dev_probs")
    if probs.shape[1] != n_classes:
        raise InvalidInput(f"{probs.shape[1]} classes where probs has {n_classes}", field="dev_probs")
    given = _check_class_ids(arrays["dev_given"], "dev_given", len(probs), n_classes)
    if not len(probs):
        return {}
    try:
        from_flat_arrays(probs, given, [len(probs)])  # checks the rows; sentence boundaries don't matter for sums
    except InvalidInput as error:
        raise InvalidInput(error.problem, field="dev_probs", word=error.word) from error
    return {
        UNMERGED: _sum_held_out(probs, given),
        MERGED: _sum_held_out(merge_classes(probs, merge), merge_labels(given, merge)),
    }


def _sum_held_out(probs: NDArray[np.float64], given: NDArray[np.intp]) -> HeldOutStats:
    sums, counts = sum_by_class(probs, given)
    return HeldOutStats(tuple(sums.tolist()), tuple(counts.tolist()))
