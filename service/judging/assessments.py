"""Builds assessments: the scores of a sentence as the message that is published, in the dataset's own labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter

from service.contracts import Assessment, EntitySpan, Flag, SuspectSpan, WordScore
from service.judging.because import build_because
from service.judging.suspects import decode_valid_path, find_suspects
from service.judging.types import PredictedEntity, Prediction
from service.labels import OUTSIDE, UNSCORED, Span, get_entity_type, parse_spans
from service.statistics.memory.explain import explain_word

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from service.contracts import Because, DatasetSettings, LabelledSentence, ModelName
    from service.judging.types import Observation, SentenceScores, ThresholdSet
    from service.labels import DatasetLabelWriter, LabelMap
    from service.scoring.memory import TypeMerge

WORD_SCORES_ADAPTER = TypeAdapter(tuple[WordScore, ...])


class AssessmentBuilder:
    """Builds the assessments of one dataset."""

    def __init__(
        self,
        settings: DatasetSettings,
        label_map: LabelMap,
        label_writer: DatasetLabelWriter,
        type_merge: TypeMerge,
        model: ModelName,
    ) -> None:
        self._settings = settings
        self._label_map = label_map
        self._model = model
        self._classes = label_map.classes
        self._label_writer = label_writer
        self._type_merge = type_merge
        shared: dict[str, Any] = {
            **dict.fromkeys(Assessment.model_fields),
            "method": settings.method,
            "token_score": settings.token_score,
            "model": model,
            "settings_version": settings.version,
        }
        # Copied for each sentence: `model_construct` looks for the alias and the default of every field.
        self._template = Assessment.model_construct(**shared)

    def build(self, observation: Observation, scores: SentenceScores, thresholds: ThresholdSet) -> Assessment:
        """The assessment of a judged sentence. Its fields were validated before, so they are not validated again."""
        has_flags = bool(scores.flags.any())
        path = None if self._label_writer.is_direct(observation.sentence.labels) else self._decode_path(observation)
        rows = np.flatnonzero(scores.flags).tolist() if has_flags else ()
        worst = int(scores.weighted_scores.argmin()) if len(observation.given) else None
        return self._template.model_copy(
            update={
                **_get_annotation(observation.sentence),
                "reason": scores.reason,
                "score": scores.score,
                "priority": scores.priority,
                "memory": None if scores.evidence is None else "partition",
                "words": self._build_word_scores(observation, scores),
                "flags": tuple([self._build_flag(observation, row, thresholds, path) for row in rows]),
                "worst": None if worst is None else self._build_flag(observation, worst, thresholds, path),
                "because": () if worst is None else self._build_because(observation, scores, worst),
                "suspects": self._build_suspects(observation, scores.flags, path) if has_flags else (),
                "weights": self._collect_weights(observation, thresholds),
                "thresholds": thresholds.by_class,
                "warming_up": thresholds.warming_up,
                "unused_types": self._list_types(observation.dropped),
            }
        )

    def build_deleted(self, sentence: LabelledSentence) -> Assessment:
        """The assessment of a deleted sentence, which closes its review item."""
        return Assessment(
            **_get_annotation(sentence),
            reason="deleted",
            method=self._settings.method,
            token_score=self._settings.token_score,
            model=self._model,
            settings_version=self._settings.version,
        )

    def predict(self, observation: Observation) -> Prediction:
        """The model's most probable valid labels as entities."""
        probs = self._expand_to_all_words(observation)[1]
        path = decode_valid_path(probs, self._classes, self._label_map.scheme)
        confidence = probs[np.arange(len(path)), path]
        labels = observation.sentence.labels
        entities = []
        for span in parse_spans([self._classes[k] for k in path], self._label_map.scheme):
            span_type = self._label_writer.resolve_type(span, labels)
            words = slice(span.start, span.end)
            entities.append(PredictedEntity(span._replace(type=span_type), float(confidence[words].min())))
        return Prediction(tuple(entities), float(confidence.min()))

    def _build_word_scores(self, observation: Observation, scores: SentenceScores) -> tuple[WordScore, ...]:
        names = ("p_given", "score") if scores.evidence is None else ("p_given", "score", "priority")
        values = (scores.confidence, scores.token_scores, scores.weighted_scores)[: len(names)]
        columns = [column.tolist() for column in values]
        numbers = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        scored = WORD_SCORES_ADAPTER.validate_python(numbers)  # one call for all words of the sentence
        if not observation.unscored:
            return scored
        words = {int(index): word for index, word in zip(observation.word_index, scored, strict=True)}
        words |= {index: WordScore(unscored=reason) for index, reason in observation.unscored.items()}
        return tuple(words[index] for index in range(len(words)))

    def _build_flag(self, observation: Observation, row: int, thresholds: ThresholdSet, path: list[int] | None) -> Flag:
        """The flag of one word, in the dataset's own labels. The threshold is that of the suggested class."""
        probs, given, index = observation.probs[row], int(observation.given[row]), int(observation.word_index[row])
        best = suggest_class(probs, given, observation.dropped)
        return Flag(
            index=index,
            token=observation.sentence.tokens[index],
            given=observation.sentence.labels[index],
            suggested=self._suggest_label(observation, index, best, path),
            p_given=float(probs[given]),
            p_suggested=float(probs[best]),
            threshold=thresholds.by_class[self._classes[best]],
        )

    def _suggest_label(self, observation: Observation, word_index: int, best_class: int, path: list[int] | None) -> str:
        """The dataset's label for a class at this word; `path` is the most probable valid label sequence."""
        labels = observation.sentence.labels
        if path is None:
            return self._label_writer.render_class(best_class, labels)
        names = [self._classes[k] for k in path]
        if get_entity_type(names[word_index], self._label_map.scheme) != get_entity_type(
            self._classes[best_class], self._label_map.scheme
        ):
            # The path has another type here, but this class is the most probable one.
            names[word_index] = self._classes[best_class]
        return self._label_writer.render(names, labels)[word_index]

    def _build_because(self, observation: Observation, scores: SentenceScores, row: int) -> tuple[Because, ...]:
        """What memory knew about one word, with types as the dataset names them."""
        if scores.evidence is None:
            return ()
        index, labels = int(observation.word_index[row]), observation.sentence.labels

        def name_type(model_type: str) -> str:
            if model_type == OUTSIDE:
                return OUTSIDE
            return self._label_writer.resolve_type(Span(index, index + 1, model_type), labels)

        explanation = explain_word(scores.evidence.counts, row, self._type_merge)
        given_type = self._type_merge.names[int(scores.evidence.given_types[row])]
        return build_because(index, explanation, given_type=given_type, name_type=name_type)

    def _list_types(self, classes: Sequence[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(get_entity_type(self._classes[k], self._label_map.scheme) for k in classes))

    def _collect_weights(self, observation: Observation, thresholds: ThresholdSet) -> dict[str, float]:
        """Weights by given label: with them a reader can compute the word scores behind `priority` from `words`."""
        classes = dict(zip(observation.sentence.labels, observation.all_given.tolist(), strict=True))
        weights = thresholds.weights.tolist()
        return {label: weights[k] for label, k in classes.items() if k != UNSCORED}

    def _expand_to_all_words(self, observation: Observation) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
        """Classes and probabilities of every word. An unscored word counts as certain of its given class."""
        outside = self._classes.index(OUTSIDE) if OUTSIDE in self._classes else 0
        given = np.where(observation.all_given == UNSCORED, outside, observation.all_given)
        probs = np.eye(len(self._classes))[given]
        probs[observation.word_index] = observation.probs
        return given, probs

    def _decode_path(self, observation: Observation) -> list[int]:
        return decode_valid_path(self._expand_to_all_words(observation)[1], self._classes, self._label_map.scheme)

    def _build_suspects(
        self, observation: Observation, flags: npt.NDArray[np.bool_], path: list[int] | None = None
    ) -> tuple[SuspectSpan, ...]:
        """The suspects of the sentence, with types as the dataset names them."""
        given, probs = self._expand_to_all_words(observation)
        flagged = np.zeros(len(given), np.bool_)
        flagged[observation.word_index] = flags
        names = [self._classes[k] for k in given]
        labels = observation.sentence.labels
        return tuple(
            SuspectSpan(
                kind=suspect.kind,
                given_span=self._to_entity_span(suspect.given_span, labels, is_given=True),
                suggested_span=self._to_entity_span(suspect.suggested_span, labels, is_given=False),
                confidence=suspect.confidence,
            )
            for suspect in find_suspects(
                names, probs, self._classes, self._label_map.scheme, flagged.tolist(), path=path
            )
        )

    def _to_entity_span(self, span: Span | None, labels: Sequence[str], *, is_given: bool) -> EntitySpan | None:
        if span is None:
            return None
        name = span.type
        if not self._label_writer.is_identity:
            name = (
                self._label_writer.parse_type(labels[span.start])
                if is_given
                else self._label_writer.resolve_type(span, labels)
            )
        return EntitySpan(start=span.start, end=span.end, type=name)


def _get_annotation(sentence: LabelledSentence) -> dict[str, Any]:
    """The fields that an assessment repeats. The probabilities are not among them: `words` has those of the labels."""
    fields = dict(sentence.__dict__)
    fields.pop("probabilities", None)
    return fields


def suggest_class(probs: npt.NDArray[np.float64], given: int, dropped: Sequence[int] = ()) -> int:
    """The class to suggest for a word: the most probable one that is neither the given class nor dropped."""
    best = int(probs.argmax())
    if best == given:
        others = probs.copy()
        others[[given, *dropped]] = -1.0
        best = int(others.argmax())
    return best
