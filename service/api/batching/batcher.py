"""Micro-batching across requests: one thread runs the model for all of them.

    infer() ─ a job of sentences ─▶ queue ─ one of each job in turn ─▶ window ─ the oldest and those like it ─▶ graph

Nothing waits for company: an idle model takes what is there at once, and what comes while it is busy shares its next
run. From a window of sentences a plan makes batches of like length; the batch of the oldest runs and is answered,
then the window is filled again. Jobs fill it in turn, so that a long list does not hold up single sentences.

A short sentence that comes alone to an idle model is run where it is: handing it to the thread and back would cost
a tenth of its time, and the event loop stands still for some milliseconds only.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from service.api.backend import BatchedInference, Timing
from service.api.batching.jobs import Job, ThroughputEstimate, call_in_loops
from service.api.batching.window import BatchWindow
from service.api.http.problems import DrainingError, OverloadedError
from service.contracts.defaults import BATCH_TOKENS
from service.inference.batch_plan import DEFAULT_MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.api.batching.jobs import JobSentence
    from service.inference.classifier import Classifier
    from service.inference.pooling import Pooling

DEFAULT_QUEUE_SENTENCES = 4_096
QUEUE_WORDS_PER_SENTENCE = 50  # bounds the queue's memory where sentences are long
IDLE_POLL_INTERVAL_S = 0.5  # how often an idle thread looks whether it should stop
STUCK_TIMEOUT_S = 60.0
# Of a sentence that the event loop may stand still for:
MAX_INLINE_WORDS = 40
MAX_INLINE_CHARACTERS = 800
MAX_INLINE_SUBWORDS = 80
MAX_INLINE_SECONDS = 0.05  # by what the model took of late


class MicroBatcher:
    """`infer` is called in an event loop, `run` is the model's thread; the rest may be read from anywhere.

    `max_delay` lets an idle model wait so many seconds for company.
    """

    def __init__(
        self,
        classifier: Classifier,
        *,
        queue_sentences: int = DEFAULT_QUEUE_SENTENCES,
        queue_words: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
        max_batch: int = DEFAULT_MAX_BATCH,
        max_delay: float = 0.0,
    ) -> None:
        self._classifier = classifier
        self._max_sentences = queue_sentences
        self._max_words = queue_words or queue_sentences * QUEUE_WORDS_PER_SENTENCE
        self._max_batch = 1 if classifier.batching == "single" else max_batch
        self._max_delay = max_delay
        self._condition = threading.Condition()
        self._jobs: deque[Job] = deque()  # with sentences that are not in the window yet
        self._waiting_sentences = self._waiting_words = 0  # sentences and words of queue and window
        self._space_waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._window = BatchWindow(
            classifier, batch_tokens=batch_tokens, max_batch=self._max_batch
        )  # the model's thread's own
        self._closed_reason = "the model's thread has not started"
        self._arriving_calls = 0  # callers of `infer` on their way to the queue
        self._busy_since: float | None = None
        self._throughput = ThroughputEstimate()

    # -- in the event loop -----------------------------------------------------------------------------------------

    async def infer(
        self, sentences: Sequence[Sequence[str]], *, pooling: Pooling | None = None, wait: bool = False
    ) -> BatchedInference:
        """One answer a sentence. A caller that is cancelled takes its sentences out of the queue.

        A full queue raises `OverloadedError`, or with `wait` is waited for. A list longer than the queue gets in when
        the queue is empty: it would never fit otherwise.
        """
        if not sentences:
            return BatchedInference((), Timing(0.0, 0.0, 0.0))
        job = Job(sentences, sum(map(len, sentences)), pooling)
        self._arriving_calls += 1
        try:
            found = await self._infer_inline(job)
            if found is not None:
                return found
            while not self._try_enqueue(job, wait=wait):
                await self._wait_for_space(job)
        finally:
            self._arriving_calls -= 1
        try:
            return await job.future
        except asyncio.CancelledError:
            self._withdraw(job)
            raise

    async def _infer_inline(self, job: Job) -> BatchedInference | None:
        """The answer to a sentence that nobody else's can share a run with; none: it has to go to the queue."""
        if not (self._is_idle() and self._is_short(job)):
            return None
        await asyncio.sleep(0)  # those who came in the same moment ask now
        if not self._is_idle():
            return None
        begun = self._busy_since = time.monotonic()
        try:
            encoded = self._classifier.encode(job.sentences)
            job.tokenize_seconds = time.monotonic() - begun
            if encoded[0].n_subwords > MAX_INLINE_SUBWORDS:
                return None
            answers = self._classifier.run(encoded, pooling=job.pooling)
        except Exception:  # noqa: BLE001 - the model's thread will meet it again, and knows what to do
            return None
        finally:
            self._busy_since = None
        took = time.monotonic() - begun
        with self._condition:
            self._throughput.add(job.words, took)
        return BatchedInference(answers, Timing(0.0, job.tokenize_seconds, took - job.tokenize_seconds))

    def _is_idle(self) -> bool:
        """Whether nobody but the one who asks wants anything of the model."""
        return self._arriving_calls == 1 and not (self._waiting_sentences or self._closed_reason or self._max_delay)

    def _is_short(self, job: Job) -> bool:
        """Whether the event loop may stand still for it: a word may be as long as a body, and a model slow."""
        if len(job.sentences) != 1 or job.words > MAX_INLINE_WORDS:
            return False
        long = sum(map(len, job.sentences[0])) > MAX_INLINE_CHARACTERS
        return not long and self._throughput.estimate_seconds(job.words) <= MAX_INLINE_SECONDS

    def _try_enqueue(self, job: Job, *, wait: bool) -> bool:
        with self._condition:
            if self._closed_reason:
                raise DrainingError(f"{self._closed_reason}: try again later", retry_after=5)
            if self._is_full(job):
                if wait:
                    return False
                seconds = self._throughput.estimate_retry_after(self._waiting_words)
                raise OverloadedError(
                    f"{self._waiting_sentences} sentences are waiting: try again in {seconds} s", retry_after=seconds
                )
            self._jobs.append(job)
            self._waiting_sentences += job.remaining
            self._waiting_words += job.words
            self._condition.notify()
            return True

    def _is_full(self, job: Job) -> bool:
        over = (
            self._waiting_sentences + job.remaining > self._max_sentences
            or self._waiting_words + job.words > self._max_words
        )
        return over and self._waiting_sentences > 0

    async def _wait_for_space(self, job: Job) -> None:
        event = asyncio.Event()
        with self._condition:
            if self._closed_reason or not self._is_full(job):
                return
            self._space_waiters.append((job.loop, event))
        await event.wait()

    def _withdraw(self, job: Job) -> None:
        """Its client has gone. What is in the window already is left out by the model's thread."""
        with self._condition:
            job.cancelled = True
            if job.next_index < len(job.sentences):
                self._jobs.remove(job)
                rest = job.sentences[job.next_index :]
                job.next_index = len(job.sentences)
                self._release_space(len(rest), sum(map(len, rest)))

    # -- told to others --------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Sentences that are not answered yet."""
        return self._waiting_sentences

    @property
    def unavailable_reason(self) -> str:
        """Why nothing can be inferred at this moment; empty where it can."""
        since = self._busy_since
        stuck = 0.0 if since is None else time.monotonic() - since
        if stuck > STUCK_TIMEOUT_S:
            return f"the model has been at one batch for {stuck:.0f} s"
        return self._closed_reason

    # -- the model's thread ----------------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set; what is waiting then is still answered."""
        self._closed_reason, ended = "", "the service is stopping"
        try:
            while self._wait_for_work(stop):
                self._run_batch()
        except BaseException:
            ended = "the model does not answer any more"
            raise
        finally:
            self._close(ended)

    def _wait_for_work(self, stop: threading.Event) -> bool:
        """Waits for some; false when there will be none."""
        if self._window:
            return True
        with self._condition:
            while not self._jobs:
                if stop.is_set():
                    self._closed_reason = "the service is stopping"
                    return False
                self._condition.wait(IDLE_POLL_INTERVAL_S)
            until = self._jobs[0].enqueued_at + self._max_delay
            while self._max_delay and self._waiting_sentences < self._max_batch and not stop.is_set():
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._condition.wait(left)
        return True

    def _run_batch(self) -> None:
        """Fills the window, runs the batch of its oldest sentence, answers the jobs that are complete."""
        window, fresh = self._window, self._fill_window()
        begun = self._busy_since = time.monotonic()
        failed = window.encode(fresh)
        if failed:
            self._finish_sentences(failed, 0.0)
        encoded = time.monotonic()
        done = window.run()
        ended = time.monotonic()
        self._busy_since = None
        for job in {item.job for item in fresh}:
            job.tokenize_seconds += encoded - begun
        for job in {item.job for item in done}:
            job.inference_seconds += ended - encoded
        self._finish_sentences(done, ended - begun)
        window.clear_running()

    def _fill_window(self) -> list[JobSentence]:
        with self._condition:
            gone = self._window.remove_cancelled()
            if gone:
                self._release_space(len(gone), sum(len(item.tokens) for item in gone))
            return self._window.fill(self._jobs)

    def _finish_sentences(self, done: Sequence[JobSentence], seconds: float) -> None:
        complete = []
        for item in done:
            item.job.remaining -= 1
            if not item.job.remaining:
                complete.append(item.job)
        words = sum(len(item.tokens) for item in done)
        with self._condition:
            self._throughput.add(words, seconds)
            self._release_space(len(done), words)
        call_in_loops([(job.loop, job.finish) for job in complete])

    def _release_space(self, sentences: int, words: int) -> None:
        """With the lock held."""
        self._waiting_sentences -= sentences
        self._waiting_words -= words
        if self._space_waiters:
            call_in_loops([(loop, event.set) for loop, event in self._space_waiters])
            self._space_waiters = []

    def _close(self, reason: str) -> None:
        """Nobody is left waiting for a thread that has ended."""
        with self._condition:
            self._closed_reason = reason
            left = {*self._jobs, *self._window.jobs}
            for job in left:
                job.next_index = len(job.sentences)
            self._jobs.clear()
            self._window.clear()
            self._release_space(self._waiting_sentences, self._waiting_words)
        error = DrainingError(f"{reason}: try again later", retry_after=5)
        call_in_loops([(job.loop, partial(job.fail, error)) for job in left])
