"""Builds predictions that show assessments on Label Studio's tasks: the suggested spans and how likely an error is."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from service.formats.platforms.label_studio.annotations import PLATFORM
from service.formats.text.alignment import get_given_scheme, to_text_spans
from service.formats.text.offsets import UTF16, TextSpan, to_utf16_offsets
from service.labels import Span, parse_spans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.contracts import AnnotatedSentence, Assessment

# Marks the predictions of labelwatch among those of other models.
MODEL_VERSION_PREFIX: Final = "labelwatch "
_REGION_ID: Final = re.compile(r"lw-(\d+)-[0-9a-f]{8}")


class SuggestedEntity(NamedTuple):
    """An entity as the model suggests it; `confidence` is None if it equals the given one."""

    span: Span
    confidence: float | None


def build_suggested_entities(assessment: Assessment) -> list[SuggestedEntity]:
    """The given entities, with suspect ones replaced by the model's suggestions."""
    suspects = assessment.suspects
    replaced = {(suspect.given_span.start, suspect.given_span.end) for suspect in suspects if suspect.given_span}
    confidences = {
        Span(suspect.suggested_span.start, suspect.suggested_span.end, suspect.suggested_span.type): suspect.confidence
        for suspect in suspects
        if suspect.suggested_span is not None
    }
    suggested = [SuggestedEntity(span, confidence) for span, confidence in confidences.items()]
    unchanged = [
        SuggestedEntity(span, None)
        for span in parse_spans(assessment.labels, get_given_scheme(assessment))
        if (span.start, span.end) not in replaced and not any(_is_overlapping(span, other.span) for other in suggested)
    ]
    return sorted([*unchanged, *suggested])


def build_corrected_entities(assessment: Assessment, labels: Sequence[str]) -> list[SuggestedEntity]:
    """The entities of a reviewer's labels; new ones have the confidence 1."""
    scheme = get_given_scheme(assessment)
    given = set(parse_spans(assessment.labels, scheme))
    return [SuggestedEntity(span, None if span in given else 1.0) for span in parse_spans(labels, scheme)]


def _is_overlapping(span: Span, other: Span) -> bool:
    return span.start < other.end and other.start < span.end


def build_label_studio_prediction(
    assessment: Assessment,
    *,
    task: int,
    from_name: str,
    to_name: str,
    rename: Mapping[str, str] | None = None,
    corrected: Sequence[str] | None = None,
    confirmed: bool = False,
) -> dict[str, Any] | None:
    """The body of `POST /api/predictions/`; None if the sentence does not hold its original text.

    `mislabeling` is 1 - priority, so that tasks sorted by it start with the worst; `score` is the sentence's score, low
    is bad. `rename` maps types of the dataset to the project's names. If a reviewer `confirmed` the error,
    `mislabeling` is 1, and the spans are those of the reviewer's `corrected` labels.
    """
    entities = (
        build_suggested_entities(assessment) if corrected is None else build_corrected_entities(assessment, corrected)
    )
    result = build_regions(assessment, entities, from_name=from_name, to_name=to_name, rename=rename)
    if result is None:
        return None
    if confirmed:
        rank: float | None = 0.0
    else:
        rank = assessment.priority if assessment.priority is not None else assessment.score
    return {
        "task": task,
        "model_version": f"{MODEL_VERSION_PREFIX}{assessment.model.name} {assessment.model.fingerprint[:12]}",
        "score": assessment.score,
        "mislabeling": 0.0 if rank is None else min(1.0, max(0.0, 1.0 - rank)),
        "result": result,
    }


def build_regions(
    sentence: AnnotatedSentence,
    entities: Sequence[SuggestedEntity],
    *,
    from_name: str,
    to_name: str,
    rename: Mapping[str, str] | None = None,
) -> list[dict[str, Any]] | None:
    """The entities as regions of a prediction's `result`; None if the sentence does not hold its original text."""
    text_spans = to_text_spans(sentence, [entity.span for entity in entities])
    if text_spans is None:
        return None
    names = rename or {}
    result = []
    for span, entity in zip(text_spans, entities, strict=True):
        # Given entities have the project's names already.
        label = span.label if entity.confidence is None else names.get(span.label, span.label)
        region = _build_region(sentence.id or "", _to_given_offsets(span, sentence), label, from_name, to_name)
        result.append(region if entity.confidence is None else {**region, "score": entity.confidence})
    return result


def _to_given_offsets(span: TextSpan, sentence: AnnotatedSentence) -> TextSpan:
    """The span in the unit of the annotation's own spans, beside which Label Studio shows it."""
    meta = sentence.meta or {}
    if meta.get("given_offsets") != UTF16:
        return span
    start, end = to_utf16_offsets(str(meta["text"]), span.start, span.end)
    return replace(span, start=start, end=end)


def find_annotation_id(prediction: Mapping[str, Any]) -> str | None:
    """The id of the sentence that a prediction of labelwatch is about; None if its regions do not show it."""
    regions = prediction.get("result")
    first = regions[0] if isinstance(regions, list) and regions else None
    match = _REGION_ID.fullmatch(str(first.get("id"))) if isinstance(first, dict) else None
    return match and f"{PLATFORM}:{match[1]}"


def _build_region(identity: str, span: TextSpan, label: str, from_name: str, to_name: str) -> dict[str, Any]:
    """A region. Its id names the annotation and is deterministic, so that a second push changes nothing."""
    digest = hashlib.sha256(f"{identity}/{span.start}/{span.end}/{label}".encode()).hexdigest()
    return {
        "id": f"lw-{identity.removeprefix(f'{PLATFORM}:')}-{digest[:8]}",
        "from_name": from_name,
        "to_name": to_name,
        "type": "labels",
        "value": {"start": span.start, "end": span.end, "text": span.text, "labels": [label]},
    }
