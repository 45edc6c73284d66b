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

from service.api.backend import Inferred, Timing
from service.api.batching.jobs import Job, Rate, tell
from service.api.batching.window import Window
from service.api.http.problems import DrainingError, OverloadedError
from service.inference.batch_plan import BUDGET, MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.api.batching.jobs import Item
    from service.inference.classifier import Classifier
    from service.inference.pooling import Pooling

QUEUE_SENTENCES = 4_096
WORDS_A_SENTENCE = 50  # bounds the queue's memory where sentences are long
TICK = 0.5  # how often an idle thread looks whether it should stop
STUCK_SECONDS = 60.0
# Of a sentence that the event loop may stand still for:
WORDS_AT_ONCE = 40
CHARACTERS_AT_ONCE = 800
SUBWORDS_AT_ONCE = 80
SECONDS_AT_ONCE = 0.05  # by what the model took of late


class Batcher:
    """`infer` is called in an event loop, `run` is the model's thread; the rest may be read from anywhere.

    `max_delay` lets an idle model wait so many seconds for company.
    """

    def __init__(
        self,
        classifier: Classifier,
        *,
        queue_sentences: int = QUEUE_SENTENCES,
        queue_words: int | None = None,
        batch_tokens: int = BUDGET,
        max_batch: int = MAX_BATCH,
        max_delay: float = 0.0,
    ) -> None:
        self._classifier = classifier
        self._most_sentences = queue_sentences
        self._most_words = queue_words or queue_sentences * WORDS_A_SENTENCE
        self._max_batch = 1 if classifier.batching == "single" else max_batch
        self._max_delay = max_delay
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()  # with sentences that are not in the window yet
        self._waiting = self._words = 0  # sentences and words of queue and window
        self._room: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._window = Window(
            classifier, batch_tokens=batch_tokens, max_batch=self._max_batch
        )  # the model's thread's own
        self._closed = "the model's thread has not started"
        self._asking = 0  # callers of `infer` on their way to the queue
        self._busy_since: float | None = None
        self._rate = Rate()

    # -- in the event loop -----------------------------------------------------------------------------------------

    async def infer(
        self, sentences: Sequence[Sequence[str]], *, pooling: Pooling | None = None, wait: bool = False
    ) -> Inferred:
        """One answer a sentence. A caller that is cancelled takes its sentences out of the queue.

        A full queue raises `OverloadedError`, or with `wait` is waited for. A list longer than the queue gets in when
        the queue is empty: it would never fit otherwise.
        """
        if not sentences:
            return Inferred((), Timing(0.0, 0.0, 0.0))
        job = Job(sentences, sum(map(len, sentences)), pooling)
        self._asking += 1
        try:
            found = await self._at_once(job)
            if found is not None:
                return found
            while not self._accepts(job, wait=wait):
                await self._room_for(job)
        finally:
            self._asking -= 1
        try:
            return await job.future
        except asyncio.CancelledError:
            self._withdraw(job)
            raise

    async def _at_once(self, job: Job) -> Inferred | None:
        """The answer to a sentence that nobody else's can share a run with; none: it has to go to the queue."""
        if not (self._is_idle() and self._is_short(job)):
            return None
        await asyncio.sleep(0)  # those who came in the same moment ask now
        if not self._is_idle():
            return None
        begun = self._busy_since = time.monotonic()
        try:
            encoded = self._classifier.encode(job.sentences)
            job.tokenize = time.monotonic() - begun
            if encoded[0].n_subwords > SUBWORDS_AT_ONCE:
                return None
            answers = self._classifier.run(encoded, pooling=job.pooling)
        except Exception:  # noqa: BLE001 - the model's thread will meet it again, and knows what to do
            return None
        finally:
            self._busy_since = None
        took = time.monotonic() - begun
        with self._changed:
            self._rate.add(job.words, took)
        return Inferred(answers, Timing(0.0, job.tokenize, took - job.tokenize))

    def _is_idle(self) -> bool:
        """Whether nobody but the one who asks wants anything of the model."""
        return self._asking == 1 and not (self._waiting or self._closed or self._max_delay)

    def _is_short(self, job: Job) -> bool:
        """Whether the event loop may stand still for it: a word may be as long as a body, and a model slow."""
        if len(job.sentences) != 1 or job.words > WORDS_AT_ONCE:
            return False
        long = sum(map(len, job.sentences[0])) > CHARACTERS_AT_ONCE
        return not long and self._rate.expected(job.words) <= SECONDS_AT_ONCE

    def _accepts(self, job: Job, *, wait: bool) -> bool:
        with self._changed:
            if self._closed:
                raise DrainingError(f"{self._closed}: try again later", retry_after=5)
            if self._full(job):
                if wait:
                    return False
                seconds = self._rate.seconds_for(self._words)
                raise OverloadedError(
                    f"{self._waiting} sentences are waiting: try again in {seconds} s", retry_after=seconds
                )
            self._jobs.append(job)
            self._waiting += job.left
            self._words += job.words
            self._changed.notify()
            return True

    def _full(self, job: Job) -> bool:
        over = self._waiting + job.left > self._most_sentences or self._words + job.words > self._most_words
        return over and self._waiting > 0

    async def _room_for(self, job: Job) -> None:
        event = asyncio.Event()
        with self._changed:
            if self._closed or not self._full(job):
                return
            self._room.append((job.loop, event))
        await event.wait()

    def _withdraw(self, job: Job) -> None:
        """Its client has gone. What is in the window already is left out by the model's thread."""
        with self._changed:
            job.gone = True
            if job.taken < len(job.sentences):
                self._jobs.remove(job)
                rest = job.sentences[job.taken :]
                job.taken = len(job.sentences)
                self._free(len(rest), sum(map(len, rest)))

    # -- told to others --------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Sentences that are not answered yet."""
        return self._waiting

    @property
    def trouble(self) -> str:
        """Why nothing can be inferred at this moment; empty where it can."""
        since = self._busy_since
        stuck = 0.0 if since is None else time.monotonic() - since
        if stuck > STUCK_SECONDS:
            return f"the model has been at one batch for {stuck:.0f} s"
        return self._closed

    # -- the model's thread ----------------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set; what is waiting then is still answered."""
        self._closed, ended = "", "the service is stopping"
        try:
            while self._has_work(stop):
                self._step()
        except BaseException:
            ended = "the model does not answer any more"
            raise
        finally:
            self._close(ended)

    def _has_work(self, stop: threading.Event) -> bool:
        """Waits for some; false when there will be none."""
        if self._window:
            return True
        with self._changed:
            while not self._jobs:
                if stop.is_set():
                    self._closed = "the service is stopping"
                    return False
                self._changed.wait(TICK)
            until = self._jobs[0].since + self._max_delay
            while self._max_delay and self._waiting < self._max_batch and not stop.is_set():
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
        return True

    def _step(self) -> None:
        """Fills the window, runs the batch of its oldest sentence, answers the jobs that are complete."""
        window, fresh = self._window, self._fill()
        begun = self._busy_since = time.monotonic()
        failed = window.encode(fresh)
        if failed:
            self._settle(failed, 0.0)
        encoded = time.monotonic()
        done = window.run()
        ended = time.monotonic()
        self._busy_since = None
        for job in {item.job for item in fresh}:
            job.tokenize += encoded - begun
        for job in {item.job for item in done}:
            job.inference += ended - encoded
        self._settle(done, ended - begun)
        window.told()

    def _fill(self) -> list[Item]:
        with self._changed:
            gone = self._window.leave_out_gone()
            if gone:
                self._free(len(gone), sum(len(item.tokens) for item in gone))
            return self._window.fill(self._jobs)

    def _settle(self, done: Sequence[Item], seconds: float) -> None:
        complete = []
        for item in done:
            item.job.left -= 1
            if not item.job.left:
                complete.append(item.job)
        words = sum(len(item.tokens) for item in done)
        with self._changed:
            self._rate.add(words, seconds)
            self._free(len(done), words)
        tell([(job.loop, job.finish) for job in complete])

    def _free(self, sentences: int, words: int) -> None:
        """With the lock held."""
        self._waiting -= sentences
        self._words -= words
        if self._room:
            tell([(loop, event.set) for loop, event in self._room])
            self._room = []

    def _close(self, why: str) -> None:
        """Nobody is left waiting for a thread that has ended."""
        with self._changed:
            self._closed = why
            left = {*self._jobs, *self._window.jobs}
            for job in left:
                job.taken = len(job.sentences)
            self._jobs.clear()
            self._window.clear()
            self._free(self._waiting, self._words)
        error = DrainingError(f"{why}: try again later", retry_after=5)
        tell([(job.loop, partial(job.fail, error)) for job in left])
