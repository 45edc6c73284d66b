"""The values that judging passes from step to step: observation, threshold set, sentence scores, statistics update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from service.scoring.flat import FlatSentences

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import numpy.typing as npt

    from service.contracts import LabelledSentence, Reason
    from service.labels import Span
    from service.statistics.memory.evidence import WordEvidence


@dataclass(frozen=True, slots=True)
class Observation:
    """The scored words of a sentence: probabilities, given classes, and the index of each word in the sentence."""

    sentence: LabelledSentence
    probs: npt.NDArray[np.float64]
    given: npt.NDArray[np.intp]
    word_index: npt.NDArray[np.intp]
    unscored: Mapping[int, str]
    all_given: npt.NDArray[np.intp]  # the class of every word; UNSCORED if the model has none for its label
    dropped: tuple[int, ...] = ()  # classes of unused types, whose probability the other classes got

    @property
    def flat(self) -> FlatSentences:
        return FlatSentences(self.probs, self.given, np.zeros(1, np.intp))


@dataclass(frozen=True, slots=True)
class ThresholdSet:
    """What sentences are judged with: derived from the statistics once, used until they change."""

    by_index: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    by_class: dict[str, float | None]
    warming_up: tuple[str, ...]
    flag_cutoff: float | None  # of a policy that selects sentences by score or priority
    unused_types: tuple[str, ...] = ()  # types of the model that the dataset does not use


@dataclass(frozen=True, slots=True)
class SentenceScores:
    """The scores of a sentence and its words: enough to decide whether it goes to review."""

    reason: Reason
    flags: npt.NDArray[np.bool_]
    confidence: npt.NDArray[np.float64]  # the probability of each word's given label
    token_scores: npt.NDArray[np.float64]
    weighted_scores: npt.NDArray[np.float64]  # the word scores behind `priority`
    score: float | None
    priority: float | None
    evidence: WordEvidence | None = None  # what memory said about the words, if it was asked


class PredictedEntity(NamedTuple):
    """An entity that the model finds, with the dataset's name of its type, and its least probable word's probability."""

    span: Span
    confidence: float


class Prediction(NamedTuple):
    """What the model finds in a sentence, whatever the given labels. `confidence`: of its least probable word."""

    entities: tuple[PredictedEntity, ...]
    confidence: float


class StatsUpdate(NamedTuple):
    """A judged sentence that a partition has not learned from yet."""

    observation: Observation
    priority: float | None
    arrived_at: datetime | None
    flagged: bool = False  # whether it has a flagged word
    smoothed: npt.NDArray[np.float64] | None = None  # the probabilities after mention smoothing, where they differ
