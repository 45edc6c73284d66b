"""Probabilities of a file's sentences in an .npz archive, computed elsewhere.

It holds `probs[N, K]` (one row per word), `lengths[S]` (words per sentence) and `labels[K]` (class names). Other arrays
are ignored, so that an archive of `labelwatch evaluate --probs` can be used as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from service.contracts import WordProbabilities
from service.contracts.probabilities import MAX_CLASSES, MIN_CLASSES, SUM_TOLERANCE
from service.errors import InvalidInput
from service.inference.npz_arrays import check_floats, check_integers, load_arrays
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from service.formats.records import FileRecord

REQUIRED_ARRAYS: Final = ("probs", "lengths", "labels")


@dataclass(frozen=True, slots=True)
class ProbsArchive:
    """The arrays of an archive, validated."""

    name: str
    probs: NDArray[np.float64]
    lengths: NDArray[np.intp]
    classes: tuple[str, ...]

    @classmethod
    def load(cls, path: Path) -> ProbsArchive:
        """Reads and validates an archive. InvalidInput names the array that is wrong, and the row."""
        arrays = load_arrays(path)
        for key in REQUIRED_ARRAYS:
            if key not in arrays:
                raise InvalidInput(
                    f"{path.name} has no array {key!r}: it needs {', '.join(REQUIRED_ARRAYS)}", field=key
                )
        probs = check_floats(arrays["probs"], "probs")
        lengths = check_integers(arrays["lengths"], "lengths")
        classes = tuple(str(label) for label in arrays["labels"].ravel())
        _check_classes(classes, probs.shape[1])
        if (lengths < 1).any():
            sentence = int(np.argmax(lengths < 1))
            raise InvalidInput(
                f"sentence {sentence + 1} has the length {lengths[sentence]}: give at least 1", field="lengths"
            )
        if lengths.sum() != len(probs):
            raise InvalidInput(
                f"the lengths sum to {lengths.sum():,}, but probs has {pluralize(len(probs), 'row')}: give one row per word",
                field="lengths",
            )
        _check_rows(probs)
        return cls(path.name, probs, lengths, classes)

    def attach(self, records: Iterable[FileRecord]) -> Iterator[FileRecord]:
        """The records with their probabilities, in order. A record that can't be read counts as a sentence.

        InvalidInput names the first sentence whose number of words differs. A deleted sentence has no probabilities.
        """
        count = start = 0
        for record in records:
            sentence = record.sentence
            if sentence is not None and sentence.deleted:
                yield record
                continue
            if count == len(self.lengths):
                raise InvalidInput(
                    f"{record.location}: {self.name} has probabilities of {pluralize(count, 'sentence')}, this is one more",
                    field="lengths",
                )
            length = int(self.lengths[count])
            rows, start, count = self.probs[start : start + length], start + length, count + 1
            if sentence is None:
                yield record
                continue
            if len(sentence.tokens) != length:
                raise InvalidInput(
                    f"{record.location}: sentence {count} has {pluralize(len(sentence.tokens), 'word')}, but {length} in "
                    f"{self.name}: give the probabilities of the same sentences in the same order",
                    field="lengths",
                )
            if sentence.probabilities is not None:
                raise InvalidInput(
                    f"{record.location}: sentence {count} has probabilities of its own: remove them or --probs",
                    field="probabilities",
                )
            words = tuple(tuple(row) for row in rows.tolist())
            probabilities = WordProbabilities.model_construct(classes=self.classes, words=words)
            yield replace(record, sentence=sentence.model_copy(update={"probabilities": probabilities}))
        if count < len(self.lengths):
            raise InvalidInput(
                f"{self.name} has probabilities of {pluralize(len(self.lengths), 'sentence')}, but the input has {count:,}: "
                "give the probabilities of the same sentences in the same order",
                field="lengths",
            )


def _check_classes(classes: tuple[str, ...], n_columns: int) -> None:
    if len(classes) != n_columns or len(set(classes)) != n_columns:
        problem = f"{pluralize(len(classes), 'name')} for {n_columns} classes: each class needs a unique name"
        raise InvalidInput(problem, field="labels")
    if not MIN_CLASSES <= len(classes) <= MAX_CLASSES:
        raise InvalidInput(f"{len(classes):,} classes: give {MIN_CLASSES} to {MAX_CLASSES:,}", field="labels")


def _check_rows(probs: NDArray[np.float64]) -> None:
    sums = probs.sum(axis=1)
    valid = (probs >= 0).all(axis=1) & (np.abs(sums - 1) <= SUM_TOLERANCE)  # a NaN fails both
    if not valid.all():
        row = int(np.argmin(valid))
        raise InvalidInput(
            f"row {row} sums to {sums[row]:.6g} and its smallest probability is {probs[row].min():.6g}: give probabilities "
            f"from 0 to 1 that sum to 1 (within {SUM_TOLERANCE:g})",
            field="probs",
        )


def find_types_without_inside(classes: Sequence[str]) -> list[str]:
    """The types that have a class B- and no class I- for the words after the first."""
    known = set(classes)
    return [name[2:] for name in classes if name.startswith("B-") and f"I-{name[2:]}" not in known]
