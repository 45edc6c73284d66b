"""Computes word probabilities of sentences. They do not depend on the other sentences of a batch."""

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
MAX_WORDS_AHEAD = 50_000  # bounds the memory: fewer long sentences are read ahead
# Of one sentence: four for each word of the longest sentence allowed. Hostile text of rare characters has many more,
# and would keep the model busy for minutes, longer than a consumer group waits for its member.
MAX_SUBWORDS = 20_000
PROBE_LENGTHS = (4, 11, 19, 27, 40)


@dataclass(frozen=True, slots=True)
class WordProbs:
    """Probabilities [n, K] of a sentence's words, rows summing to 1.

    The row of a word that is not `scored` is uniform and has no meaning; `unscored` holds the reason.
    """

    probs: Floats
    scored: npt.NDArray[np.bool_]
    n_windows: int
    unscored: Mapping[int, str]


InferenceResult = WordProbs | InferenceError


class Classifier:
    """A loaded model. Safe to use from several threads."""

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
        """One result per sentence: its probabilities, or the error if the model fails on it alone."""
        return self.run(self.encode(sentences), pooling=pooling)

    def infer_stream(
        self,
        sentences: Iterable[Sequence[str]],
        *,
        look_ahead: int = DEFAULT_LOOK_AHEAD,
        pooling: Pooling | None = None,
    ) -> Iterator[InferenceResult]:
        """The results in the order of the sentences, which are read `look_ahead` at a time (fewer long ones).

        While one chunk is in the graph, a thread tokenizes the next. The caller's thread iterates over `sentences`.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="encode") as executor:
            following: Future[list[EncodedSentence]] | None = None
            for chunk in _chunk_sentences(sentences, look_ahead):
                current, following = following, executor.submit(self.encode, chunk)
                if current is not None:
                    yield from self.run(current.result(), pooling=pooling)
            if following is not None:
                yield from self.run(following.result(), pooling=pooling)

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[EncodedSentence]:
        return self.encoder.encode(sentences)

    def run(self, encoded: Sequence[EncodedSentence], *, pooling: Pooling | None = None) -> list[InferenceResult]:
        short = [sentence for sentence in encoded if sentence.n_subwords <= self._max_subwords]
        if len(short) < len(encoded):
            results = iter(self.run(short, pooling=pooling))
            return [
                next(results) if sentence.n_subwords <= self._max_subwords else self._build_too_long_error(sentence)
                for sentence in encoded
            ]
        windows = [window for sentence in encoded for window in sentence.windows]
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
        results: list[InferenceResult | None] = [None] * len(encoded)
        valid, rows = list(range(len(encoded))), [output for output in logits if not isinstance(output, InferenceError)]
        no_rows = np.zeros((0, len(self.folder.labels)))
        all_rows = np.concatenate([no_rows, *rows])
        if len(rows) < len(logits) or not np.isfinite(all_rows).all():
            valid, rows = self._separate_failures(encoded, logits, results)
            all_rows = np.concatenate([no_rows, *rows])
        if valid:
            sentences = [encoded[index] for index in valid]
            sizes = [sentence.n_words for sentence in sentences]
            overlaps = Overlaps.concatenate(
                [sentence.overlaps for sentence in sentences], [sentence.n_subwords for sentence in sentences], sizes
            )
            probs, scored = pool_words(_softmax(all_rows), overlaps, sum(sizes), pooling)
            end = 0
            for index, sentence in zip(valid, sentences, strict=True):
                start, end = end, end + sentence.n_words
                results[index] = WordProbs(
                    probs[start:end], scored[start:end], len(sentence.windows), sentence.unscored
                )
        return [result for result in results if result is not None]

    @staticmethod
    def _separate_failures(
        encoded: Sequence[EncodedSentence],
        logits: Sequence[npt.NDArray[Any] | InferenceError],
        results: list[InferenceResult | None],
    ) -> tuple[list[int], list[npt.NDArray[Any]]]:
        """The indices of valid sentences and their rows. The errors of the others go into `results`."""
        valid: list[int] = []
        rows: list[npt.NDArray[Any]] = []
        position = 0
        for index, sentence in enumerate(encoded):
            outputs = logits[position : position + len(sentence.windows)]
            position += len(sentence.windows)
            sentence_rows = [output for output in outputs if not isinstance(output, InferenceError)]
            if len(sentence_rows) < len(outputs):
                results[index] = next(output for output in outputs if isinstance(output, InferenceError))
            elif not all(np.isfinite(output).all() for output in sentence_rows):
                results[index] = InferenceError("the model answers with numbers that are not finite for this sentence")
            else:
                valid.append(index)
                rows += sentence_rows
        return valid, rows


def _chunk_sentences(sentences: Iterable[Sequence[str]], max_sentences: int) -> Iterator[list[Sequence[str]]]:
    chunk: list[Sequence[str]] = []
    words = 0
    for sentence in sentences:
        chunk.append(sentence)
        words += len(sentence)
        if len(chunk) >= max_sentences or words >= MAX_WORDS_AHEAD:
            yield chunk
            chunk, words = [], 0
    if chunk:
        yield chunk


def _softmax(logits: npt.NDArray[Any]) -> Floats:
    """In double precision. A row does not depend on the other rows."""
    powers: Floats = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers
