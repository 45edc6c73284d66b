"""All methods of the paper and our own, measured: classes as they are and merged, batch and stream, sentences and words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

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
from service.evaluation.runs import PRIORITY, STREAM, EvaluationRun, judge_batch, judge_stream
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
"""What two sets of probabilities are compared by."""


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The figures of one ranking. NaN where there is nothing to find."""

    level: str
    method: str
    token_score: str | None
    classes: int
    variant: str
    mode: str
    metrics: Mapping[str, float]
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    precision_at: Mapping[int, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """A flat record; what can't be computed is null."""
        record: dict[str, object] = {
            "level": self.level,
            "method": self.method,
            "token_score": self.token_score,
            "classes": self.classes,
            "variant": self.variant,
            "mode": self.mode,
        }
        record |= {name: nan_to_none(self.metrics[name]) for name in METRICS}
        for name, interval in self.intervals.items():
            record[f"{name}_interval"] = [nan_to_none(end) for end in interval]
        record["precision_at"] = {str(k): nan_to_none(value) for k, value in self.precision_at.items()}
        return record


@dataclass(frozen=True, slots=True)
class FlagMetrics:
    """What the flags alone find: a sentence counts as found where any of its words is flagged."""

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
    """The same figure for two sets of probabilities of the same sentences."""

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


def judge_all(data: EvaluationData, *, stream: bool, classes: str = BOTH) -> list[EvaluationRun]:
    """Judge the wanted variants in batch, and in file order too where `stream`."""
    names = data.variants if classes == BOTH else (classes,)
    judged = []
    for variant in [data.build_variant(name) for name in names]:
        judged.append(judge_batch(variant))
        if stream:
            judged.append(judge_stream(variant))
    return judged


def evaluate(
    data: EvaluationData,
    *,
    stream: bool = False,
    bootstrap: int = DEFAULT_RESAMPLES,
    classes: str = BOTH,
    seed: int = DEFAULT_SEED,
) -> list[EvaluationResult]:
    """Every figure of the paper's tables for these probabilities; `bootstrap` 0 leaves the intervals out."""
    return measure_runs(judge_all(data, stream=stream, classes=classes), n=bootstrap, seed=seed)


def measure_runs(
    runs: Sequence[EvaluationRun], *, n: int = DEFAULT_RESAMPLES, seed: int = DEFAULT_SEED
) -> list[EvaluationResult]:
    """Measure every method on what was judged. All rankings of a variant share their resamples."""
    if n < 0:
        raise InvalidInput(f"{n} resamples: give 0 for none", field="bootstrap")
    draws: dict[int, NDArray[np.int32]] = {}
    known: dict[tuple[str, str, str, str | None], EvaluationResult] = {}
    results = []
    for run in runs:
        sentences = run.variant.flat.n_sentences
        if n and sentences not in draws:
            draws[sentences] = draw_resamples(sentences, n, seed)
        for level, method, token_score, needs_mode in _list_measurements():
            key = (run.variant.name, level, method, token_score)
            if needs_mode or key not in known:
                known[key] = _measure(run, level, method, token_score, draws.get(sentences))
            # Scores that read neither flags nor weights are the same in both modes.
            results.append(replace(known[key], mode=run.mode))
    return results


def _list_measurements() -> Iterator[tuple[str, str, str | None, bool]]:
    """Level, method, token score, and whether the mode makes a difference."""
    for name, method in METHODS.items():
        for token_score in TOKEN_SCORES if method.uses_token_score else (None,):
            yield SENTENCE, name, token_score, method.uses_flags
    yield SENTENCE, PRIORITY, None, True
    for token_score in TOKEN_SCORES:
        yield TOKEN, token_score, token_score, False
    yield TOKEN, PRIORITY, None, True


def _measure(
    run: EvaluationRun, level: str, method: str, token_score: str | None, draws: NDArray[np.int32] | None
) -> EvaluationResult:
    variant = run.variant
    if level == SENTENCE:
        scores, positives, units = run.compute_sentence_scores(method, token_score), variant.wrong_sentences, None
    else:
        scores, positives, units = run.compute_word_scores(method), variant.wrong_words, variant.sentence_of_word
    return EvaluationResult(
        level=level,
        method=method,
        token_score=token_score,
        classes=len(variant.classes),
        variant=variant.name,
        mode=run.mode,
        metrics=compute_all_metrics(scores, positives),
        intervals={} if draws is None else bootstrap(scores, positives, draws=draws, units=units),
        precision_at={k: precision_at(scores, positives, k) for k in PRECISION_AT if k <= len(scores)},
    )


def measure_flags(run: EvaluationRun) -> FlagMetrics:
    """Rate, precision and recall of the flags, by sentences."""
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
    """Paired differences of worst-token and `priority`, ours less the other; `judged` saves judging ours again."""
    check_same_sentences(ours, other)
    pairs = zip(
        runs or judge_all(ours, stream=stream, classes=classes),
        judge_all(other, stream=stream, classes=classes),
        strict=True,
    )
    found: list[Comparison] = []
    for a, b in pairs:
        positives = a.variant.wrong_sentences
        for method, token_score in COMPARED_METHODS:
            if a.mode == STREAM and method != PRIORITY:  # worst-token is the same in both modes
                continue
            scores_a, scores_b = (
                a.compute_sentence_scores(method, token_score),
                b.compute_sentence_scores(method, token_score),
            )
            figures_a, figures_b = compute_all_metrics(scores_a, positives), compute_all_metrics(scores_b, positives)
            found.extend(
                Comparison(
                    method=method,
                    classes=len(a.variant.classes),
                    variant=a.variant.name,
                    mode=a.mode,
                    metric=metric,
                    ours=figures_a[metric],
                    other=figures_b[metric],
                    difference=paired_bootstrap(scores_a, scores_b, positives, metric, n=n, seed=seed),
                )
                for metric in ("auprc", "ap")
            )
    return found


def compute_model_f1(data: EvaluationData) -> dict[str, EntityF1] | None:
    """Entity F1 of the most probable labels against given and corrected ones, over all sentences.

    None where the class names follow no known scheme.
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
