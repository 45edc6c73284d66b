"""Measures the paper's methods and our own: unmerged and merged classes, batch and stream, sentences and words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from service.errors import InvalidInput
from service.evaluation.data import EvaluationData, check_same_sentences
from service.evaluation.metrics import (
    DEFAULT_RESAMPLES,
    DEFAULT_SEED,
    Difference,
    EntityF1,
    Interval,
    bootstrap,
    compute_all_metrics,
    draw_resamples,
    entity_f1,
    paired_bootstrap,
    precision_at,
)
from service.evaluation.ranking import METRICS
from service.evaluation.runs import (
    DEFAULT_MEMORY,
    NO_MEMORY,
    PRIORITY,
    STREAM,
    EvaluationRun,
    judge_batch,
    judge_stream,
)
from service.labels import detect_scheme
from service.scoring.sentence import METHODS
from service.scoring.token import DEFAULT_TOKEN_SCORE, TOKEN_SCORES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

BOTH: Final = "both"
SENTENCE: Final = "sentence"
TOKEN: Final = "token"
PRECISION_AT: Final = (10, 20, 50, 100, 200, 500, 1000)
COMPARED_METHODS: Final = (("worst-token", DEFAULT_TOKEN_SCORE), (PRIORITY, None))
"""The scores that compare two sets of probabilities."""


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The metrics of one ranking. NaN if there are no positives."""

    level: str
    method: str
    token_score: str | None
    classes: int
    variant: str
    mode: str
    memory: str | None
    """Of `priority`: with which memory. None for scores that use none."""
    metrics: Mapping[str, float]
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    precision_at: Mapping[int, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """A flat record. A metric that can't be computed is null."""
        record: dict[str, object] = {
            "level": self.level,
            "method": self.method,
            "token_score": self.token_score,
            "classes": self.classes,
            "variant": self.variant,
            "mode": self.mode,
            "memory": self.memory,
        }
        record |= {name: nan_to_none(self.metrics[name]) for name in METRICS}
        for name, interval in self.intervals.items():
            record[f"{name}_interval"] = [nan_to_none(end) for end in interval]
        record["precision_at"] = {str(k): nan_to_none(value) for k, value in self.precision_at.items()}
        return record


@dataclass(frozen=True, slots=True)
class FlagMetrics:
    """The metrics of the flags by sentence: a sentence counts as flagged if any of its words is."""

    variant: str
    classes: int
    mode: str
    rule: str
    words: int
    rate: float
    precision: float
    recall: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric for two sets of probabilities of the same sentences."""

    method: str
    classes: int
    variant: str
    mode: str
    metric: str
    ours: float
    other: float
    difference: Difference


def nan_to_none(value: float) -> float | None:
    """JSON has no NaN."""
    return float(value) if math.isfinite(value) else None


def judge_all(
    data: EvaluationData, *, stream: bool, classes: str = BOTH, memory: str = DEFAULT_MEMORY
) -> list[EvaluationRun]:
    """Judges the chosen variants in batch, and with `stream` also as a stream, without and with memory."""
    names = data.variants if classes == BOTH else (classes,)
    runs = []
    for variant in [data.build_variant(name) for name in names]:
        runs.append(judge_batch(variant))
        if stream:
            runs.append(judge_stream(variant, memory=memory))
    return runs


def evaluate(
    data: EvaluationData,
    *,
    stream: bool = False,
    bootstrap: int = DEFAULT_RESAMPLES,
    classes: str = BOTH,
    seed: int = DEFAULT_SEED,
) -> list[EvaluationResult]:
    """All metrics of the paper's tables for these probabilities. `bootstrap` 0 leaves the intervals out."""
    return measure_runs(judge_all(data, stream=stream, classes=classes), n=bootstrap, seed=seed)


def measure_runs(
    runs: Sequence[EvaluationRun], *, n: int = DEFAULT_RESAMPLES, seed: int = DEFAULT_SEED
) -> list[EvaluationResult]:
    """Measures every method on each run. All rankings of a variant share their resamples."""
    if n < 0:
        raise InvalidInput(f"{n} resamples: use 0 for none", field="bootstrap")
    draws: dict[int, NDArray[np.int32]] = {}
    measured: dict[tuple[str, Measurement], EvaluationResult] = {}
    results = []
    for run in runs:
        sentences = run.variant.flat.n_sentences
        if n and sentences not in draws:
            draws[sentences] = draw_resamples(sentences, n, seed)
        for measurement in _list_measurements(run):
            key = run.variant.name, measurement
            if measurement.needs_mode or key not in measured:
                measured[key] = _measure(run, measurement, draws.get(sentences))
            # Scores that use neither flags nor weights are the same in both modes.
            results.append(replace(measured[key], mode=run.mode))
    return results


def measure_agreed(run: EvaluationRun) -> list[EvaluationResult]:
    """The scores of COMPARED_METHODS on the sentences on which both corrections agree, without intervals.

    All sentences are judged and learned from; only the measurement leaves the disputed ones out.
    """
    agreed = run.variant.agreed_sentences
    if agreed is None or not agreed.any():
        return []
    results = []
    for method, token_score in COMPARED_METHODS:
        for memory in run.memories if method == PRIORITY else (None,):
            measurement = Measurement(SENTENCE, method, token_score, memory, needs_mode=True)
            scores = run.compute_sentence_scores(method, token_score, memory=memory or NO_MEMORY)[agreed]
            results.append(_build_result(run, measurement, scores, run.variant.wrong_sentences[agreed]))
    return results


class Measurement(NamedTuple):
    """What is measured on a run."""

    level: str
    method: str
    token_score: str | None
    memory: str | None
    needs_mode: bool  # whether the result depends on the mode


def _list_measurements(run: EvaluationRun) -> Iterator[Measurement]:
    for name, method in METHODS.items():
        for token_score in TOKEN_SCORES if method.uses_token_score else (None,):
            yield Measurement(SENTENCE, name, token_score, None, needs_mode=method.uses_flags)
    for memory in run.memories:
        yield Measurement(SENTENCE, PRIORITY, None, memory, needs_mode=True)
    for token_score in TOKEN_SCORES:
        yield Measurement(TOKEN, token_score, token_score, None, needs_mode=False)
    for memory in run.memories:
        yield Measurement(TOKEN, PRIORITY, None, memory, needs_mode=True)


def _measure(run: EvaluationRun, measurement: Measurement, draws: NDArray[np.int32] | None) -> EvaluationResult:
    variant, memory = run.variant, measurement.memory or NO_MEMORY
    if measurement.level == SENTENCE:
        scores = run.compute_sentence_scores(measurement.method, measurement.token_score, memory=memory)
        return _build_result(run, measurement, scores, variant.wrong_sentences, draws=draws)
    scores = run.compute_word_scores(measurement.method, memory=memory)
    return _build_result(run, measurement, scores, variant.wrong_words, draws=draws, units=variant.sentence_of_word)


def _build_result(
    run: EvaluationRun,
    measurement: Measurement,
    scores: NDArray[np.float64],
    positives: NDArray[np.bool_],
    *,
    draws: NDArray[np.int32] | None = None,
    units: NDArray[np.intp] | None = None,
) -> EvaluationResult:
    return EvaluationResult(
        level=measurement.level,
        method=measurement.method,
        token_score=measurement.token_score,
        classes=len(run.variant.classes),
        variant=run.variant.name,
        mode=run.mode,
        memory=measurement.memory,
        metrics=compute_all_metrics(scores, positives),
        intervals={} if draws is None else bootstrap(scores, positives, draws=draws, units=units),
        precision_at={k: precision_at(scores, positives, k) for k in PRECISION_AT if k <= len(scores)},
    )


def measure_flags(run: EvaluationRun) -> FlagMetrics:
    """Rate, precision and recall of the flags, by sentence."""
    flagged = np.logical_or.reduceat(run.flags, run.variant.flat.starts)
    wrong = run.variant.wrong_sentences
    both = int((flagged & wrong).sum())
    return FlagMetrics(
        variant=run.variant.name,
        classes=len(run.variant.classes),
        mode=run.mode,
        rule=run.flag_rule,
        words=int(run.flags.sum()),
        rate=float(flagged.mean()),
        precision=both / int(flagged.sum()) if flagged.any() else math.nan,
        recall=both / int(wrong.sum()) if wrong.any() else math.nan,
    )


def compare(
    ours: EvaluationData,
    other: EvaluationData,
    *,
    stream: bool = False,
    classes: str = BOTH,
    n: int = DEFAULT_RESAMPLES,
    seed: int = DEFAULT_SEED,
    runs: Sequence[EvaluationRun] | None = None,
) -> list[Comparison]:
    """Paired differences of worst-token and `priority`, ours minus the other. `runs` reuses runs of ours."""
    check_same_sentences(ours, other)
    pairs = zip(
        runs or judge_all(ours, stream=stream, classes=classes),
        judge_all(other, stream=stream, classes=classes),
        strict=True,
    )
    comparisons: list[Comparison] = []
    for a, b in pairs:
        positives = a.variant.wrong_sentences
        for method, token_score in COMPARED_METHODS:
            if a.mode == STREAM and method != PRIORITY:  # worst-token is the same in both modes
                continue
            scores_a, scores_b = (
                a.compute_sentence_scores(method, token_score),
                b.compute_sentence_scores(method, token_score),
            )
            metrics_a, metrics_b = compute_all_metrics(scores_a, positives), compute_all_metrics(scores_b, positives)
            comparisons.extend(
                Comparison(
                    method=method,
                    classes=len(a.variant.classes),
                    variant=a.variant.name,
                    mode=a.mode,
                    metric=metric,
                    ours=metrics_a[metric],
                    other=metrics_b[metric],
                    difference=paired_bootstrap(scores_a, scores_b, positives, metric, n=n, seed=seed),
                )
                for metric in ("auprc", "ap")
            )
    return comparisons


def compute_model_f1(data: EvaluationData) -> dict[str, EntityF1] | None:
    """Entity F1 of the most probable labels against given and corrected ones, over all sentences.

    None if the class names follow no known scheme.
    """
    names = np.array(data.labels, dtype=object)
    cuts = data.flat.starts[1:]
    given, corrected, predicted = (
        [part.tolist() for part in np.split(names[ids], cuts)]
        for ids in (data.flat.given, data.corrected, data.flat.probs.argmax(axis=1))
    )
    try:
        scheme = detect_scheme([*given, *corrected])
    except InvalidInput:
        return None
    return {"given": entity_f1(given, predicted, scheme), "corrected": entity_f1(corrected, predicted, scheme)}
