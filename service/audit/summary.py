"""Sums up an audit, one assessment at a time. Its size depends on the number of classes, not on the data."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from service.judging.assessments import suggest_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from service.contracts import Assessment, SuspectSpan
    from service.judging.types import Observation

DEFAULT_MAX_WORST: Final = 100
# Bins of equal width in log10 odds: a score of .001 is as far from .01 as .99 is from .999.
LOG_ODDS_EDGES: Final = np.linspace(-4, 4, 33)


class ClassConfusion(NamedTuple):
    given: str
    suggested: str
    words: int
    share: float
    """Of the words given this class."""


class SuspectExample(NamedTuple):
    assessment: Assessment
    suspect: SuspectSpan


@dataclass(slots=True)
class ScoreHistogram:
    """Counts of all and of flagged sentences per bin of LOG_ODDS_EDGES, with one open bin at each end."""

    total: NDArray[np.int64]
    flagged: NDArray[np.int64]
    out_of_range: int = 0
    """Scores outside [0, 1], as the paper's counting methods give."""

    @classmethod
    def empty(cls) -> ScoreHistogram:
        return cls(np.zeros(len(LOG_ODDS_EDGES) + 1, np.int64), np.zeros(len(LOG_ODDS_EDGES) + 1, np.int64))

    def add(self, score: float, *, flagged: bool) -> None:
        if not 0 <= score <= 1:
            self.out_of_range += 1
            return
        index = find_bin(score)
        self.total[index] += 1
        self.flagged[index] += flagged


def find_bin(score: float) -> int:
    """The index of a score's bin. A bin includes its lower edge."""
    if score in (0.0, 1.0):
        return 0 if score == 0.0 else len(LOG_ODDS_EDGES)
    return int(np.searchsorted(LOG_ODDS_EDGES, np.log10(score) - np.log10(1 - score), side="right"))


class AuditSummary:
    """Counts over all sentences, and the worst sentences themselves."""

    def __init__(self, classes: Sequence[str], *, max_worst: int = DEFAULT_MAX_WORST) -> None:
        self.classes = tuple(classes)
        self.sentences = 0
        self.words = 0
        self.flagged_sentences = 0
        self.deleted = 0
        """Sentences marked deleted. They have no words and are in no other count."""
        self.unscored: Counter[str] = Counter()
        self.scores = ScoreHistogram.empty()
        self.priorities = ScoreHistogram.empty()
        self.kinds: Counter[str] = Counter()
        self.examples: dict[str, SuspectExample] = {}
        self.thresholds: dict[str, float | None] = {}
        self.warming_up: tuple[str, ...] = ()
        self.unused_types: tuple[str, ...] = ()
        self.noise = np.zeros((len(self.classes), len(self.classes)), np.int64)
        """Words by given class (row) and by suggested class (column); unflagged words are on the diagonal."""
        self._max_worst = max_worst
        self._worst: list[tuple[float, int, Assessment]] = []

    def add(self, assessment: Assessment, observation: Observation) -> None:
        flagged = bool(assessment.flags)
        self.sentences += 1
        self.words += len(assessment.tokens)
        self.flagged_sentences += flagged
        self.unscored.update(observation.unscored.values())
        self.thresholds, self.warming_up = assessment.thresholds, assessment.warming_up
        self.unused_types = assessment.unused_types
        np.add.at(self.noise, (observation.given, observation.given), 1)
        row_by_word = {word: row for row, word in enumerate(observation.word_index.tolist())} if flagged else {}
        for flag in assessment.flags:
            row = row_by_word[flag.index]
            given = int(observation.given[row])
            self.noise[given, given] -= 1
            # A flag names labels of the dataset, the matrix counts classes of the model.
            self.noise[given, suggest_class(observation.probs[row], given)] += 1
        if assessment.score is not None:
            self.scores.add(assessment.score, flagged=flagged)
        if assessment.priority is not None:
            self.priorities.add(assessment.priority, flagged=flagged)
            self._keep_worst(assessment, assessment.priority)
        for suspect in assessment.suspects:
            self.kinds[suspect.kind] += 1
            best = self.examples.get(suspect.kind)
            if best is None or suspect.confidence > best.suspect.confidence:
                self.examples[suspect.kind] = SuspectExample(assessment, suspect)

    def _keep_worst(self, assessment: Assessment, priority: float) -> None:
        # The top of the heap is the best of the worst sentences. Of equal ones the later is dropped.
        entry = (-priority, -self.sentences, assessment)
        if len(self._worst) < self._max_worst:
            heapq.heappush(self._worst, entry)
        elif entry[:2] > self._worst[0][:2]:
            heapq.heapreplace(self._worst, entry)

    @property
    def worst(self) -> list[Assessment]:
        """The sentences with the lowest priority, lowest first."""
        return [entry[2] for entry in sorted(self._worst, key=lambda entry: entry[:2], reverse=True)]

    @property
    def scored_words(self) -> int:
        return int(self.noise.sum())

    @property
    def flagged_words(self) -> int:
        return self.scored_words - int(np.trace(self.noise))

    @property
    def words_by_class(self) -> dict[str, int]:
        """Scored words by given class."""
        return dict(zip(self.classes, self.noise.sum(axis=1).tolist(), strict=True))

    @property
    def flagged_by_class(self) -> dict[str, int]:
        return dict(zip(self.classes, (self.noise.sum(axis=1) - np.diag(self.noise)).tolist(), strict=True))

    @property
    def noise_shares(self) -> NDArray[np.float64]:
        """The estimated noise matrix: of the words given a class (row), the share that should be another (column)."""
        totals = self.noise.sum(axis=1, keepdims=True)
        return np.asarray(self.noise / np.maximum(totals, 1), np.float64)

    def list_confusions(self, limit: int | None = None) -> list[ClassConfusion]:
        """Pairs given → suggested, most frequent first."""
        shares = self.noise_shares
        pairs = [
            ClassConfusion(self.classes[i], self.classes[j], int(self.noise[i, j]), float(shares[i, j]))
            for i, j in zip(*np.nonzero(self.noise), strict=True)
            if i != j
        ]
        return sorted(pairs, key=lambda pair: (-pair.words, pair.given, pair.suggested))[:limit]
