"""Support for tests of the audit: a judge over a folder without a model, and observations with chosen probabilities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np

from service.contracts import ConfidentPolicy, DatasetSettings, LabelledSentence
from service.inference.classifier import WordProbs
from service.judging.judge import Judge
from service.labels import Scheme

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from service.contracts import Assessment, FlagPolicy
    from service.errors import InferenceError
    from service.inference.classifier import Classifier
    from service.inference.model.folder import ModelFolder
    from service.judging.types import Observation
    from service.statistics.thresholds import HeldOutStats

NO_FIELDS: Mapping[str, str] = {}
CLASSES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


@dataclass(frozen=True)
class FakeModelFolder:
    """The attributes of a model folder that a judge reads."""

    labels: tuple[str, ...] = CLASSES
    scheme: Scheme = Scheme.IOB2
    held_out: HeldOutStats | None = None
    name: str = "tiny"
    fingerprint: str = "0123456789abcdef"
    pooling: str = "mean"
    unscored_types: tuple[str, ...] = ()
    is_trained: bool = False
    default_flag_policy: FlagPolicy = field(default_factory=ConfidentPolicy)

    def compute_stats_key(self, pooling: str, classes: Sequence[str]) -> str:
        return f"{pooling}/{len(classes)}"


def make_judge(
    *, held_out: HeldOutStats | None = None, classes: tuple[str, ...] = CLASSES, **settings: object
) -> Judge:
    folder = FakeModelFolder(held_out=held_out, labels=classes)
    return Judge(cast("ModelFolder", folder), DatasetSettings.model_validate(settings))


def make_word_probs(read: Sequence[str], sure: float = 0.9, *, classes: tuple[str, ...] = CLASSES) -> WordProbs:
    """Probabilities of a model that predicts the labels `read`, each with probability `sure`. "?" is a word without any."""
    rest = (1 - sure) / (len(classes) - 1)
    probs = np.full((len(read), len(classes)), rest)
    for row, label in enumerate(read):
        probs[row, classes.index(label) if label != "?" else 0] = sure
    scored = np.array([label != "?" for label in read])
    return WordProbs(probs, scored, 1, {int(i): "no subword" for i in np.flatnonzero(~scored)})


class FakeClassifier:
    """A classifier with prepared answers."""

    def __init__(self, answers: Iterable[WordProbs | InferenceError]) -> None:
        self._answers = iter(answers)

    def infer_stream(
        self, sentences: Iterable[Sequence[str]], *, pooling: object = None
    ) -> Iterator[WordProbs | InferenceError]:
        # Reads ahead of its answers, as the real classifier does.
        for _ in list(sentences):
            yield next(self._answers)

    @classmethod
    def create(cls, answers: Iterable[WordProbs | InferenceError]) -> Classifier:
        return cast("Classifier", cls(answers))


def assess_sentence(
    tokens: str, given: str, read: str, *, judge: Judge, sure: float = 0.97, fields: Mapping[str, str] = NO_FIELDS
) -> tuple[Assessment, Observation]:
    """A sentence judged with uniform thresholds, so that every word the model labels differently is flagged."""
    sentence = LabelledSentence.model_validate({"tokens": tokens.split(), "labels": given.split(), **fields})
    observation = judge.observe(sentence, make_word_probs(read.split(), sure))
    half = len(judge.classes)
    stats = judge.create_empty_stats().update(np.full((40 * half, half), 1 / half), np.repeat(np.arange(half), 40))
    return judge.assess(observation, judge.build_threshold_set(stats)), observation
