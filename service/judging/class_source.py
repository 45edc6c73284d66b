"""Where word probabilities come from: a model folder, or the producer of the sentence (`ExternalClasses`).

A judge belongs to one dataset and one class source, so that statistics of different sources never mix.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from service.contracts import ConfidentPolicy
from service.contracts.probabilities import CLASSES_FIELD
from service.errors import InvalidInput
from service.inference.heads.results import WordProbs
from service.inference.model.files import hash_json
from service.labels import Scheme, detect_class_scheme
from service.labels.schemes import parse_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.contracts import FlagPolicy, LabelledSentence, WordProbabilities
    from service.inference.model.manifest import HeldOutSums
    from service.inference.pooling import Pooling

EXTERNAL_NAME: Final = "external"
EXTERNAL_KEY_PREFIX: Final = f"{EXTERNAL_NAME}-"
MAX_CLASS_LISTS: Final = 20  # of one dataset: a faulty producer could otherwise fill the state with class lists


class ClassSource(Protocol):
    """What a judge needs to know about the source of its probabilities."""

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def scheme(self) -> Scheme: ...
    @property
    def unscored_types(self) -> tuple[str, ...]: ...
    @property
    def is_trained(self) -> bool:
        """Whether it was trained here on labels of a dataset: then the dataset uses all its types."""
        ...

    @property
    def default_flag_policy(self) -> FlagPolicy:
        """The flag policy of a dataset that does not set one."""
        ...

    @property
    def held_out(self) -> HeldOutSums | None: ...
    @property
    def held_out_types(self) -> HeldOutSums | None: ...

    def compute_stats_key(self, pooling: Pooling | None, classes: Sequence[str], /) -> str:
        """The key of the statistics of these probabilities. None is the source's own pooling."""
        ...


@dataclass(frozen=True)
class ExternalClasses:
    """A class list that producers send probabilities for. It has no held-out statistics and no pooling."""

    labels: tuple[str, ...]
    scheme: Scheme
    name: str = EXTERNAL_NAME
    unscored_types: tuple[str, ...] = ()
    is_trained: bool = False
    default_flag_policy: FlagPolicy = field(default_factory=ConfidentPolicy)
    held_out: HeldOutSums | None = None
    held_out_types: HeldOutSums | None = None

    @classmethod
    def from_labels(cls, labels: tuple[str, ...], *, dataset_scheme: str | None = None) -> ExternalClasses:
        """Classes are in the dataset's scheme if they can be, else in the scheme that their names show.

        O, B-PER and I-PER may be IOB1 or IOB2: only the dataset's settings tell.
        """
        try:
            scheme = detect_class_scheme(labels)
            if scheme is Scheme.IOB2 and dataset_scheme == Scheme.IOB1.value:
                scheme = Scheme.IOB1
            tags = [parse_label(label, scheme) for label in labels]
        except InvalidInput as error:
            raise InvalidInput(error.problem, field=CLASSES_FIELD) from None
        if len(set(tags)) < len(tags):
            first, second = next(
                (labels[tags.index(tag)], label)
                for k, (tag, label) in enumerate(zip(tags, labels, strict=True))
                if tags.index(tag) < k
            )
            problem = f"{first!r} and {second!r} are the same class: name each class once"
            raise InvalidInput(problem, field=CLASSES_FIELD)
        return cls(labels, scheme)

    @cached_property
    def fingerprint(self) -> str:
        return hash_json(list(self.labels))

    def compute_stats_key(self, _pooling: Pooling | None, classes: Sequence[str]) -> str:
        return f"{EXTERNAL_KEY_PREFIX}{hash_json([list(self.labels), self.scheme.value, list(classes)])[:16]}"


def is_external_key(stats_key: str) -> bool:
    """Whether statistics are of probabilities that were sent with their sentences."""
    return stats_key.startswith(EXTERNAL_KEY_PREFIX)


def get_external_classes(sentence: LabelledSentence) -> tuple[str, ...] | None:
    """The class list of the probabilities that a sentence was sent with; None: the dataset's model computes them."""
    if sentence.probabilities is None or sentence.deleted:
        return None
    return sentence.probabilities.classes


def to_word_probs(probabilities: WordProbabilities) -> WordProbs:
    """The rows as inference returns them: in float64, each divided by its sum."""
    rows = np.array(probabilities.words, np.float64)
    sums = rows.sum(axis=1, keepdims=True)
    return WordProbs(rows / sums, np.ones(len(rows), np.bool_), 0, {})
