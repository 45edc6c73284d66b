"""A simulated crowd: annotators who label the sample with errors of their own rates and kinds.

The pool of sentences is the population: an annotator gets a random sentence of it each time. Spans go wrong independently of
each other, so the long-run F1 of an annotator is known exactly: it is the ratio of expected values over the pool.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from service.contracts import DatasetSettings, LabelledSentence
from service.inference.classifier import Classifier, WordProbs
from service.inference.model.folder import ModelFolder
from service.judging.agreement import learn_annotators
from service.judging.judge import Judge
from service.judging.types import StatsUpdate
from service.labels import Scheme, Span, labels_from_spans, parse_spans
from service.statistics.annotators.sums import AnnotatorSums, SpanSums

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

TYPES = ("PER", "ORG", "LOC", "MISC")
ARRIVED_AT = datetime(2024, 5, 31, tzinfo=UTC)
Outcomes = list[tuple[Span | None, float]]


class ErrorRates(NamedTuple):
    """Probabilities that a true span is missed, given another type, or a wrong extent; and that a free word is made a span.

    `copies`: the share of sentences for which the model's own labels are taken over.
    """

    missed: float
    wrong_type: float
    wrong_extent: float
    spurious: float
    copies: float = 0.0


class PoolSentence(NamedTuple):
    tokens: tuple[str, ...]
    words: WordProbs
    true_spans: tuple[Span, ...]
    found_spans: tuple[Span, ...]


class Simulated(NamedTuple):
    """An annotator: the sums that the service learns, F1 against the truth, and the long-run F1 against the model."""

    sums: AnnotatorSums
    true_f1: float
    long_run_f1: float


def list_outcomes(sentence: PoolSentence, rates: ErrorRates) -> list[Outcomes]:
    """What becomes of each true span and each free word, with probabilities. No two outcomes overlap."""
    taken = {word for span in sentence.true_spans for word in range(span.start, span.end)}
    outcomes: list[Outcomes] = []
    for span in sentence.true_spans:
        extent: Span | None = None
        if span.end - span.start > 1:
            extent = span._replace(end=span.end - 1)
        elif span.end < len(sentence.tokens) and span.end not in taken:
            extent = span._replace(end=span.end + 1)
            taken.add(span.end)
        others = [name for name in TYPES if name != span.type]
        correct = 1 - rates.missed - rates.wrong_type - rates.wrong_extent
        outcomes.append(
            [
                (span, correct),
                (None, rates.missed),
                (extent, rates.wrong_extent),
                *((span._replace(type=name), rates.wrong_type / len(others)) for name in others),
            ]
        )
    for word in range(len(sentence.tokens)):
        if word not in taken:
            spurious = [(Span(word, word + 1, name), rates.spurious / len(TYPES)) for name in TYPES]
            outcomes.append([*spurious, (None, 1 - rates.spurious)])
    return outcomes


def compute_long_run_f1(pool: Sequence[PoolSentence], rates: ErrorRates) -> float:
    """F1 against the model over infinitely many sentences."""
    matched = total = 0.0
    for sentence in pool:
        found = set(sentence.found_spans)
        given = [pair for outcomes in list_outcomes(sentence, rates) for pair in outcomes if pair[0] is not None]
        own = 1 - rates.copies
        matched += own * sum(p for span, p in given if span in found) + rates.copies * len(found)
        total += own * sum(p for _, p in given) + rates.copies * len(found) + len(found)
    return 2 * matched / total


@dataclass
class Crowd:
    """A pool of sentences that the real model has read, and annotators of it."""

    pool: list[PoolSentence]
    judge: Judge
    classifier: Classifier

    @classmethod
    def load(cls, model: Path, truth: Path) -> Crowd:
        """`truth`: words and true labels, as in the sample."""
        sentences = [
            tuple(zip(*(line.split("\t") for line in block.split("\n")), strict=True))
            for block in truth.read_text("utf-8").strip().split("\n\n")
        ]
        folder = ModelFolder.load(model)
        judge, classifier = Judge(folder, DatasetSettings(label_set=TYPES)), Classifier(folder)
        pool = []
        for (tokens, labels, *_), words in zip(
            sentences, classifier.infer([tokens for tokens, *_ in sentences]), strict=True
        ):
            assert isinstance(words, WordProbs)
            sentence = LabelledSentence(tokens=tokens, labels=labels)
            entities = judge.predict(
                judge.observe(sentence, words), judge.build_threshold_set(judge.create_empty_stats())
            )
            found = tuple(entity.span for entity in entities.entities)
            pool.append(PoolSentence(tokens, words, tuple(parse_spans(labels, Scheme.IOB2)), found))
        return cls(pool, judge, classifier)

    @cached_property
    def model_f1(self) -> float:
        """Of the model against the truth."""
        matched = sum(len({*each.true_spans} & {*each.found_spans}) for each in self.pool)
        return 2 * matched / sum(len(each.true_spans) + len(each.found_spans) for each in self.pool)

    def simulate(self, rates: ErrorRates, n_sentences: int, rng: np.random.Generator) -> Simulated:
        """An annotator's sentences through the code that the worker runs."""
        updates, spans = [], SpanSums()
        for number in rng.integers(0, len(self.pool), n_sentences):
            sentence = self.pool[number]
            given = self._label(sentence, rates, rng)
            labels = labels_from_spans(given, len(sentence.tokens), Scheme.IOB2)
            labelled = LabelledSentence(tokens=sentence.tokens, labels=tuple(labels), annotator="kim")
            updates.append(StatsUpdate(self.judge.observe(labelled, sentence.words), None, ARRIVED_AT))
            matched = len(set(given).intersection(sentence.true_spans))
            spans = spans.merge(SpanSums(len(given), len(sentence.true_spans), matched))
        sums = self.learn(updates)
        return Simulated(sums["kim"], 2 * spans.matched / spans.total, compute_long_run_f1(self.pool, rates))

    def learn(self, updates: Sequence[StatsUpdate]) -> dict[str, AnnotatorSums]:
        return learn_annotators(self.judge.span_comparer, updates, {}, max_annotators=100)

    def build_updates(self) -> list[StatsUpdate]:
        """The pool with its true labels, by ten annotators."""
        updates = []
        for number, each in enumerate(self.pool):
            labels = labels_from_spans(each.true_spans, len(each.tokens), Scheme.IOB2)
            sentence = LabelledSentence(tokens=each.tokens, labels=tuple(labels), annotator=f"a{number % 10}")
            updates.append(StatsUpdate(self.judge.observe(sentence, each.words), None, ARRIVED_AT))
        return updates

    def time_model(self) -> float:
        """Seconds of the model for the pool."""
        start = time.perf_counter()
        self.classifier.infer([each.tokens for each in self.pool])
        return time.perf_counter() - start

    def _label(self, sentence: PoolSentence, rates: ErrorRates, rng: np.random.Generator) -> list[Span]:
        if rng.random() < rates.copies:
            return list(sentence.found_spans)
        draws: npt.NDArray[np.float64] = rng.random(len(sentence.tokens))
        given = []
        for draw, outcomes in zip(draws.tolist(), list_outcomes(sentence, rates), strict=False):
            reached = 0.0
            for span, probability in outcomes:
                reached += probability
                if draw < reached:
                    if span is not None:
                        given.append(span)
                    break
        return given


def draw_rates(rng: np.random.Generator, error_rate: float, *, copies: float = 0.0) -> ErrorRates:
    """Errors of a total rate, in kinds that each annotator has a preference of."""
    missed, wrong_type, wrong_extent = (error_rate * rng.dirichlet([0.7, 0.7, 0.7])).tolist()
    return ErrorRates(missed, wrong_type, wrong_extent, error_rate * float(rng.uniform(0, 0.05)), copies)
