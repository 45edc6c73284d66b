"""The decisions of a dataset that the ranker learns from, in the order in which it uses them.

The ranker uses the first decisions in steps (`round_down_to_batch`). Most new decisions come last and wait for the next step,
so most of them change nothing: of 100,000 decisions, one in 5,000 leads to a new fit.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from service.review.ranker import Ranker, round_down_to_batch

if TYPE_CHECKING:
    from service.review.projection.decisions.outcomes import RankerExample

OrderKey = tuple[float, str, str]
"""Time, sentence and reviewer of a decision."""


class RankerExamples:
    """The examples of one dataset. `fit` gives what a fit of all of them gives."""

    def __init__(self) -> None:
        self._by_sentence: dict[str, dict[str, RankerExample]] = {}
        self._epoch = 0
        self._order: list[OrderKey] = []  # of the examples of the epoch
        self._ranker = Ranker()
        self._is_fitted = True

    def put(self, sentence_id: str, examples: dict[str, RankerExample]) -> bool:
        """Replaces the examples of a sentence, by reviewer. Whether they changed."""
        before = self._by_sentence.get(sentence_id, {})
        if before == examples:
            return False
        for reviewer, example in before.items():
            if examples.get(reviewer) != example:
                self._remove((example.decided_at, sentence_id, reviewer), example)
        for reviewer, example in examples.items():
            if before.get(reviewer) != example:
                self._add((example.decided_at, sentence_id, reviewer), example)
        if examples:
            self._by_sentence[sentence_id] = examples
        else:
            del self._by_sentence[sentence_id]
        return True

    def fit(self, epoch: int) -> Ranker:
        """The ranker of the decisions since its last reset."""
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = sorted(
                (example.decided_at, sentence_id, reviewer)
                for sentence_id, by_reviewer in self._by_sentence.items()
                for reviewer, example in by_reviewer.items()
                if example.epoch == epoch
            )
            self._is_fitted = False
        used = round_down_to_batch(len(self._order))
        if not self._is_fitted or used != self._ranker.decisions:
            words = [self._by_sentence[sentence_id][reviewer].words for _, sentence_id, reviewer in self._order[:used]]
            self._ranker = Ranker.refit(words)
            self._is_fitted = True
        return self._ranker

    def _add(self, key: OrderKey, example: RankerExample) -> None:
        if example.epoch == self._epoch:
            insort(self._order, key)
            self._note_change(key)

    def _remove(self, key: OrderKey, example: RankerExample) -> None:
        if example.epoch == self._epoch:
            self._note_change(key)
            del self._order[bisect_left(self._order, key)]

    def _note_change(self, key: OrderKey) -> None:
        """A change among the decisions that the ranker uses needs a new fit."""
        if bisect_left(self._order, key) < self._ranker.decisions:
            self._is_fitted = False
