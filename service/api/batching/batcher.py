"""Micro-batching across requests: one thread runs the models for all of them. A batch has one model.

    infer() ─ job ─▶ queue ─ one sentence of each job in turn ─▶ window ─ the batch with the oldest sentence ─▶ model

By default no sentence waits for a batch to fill: an idle model runs at once, and sentences that arrive while it is
busy share its next run. The window is divided into batches of similar length; the batch with the oldest sentence runs
and is answered, then the window is filled again. Jobs fill it in turn, so a long list does not delay single sentences. A
long sentence runs in parts, in turns with others.

Short sentences that find the model idle run in the event loop: see `service.api.batching.inline`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from service.api.batching.inline import InlineRuns
from service.api.batching.jobs import Job, call_in_loops
from service.api.batching.queue_space import QueueSpace
from service.api.batching.results import BatchedInference, Timing
from service.api.batching.throughput import ThroughputEstimate
from service.api.batching.window import BatchWindow, get_max_batch
from service.api.http.problems import DrainingError, OverloadedError
from service.contracts.defaults import BATCH_TOKENS, QUEUE_SENTENCES
from service.inference.batch_plan import DEFAULT_MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.api.batching.jobs import JobSentence
    from service.inference.classifier import Classifier
    from service.inference.pooling import Pooling

QUEUE_WORDS_PER_SENTENCE = 50  # bounds the queue's memory when sentences are long
IDLE_POLL_INTERVAL_S = 0.5  # how often the idle thread checks whether to stop
STUCK_TIMEOUT_S = 60.0


class MicroBatcher:
    """Call `infer` in an event loop and `run` in the model's thread; the properties may be read in any thread.

    `max_delay`: seconds that an idle model waits for more sentences to share a batch.
    """

    def __init__(
        self,
        classifier: Classifier,
        *,
        queue_sentences: int = QUEUE_SENTENCES,
        queue_words: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
        max_batch: int = DEFAULT_MAX_BATCH,
        max_delay: float = 0.0,
    ) -> None:
        self._classifier = classifier
        self._space = QueueSpace(
            max_sentences=queue_sentences, max_words=queue_words or queue_sentences * QUEUE_WORDS_PER_SENTENCE
        )  # taken by what is in queue and window
        self._max_batch = max_batch
        self._max_delay = max_delay
        self._condition = threading.Condition()
        self._jobs: deque[Job] = deque()  # that have sentences outside the window
        self._space_waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._window = BatchWindow(batch_tokens=batch_tokens, max_batch=max_batch)
        self._closed_reason = "the model's thread has not started"
        self._busy_since: float | None = None
        self._throughput = ThroughputEstimate()
        self._inline = InlineRuns(self._throughput, is_idle=self._is_idle)

    # -- in the event loop -----------------------------------------------------------------------------------------

    async def infer(
        self,
        sentences: Sequence[Sequence[str]],
        *,
        classifier: Classifier | None = None,
        pooling: Pooling | None = None,
        wait: bool = False,
    ) -> BatchedInference:
        """One answer per sentence, by the default classifier or another. Cancelling removes its sentences from the queue.

        A full queue raises `OverloadedError`; with `wait` the call waits for space. Raises `DrainingError` when the
        service is stopping.
        """
        if not sentences:
            return BatchedInference((), Timing())
        job = Job(sentences, sum(map(len, sentences)), classifier or self._classifier, pooling)
        inferred = await self._inline.infer(job)
        if inferred is not None:
            return inferred
        while not self._try_enqueue(job, wait=wait):
            await self._wait_for_space(job)
        try:
            return await job.future
        except asyncio.CancelledError:
            self._withdraw(job)
            raise

    def _is_idle(self) -> bool:
        """Whether no sentence waits for the model's thread, and the model may be used."""
        return not (self._space.sentences or self._closed_reason or self._max_delay)

    def _try_enqueue(self, job: Job, *, wait: bool) -> bool:
        with self._condition:
            if self._closed_reason:
                raise DrainingError(f"{self._closed_reason}: try again later", retry_after=5)
            if self._space.is_full(job):
                if wait:
                    return False
                seconds = self._throughput.estimate_retry_after(self._space.words)
                raise OverloadedError(
                    f"{self._space.sentences} sentences are waiting: try again in {seconds} s", retry_after=seconds
                )
            self._jobs.append(job)
            self._space.take(job)
            self._condition.notify()
            return True

    async def _wait_for_space(self, job: Job) -> None:
        event = asyncio.Event()
        with self._condition:
            if self._closed_reason or not self._space.is_full(job):
                return
            self._space_waiters.append((job.loop, event))
        await event.wait()

    def _withdraw(self, job: Job) -> None:
        """Cancels the job. The model's thread drops those of its sentences that are in the window already."""
        with self._condition:
            job.cancelled = True
            if job.next_index < len(job.sentences):
                self._jobs.remove(job)
                unstarted = job.sentences[job.next_index :]
                job.next_index = len(job.sentences)
                self._space.release(job, unstarted)
                self._wake_space_waiters()

    # -- in any thread ---------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Sentences that are not answered yet."""
        return self._space.sentences

    @property
    def unavailable_reason(self) -> str:
        """Why the model can't be used now; empty if it can."""
        busy_since = self._busy_since or self._inline.busy_since  # one read: another thread may clear it
        stuck = 0.0 if busy_since is None else time.monotonic() - busy_since
        if stuck > STUCK_TIMEOUT_S:
            return f"the model has worked on one batch for {stuck:.0f} s"
        return self._closed_reason

    # -- in the model's thread -------------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Runs until `stop` is set, and answers the sentences that wait then."""
        self._closed_reason, end_reason = "", "the service is stopping"
        try:
            while self._wait_for_work(stop):
                self._run_batch()
        except BaseException:
            end_reason = "the model's thread has failed"
            raise
        finally:
            self._close(end_reason)

    def _wait_for_work(self, stop: threading.Event) -> bool:
        """Waits until there is a sentence to run; false: the thread must end."""
        if self._window:
            return True
        with self._condition:
            while not self._jobs:
                if stop.is_set():
                    self._closed_reason = "the service is stopping"
                    return False
                self._condition.wait(IDLE_POLL_INTERVAL_S)
            deadline = self._jobs[0].enqueued_at + self._max_delay
            full = get_max_batch(self._jobs[0].classifier, self._max_batch)
            while self._max_delay and self._space.sentences < full and not stop.is_set():
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    break
                self._condition.wait(remaining)
        return True

    def _run_batch(self) -> None:
        """Fills the window, runs the batch with its oldest sentence, and answers the jobs that are complete."""
        window, added = self._window, self._fill_window()
        started = self._busy_since = time.monotonic()
        failed = window.encode(added)
        if failed:
            self._finish_sentences(failed)
        tokenized = time.monotonic()
        done = window.run()
        finished = time.monotonic()
        self._busy_since = None
        for job in {item.job for item in added}:
            job.tokenize_seconds += tokenized - started
        for job in {item.job for item in window.running}:
            job.inference_seconds += finished - tokenized
        self._throughput.add(window.words_run, finished - started)
        self._finish_sentences(done)
        window.clear_running()

    def _fill_window(self) -> list[JobSentence]:
        with self._condition:
            cancelled = self._window.remove_cancelled()
            if cancelled:
                self._release_space(cancelled)
            return self._window.fill(self._jobs)

    def _finish_sentences(self, done: Sequence[JobSentence]) -> None:
        complete = []
        for item in done:
            item.job.remaining -= 1
            if not item.job.remaining:
                complete.append(item.job)
        with self._condition:
            self._release_space(done)
        call_in_loops([(job.loop, job.finish) for job in complete])

    def _release_space(self, done: Sequence[JobSentence]) -> None:
        """The caller holds the lock."""
        for item in done:
            self._space.release(item.job, (item.tokens,))
        self._wake_space_waiters()

    def _wake_space_waiters(self) -> None:
        if self._space_waiters:
            call_in_loops([(loop, event.set) for loop, event in self._space_waiters])
            self._space_waiters = []

    def _close(self, reason: str) -> None:
        """Fails every waiting call: no thread is left to answer it."""
        with self._condition:
            self._closed_reason = reason
            unanswered = {*self._jobs, *self._window.jobs}
            for job in unanswered:
                job.next_index = len(job.sentences)
            self._jobs.clear()
            self._window.clear()
            self._space.clear()
            self._wake_space_waiters()
        error = DrainingError(f"{reason}: try again later", retry_after=5)
        call_in_loops([(job.loop, partial(job.fail, error)) for job in unanswered])
