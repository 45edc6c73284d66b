"""How much of the queue is taken, and which jobs still fit: a few sentences do, however much long lists take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.api.batching.window import is_long

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.api.batching.jobs import Job

MAX_LONG_SHARE: Final = 0.5  # of the queue's words
SMALL_RESERVE: Final = 0.25  # of the queue, for small jobs that find it full
MAX_SMALL_SENTENCES: Final = 16


class QueueSpace:
    """Counts the sentences that are not answered yet. The caller holds the lock of the queue."""

    def __init__(self, *, max_sentences: int, max_words: int) -> None:
        self._max_sentences = max_sentences
        self._max_words = max_words
        self.sentences = self.words = 0
        self._long_words = 0  # of long sentences
        self._small_sentences = self._small_words = 0  # of small jobs

    def is_full(self, job: Job) -> bool:
        """Whether the job must wait. A list longer than the queue enters an empty queue: it would never fit otherwise."""
        if self.sentences and self._exceeds(job, self.sentences, self.words):
            return not is_small(job) or self._exceeds(job, self._small_sentences, self._small_words, SMALL_RESERVE)
        # Long sentences wait longest, and must not keep all others out.
        long_words = _count_long_words(job.sentences)
        waiting = self._long_words
        return bool(long_words and waiting) and waiting + long_words > self._max_words * MAX_LONG_SHARE

    def _exceeds(self, job: Job, sentences: int, words: int, share: float = 1.0) -> bool:
        """Whether the job, with so many sentences and words, is more than this share of the queue."""
        return sentences + job.remaining > share * self._max_sentences or words + job.words > share * self._max_words

    def take(self, job: Job) -> None:
        self._add(job, job.sentences, 1)

    def release(self, job: Job, sentences: Sequence[Sequence[str]]) -> None:
        """Gives back the space of some of the job's sentences."""
        self._add(job, sentences, -1)

    def _add(self, job: Job, sentences: Sequence[Sequence[str]], sign: int) -> None:
        n_sentences, n_words = sign * len(sentences), sign * sum(map(len, sentences))
        self.sentences += n_sentences
        self.words += n_words
        self._long_words += sign * _count_long_words(sentences)
        if is_small(job):
            self._small_sentences += n_sentences
            self._small_words += n_words

    def clear(self) -> None:
        self.sentences = self.words = self._long_words = self._small_sentences = self._small_words = 0


def is_small(job: Job) -> bool:
    return len(job.sentences) <= MAX_SMALL_SENTENCES and not any(map(is_long, job.sentences))


def _count_long_words(sentences: Sequence[Sequence[str]]) -> int:
    return sum(len(tokens) for tokens in sentences if is_long(tokens))
