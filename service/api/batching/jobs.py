"""What waits for the model: a job is one call's sentences, an item one of them on its way through the graph."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

from service.api.backend import BatchedInference, Timing
from service.errors import InferenceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.inference.classifier import InferenceResult
    from service.inference.pooling import Pooling
    from service.inference.tokenization.encoder import EncodedSentence

THROUGHPUT_DECAY = 0.9  # what the past counts for in the throughput
MAX_RETRY_AFTER_S = 120


class Job:
    """The sentences of one call."""

    def __init__(self, sentences: Sequence[Sequence[str]], words: int, pooling: Pooling | None) -> None:
        self.sentences = sentences
        self.words = words
        self.pooling = pooling
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[BatchedInference] = self.loop.create_future()
        self.answers: list[InferenceResult] = [InferenceError("not run")] * len(sentences)
        self.remaining = len(sentences)
        self.next_index = 0
        self.cancelled = False
        self.enqueued_at = time.monotonic()
        self.tokenize_seconds = self.inference_seconds = 0.0

    def finish(self) -> None:
        """In the loop's thread."""
        if not self.future.done():
            busy = self.tokenize_seconds + self.inference_seconds
            waited = max(0.0, time.monotonic() - self.enqueued_at - busy)
            self.future.set_result(
                BatchedInference(self.answers, Timing(waited, self.tokenize_seconds, self.inference_seconds))
            )

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class JobSentence:
    """One sentence in the window."""

    __slots__ = ("encoded", "index", "job", "length")

    def __init__(self, job: Job, index: int) -> None:
        self.job = job
        self.index = index
        self.encoded: EncodedSentence | None = None
        self.length = 0

    @property
    def tokens(self) -> Sequence[str]:
        return self.job.sentences[self.index]


class ThroughputEstimate:
    """Words a second of late."""

    def __init__(self) -> None:
        self._words = self._seconds = 0.0

    def add(self, words: int, seconds: float) -> None:
        self._words = THROUGHPUT_DECAY * self._words + words
        self._seconds = THROUGHPUT_DECAY * self._seconds + seconds

    def estimate_retry_after(self, words: int) -> int:
        expected = self.estimate_seconds(words) if self._words else 1.0
        return min(max(1, math.ceil(expected)), MAX_RETRY_AFTER_S)

    def estimate_seconds(self, words: int) -> float:
        """Seconds for so many; 0 while nothing is known."""
        return words * self._seconds / self._words if self._words else 0.0


def call_in_loops(calls: Sequence[tuple[asyncio.AbstractEventLoop, Callable[[], None]]]) -> None:
    """Makes the calls in their loops; each loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}
    for loop, call in calls:
        by_loop.setdefault(loop, []).append(call)
    for loop, mine in by_loop.items():
        try:
            loop.call_soon_threadsafe(_run_calls, mine)
        except RuntimeError:
            if not loop.is_closed():  # a closed loop has nobody who waits
                raise


def _run_calls(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()
