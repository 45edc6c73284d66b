"""The sentences that may share the model's next run. The model's thread alone touches them, and counts none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.api.batching.jobs import JobSentence
from service.errors import InferenceError
from service.inference.batch_plan import plan_batches
from service.inference.session import describe_error

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Sequence

    from service.api.batching.jobs import Job
    from service.inference.classifier import Classifier

MAX_WINDOW_SENTENCES = 64
MAX_WINDOW_WORDS = 4_096


class BatchWindow:
    """Filled from jobs, a batch at a time runs out of it."""

    def __init__(self, classifier: Classifier, *, batch_tokens: int, max_batch: int) -> None:
        self._classifier = classifier
        self._batch_tokens = batch_tokens
        self._max_batch = max_batch
        self._items: list[JobSentence] = []
        self._running: list[JobSentence] = []  # in the graph: neither in the window nor answered

    def __len__(self) -> int:
        return len(self._items)

    @property
    def jobs(self) -> set[Job]:
        """Those with sentences that are in the window or in the graph."""
        return {item.job for item in (*self._running, *self._items)}

    def remove_cancelled(self) -> list[JobSentence]:
        """The sentences whose client has gone; they leave the window."""
        gone = [item for item in self._items if item.job.cancelled]
        if gone:
            self._items = [item for item in self._items if not item.job.cancelled]
        return gone

    def fill(self, jobs: deque[Job]) -> list[JobSentence]:
        """Takes one sentence of each job in turn; gives those that are new here. A job that has no more is dropped."""
        fresh = []
        words = sum(len(item.tokens) for item in self._items)
        while jobs and len(self._items) < MAX_WINDOW_SENTENCES and (words < MAX_WINDOW_WORDS or not self._items):
            job = jobs.popleft()
            item = JobSentence(job, job.next_index)
            job.next_index += 1
            if job.next_index < len(job.sentences):
                jobs.append(job)
            words += len(item.tokens)
            self._items.append(item)
            fresh.append(item)
        return fresh

    def encode(self, fresh: Sequence[JobSentence]) -> list[JobSentence]:
        """Words that the tokenizer fails on cost their own sentence, which leaves the window with an answer."""
        try:
            found = self._classifier.encode([item.tokens for item in fresh])
        except Exception as error:  # noqa: BLE001 - whatever a tokenizer that somebody brings may raise
            if len(fresh) == 1:
                item = fresh[0]
                item.job.answers[item.index] = InferenceError(f"can't be cut into subwords: {describe_error(error)}")
                self._items.remove(item)
                return [item]
            middle = len(fresh) // 2
            return self.encode(fresh[:middle]) + self.encode(fresh[middle:])
        for item, encoded in zip(fresh, found, strict=True):
            item.encoded = encoded
            item.length = sum(len(window.ids) for window in encoded.windows)
        return []

    def run(self) -> list[JobSentence]:
        """Answers the oldest sentence and those that are best run with it; they leave the window."""
        if not self._items:
            return []
        chosen = self._running = self._choose_batch()
        answers = self._classifier.run(
            [item.encoded for item in chosen if item.encoded is not None], pooling=chosen[0].job.pooling
        )
        for item, answer in zip(chosen, answers, strict=True):
            item.job.answers[item.index] = answer
        return chosen

    def _choose_batch(self) -> list[JobSentence]:
        pooling = self._items[0].job.pooling
        like = [item for item in self._items if item.job.pooling == pooling]
        batches = plan_batches(
            [item.length for item in like], batch_tokens=self._batch_tokens, max_batch=self._max_batch
        )
        chosen = [like[index] for index in next(batch for batch in batches if 0 in batch)]
        left = set(chosen)
        self._items = [item for item in self._items if item not in left]
        return chosen

    def clear_running(self) -> None:
        """Whoever waited for what ran last knows."""
        self._running = []

    def clear(self) -> None:
        self._items, self._running = [], []
