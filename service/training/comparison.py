"""Compares a trained model with the one in use, on the same sentences and labels.

A trained model judges each sentence with a head that was trained without it. Folds depend on the words alone, so the
same sentence is in the same fold of both models, and the comparison is paired: F1 of the new model minus F1 of the old
one, fold by fold. The new model is worse if the mean difference is below zero by more than two standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Final

from service.errors import InferenceError
from service.judging.judge import Judge
from service.labels import OUTSIDE, parse_spans
from service.scoring.flat import merge_classes
from service.training.figures import compute_f1
from service.training.sentences import NO_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from service.contracts import DatasetSettings
    from service.inference.classifier import Classifier
    from service.labels import Span
    from service.training.sentences import TrainingSet

MAX_STANDARD_ERRORS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean over folds of the new F1 minus the old, and its standard error."""

    mean: float
    standard_error: float

    @property
    def is_worse(self) -> bool:
        return self.mean < -MAX_STANDARD_ERRORS * self.standard_error


def compute_difference(new: Sequence[float], old: Sequence[float]) -> Difference:
    """From F1 by fold of both models, on the same folds.

    >>> compute_difference([0.8, 0.7, 0.9], [0.8, 0.7, 0.9])
    Difference(mean=0.0, standard_error=0.0)
    """
    differences = [mine - theirs for mine, theirs in zip(new, old, strict=True)]
    standard_error = stdev(differences) / sqrt(len(differences)) if len(differences) > 1 else 0.0
    return Difference(fmean(differences), standard_error)


def compute_model_f1(
    data: TrainingSet, classifier: Classifier, settings: DatasetSettings
) -> tuple[float, tuple[float, ...]]:
    """F1 of a model over all sentences and by fold, in the names of the dataset."""
    return compute_f1(data, _predict_spans(data, classifier, Judge(classifier.folder, settings)))


def _predict_spans(data: TrainingSet, classifier: Classifier, judge: Judge) -> Iterator[set[Span]]:
    results = classifier.infer_stream(data.sentences, pooling=judge.settings.pooling)
    bounds = pairwise(data.starts.tolist())
    for (start, end), words in zip(bounds, results, strict=True):
        if isinstance(words, InferenceError):
            yield set()
            continue
        given = data.given[start:end]
        probs = words.probs
        if judge.label_map.merge is not None:
            probs = merge_classes(probs, judge.label_map.merge, uniform_if_dropped=True)
        # As in the figures of the new model, a word of a type that is not trained counts as outside.
        counted = words.scored & (given != NO_CLASS)
        predicted = [
            judge.classes[k] if counts else OUTSIDE
            for k, counts in zip(probs.argmax(axis=1).tolist(), counted.tolist(), strict=True)
        ]
        given_labels = [data.classes[max(k, 0)] for k in given.tolist()]
        yield set(parse_spans(judge.label_writer.render(predicted, given_labels), judge.label_writer.scheme))
