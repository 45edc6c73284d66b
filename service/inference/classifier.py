"""Computes word probabilities of sentences. They do not depend on the other sentences of a batch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from service.contracts.defaults import BATCH_TOKENS
from service.errors import ModelError, TooManySubwordsError
from service.inference.batch_plan import DEFAULT_MAX_BATCH
from service.inference.graph_runner import GraphRunner, to_float64
from service.inference.heads.cross_fitted import CrossFittedHead
from service.inference.heads.results import InferenceResult, WordProbs, softmax_rows
from service.inference.heads.softmax import SoftmaxHead
from service.inference.heads.weights import HeadWeights
from service.inference.providers import CPU_ONLY
from service.inference.tokenization.encoder import Encoder
from service.inference.tokenization.plain_encoder import PlainEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from service.inference.graph_runner import Batching, WindowOutput
    from service.inference.heads.results import Head
    from service.inference.model.folder import ModelFolder
    from service.inference.pooling import Pooling
    from service.inference.tokenization.encoder import EncodedSentence, TokenWindow

DEFAULT_LOOK_AHEAD = 1024
MAX_WORDS_AHEAD = 50_000  # bounds the memory: fewer long sentences are read ahead
# Of one sentence: four for each word of the longest sentence allowed. Hostile text of rare characters has many more,
# and would keep the model busy for minutes, longer than a consumer group waits for its member.
MAX_SUBWORDS = 20_000
PROBE_LENGTHS = (4, 11, 19, 27, 40)

__all__ = ["Classifier", "InferenceResult", "WordProbs"]


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
        providers: Sequence[str] = CPU_ONLY,
    ) -> None:
        self.folder = folder
        self.encoder: Encoder | PlainEncoder = PlainEncoder()
        self.runner: GraphRunner | None = None
        weights = None if folder.heads is None else HeadWeights.load(folder.heads)
        self._head: Head = SoftmaxHead(len(folder.labels)) if weights is None else CrossFittedHead(weights)
        if weights is not None and weights.n_classes != len(folder.labels):
            raise ModelError(
                f"{folder.heads} has {weights.n_classes} classes, model.json {len(folder.labels)}: train again"
            )
        if folder.graph is not None:
            self.encoder = Encoder(folder)
            self.runner = GraphRunner(
                folder.graph,
                self.encoder.build_probes(PROBE_LENGTHS),
                width=len(folder.labels) if weights is None else weights.state_width,
                pad_id=self.encoder.pad_id,
                ort_level=folder.ort_level,
                threads=threads,
                exactly_invariant=folder.exactly_invariant,
                normalize=softmax_rows if weights is None else to_float64,
                batch_tokens=batch_tokens,
                max_batch=max_batch,
                self_test=self_test,
                providers=providers,
            )
            if folder.casing_classes and not self.runner.session.has_token_types:
                raise ModelError(
                    f"{folder.graph} has no input `token_type_ids` for the casing classes that model.json promises"
                )
        self._max_subwords = max_subwords

    @property
    def batching(self) -> Batching:
        return "planned" if self.runner is None else self.runner.batching

    @property
    def batch_deviation(self) -> float | None:
        """The largest change with batch mates that the self-test saw; None if it did not run."""
        return 0.0 if self.runner is None else self.runner.batch_deviation

    def observe_runs(self, on_run: Callable[[int, int, int], None] | None) -> None:
        """Calls `on_run` after each run of the graph with its sequences, their tokens, and the tokens with padding."""
        if self.runner is not None:
            self.runner.on_run = on_run

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
        short = [sentence for sentence in encoded if self.can_run(sentence)]
        if len(short) < len(encoded):
            results = iter(self.run(short, pooling=pooling))
            return [
                next(results) if self.can_run(sentence) else self._build_too_long_error(sentence)
                for sentence in encoded
            ]
        outputs = self.run_windows([window for sentence in encoded for window in sentence.windows])
        return self.combine(encoded, outputs, pooling=pooling)

    def run_windows(self, windows: Sequence[TokenWindow]) -> list[WindowOutput]:
        """The outputs of windows. Those of a long sentence may run in parts; `combine` makes its answer."""
        return [] if self.runner is None else self.runner.run(windows)

    def combine(
        self, encoded: Sequence[EncodedSentence], outputs: Sequence[WindowOutput], *, pooling: Pooling | None = None
    ) -> list[InferenceResult]:
        """The results of sentences. `outputs` are those of all of their windows, in order."""
        return self._head.combine(encoded, outputs, pooling or self.folder.pooling)

    def can_run(self, encoded: EncodedSentence) -> bool:
        """Whether it has few enough subwords; `run` gives an error for others."""
        return encoded.n_subwords <= self._max_subwords

    def _build_too_long_error(self, encoded: EncodedSentence) -> TooManySubwordsError:
        return TooManySubwordsError(
            f"its {encoded.n_words} words are {encoded.n_subwords} subwords for this model, at most {self._max_subwords} are "
            "read: split it"
        )


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
