"""Suggestions for a document of INCEpTION: what the model finds, and the doubts about what annotators gave."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from service.api.http.problems import TooLargeError
from service.api.http.threads import run_in_thread
from service.api.scoring.scorer import ScoreOptions, Scorer
from service.contracts import Assessment, LabelledSentence
from service.contracts.sentence import check_length
from service.errors import LabelwatchError, TooLongError
from service.labels import OUTSIDE, Span, labels_from_spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.api.backend import Backend
    from service.contracts import SuspectSpan
    from service.formats.platforms.inception.documents import CasSentence, InceptionDocument, TextRange

logger = logging.getLogger(__name__)

NOT_ANNOTATED_EXPLANATION: Final = "labelwatch finds an entity, and there is no annotation"


class CasPredictor:
    """Answers one request for suggestions."""

    def __init__(self, backend: Backend, scorer: Scorer, dataset: str, *, request_id: str) -> None:
        self._backend = backend
        self._scorer = scorer
        self._dataset = dataset
        self._request_id = request_id

    async def suggest(self, document: InceptionDocument, within: TextRange | None) -> None:
        """Adds the suggestions to the document."""
        found = await run_in_thread(document.list_sentences, within)
        sentences = list(filter(self._is_short_enough, found))
        if len(sentences) < len(found):
            logger.warning("%d sentences of a document of INCEpTION are too long", len(found) - len(sentences))
        limit = self._backend.settings.max_sentences
        if len(sentences) > limit:
            raise TooLargeError(
                f"{len(sentences):,} sentences, the limit is {limit:,} per request: split the document, or raise "
                "LABELWATCH_API_MAX_SENTENCES",
                field="document.xmi",
            )
        if not sentences:
            return
        doubts = await self._judge({index: each for index, each in enumerate(sentences) if each.given})
        unlabelled = [self._build_sentence(each, [OUTSIDE] * len(each.tokens)) for each in sentences]
        predictions = await self._scorer.predict(unlabelled)
        for index, (sentence, prediction) in enumerate(zip(sentences, predictions, strict=True)):
            taken = list(sentence.given)
            for suspect in doubts.get(index, ()):
                if suspect.suggested_span is not None:
                    span = Span(suspect.suggested_span.start, suspect.suggested_span.end, suspect.suggested_span.type)
                    explanation = _explain_suspect(suspect)
                    document.add_suggestion(sentence, span, score=suspect.confidence, explanation=explanation)
                    taken.append(span)
            if isinstance(prediction, LabelwatchError):
                logger.warning("a sentence of INCEpTION gets no suggestions: %s", prediction)
                continue
            for entity in prediction.entities:
                if not any(_overlaps(entity.span, span) for span in taken):
                    document.add_suggestion(
                        sentence, entity.span, score=entity.confidence, explanation=NOT_ANNOTATED_EXPLANATION
                    )

    async def _judge(self, sentences: Mapping[int, CasSentence]) -> dict[int, tuple[SuspectSpan, ...]]:
        """The doubts about given entities. A sentence that can't be judged, such as one with an unknown label, has none."""
        if not sentences:
            return {}
        scheme = self._scorer.get_context(self._dataset, ScoreOptions()).judge.scheme
        labelled = [
            self._build_sentence(each, labels_from_spans(each.given, len(each.tokens), scheme))
            for each in sentences.values()
        ]
        scored = await self._scorer.score(labelled, ScoreOptions(), request_id=self._request_id)
        doubts = {}
        for index, answer in zip(sentences, scored.answers, strict=True):
            if isinstance(answer, bytes):
                doubts[index] = Assessment.model_validate_json(answer).suspects
            else:
                logger.warning("the annotations of a sentence of INCEpTION can't be judged: %s", answer)
        return doubts

    def _is_short_enough(self, sentence: CasSentence) -> bool:
        try:
            check_length(sentence.tokens, max_words=self._backend.max_words)
        except TooLongError:
            return False
        return True

    def _build_sentence(self, sentence: CasSentence, labels: Iterable[str]) -> LabelledSentence:
        return LabelledSentence(tokens=sentence.tokens, labels=tuple(labels), dataset=self._dataset)


def _overlaps(span: Span, other: Span) -> bool:
    return span.start < other.end and other.start < span.end


def _explain_suspect(suspect: SuspectSpan) -> str:
    given, suggested = suspect.given_span, suspect.suggested_span
    if given is None or suggested is None:
        return "labelwatch doubts that there is no entity here"
    if given.type != suggested.type:
        return f"labelwatch doubts {given.type}: it should be {suggested.type}"
    return f"labelwatch doubts where {given.type} begins or ends"
