"""Short sentences that find the model idle: they run in the event loop, which they block for a few milliseconds.

The way to the model's thread and back would add 0.1 ms to the 1.8 ms of a sentence of nine words (default model, one
core). A model that is faster than the Python around it never goes to its thread: both would wait for the same interpreter.
With a model that answers at once that takes 0.1 ms of the 0.7 ms of a request.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from service.api.batching.results import BatchedInference, Timing

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from service.api.batching.jobs import Job
    from service.api.batching.throughput import ThroughputEstimate

    Arrival = tuple[Job, asyncio.Future[BatchedInference | None]]

# Limits of a sentence:
MAX_INLINE_WORDS: Final = 40
MAX_INLINE_CHARACTERS: Final = 800
MAX_INLINE_SUBWORDS: Final = 80
MAX_INLINE_SECONDS: Final = 0.05  # expected, from the model's last runs
# Limits of sentences that arrive in the same step of the event loop. They share runs only if the model is fast.
MAX_ARRIVALS: Final = 256
MAX_SHARED_SECONDS: Final = 0.005  # then the event loop serves other requests
MAX_SHARED_SECONDS_PER_WORD: Final = 30e-6


class InlineRuns:
    """Use it in one event loop. `busy_since` may be read in any thread."""

    def __init__(self, throughput: ThroughputEstimate, *, is_idle: Callable[[], bool]) -> None:
        """`is_idle`: whether no sentence waits for the model's thread, and the model may be used."""
        self._throughput = throughput
        self._is_idle = is_idle
        self._arrived: list[Arrival] = []  # a run is scheduled while there are any
        self.busy_since: float | None = None

    async def infer(self, job: Job) -> BatchedInference | None:
        """The answer to a short sentence; None: the job belongs in the queue."""
        if not self._is_idle() or not self._is_short(job) or not self._has_place(job):
            return None
        answered: asyncio.Future[BatchedInference | None] = job.loop.create_future()
        self._arrived.append((job, answered))
        if len(self._arrived) == 1:
            # Requests that have arrived at the same time run before that.
            job.loop.call_soon(self._run_arrived)
        return await answered

    def _is_short(self, job: Job) -> bool:
        """Whether it may block the event loop: a single word may be as long as a body, and the model may be slow."""
        if len(job.sentences) != 1 or job.words > MAX_INLINE_WORDS:
            return False
        characters = len("".join(job.sentences[0]))
        return (
            characters <= MAX_INLINE_CHARACTERS and self._throughput.estimate_seconds(job.words) <= MAX_INLINE_SECONDS
        )

    def _has_place(self, job: Job) -> bool:
        arrived = self._arrived
        return not arrived or (len(arrived) < MAX_ARRIVALS and arrived[0][0].loop is job.loop)

    def _run_arrived(self) -> None:
        arrived = [arrival for arrival in self._arrived if not arrival[1].done()]  # done: the call was cancelled
        self._arrived = []
        if not arrived:
            return
        count = self._count_runnable([job for job, _ in arrived]) if self._is_idle() else 0
        later = arrived[count:]
        if count:
            answers = self._run([job for job, _ in arrived[:count]])
            for (_, answered), answer in zip(arrived, answers, strict=False):
                answered.set_result(answer)
            if later:
                self._arrived = later
                later[0][0].loop.call_soon(self._run_arrived)
        else:
            for _, answered in later:
                answered.set_result(None)

    def _count_runnable(self, jobs: Sequence[Job]) -> int:
        """How many of them run now, from the first; 0: all belong in the queue."""
        if len(jobs) == 1:
            return 1
        per_word = self._throughput.seconds_per_word
        if per_word is None or per_word > MAX_SHARED_SECONDS_PER_WORD:
            return 0
        words, max_words = 0, MAX_SHARED_SECONDS / per_word
        for count, job in enumerate(jobs):
            words += job.words
            if count and (words > max_words or not job.shares_model_with(jobs[0])):
                return count
        return len(jobs)

    def _run(self, jobs: Sequence[Job]) -> list[BatchedInference | None]:
        """One answer per job, of which each has one sentence."""
        answers: list[BatchedInference | None] = [None] * len(jobs)
        classifier = jobs[0].classifier
        started = self.busy_since = time.monotonic()
        try:
            encoded = classifier.encode([job.sentences[0] for job in jobs])
            tokenized = time.monotonic()
            kept = [index for index, each in enumerate(encoded) if each.n_subwords <= MAX_INLINE_SUBWORDS]
            results = classifier.run([encoded[index] for index in kept], pooling=jobs[0].pooling) if kept else []
        except Exception:  # noqa: BLE001 - the model's thread runs into it again, and handles it
            return answers
        finally:
            self.busy_since = None
        finished = time.monotonic()
        self._throughput.add(sum([jobs[index].words for index in kept]), finished - started)
        for index, result in zip(kept, results, strict=True):
            waited = started - jobs[index].enqueued_at
            answers[index] = BatchedInference((result,), Timing(waited, tokenized - started, finished - tokenized))
        return answers
