"""The sentences that may share the next run of the model. Only the model's thread uses a window."""

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


def get_max_batch(classifier: Classifier, max_batch: int) -> int:
    """The sentences that may share a batch of this model."""
    return 1 if classifier.batching == "single" else max_batch


class BatchWindow:
    """Takes sentences from jobs, and runs them one batch at a time."""

    def __init__(self, *, batch_tokens: int, max_batch: int) -> None:
        self._batch_tokens = batch_tokens
        self._max_batch = max_batch
        self._items: list[JobSentence] = []
        self._running: list[JobSentence] = []  # in the batch that runs: no longer in the window, not answered yet

    def __len__(self) -> int:
        return len(self._items)

    @property
    def jobs(self) -> set[Job]:
        """The jobs with sentences in the window or in the batch that runs."""
        return {item.job for item in (*self._running, *self._items)}

    def remove_cancelled(self) -> list[JobSentence]:
        """Removes the sentences of cancelled jobs, and returns them."""
        cancelled = [item for item in self._items if item.job.cancelled]
        if cancelled:
            self._items = [item for item in self._items if not item.job.cancelled]
        return cancelled

    def fill(self, jobs: deque[Job]) -> list[JobSentence]:
        """Takes one sentence of each job in turn until the window is full; returns those added.

        A job without further sentences leaves the queue.
        """
        added = []
        words = sum(len(item.tokens) for item in self._items)
        while jobs and len(self._items) < MAX_WINDOW_SENTENCES and (words < MAX_WINDOW_WORDS or not self._items):
            job = jobs.popleft()
            item = JobSentence(job, job.next_index)
            job.next_index += 1
            if job.next_index < len(job.sentences):
                jobs.append(job)
            words += len(item.tokens)
            self._items.append(item)
            added.append(item)
        return added

    def encode(self, added: Sequence[JobSentence]) -> list[JobSentence]:
        """Tokenizes the sentences. One that the tokenizer fails on leaves the window with an error as its answer.

        Returns those that failed.
        """
        by_model: dict[Classifier, list[JobSentence]] = {}  # nearly always one
        for item in added:
            by_model.setdefault(item.job.classifier, []).append(item)
        return [item for classifier, items in by_model.items() for item in self._encode(classifier, items)]

    def _encode(self, classifier: Classifier, added: Sequence[JobSentence]) -> list[JobSentence]:
        try:
            encodings = classifier.encode([item.tokens for item in added])
        except Exception as error:  # noqa: BLE001 - a custom tokenizer may raise anything
            if len(added) == 1:
                item = added[0]
                item.job.answers[item.index] = InferenceError(
                    f"the tokenizer fails on this sentence: {describe_error(error)}"
                )
                self._items.remove(item)
                return [item]
            middle = len(added) // 2
            return self._encode(classifier, added[:middle]) + self._encode(classifier, added[middle:])
        for item, encoded in zip(added, encodings, strict=True):
            item.encoded = encoded
            item.length = sum(len(window.ids) for window in encoded.windows)
        return []

    def run(self) -> list[JobSentence]:
        """Runs the batch that holds the oldest sentence. Its sentences leave the window with their answers."""
        if not self._items:
            return []
        chosen = self._running = self._choose_batch()
        job = chosen[0].job
        answers = job.classifier.run([item.encoded for item in chosen if item.encoded is not None], pooling=job.pooling)
        for item, answer in zip(chosen, answers, strict=True):
            item.job.answers[item.index] = answer
        return chosen

    def _choose_batch(self) -> list[JobSentence]:
        """The sentences of one model and one pooling that run together with the oldest one."""
        classifier, pooling = self._items[0].job.classifier, self._items[0].job.pooling
        compatible = [item for item in self._items if item.job.classifier is classifier and item.job.pooling == pooling]
        batches = plan_batches(
            [item.length for item in compatible],
            batch_tokens=self._batch_tokens,
            max_batch=get_max_batch(classifier, self._max_batch),
        )
        chosen = [compatible[index] for index in next(batch for batch in batches if 0 in batch)]
        running = set(chosen)
        self._items = [item for item in self._items if item not in running]
        return chosen

    def clear_running(self) -> None:
        """Forgets the batch that ran last: its callers have their answers."""
        self._running = []

    def clear(self) -> None:
        self._items, self._running = [], []
