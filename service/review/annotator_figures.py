"""Figures of the annotators of a dataset: how far their labels agree with the model, and what reviewers found.

The model's part comes from the sums of the state, the reviewers' part from the queue. Agreement is shown only if the model
is good enough for it to mean something.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from pydantic import Field

from service.contracts import Message
from service.errors import MissingModelError
from service.labels import OUTSIDE, Span
from service.labels.unknown_labels import build_settings_advice
from service.review.queue.figures.breakdowns import MAX_ANNOTATORS, AnnotatorCounts
from service.statistics.annotators.estimate import estimate_f1
from service.statistics.annotators.sums import OTHER_ANNOTATORS, OTHER_PAIR, SpanSums
from service.stream.state.annotators import sum_partitions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.judging.judge import Judge
    from service.statistics.annotators.estimate import F1Estimate
    from service.statistics.annotators.sums import AnnotatorSums
    from service.stream.state.view import StateView

MAX_CONFUSIONS: Final = 20
MEANING: Final = (
    "F1 compares the spans that an annotator gave with those that the model finds in the same sentences. It measures agreement "
    "with the model, not with the truth: where the model is wrong, a careful annotator loses, and labels that were copied "
    "from the model win. Few sentences say little: the estimate is drawn to the mean of the annotators, and the interval is wide."
)


class AnnotatorConfusion(Message):
    """Spans that differ: given one type where the model finds the other. `O` is no span; two equal types differ in extent."""

    given: str
    found: str
    spans: int


class AnnotatorType(Message):
    """Spans of one type."""

    type: str
    given: int
    found: int = Field(description="By the model, in the same sentences")
    matched: int = Field(description="The same words and the same type in both")


class AnnotatorWeek(Message):
    """One week, by its Monday (UTC)."""

    week: str
    sentences: int
    f1: float | None = Field(description="Against the model, of this week alone; null without spans")


class AnnotatorFigures(Message):
    """What is known of one annotator in one dataset."""

    annotator: str
    sentences: int = Field(description="Sentences that were judged; a sentence that is annotated again counts again")
    items: int = Field(default=0, description="Sentences in review: flagged ones and open control sentences")
    decided: int = Field(default=0, description="Sentences that reviewers decided")
    confirmed_errors: int = Field(default=0, description="Those of them that are wrong")
    errors_per_100: float | None = Field(
        default=None, description="Confirmed errors per 100 sentences: at least this share is wrong"
    )
    compared_sentences: int = Field(default=0, description="Sentences that were compared with the model in use")
    f1: float | None = Field(
        default=None, description="Estimated F1 against the model, drawn to the mean of the dataset's annotators"
    )
    low: float | None = Field(default=None, description="Lower bound of its 95 % interval")
    high: float | None = Field(default=None, description="Upper bound of its 95 % interval")
    observed_f1: float | None = Field(default=None, description="F1 of the compared sentences alone")
    types: tuple[AnnotatorType, ...] = ()
    confusions: tuple[AnnotatorConfusion, ...] = Field(default=(), description="Most frequent first")
    weeks: tuple[AnnotatorWeek, ...] = Field(default=(), description="The last 26 weeks, oldest first")


class DatasetAnnotators(Message):
    """The annotators of a dataset."""

    dataset: str
    meaning: str = Field(default=MEANING, description="What F1 measures here, and what it does not")
    not_shown: str | None = Field(default=None, description="Why agreement with the model is not shown; null: it is")
    model_f1: float | None = Field(default=None, description="F1 of the model on sentences that it was not trained on")
    annotators: tuple[AnnotatorFigures, ...] = Field(
        default=(),
        description=f"Most sentences first. At most {MAX_ANNOTATORS}, then all others together as `{OTHER_ANNOTATORS}`",
    )


class AnnotatorCounter(Protocol):
    """The review queue."""

    def count_annotators(self, dataset: str, first: Sequence[str] = ()) -> Mapping[str, AnnotatorCounts]: ...


def build_dataset_annotators(
    view: StateView, queue: AnnotatorCounter, dataset: str, *, min_f1: float, only: str | None = None
) -> DatasetAnnotators:
    """At most MAX_ANNOTATORS annotators, those with the most sentences, and the others together.

    `min_f1`: what the model needs, so that agreement with it is shown. `only`: the one annotator to list, however few its
    sentences are.
    """
    by_key = view.snapshot.annotators
    all_totals = sum_partitions(by_key, dataset)
    by_sentences = sorted(
        all_totals.keys() - {OTHER_ANNOTATORS}, key=lambda name: (-all_totals[name].totals.sentences, name)
    )
    wanted = [] if only in (None, OTHER_ANNOTATORS) else [only]
    first = list(dict.fromkeys([*wanted, *by_sentences]))[:MAX_ANNOTATORS]
    counts = queue.count_annotators(dataset, first)
    listed = {*first, *counts} - {OTHER_ANNOTATORS}
    sentences: Counter[str] = Counter()
    for name, sums in all_totals.items():
        sentences[name if name in listed else OTHER_ANNOTATORS] += sums.totals.sentences
    judge: Judge | None = None
    model_f1: float | None = None
    not_shown: str | None = None
    compared: Mapping[str, AnnotatorSums] = {}
    try:
        judge = view.get_judge(dataset)
    except MissingModelError as error:
        not_shown = str(error)
    if judge is not None:
        model_f1 = None if judge.folder is None else judge.folder.held_out_f1
        not_shown = _explain_not_shown(view, judge, model_f1, min_f1)
        compared = {} if not_shown else sum_partitions(by_key, dataset, judge.stats_key)
    estimates = estimate_f1({name: sums for name, sums in compared.items() if name != OTHER_ANNOTATORS})
    figures = []
    for name in {*sentences, *counts}:
        if only not in (None, name):
            continue
        figures.append(_build_counts(name, sentences[name], counts.get(name, AnnotatorCounts())))
        if judge is not None and name in compared:
            agreement = _build_agreement(judge, compared[name], estimates.get(name))
            figures[-1] = figures[-1].model_copy(update=agreement)
    figures.sort(key=lambda each: (each.annotator == OTHER_ANNOTATORS, -each.sentences, -each.items, each.annotator))
    return DatasetAnnotators(dataset=dataset, not_shown=not_shown, model_f1=model_f1, annotators=tuple(figures))


def _explain_not_shown(view: StateView, judge: Judge, model_f1: float | None, min_f1: float) -> str | None:
    model = judge.model.name
    if model_f1 is None:
        return (
            f"Agreement with the model {model} is not shown, because it is not known how good the model is: its model.json "
            "has no F1 in `figures`."
        )
    if model_f1 < min_f1:
        return (
            f"Agreement with the model {model} is not shown, because the model is not good enough: its F1 on sentences that it "
            f"was not trained on is {model_f1:.2f}, and {min_f1:.2f} is needed."
        )
    misfit = view.find_misfit(judge.settings.name)
    if misfit is not None:
        advice = misfit.explain(build_settings_advice(judge.settings.name))
        return f"Agreement with the model {model} is not shown: {advice}."
    return None


def _build_counts(name: str, sentences: int, counts: AnnotatorCounts) -> AnnotatorFigures:
    return AnnotatorFigures(
        annotator=name,
        sentences=sentences,
        **counts._asdict(),
        # Sentences from before the sums were counted are decided too: then there is no rate.
        errors_per_100=100 * counts.confirmed_errors / sentences if sentences >= counts.decided > 0 else None,
    )


def _build_agreement(judge: Judge, sums: AnnotatorSums, estimate: F1Estimate | None) -> dict[str, object]:
    def name_type(judged: str) -> str:
        return judged if judged in {OUTSIDE, ""} else judge.label_writer.resolve_type(Span(0, 1, judged), ())

    pairs = sorted(sums.confusions.items(), key=lambda entry: (-entry[1], entry[0]))
    return {
        "compared_sentences": sums.totals.sentences,
        "f1": None if estimate is None else estimate.estimate,
        "low": None if estimate is None else estimate.low,
        "high": None if estimate is None else estimate.high,
        "observed_f1": _compute_f1(sums.spans),
        "types": tuple(
            AnnotatorType(type=name_type(name), **spans._asdict()) for name, spans in sorted(sums.types.items())
        ),
        "confusions": tuple(
            AnnotatorConfusion(given=name_type(given), found=name_type(found), spans=spans)
            for (given, found), spans in pairs[:MAX_CONFUSIONS]
            if (given, found) != OTHER_PAIR
        ),
        "weeks": tuple(
            AnnotatorWeek(week=week, sentences=each.sentences, f1=_compute_f1(each.spans))
            for week, each in sorted(sums.weeks.items())
        ),
    }


def _compute_f1(spans: SpanSums) -> float | None:
    return 2 * spans.matched / spans.total if spans.total else None
