"""What judging passes on from step to step: a sentence's scored words, what they are held against, what is found."""

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


@dataclass(frozen=True, slots=True)
class Observation:
    """A sentence's scored words: probabilities and given classes, with the place of each in the sentence."""

    sentence: LabelledSentence
    probs: npt.NDArray[np.float64]
    given: npt.NDArray[np.intp]
    word_index: npt.NDArray[np.intp]
    unscored: Mapping[int, str]
    all_given: npt.NDArray[np.intp]  # of every word of the sentence; UNSCORED where the model has none for its label

    @property
    def flat(self) -> FlatSentences:
        return FlatSentences(self.probs, self.given, np.zeros(1, np.intp))


@dataclass(frozen=True, slots=True)
class ThresholdSet:
    """What sentences are held against: read from the statistics once, used until they change."""

    by_index: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    by_class: dict[str, float | None]
    warming_up: tuple[str, ...]
    flag_cutoff: float | None  # of a policy that sends sentences to review by a number


@dataclass(frozen=True, slots=True)
class SentenceScores:
    """What is found of a sentence, in numbers: enough to know whether anybody has to be told."""

    reason: Reason
    flags: npt.NDArray[np.bool_]
    confidence: npt.NDArray[np.float64]  # the probability of each word's given label
    token_scores: npt.NDArray[np.float64]
    weighted_scores: npt.NDArray[np.float64]  # the word scores behind `priority`
    score: float | None
    priority: float | None


class StatsUpdate(NamedTuple):
    """A judged sentence that is still to be learned."""

    observation: Observation
    priority: float | None
    arrived_at: datetime | None
