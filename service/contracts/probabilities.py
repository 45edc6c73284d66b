"""Class probabilities that a producer sends with a sentence. Then no model runs for it."""

from __future__ import annotations

import math
from typing import Annotated, Final

from pydantic import FailFast, Field, StrictFloat, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from service.contracts.base import Message

MIN_CLASSES: Final = 2
MAX_CLASSES: Final = 1_000
MAX_CLASS_NAME: Final = 256
MAX_PROBABILITIES: Final = 1_000_000
SUM_TOLERANCE: Final = 1e-3
WORDS_FIELD: Final = "probabilities.words"
CLASSES_FIELD: Final = "probabilities.classes"

# The first wrong number is reported: a list of a million errors helps no one.
ClassName = Annotated[StrictStr, Field(min_length=1, max_length=MAX_CLASS_NAME)]
Probability = Annotated[StrictFloat, Field(ge=0, allow_inf_nan=False)]
ProbabilityRow = Annotated[tuple[Probability, ...], FailFast()]


class WordProbabilities(Message):
    """The probability of each class for each word of a sentence."""

    classes: tuple[ClassName, ...] = Field(
        min_length=MIN_CLASSES,
        max_length=MAX_CLASSES,
        description="The classes, in the order of the probabilities: labels of one scheme, such as O, B-PER, I-PER",
    )
    words: Annotated[tuple[ProbabilityRow, ...], FailFast()] = Field(
        description="One row per word: the probability of each class. Each row sums to 1"
    )

    @model_validator(mode="after")
    def _check_rows(self) -> WordProbabilities:
        n_classes = len(self.classes)
        if len(set(self.classes)) < n_classes:
            repeated = next(name for k, name in enumerate(self.classes) if name in self.classes[:k])
            raise build_field_error(CLASSES_FIELD, f"the class {repeated!r} is there twice: name each class once")
        n_probabilities = len(self.words) * n_classes
        if n_probabilities > MAX_PROBABILITIES:
            raise build_field_error(
                WORDS_FIELD,
                f"{len(self.words)} words of {n_classes} classes are {n_probabilities:,} probabilities, the limit is "
                f"{MAX_PROBABILITIES:,}: split the sentence",
            )
        for word, row in enumerate(self.words):
            if len(row) != n_classes:
                problem = f"{_count(len(row))} for {n_classes} classes: give one probability per class"
                raise build_field_error(WORDS_FIELD, problem, word=word)
            total = math.fsum(row)
            if abs(total - 1) > SUM_TOLERANCE:
                problem = f"the probabilities sum to {total:.6g}: make them sum to 1 (within {SUM_TOLERANCE:g})"
                raise build_field_error(WORDS_FIELD, problem, word=word)
        return self


def describe_row_mismatch(rows: int, words: int) -> str:
    """The error text for a number of rows that is not the number of words."""
    given = f"{rows} row{'' if rows == 1 else 's'}"
    return f"{given} for {words} word{'' if words == 1 else 's'}: give each word one row"


def build_field_error(field: str, problem: str, *, word: int | None = None) -> PydanticCustomError:
    """A validation error that carries its field and word to `read_sentence`."""
    return PydanticCustomError("labelwatch", "{problem}", {"problem": problem, "field": field, "word": word})


def _count(probabilities: int) -> str:
    return f"{probabilities} probabilit{'y' if probabilities == 1 else 'ies'}"
