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
from service.api.jobs import Item, Job, Rate, tell
from service.api.problems import DrainingError, OverloadedError
from service.errors import InferenceError
from service.inference.graph import reason
from service.inference.plan import BUDGET, MAX_BATCH, plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.inference.classifier import Classifier
    from service.inference.pooling import Pooling

QUEUE_SENTENCES = 4_096
WORDS_A_SENTENCE = 50  # bounds the queue's memory where sentences are long
WINDOW_SENTENCES = 64
WINDOW_WORDS = 4_096
TICK = 0.5  # how often an idle thread looks whether it should stop
STUCK_SECONDS = 60.0
WORDS_AT_ONCE = 40  # of a sentence that the event loop may stand still for


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
        self._batch_tokens = batch_tokens
        self._max_batch = 1 if classifier.batching == "single" else max_batch
        self._max_delay = max_delay
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()  # with sentences that are not in the window yet
        self._waiting = self._words = 0  # sentences and words of queue and window
        self._room: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._window: list[Item] = []  # the model's thread alone touches it, and the next
        self._chosen: list[Item] = []  # those in the graph: neither in the window nor answered
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
        if not self._alone(job):
            return None
        await asyncio.sleep(0)  # those who came in the same moment ask now
        if not self._alone(job):
            return None
        begun = self._busy_since = time.monotonic()
        try:
            encoded = self._classifier.encode(job.sentences)
            job.tokenize = time.monotonic() - begun
            answers = self._classifier.run(encoded, pooling=job.pooling)
        except Exception:  # noqa: BLE001 - the model's thread will meet it again, and knows what to do
            return None
        finally:
            self._busy_since = None
        took = time.monotonic() - begun
        with self._changed:
            self._rate.add(job.words, took)
        return Inferred(answers, Timing(0.0, job.tokenize, took - job.tokenize))

    def _alone(self, job: Job) -> bool:
        short = len(job.sentences) == 1 and job.words <= WORDS_AT_ONCE
        return short and self._asking == 1 and not (self._waiting or self._closed or self._max_delay)

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
        fresh = self._fill()
        begun = self._busy_since = time.monotonic()
        self._encode(fresh)
        encoded = time.monotonic()
        chosen = self._chosen = self._choose() if self._window else []
        answers = self._classifier.run(
            [item.encoded for item in chosen if item.encoded is not None],
            pooling=chosen[0].job.pooling if chosen else None,
        )
        ended = time.monotonic()
        self._busy_since = None
        for job in {item.job for item in fresh}:
            job.tokenize += encoded - begun
        for job in {item.job for item in chosen}:
            job.inference += ended - encoded
        for item, answer in zip(chosen, answers, strict=True):
            item.job.answers[item.index] = answer
        self._settle(chosen, ended - begun)
        self._chosen = []

    def _fill(self) -> list[Item]:
        """Takes one sentence of each job in turn; gives those that are new in the window."""
        fresh = []
        with self._changed:
            gone = [item for item in self._window if item.job.gone]
            if gone:
                self._window = [item for item in self._window if not item.job.gone]
                self._free(len(gone), sum(len(item.tokens) for item in gone))
            words = sum(len(item.tokens) for item in self._window)
            while self._jobs and len(self._window) < WINDOW_SENTENCES and (words < WINDOW_WORDS or not self._window):
                job = self._jobs.popleft()
                item = Item(job, job.taken)
                job.taken += 1
                if job.taken < len(job.sentences):
                    self._jobs.append(job)
                words += len(item.tokens)
                self._window.append(item)
                fresh.append(item)
        return fresh

    def _encode(self, items: Sequence[Item]) -> None:
        """Words that the tokenizer fails on cost their own sentence, not the thread."""
        try:
            found = self._classifier.encode([item.tokens for item in items])
        except Exception as error:  # noqa: BLE001 - whatever a tokenizer that somebody brings may raise
            if len(items) == 1:
                items[0].job.answers[items[0].index] = InferenceError(f"can't be cut into subwords: {reason(error)}")
                self._window.remove(items[0])
                self._settle(items, 0.0)
                return
            middle = len(items) // 2
            self._encode(items[:middle])
            self._encode(items[middle:])
            return
        for item, encoded in zip(items, found, strict=True):
            item.encoded = encoded
            item.length = sum(len(window.ids) for window in encoded.windows)

    def _choose(self) -> list[Item]:
        """The oldest sentence and those that are best run with it; they leave the window."""
        pooling = self._window[0].job.pooling
        like = [item for item in self._window if item.job.pooling == pooling]
        batches = plan([item.length for item in like], budget=self._batch_tokens, max_batch=self._max_batch)
        chosen = [like[index] for index in next(batch for batch in batches if 0 in batch)]
        left = set(chosen)
        self._window = [item for item in self._window if item not in left]
        return chosen

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
            left = {*self._jobs, *(item.job for item in (*self._chosen, *self._window))}
            for job in left:
                job.taken = len(job.sentences)
            self._jobs.clear()
            self._window, self._chosen = [], []
            self._free(self._waiting, self._words)
        error = DrainingError(f"{why}: try again later", retry_after=5)
        tell([(job.loop, partial(job.fail, error)) for job in left])
