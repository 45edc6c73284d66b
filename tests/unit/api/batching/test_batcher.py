"""The micro-batcher: which sentences share a run, which are rejected, and how waiting calls end."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.api.batching.batcher import MicroBatcher
from service.api.batching.throughput import MAX_RETRY_AFTER_S, ThroughputEstimate
from service.api.http.problems import DrainingError, OverloadedError
from service.errors import InferenceError, ModelError
from service.inference.classifier import Classifier, WordProbs
from service.inference.model.folder import ModelFolder
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence
    from pathlib import Path

    from service.inference.classifier import InferenceResult
    from service.inference.graph_runner import WindowOutput
    from service.inference.pooling import Pooling
    from service.inference.tokenization.encoder import EncodedSentence, TokenWindow

WAIT = 30.0


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return Classifier(ModelFolder.load(make_model(tmp_path_factory.mktemp("tiny") / "model", "wordpiece")))


@pytest.fixture(scope="module", autouse=True)
def _through_the_queue() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "service.api.batching.inline.MAX_INLINE_WORDS", 0
        )  # a model that waits at a gate would stop the loop
        yield


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.batching.inline.MAX_INLINE_WORDS", 3)


class Gated:
    """The classifier, which runs a batch only when it is let, and remembers what it ran."""

    def __init__(self, classifier: Classifier, *, opened: bool = False, broken: Exception | None = None) -> None:
        self._classifier = classifier
        self.batching = classifier.batching
        self.gate = threading.Semaphore(0)
        self.opened = opened
        self.broken = broken
        self.started = threading.Event()
        self.runs: list[tuple[list[int], Pooling | None]] = []
        self.encoded: list[int] = []
        self.threads: list[threading.Thread] = []

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[EncodedSentence]:
        self.encoded.append(len(sentences))
        if any("untokenisable" in words for words in sentences):
            raise TypeError("no subwords for this")
        return self._classifier.encode(sentences)

    def run(self, encoded: Sequence[EncodedSentence], *, pooling: Pooling | None = None) -> list[InferenceResult]:
        self.threads.append(threading.current_thread())
        if encoded:
            self.runs.append(([each.n_words for each in encoded], pooling))
        self.started.set()
        if not self.opened:
            assert self.gate.acquire(timeout=WAIT)
        if self.broken is not None:
            raise self.broken
        return self._classifier.run(encoded, pooling=pooling)

    def run_windows(self, windows: Sequence[TokenWindow]) -> list[WindowOutput]:
        self.runs.append(([-sum(len(window.ids) for window in windows)], None))  # negative: a part of a long sentence
        self.started.set()
        if not self.opened:
            assert self.gate.acquire(timeout=WAIT)
        return self._classifier.run_windows(windows)

    def combine(
        self, encoded: Sequence[EncodedSentence], outputs: Sequence[WindowOutput], *, pooling: Pooling | None = None
    ) -> list[InferenceResult]:
        return self._classifier.combine(encoded, outputs, pooling=pooling)

    def can_run(self, encoded: EncodedSentence) -> bool:
        return self._classifier.can_run(encoded)

    def open(self) -> None:
        self.opened = True
        self.gate.release()


@contextmanager
def running(model: Gated | Classifier, **options: Any) -> Iterator[MicroBatcher]:
    batcher = MicroBatcher(cast("Classifier", model), **options)
    stop = threading.Event()
    thread = threading.Thread(target=batcher.run, args=(stop,), daemon=True)
    thread.start()
    while batcher.unavailable_reason:
        time.sleep(0)
    try:
        yield batcher
    finally:
        stop.set()
        if isinstance(model, Gated):
            model.open()
        thread.join(WAIT)
        assert not thread.is_alive()


def answered(work: Coroutine[Any, Any, Any]) -> Any:
    async def within() -> Any:
        return await asyncio.wait_for(work, WAIT)

    return asyncio.run(within())


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, WAIT)


async def queued(batcher: MicroBatcher, sentences: int) -> None:
    while batcher.waiting != sentences:
        await asyncio.sleep(0)


def probs(answer: InferenceResult) -> Any:
    assert isinstance(answer, WordProbs)
    return answer.probs


WORDS = ("the", "of", "Paris", "timber", "(min)", "x", "wolves.", "\u200b")
lists = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=30), min_size=1, max_size=8)


@settings(max_examples=20, deadline=None)
@given(st.lists(lists, min_size=1, max_size=8), st.sampled_from([1, 3, 16]), st.sampled_from([16, 64, 512]))
def test_answers_do_not_depend_on_the_batch(
    classifier: Classifier, requests: list[list[list[str]]], max_batch: int, tokens: int
) -> None:
    async def ask(batcher: MicroBatcher) -> list[Any]:
        return await asyncio.gather(*(batcher.infer(sentences) for sentences in requests))

    with running(classifier, max_batch=max_batch, batch_tokens=tokens) as batcher:
        answers = answered(ask(batcher))
        assert batcher.waiting == 0
    for sentences, inferred in zip(requests, answers, strict=True):
        for words, answer in zip(sentences, inferred.answers, strict=True):
            alone = classifier.infer([words])[0]
            assert np.allclose(probs(answer), probs(alone), atol=1e-6)
            assert isinstance(alone, WordProbs)
            assert answer.unscored == alone.unscored


def test_an_idle_model_runs_at_once_and_a_busy_one_batches_what_arrives(classifier: Classifier) -> None:
    model = Gated(classifier)

    async def ask(batcher: MicroBatcher) -> None:
        first = asyncio.create_task(batcher.infer([["the"]]))
        await until(model.started)  # it is at work with one sentence, though others may come
        others = [asyncio.create_task(batcher.infer([["of", "Paris"]])) for _ in range(5)]
        await queued(batcher, 6)
        model.open()
        for inferred in await asyncio.gather(first, *others):
            assert inferred.timing.queue >= 0
            assert inferred.timing.inference > 0
            assert inferred.timing.tokenize > 0

    with running(model) as batcher:
        answered(ask(batcher))
    assert [sizes for sizes, _ in model.runs] == [[1], [2] * 5]


def test_with_a_delay_an_idle_model_waits_for_more_sentences(classifier: Classifier) -> None:
    model = Gated(classifier, opened=True)

    async def ask(batcher: MicroBatcher) -> None:
        first = asyncio.create_task(batcher.infer([["the"]]))
        await queued(batcher, 1)
        await asyncio.gather(first, batcher.infer([["the"]] * 3))

    with running(model, max_delay=WAIT, max_batch=4) as batcher:
        answered(ask(batcher))
    assert [sizes for sizes, _ in model.runs] == [[1] * 4]


def test_batches_hold_sentences_of_similar_length_within_the_budget(classifier: Classifier) -> None:
    model = Gated(classifier)

    async def ask(batcher: MicroBatcher) -> None:
        first = asyncio.create_task(batcher.infer([["the"]]))
        await until(model.started)
        mixed = [["of"] * size for size in (20, 2, 20, 2, 20, 2, 20, 2)]
        waiting = asyncio.create_task(batcher.infer(mixed))
        await queued(batcher, 9)
        model.open()
        await asyncio.gather(first, waiting)

    with running(model, batch_tokens=50) as batcher:
        answered(ask(batcher))
    assert [sizes for sizes, _ in model.runs[1:]] == [[20, 20], [2] * 4, [20, 20]]


def test_a_long_list_does_not_delay_a_single_sentence(classifier: Classifier) -> None:
    model = Gated(classifier)

    async def ask(batcher: MicroBatcher) -> None:
        long_list = asyncio.create_task(batcher.infer([["of"] * 3] * 1_000))
        await until(model.started)
        single = asyncio.create_task(batcher.infer([["the"] * 3]))
        await queued(batcher, 1_001)
        model.open()
        await single
        assert not long_list.done()
        await long_list

    with running(model) as batcher:
        answered(ask(batcher))


def test_a_long_sentence_runs_in_turns_with_others(classifier: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of it is followed by batches of other sentences with three times as many tokens, while some wait."""
    monkeypatch.setattr("service.api.batching.window.MAX_TURN_TOKENS", 24)
    model = Gated(classifier)
    long, short = ["wolf"] * 400, ["the", "wolf"]

    async def work() -> Any:
        with running(model, max_batch=4) as batcher:
            first = asyncio.ensure_future(batcher.infer([short]))
            await asyncio.to_thread(model.started.wait, WAIT)
            slow = asyncio.ensure_future(batcher.infer([long]))
            await asyncio.sleep(0)
            others = [asyncio.ensure_future(batcher.infer([short])) for _ in range(40)]
            while batcher.waiting < 42:
                await asyncio.sleep(0)
            model.open()
            await asyncio.gather(*others)
            assert not slow.done()
            return await slow, await first

    slow, _ = answered(work())
    [expected] = classifier.infer([long])
    assert isinstance(expected, WordProbs)
    np.testing.assert_array_equal(slow.answers[0].probs, expected.probs)
    runs = [run for run, _ in model.runs[1:]]
    part_tokens, short_tokens = -runs[0][0], len(classifier.encode([short])[0].windows[0].ids)
    assert 0 < part_tokens <= 64  # one window of the model
    waiting, since_part = 40, 0
    for run in runs[1:]:
        if run[0] < 0:
            assert since_part * short_tokens >= 3 * part_tokens or not waiting
            since_part, part_tokens = 0, -run[0]
        else:
            assert (since_part * short_tokens) < 3 * part_tokens
            since_part += len(run)
            waiting -= len(run)
    assert waiting == 0


def test_long_sentences_leave_half_of_the_queue_to_others(classifier: Classifier) -> None:
    model = Gated(classifier)
    long, short = ["wolf"] * 400, ["wolf"]

    async def work() -> None:
        with running(model, queue_sentences=100, queue_words=1_000) as batcher:
            first = asyncio.ensure_future(batcher.infer([short]))
            await asyncio.to_thread(model.started.wait, WAIT)
            one = asyncio.ensure_future(batcher.infer([long]))
            await asyncio.sleep(0)
            with pytest.raises(OverloadedError):
                await batcher.infer([long])
            other = asyncio.ensure_future(batcher.infer([short]))
            model.open()
            await asyncio.gather(first, one, other)
            assert batcher.waiting == 0
            await batcher.infer([long])  # nothing is left of what was counted

    answered(work())


@pytest.mark.parametrize("sentence", [["wolf"] * 400, ["wolf"]], ids=["long", "short"])
def test_a_list_that_fills_the_queue_leaves_space_for_single_sentences(
    classifier: Classifier, sentence: list[str]
) -> None:
    model = Gated(classifier)

    async def work() -> None:
        with running(model, queue_sentences=100, queue_words=1_000) as batcher:
            large = asyncio.ensure_future(batcher.infer([sentence] * 200))
            await asyncio.to_thread(model.started.wait, WAIT)
            singles = [asyncio.ensure_future(batcher.infer([["wolf"]])) for _ in range(25)]
            await queued(batcher, 225)
            with pytest.raises(OverloadedError):  # the reserve is a quarter of the queue
                await batcher.infer([["wolf"]])
            with pytest.raises(OverloadedError):  # and not for lists
                await batcher.infer([["wolf"]] * 20)
            model.open()
            await asyncio.gather(*singles)
            assert not large.done()
            await large
            assert batcher.waiting == 0
            await batcher.infer([["wolf"]] * 200)  # nothing is left of what was counted

    answered(work())


def test_a_long_sentence_whose_client_leaves_does_not_run_on(
    classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.batching.window.MAX_TURN_TOKENS", 24)
    model = Gated(classifier)

    async def work() -> None:
        with running(model) as batcher:
            slow = asyncio.ensure_future(batcher.infer([["wolf"] * 400]))
            await asyncio.to_thread(model.started.wait, WAIT)
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
            model.open()
            while batcher.waiting:
                await asyncio.sleep(0)

    answered(work())
    assert len(model.runs) == 1


def test_sentences_of_another_pooling_do_not_share_a_run(classifier: Classifier) -> None:
    model = Gated(classifier)

    async def ask(batcher: MicroBatcher) -> None:
        begin = asyncio.create_task(batcher.infer([["the"]]))
        await until(model.started)
        jobs = [asyncio.create_task(batcher.infer([["timberwolves"]], pooling=how)) for how in ("mean", "first", "mean")]  # fmt: skip
        await queued(batcher, 4)
        model.open()
        mean, first, again = [(await job).answers[0] for job in jobs]
        assert np.array_equal(probs(mean), probs(again))
        assert not np.allclose(probs(mean), probs(first))
        await begin

    with running(model) as batcher:
        answered(ask(batcher))
    assert [how for _, how in model.runs] == [None, "mean", "first"]


def test_sentences_of_another_model_do_not_share_a_run(classifier: Classifier, tmp_path: Path) -> None:
    model = Gated(classifier)
    other = Gated(Classifier(ModelFolder.load(make_model(tmp_path / "other", "wordpiece", seed=1))), opened=True)

    async def ask(batcher: MicroBatcher) -> None:
        begin = asyncio.create_task(batcher.infer([["the"]]))
        await until(model.started)
        jobs = [
            asyncio.create_task(batcher.infer([["timberwolves"]], classifier=cast("Classifier", chosen)))
            for chosen in (model, other, None, other)
        ]
        await queued(batcher, 5)
        model.open()
        answers = [probs((await job).answers[0]) for job in jobs]
        assert np.array_equal(answers[0], answers[2])
        assert np.array_equal(answers[1], answers[3])
        assert not np.allclose(answers[0], answers[1])
        assert np.array_equal(answers[1], probs(other._classifier.infer([["timberwolves"]])[0]))
        await begin

    with running(model) as batcher:
        answered(ask(batcher))
    assert [words for words, _ in model.runs] == [[1], [1, 1]]
    assert [words for words, _ in other.runs] == [[1, 1]]
    assert other.encoded == [2]


def test_a_full_queue_rejects_requests_and_recovers(classifier: Classifier) -> None:
    model = Gated(classifier)

    async def ask(batcher: MicroBatcher) -> None:
        first = asyncio.create_task(batcher.infer([["the"]]))
        await until(model.started)
        waiting = asyncio.create_task(batcher.infer([["of"]] * 3))
        await queued(batcher, 4)
        with pytest.raises(OverloadedError) as refused:
            await batcher.infer([["of"]])
        assert refused.value.retry_after is not None
        assert refused.value.retry_after >= 1
        model.open()
        await asyncio.gather(first, waiting)
        assert len((await batcher.infer([["of"]])).answers) == 1

    with running(model, queue_sentences=4) as batcher:
        answered(ask(batcher))


def test_long_sentences_fill_the_queue_by_their_words(classifier: Classifier) -> None:
    model = Gated(classifier)

    async def ask(batcher: MicroBatcher) -> None:
        first = asyncio.create_task(batcher.infer([["the"] * 10]))
        await until(model.started)
        with pytest.raises(OverloadedError):
            await batcher.infer([["of"] * 11])
        fits = asyncio.create_task(batcher.infer([["of"] * 10]))
        await queued(batcher, 2)
        model.open()
        await asyncio.gather(first, fits)

    with running(model, queue_words=20) as batcher:
        answered(ask(batcher))


def test_a_list_longer_than_the_queue_gets_in_when_nothing_waits(classifier: Classifier) -> None:
    with running(classifier, queue_sentences=2) as batcher:
        assert len(answered(batcher.infer([["of"]] * 10)).answers) == 10


def test_a_waiting_call_enters_when_there_is_space(classifier: Classifier) -> None:
    model = Gated(classifier)

    async def ask(batcher: MicroBatcher) -> None:
        first = asyncio.create_task(batcher.infer([["the"]] * 2))
        await until(model.started)
        patient = [asyncio.create_task(batcher.infer([["of"]], wait=True)) for _ in range(5)]
        await asyncio.sleep(0)
        assert batcher.waiting == 2
        model.open()
        assert [len(each.answers) for each in await asyncio.gather(first, *patient)] == [2, 1, 1, 1, 1, 1]

    with running(model, queue_sentences=2) as batcher:
        answered(ask(batcher))


def test_sentences_of_a_disconnected_client_do_not_run(classifier: Classifier) -> None:
    model = Gated(classifier)

    async def ask(batcher: MicroBatcher) -> None:
        first = asyncio.create_task(batcher.infer([["the"]]))
        await until(model.started)
        cancelled = asyncio.create_task(batcher.infer([["of"] * 7] * 200))
        stays = asyncio.create_task(batcher.infer([["of"] * 2]))
        await queued(batcher, 202)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert batcher.waiting == 2  # its room is free at once
        model.open()
        await asyncio.gather(first, stays)

    with running(model) as batcher:
        answered(ask(batcher))
        assert batcher.waiting == 0
    assert [sizes for sizes, _ in model.runs] == [[1], [2]]


def test_a_client_that_disconnects_while_its_sentences_are_in_the_window(classifier: Classifier) -> None:
    model = Gated(classifier)

    async def ask(batcher: MicroBatcher) -> None:
        cancelled = asyncio.create_task(batcher.infer([["of"] * 7] * 200))
        await until(model.started)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert batcher.waiting == 64
        model.open()
        await batcher.infer([["the"]])

    with running(model) as batcher:
        answered(ask(batcher))
        assert batcher.waiting == 0
    assert [sizes for sizes, _ in model.runs] == [[7] * 16, [1]]


def test_stopping_answers_waiting_calls_and_rejects_new_ones(classifier: Classifier) -> None:
    model = Gated(classifier)
    batcher = MicroBatcher(cast("Classifier", model))
    stop = threading.Event()
    thread = threading.Thread(target=batcher.run, args=(stop,), daemon=True)

    async def ask() -> None:
        with pytest.raises(DrainingError):
            await batcher.infer([["early"]])
        thread.start()
        while batcher.unavailable_reason:
            await asyncio.sleep(0)
        first = asyncio.create_task(batcher.infer([["the"]]))
        await until(model.started)
        second = asyncio.create_task(batcher.infer([["of"] * 2]))
        await queued(batcher, 2)
        stop.set()
        model.open()
        assert [len((await job).answers) for job in (first, second)] == [1, 1]
        await asyncio.to_thread(thread.join, WAIT)
        assert "stopping" in batcher.unavailable_reason
        with pytest.raises(DrainingError):
            await batcher.infer([["late"]])

    answered(ask())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_thread_fails_all_waiting_calls(classifier: Classifier) -> None:
    model = Gated(classifier, broken=ModelError("the session answers no more"))

    async def ask(batcher: MicroBatcher) -> None:
        jobs = [asyncio.create_task(batcher.infer([["of"]] * size, wait=size < 100)) for size in (300, 2, 2)]
        await until(model.started)
        model.open()
        for job in jobs:
            with pytest.raises(DrainingError, match="the model's thread has failed"):
                await job
        assert "the model's thread has failed" in batcher.unavailable_reason
        assert batcher.waiting == 0

    with running(model, queue_sentences=301) as batcher:
        answered(ask(batcher))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_sentence_in_the_running_batch_is_answered_when_the_model_fails(classifier: Classifier) -> None:
    model = Gated(classifier, opened=True, broken=ModelError("the session is gone"))

    async def work(batcher: MicroBatcher) -> None:
        with pytest.raises(DrainingError, match="the model's thread has failed"):
            await batcher.infer([["alone"]])
        assert batcher.waiting == 0

    with running(model) as batcher:
        answered(work(batcher))


def test_a_tokenizer_failure_costs_only_its_own_sentence(classifier: Classifier) -> None:
    model = Gated(classifier, opened=True)
    sentences = [["the"], ["of", "untokenisable"], ["Paris"], ["untokenisable"]]
    with running(model) as batcher:
        answers = answered(batcher.infer(sentences)).answers
        assert [isinstance(answer, InferenceError) for answer in answers] == [False, True, False, True]
        alone = answered(batcher.infer([["untokenisable"]])).answers
        assert "no subwords for this" in str(alone[0])
        assert batcher.waiting == 0


def test_nothing_to_infer(classifier: Classifier) -> None:
    assert answered(MicroBatcher(classifier).infer([])).answers == ()


def test_a_stuck_batch_makes_the_model_unavailable(classifier: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Gated(classifier)

    async def ask(batcher: MicroBatcher) -> None:
        job = asyncio.create_task(batcher.infer([["the"]]))
        await until(model.started)
        assert "worked on one batch for" in batcher.unavailable_reason
        model.open()
        await job

    monkeypatch.setattr("service.api.batching.batcher.STUCK_TIMEOUT_S", 0.0)
    with running(model) as batcher:
        answered(ask(batcher))


@pytest.mark.parametrize(
    ("words", "seconds"),
    [(0, 1), (50, 1), (150, 2), (10**9, MAX_RETRY_AFTER_S)],
    ids=["none", "few", "some", "endless"],
)
def test_retry_after_follows_the_throughput(words: int, seconds: int) -> None:
    rate = ThroughputEstimate()
    assert rate.estimate_retry_after(words) == 1  # nothing is known yet
    for _ in range(20):
        rate.add(100, 1.0)
    assert rate.estimate_retry_after(words) == seconds


@pytest.mark.usefixtures("at_once")
def test_a_short_sentence_alone_runs_inline(classifier: Classifier) -> None:
    model = Gated(classifier, opened=True)
    with running(model) as batcher:
        inferred = answered(batcher.infer([["Paris", "of"]]))
    assert model.threads == [threading.current_thread()]
    assert np.array_equal(probs(inferred.answers[0]), probs(classifier.infer([["Paris", "of"]])[0]))
    assert inferred.timing.inference > 0
    assert batcher.waiting == 0


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("sentences", "options"),
    [([["the", "of", "Paris", "x"]], {}), ([["the"], ["of"]], {}), ([["the"]], {"max_delay": 1e-6})],
    ids=["long", "list", "delay"],
)
def test_long_sentences_and_delayed_batches_run_in_the_thread(
    classifier: Classifier, sentences: list[list[str]], options: dict[str, Any]
) -> None:
    model = Gated(classifier, opened=True)
    with running(model, **options) as batcher:
        answered(batcher.infer(sentences))
    assert threading.current_thread() not in model.threads


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("word", ["x" * 900, "-" * 90], ids=["characters", "subwords"])
def test_few_words_with_many_subwords_do_not_block_the_loop(classifier: Classifier, word: str) -> None:
    model = Gated(classifier, opened=True)
    with running(model) as batcher:
        inferred = answered(batcher.infer([[word]]))
    assert threading.current_thread() not in model.threads
    assert np.array_equal(probs(inferred.answers[0]), probs(classifier.infer([[word]])[0]))


@pytest.mark.usefixtures("at_once")
def test_a_slow_model_does_not_block_the_loop(classifier: Classifier) -> None:
    model = Gated(classifier, opened=True)
    with running(model) as batcher:
        batcher._throughput.add(1, 1.0)  # a second a word
        answered(batcher.infer([["the"]]))
    assert threading.current_thread() not in model.threads


@pytest.mark.usefixtures("at_once")
def test_sentences_that_arrive_together_share_a_run(classifier: Classifier) -> None:
    model = Gated(classifier)

    async def ask() -> Any:
        first = [asyncio.create_task(batcher.infer([["the"]])) for _ in range(5)]
        await queued(batcher, 5)
        later = asyncio.create_task(batcher.infer([["of"]]))  # alone, but the model is not idle
        await queued(batcher, 6)
        model.open()
        return await asyncio.gather(*first, later)

    with running(model) as batcher:
        answered(ask())
    assert threading.current_thread() not in model.threads
    assert sum(len(sizes) for sizes, _ in model.runs) == 6
    assert len(model.runs) < 6


@pytest.mark.usefixtures("at_once")
def test_with_a_fast_model_sentences_that_arrive_together_share_a_run_inline(classifier: Classifier) -> None:
    model, sentences = Gated(classifier, opened=True), [["the"], ["Paris", "of"], ["of"], ["Paris"]]

    async def ask() -> Any:
        return await asyncio.gather(
            *(batcher.infer([sentence]) for sentence in sentences),
            batcher.infer([["the"]], pooling="first"),
        )

    with running(model) as batcher:
        batcher._throughput.add(1_000_000, 1.0)
        inferred = answered(ask())
    assert set(model.threads) == {threading.current_thread()}
    assert model.runs == [([1, 2, 1, 1], None), ([1], "first")]
    for each, sentence in zip(inferred, [*sentences, ["the"]], strict=True):
        assert np.array_equal(probs(each.answers[0]), probs(classifier.infer([sentence])[0]))


@pytest.mark.usefixtures("at_once")
def test_of_sentences_that_share_a_run_inline_one_with_many_subwords_runs_in_the_thread(classifier: Classifier) -> None:
    model, sentences = Gated(classifier, opened=True), [["the"], ["-" * 90], ["of"]]

    async def ask() -> Any:
        return await asyncio.gather(*(batcher.infer([sentence]) for sentence in sentences))

    with running(model) as batcher:
        batcher._throughput.add(1_000_000, 1.0)
        inferred = answered(ask())
    assert [sizes for sizes, _ in model.runs] == [[1, 1], [1]]
    assert [thread is threading.current_thread() for thread in model.threads] == [True, False]
    for each, sentence in zip(inferred, sentences, strict=True):
        assert np.array_equal(probs(each.answers[0]), probs(classifier.infer([sentence])[0]))


@pytest.mark.usefixtures("at_once")
def test_a_fast_model_lets_the_loop_go_on_between_runs(classifier: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.batching.inline.MAX_SHARED_SECONDS", 2e-6)
    model = Gated(classifier, opened=True)

    async def ask() -> Any:
        calls = [asyncio.create_task(batcher.infer([["the"]])) for _ in range(7)]
        await asyncio.sleep(0)
        calls[3].cancel()
        return await asyncio.gather(*calls, return_exceptions=True)

    with running(model) as batcher:
        batcher._throughput.add(1_000_000, 1.0)
        batcher._throughput.add = lambda words, seconds: None  # type: ignore[method-assign]  # as fast as it was
        inferred = answered(ask())
    assert [sizes for sizes, _ in model.runs] == [[1, 1], [1, 1], [1, 1]]
    assert [number for number, each in enumerate(inferred) if isinstance(each, asyncio.CancelledError)] == [3]


@pytest.mark.usefixtures("at_once")
def test_a_failure_inline_is_the_same_as_in_the_thread(classifier: Classifier) -> None:
    with running(Gated(classifier, opened=True)) as batcher:
        inferred = answered(batcher.infer([["untokenisable"]]))
    assert "the tokenizer fails on this sentence" in str(inferred.answers[0])


@pytest.mark.usefixtures("at_once")
def test_a_model_that_fails_inline_ends_its_thread_too(classifier: Classifier) -> None:
    model = Gated(classifier, opened=True, broken=ModelError("the session answers no more"))
    batcher = MicroBatcher(cast("Classifier", model))
    raised: list[BaseException] = []

    def run() -> None:
        try:
            batcher.run(threading.Event())
        except ModelError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while batcher.unavailable_reason:
        time.sleep(0)
    with pytest.raises(DrainingError, match="the model's thread has failed"):
        answered(batcher.infer([["the"]]))
    thread.join(WAIT)
    assert raised
    assert "the model's thread has failed" in batcher.unavailable_reason
