"""The sentences that may share the next run of the model. Only the model's thread uses a window.

A long sentence is many windows of the model. They run in turns with the batches of other sentences, which get three
quarters of the model's time while some wait.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from service.api.batching.jobs import JobSentence
from service.errors import InferenceError
from service.inference.batch_plan import plan_batches
from service.inference.session import describe_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.api.batching.jobs import Job
    from service.inference.classifier import Classifier

MAX_WINDOW_SENTENCES = 64
MAX_WINDOW_WORDS = 4_096
LONG_WORDS: Final = 300
MAX_LONG_SENTENCES: Final = 4  # in a window
MAX_TURN_TOKENS: Final = 512  # of a long sentence; at least one of its windows runs
OTHER_SHARE: Final = 3  # tokens of other sentences for each token of a long one


def is_long(tokens: Sequence[str]) -> bool:
    return len(tokens) > LONG_WORDS


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
        self._long: deque[JobSentence] = deque()  # sentences of many tokens; the first has the next turn
        self._other_tokens = 0  # that must run before the next turn of a long sentence, if others wait
        self.words_run = 0  # in the last run

    def __len__(self) -> int:
        return len(self._items) + len(self._long)

    @property
    def running(self) -> Sequence[JobSentence]:
        return self._running

    @property
    def jobs(self) -> set[Job]:
        """The jobs with sentences in the window or in the batch that runs."""
        return {item.job for item in (*self._running, *self._items, *self._long)}

    def remove_cancelled(self) -> list[JobSentence]:
        """Removes the sentences of cancelled jobs, and returns them."""
        cancelled = [item for item in (*self._items, *self._long) if item.job.cancelled]
        if cancelled:
            self._items = [item for item in self._items if not item.job.cancelled]
            self._long = deque(item for item in self._long if not item.job.cancelled)
        return cancelled

    def fill(self, jobs: deque[Job]) -> list[JobSentence]:
        """Takes one sentence of each job in turn until the window is full; returns those added.

        A job without further sentences leaves the queue.
        """
        added: list[JobSentence] = []
        words = sum(len(item.tokens) for item in self._items)
        n_long = len(self._long)
        passed_over: list[Job] = []  # their next sentence is long, and the window holds enough of those
        while jobs and len(self._items) < MAX_WINDOW_SENTENCES and (words < MAX_WINDOW_WORDS or not self._items):
            job = jobs.popleft()
            item = JobSentence(job, job.next_index)
            if is_long(item.tokens):
                if n_long >= MAX_LONG_SENTENCES:
                    passed_over.append(job)
                    continue
                n_long += 1
            else:
                words += len(item.tokens)
            job.next_index += 1
            if job.next_index < len(job.sentences):
                jobs.append(job)
            self._items.append(item)
            added.append(item)
        jobs.extendleft(reversed(passed_over))
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
            if len(encoded.windows) > 1 and item.length > MAX_TURN_TOKENS and classifier.can_run(encoded):
                self._items.remove(item)
                self._long.append(item)
        return []

    def run(self) -> list[JobSentence]:
        """Runs the batch that holds the oldest sentence, or a part of a long sentence if it is its turn.

        Returns the sentences that have their answers. They leave the window.
        """
        self._running, self.words_run = [], 0
        if self._long and (not self._items or self._other_tokens <= 0):
            return self._run_part(self._long.popleft())
        if not self._items:
            return []
        chosen = self._running = self._choose_batch()
        job = chosen[0].job
        answers = job.classifier.run([item.encoded for item in chosen if item.encoded is not None], pooling=job.pooling)
        for item, answer in zip(chosen, answers, strict=True):
            item.job.answers[item.index] = answer
        self._other_tokens -= sum(item.length for item in chosen)
        self.words_run = sum(len(item.tokens) for item in chosen)
        return chosen

    def _run_part(self, item: JobSentence) -> list[JobSentence]:
        """Runs the next windows of a long sentence. It is answered after the last one."""
        self._running = [item]
        encoded, classifier = item.encoded, item.job.classifier
        if encoded is None:  # never: only sentences with windows are long
            return []
        first, tokens = len(item.outputs), 0
        end = first
        while end < len(encoded.windows) and (
            end == first or tokens + len(encoded.windows[end].ids) <= MAX_TURN_TOKENS
        ):
            tokens += len(encoded.windows[end].ids)
            end += 1
        item.outputs += classifier.run_windows(encoded.windows[first:end])
        self._other_tokens = OTHER_SHARE * tokens
        self.words_run = len(item.tokens) * tokens // item.length
        if end < len(encoded.windows):
            self._long.append(item)
            return []
        [item.job.answers[item.index]] = classifier.combine([encoded], item.outputs, pooling=item.job.pooling)
        return [item]

    def _choose_batch(self) -> list[JobSentence]:
        """The sentences of one model and one pooling that run together with the oldest one."""
        oldest = self._items[0].job
        compatible = [item for item in self._items if item.job.shares_model_with(oldest)]
        batches = plan_batches(
            [item.length for item in compatible],
            batch_tokens=self._batch_tokens,
            max_batch=get_max_batch(oldest.classifier, self._max_batch),
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
        self._long.clear()
