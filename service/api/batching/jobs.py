"""What waits for the model: a job is the sentences of one call, a job sentence is one of them in the window."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from service.api.batching.results import BatchedInference, Timing
from service.errors import InferenceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.inference.classifier import Classifier, InferenceResult
    from service.inference.graph_runner import WindowOutput
    from service.inference.pooling import Pooling
    from service.inference.tokenization.encoder import EncodedSentence


class Job:
    """The sentences of one call, and the future that its caller awaits."""

    def __init__(
        self, sentences: Sequence[Sequence[str]], words: int, classifier: Classifier, pooling: Pooling | None
    ) -> None:
        self.sentences = sentences
        self.words = words
        self.classifier = classifier
        self.pooling = pooling
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[BatchedInference] = self.loop.create_future()
        self.answers: list[InferenceResult] = [InferenceError("not run")] * len(sentences)
        self.remaining = len(sentences)
        self.next_index = 0  # of the first sentence that is not in the window yet
        self.cancelled = False
        self.enqueued_at = time.monotonic()
        self.tokenize_seconds = self.inference_seconds = 0.0

    def shares_model_with(self, other: Job) -> bool:
        return self.classifier is other.classifier and self.pooling == other.pooling

    def finish(self) -> None:
        """Must be called in the thread of the job's event loop."""
        if not self.future.done():
            busy = self.tokenize_seconds + self.inference_seconds
            waited = max(0.0, time.monotonic() - self.enqueued_at - busy)
            self.future.set_result(
                BatchedInference(self.answers, Timing(waited, self.tokenize_seconds, self.inference_seconds))
            )

    def fail(self, error: Exception) -> None:
        """Must be called in the thread of the job's event loop."""
        if not self.future.done():
            self.future.set_exception(error)


class JobSentence:
    """One sentence of a job, from the window to its answer."""

    __slots__ = ("encoded", "index", "job", "length", "outputs")

    def __init__(self, job: Job, index: int) -> None:
        self.job = job
        self.index = index
        self.encoded: EncodedSentence | None = None
        self.length = 0
        self.outputs: list[WindowOutput] = []  # of a long sentence, whose windows run in turns with other sentences

    @property
    def tokens(self) -> Sequence[str]:
        return self.job.sentences[self.index]


def call_in_loops(calls: Sequence[tuple[asyncio.AbstractEventLoop, Callable[[], None]]]) -> None:
    """Schedules each call in its event loop; wakes each loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}
    for loop, call in calls:
        by_loop.setdefault(loop, []).append(call)
    for loop, loop_calls in by_loop.items():
        try:
            loop.call_soon_threadsafe(_run_calls, loop_calls)
        except RuntimeError:
            if not loop.is_closed():  # nobody waits in a closed loop
                raise


def _run_calls(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()
