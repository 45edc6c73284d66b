"""Sentences to word probabilities, the same ones whatever shares their batch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from service.contracts.defaults import BATCH_TOKENS
from service.errors import InferenceError, ModelError, TooManySubwordsError
from service.inference.batch_plan import DEFAULT_MAX_BATCH
from service.inference.graph_runner import GraphRunner
from service.inference.pooling import Overlaps, pool_words
from service.inference.tokenization.encoder import Encoder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from typing import Any

    import numpy.typing as npt

    from service.inference.graph_runner import Batching
    from service.inference.model.folder import ModelFolder
    from service.inference.pooling import Pooling
    from service.inference.tokenization.encoder import EncodedSentence

    Floats = npt.NDArray[np.float64]

DEFAULT_LOOK_AHEAD = 1024
MAX_WORDS_AHEAD = 50_000  # of long sentences fewer are read ahead, so that memory stays in bounds
# Of one sentence: four a word of the longest that is allowed. Words made of rare letters only, as nobody writes
# them, would keep the model busy for minutes, for longer than a stream waits for its worker.
MAX_SUBWORDS = 20_000
PROBE_LENGTHS = (4, 11, 19, 27, 40)


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
    """A model, ready to answer. Safe to use from several threads."""

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
        self.runner = GraphRunner(
            folder.graph,
            self.encoder.build_probes(PROBE_LENGTHS),
            width=len(folder.labels),
            pad_id=self.encoder.pad_id,
            ort_level=folder.ort_level,
            threads=threads,
            exactly_invariant=folder.exactly_invariant,
            normalize=_softmax,
            batch_tokens=batch_tokens,
            max_batch=max_batch,
            self_test=self_test,
        )
        if folder.casing_classes and not self.runner.session.has_token_types:
            raise ModelError(
                f"{folder.graph} has no input `token_type_ids` for the casing classes that model.json promises"
            )
        self._max_subwords = max_subwords

    @property
    def batching(self) -> Batching:
        return self.runner.batching

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
        logits = self.runner.run(windows)
        return self._pool_sentences(encoded, logits, pooling or self.folder.pooling)

    def _build_too_long_error(self, encoded: EncodedSentence) -> TooManySubwordsError:
        return TooManySubwordsError(
            f"its {encoded.n_words} words are {encoded.n_subwords} subwords for this model, at most {self._max_subwords} are "
            "read: split it"
        )

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
