"""Sentences to word probabilities, the same ones whatever shares their batch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from service.contracts.defaults import BATCH_TOKENS
from service.errors import InferenceError, ModelError, TooManySubwordsError
from service.inference.batch_plan import DEFAULT_MAX_BATCH, plan_batches
from service.inference.pooling import Overlaps, pool_words
from service.inference.session import RUN_ERRORS, OnnxSession, describe_error
from service.inference.tokenization.encoder import Encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from typing import Any

    import numpy.typing as npt

    from service.inference.model.folder import ModelFolder
    from service.inference.pooling import Pooling
    from service.inference.tokenization.encoder import EncodedSentence, TokenWindow

    Floats = npt.NDArray[np.float64]

DEFAULT_LOOK_AHEAD = 1024
MAX_WORDS_AHEAD = 50_000  # of long sentences fewer are read ahead, so that memory stays in bounds
# Of one sentence: four a word of the longest that is allowed. Words made of rare letters only, as nobody writes
# them, would keep the model busy for minutes, for longer than a stream waits for its worker.
MAX_SUBWORDS = 20_000
MAX_BATCH_DEVIATION = 1e-4  # how far probabilities may move with batch mates in a model that somebody brings
_PROBE_LENGTHS = (4, 11, 19, 27, 40)

Batching = Literal["planned", "single"]


@dataclass(frozen=True, slots=True)
class WordProbs:
    """Probabilities [n, K] of a sentence's words, rows summing to 1.

    The row of a word that is not `scored` is uniform and says nothing; `unscored` says why for each of them.
    """

    probs: Floats
    scored: npt.NDArray[np.bool_]
    n_windows: int
    unscored: Mapping[int, str]


InferenceResult = WordProbs | InferenceError


class Classifier:
    """A model, ready to answer. Safe to use from several threads.

    `invariance` is by how much the self-test saw probabilities change with batch mates (None where it was left out);
    `batching` is "planned", or "single" where that was too much and each sequence is run alone.
    `on_run`, where it is set, is told of each run: its sequences, their tokens, and the tokens with padding.
    """

    def __init__(
        self,
        folder: ModelFolder,
        *,
        threads: int = 1,
        batch_tokens: int = BATCH_TOKENS,
        max_batch: int = DEFAULT_MAX_BATCH,
        max_subwords: int = MAX_SUBWORDS,
        self_test: bool = True,
    ) -> None:
        self.folder = folder
        self.encoder = Encoder(folder)
        self._onnx_session = OnnxSession(
            folder.graph,
            n_classes=len(folder.labels),
            threads=threads,
            level=folder.ort_level,
            pad_id=self.encoder.pad_id,
        )
        if folder.casing_classes and not self._onnx_session.has_token_types:
            raise ModelError(
                f"{folder.graph} has no input `token_type_ids` for the casing classes that model.json promises"
            )
        self.on_run: Callable[[int, int, int], None] | None = None
        self._batch_tokens = batch_tokens
        self._max_batch = max_batch
        self._max_subwords = max_subwords
        self._probes = self.encoder.build_probes(_PROBE_LENGTHS)
        self._onnx_session.warm_up(self._probes[-1].ids)
        self.batch_deviation = self._measure_batch_deviation() if self_test else None
        # A few probes see less than a stream will, so they must stay well inside what is allowed.
        limit = 0.0 if folder.exactly_invariant else MAX_BATCH_DEVIATION / 4
        # `not <=` rather than `>`: a model that answers NaN is not invariant either
        self.batching: Batching = (
            "single" if self.batch_deviation is not None and not self.batch_deviation <= limit else "planned"
        )

    def infer(self, sentences: Sequence[Sequence[str]], *, pooling: Pooling | None = None) -> list[InferenceResult]:
        """One answer a sentence: its probabilities, or the error where the model fails on it alone."""
        return self.run(self.encode(sentences), pooling=pooling)

    def infer_stream(
        self,
        sentences: Iterable[Sequence[str]],
        *,
        look_ahead: int = DEFAULT_LOOK_AHEAD,
        pooling: Pooling | None = None,
    ) -> Iterator[InferenceResult]:
        """The answers in the order of the sentences, which are read `look_ahead` at a time (fewer long ones).

        While one portion is in the graph, the next is tokenised in a thread of its own. The sentences themselves are
        taken in the caller's thread.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="encode") as side:
            ahead: Future[list[EncodedSentence]] | None = None
            for portion in _chunk_sentences(sentences, look_ahead):
                now, ahead = ahead, side.submit(self.encode, portion)
                if now is not None:
                    yield from self.run(now.result(), pooling=pooling)
            if ahead is not None:
                yield from self.run(ahead.result(), pooling=pooling)

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[EncodedSentence]:
        return self.encoder.encode(sentences)

    def run(self, encoded: Sequence[EncodedSentence], *, pooling: Pooling | None = None) -> list[InferenceResult]:
        long = [each.n_subwords > self._max_subwords for each in encoded]
        if any(long):
            rest = iter(self.run([one for one, too in zip(encoded, long, strict=True) if not too], pooling=pooling))
            return [
                self._build_too_long_error(one) if too else next(rest) for one, too in zip(encoded, long, strict=True)
            ]
        windows = [window for each in encoded for window in each.windows]
        logits: list[npt.NDArray[Any] | InferenceError] = [InferenceError("not run")] * len(windows)
        for batch in self._plan_batches([len(window.ids) for window in windows]):
            self._run_batch(windows, batch, logits)
        return self._pool_sentences(encoded, logits, pooling or self.folder.pooling)

    def _build_too_long_error(self, encoded: EncodedSentence) -> TooManySubwordsError:
        return TooManySubwordsError(
            f"its {encoded.n_words} words are {encoded.n_subwords} subwords for this model, at most {self._max_subwords} are "
            "read: split it"
        )

    def _plan_batches(self, lengths: Sequence[int]) -> list[list[int]]:
        if self.batching == "single":
            return [[index] for index in range(len(lengths))]
        return plan_batches(lengths, batch_tokens=self._batch_tokens, max_batch=self._max_batch)

    def _run_batch(
        self, windows: Sequence[TokenWindow], batch: Sequence[int], logits: list[npt.NDArray[Any] | InferenceError]
    ) -> None:
        """Fills in the logits of the batch's windows; one that fails is halved until the failing window is alone."""
        try:
            answer = self._run_windows([windows[index] for index in batch])
        except RUN_ERRORS as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                self._run_batch(windows, batch[:middle], logits)
                self._run_batch(windows, batch[middle:], logits)
                return
            self._check_session_alive(error)
            logits[batch[0]] = InferenceError(f"the model fails on this sentence alone: {describe_error(error)}")
            return
        if self.on_run is not None:
            self.on_run(len(batch), sum(len(windows[index].ids) for index in batch), answer.shape[0] * answer.shape[1])
        for row, index in enumerate(batch):
            window = windows[index]
            logits[index] = answer[row, window.keep_start : window.keep_end]

    def _check_session_alive(self, error: Exception) -> None:
        """A session that fails on everything is not the sentence's fault: nothing may be blamed on it."""
        try:
            self._run_windows(self._probes[:1])
        except RUN_ERRORS:
            raise ModelError(
                f"the session of {self.folder.graph} answers no more: {describe_error(error)}; restart"
            ) from error

    def _run_windows(self, windows: Sequence[TokenWindow]) -> npt.NDArray[Any]:
        types = [window.token_types for window in windows if window.token_types is not None] or None
        return self._onnx_session.run([window.ids for window in windows], types)

    def _pool_sentences(
        self, encoded: Sequence[EncodedSentence], logits: Sequence[npt.NDArray[Any] | InferenceError], pooling: Pooling
    ) -> list[InferenceResult]:
        answers: list[InferenceResult | None] = [None] * len(encoded)
        good, rows = list(range(len(encoded))), [part for part in logits if not isinstance(part, InferenceError)]
        none = np.zeros((0, len(self.folder.labels)))
        together = np.concatenate([none, *rows])
        if len(rows) < len(logits) or not np.isfinite(together).all():
            good, rows = self._separate_failures(encoded, logits, answers)
            together = np.concatenate([none, *rows])
        if good:
            chosen = [encoded[index] for index in good]
            sizes = [each.n_words for each in chosen]
            overlaps = Overlaps.concatenate(
                [each.overlaps for each in chosen], [each.n_subwords for each in chosen], sizes
            )
            probs, scored = pool_words(_softmax(together), overlaps, sum(sizes), pooling)
            end = 0
            for index, each in zip(good, chosen, strict=True):
                start, end = end, end + each.n_words
                answers[index] = WordProbs(probs[start:end], scored[start:end], len(each.windows), each.unscored)
        return [answer for answer in answers if answer is not None]

    @staticmethod
    def _separate_failures(
        encoded: Sequence[EncodedSentence],
        logits: Sequence[npt.NDArray[Any] | InferenceError],
        answers: list[InferenceResult | None],
    ) -> tuple[list[int], list[npt.NDArray[Any]]]:
        """The sentences that have an answer, and its rows; what is wrong with the others goes into `answers`."""
        good: list[int] = []
        rows: list[npt.NDArray[Any]] = []
        position = 0
        for index, each in enumerate(encoded):
            mine = logits[position : position + len(each.windows)]
            position += len(each.windows)
            kept = [part for part in mine if not isinstance(part, InferenceError)]
            if len(kept) < len(mine):
                answers[index] = next(part for part in mine if isinstance(part, InferenceError))
            elif not all(np.isfinite(part).all() for part in kept):
                answers[index] = InferenceError("the model answers with numbers that are not finite for this sentence")
            else:
                good.append(index)
                rows += kept
        return good, rows

    def _measure_batch_deviation(self) -> float:
        """The largest change of a probability between sequences alone, and padded beside longer and shorter ones."""
        alone = [_softmax(self._run_windows([probe])[0]) for probe in self._probes]
        worst = 0.0
        for mates in (range(len(alone)), range(2), range(0, len(alone), 2)):
            together = self._run_windows([self._probes[index] for index in mates])
            for row, index in enumerate(mates):
                change = np.abs(_softmax(together[row, : len(alone[index])]) - alone[index]).max()
                worst = float(np.maximum(worst, change))  # unlike max(), keeps a NaN
        return worst


def _chunk_sentences(sentences: Iterable[Sequence[str]], max_sentences: int) -> Iterator[list[Sequence[str]]]:
    portion: list[Sequence[str]] = []
    words = 0
    for sentence in sentences:
        portion.append(sentence)
        words += len(sentence)
        if len(portion) >= max_sentences or words >= MAX_WORDS_AHEAD:
            yield portion
            portion, words = [], 0
    if portion:
        yield portion


def _softmax(logits: npt.NDArray[Any]) -> Floats:
    """In double precision, and row by row the same whatever the other rows are."""
    powers: Floats = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers
