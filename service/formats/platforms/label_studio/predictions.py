"""Assessments back to Label Studio: a prediction on the task, with the suggested spans and how likely an error is."""

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

    from service.contracts import Assessment

# So that our predictions are known among others, whatever the model.
MODEL_VERSION_PREFIX: Final = "labelwatch "
_REGION_ID: Final = re.compile(r"lw-(\d+)-[0-9a-f]{8}")


class SuggestedEntity(NamedTuple):
    """An entity as it should be, where the model is right; `confidence` is none where it was given so."""

    span: Span
    confidence: float | None


def build_suggested_entities(assessment: Assessment) -> list[SuggestedEntity]:
    """The given entities, with the doubtful ones replaced by what the model reads in their place."""
    doubted = {(s.given_span.start, s.given_span.end) for s in assessment.suspects if s.given_span is not None}
    found = {
        Span(s.suggested_span.start, s.suggested_span.end, s.suggested_span.type): s.confidence
        for s in assessment.suspects
        if s.suggested_span is not None
    }
    new = [SuggestedEntity(span, confidence) for span, confidence in found.items()]
    kept = [
        SuggestedEntity(span, None)
        for span in parse_spans(assessment.labels, get_given_scheme(assessment))
        if (span.start, span.end) not in doubted and not any(_is_overlapping(span, other.span) for other in new)
    ]
    return sorted([*kept, *new])


def build_corrected_entities(assessment: Assessment, labels: Sequence[str]) -> list[SuggestedEntity]:
    """What a reviewer says; the reviewer is sure of what is new."""
    scheme = get_given_scheme(assessment)
    given = set(parse_spans(assessment.labels, scheme))
    return [SuggestedEntity(span, None if span in given else 1.0) for span in parse_spans(labels, scheme)]


def _is_overlapping(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


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
    """The body of `POST /api/predictions/`; none where the sentence does not hold the text it came from.

    `mislabeling` is 1 - priority, so that tasks sorted by it begin with the worst; `score` is the sentence's score, low
    is bad. `rename` gives the project's names of suggested types that the dataset calls otherwise. Where a reviewer has
    confirmed the error, `mislabeling` is 1, and the spans are those of the labels the reviewer `corrected` it to.
    """
    entities = (
        build_suggested_entities(assessment) if corrected is None else build_corrected_entities(assessment, corrected)
    )
    placed = to_text_spans(assessment, [entity.span for entity in entities])
    if placed is None:
        return None
    names = rename or {}
    result = []
    for span, entity in zip(placed, entities, strict=True):
        # What was given is in the project's own names already.
        label = span.label if entity.confidence is None else names.get(span.label, span.label)
        region = _build_region(assessment.id or "", _to_given_offsets(span, assessment), label, from_name, to_name)
        result.append(region if entity.confidence is None else {**region, "score": entity.confidence})
    worst = 0.0 if confirmed else assessment.priority if assessment.priority is not None else assessment.score
    return {
        "task": task,
        "model_version": f"{MODEL_VERSION_PREFIX}{assessment.model.name} {assessment.model.fingerprint[:12]}",
        "score": assessment.score,
        "mislabeling": 0.0 if worst is None else min(1.0, max(0.0, 1.0 - worst)),
        "result": result,
    }


def _to_given_offsets(span: TextSpan, assessment: Assessment) -> TextSpan:
    """As the annotation's own spans are counted, beside which it is shown."""
    meta = assessment.meta or {}
    if meta.get("given_offsets") != UTF16:
        return span
    start, end = to_utf16_offsets(str(meta["text"]), span.start, span.end)
    return replace(span, start=start, end=end)


def find_annotation_id(prediction: Mapping[str, Any]) -> str | None:
    """The sentence's id that a prediction of ours is about, as far as its regions tell it."""
    regions = prediction.get("result")
    first = regions[0] if isinstance(regions, list) and regions else None
    found = _REGION_ID.fullmatch(str(first.get("id"))) if isinstance(first, dict) else None
    return found and f"{PLATFORM}:{found[1]}"


def _build_region(identity: str, span: TextSpan, label: str, from_name: str, to_name: str) -> dict[str, Any]:
    """Its id names the annotation and is the same each time, so that pushing twice gives the same."""
    digest = hashlib.sha256(f"{identity}/{span.start}/{span.end}/{label}".encode()).hexdigest()
    return {
        "id": f"lw-{identity.removeprefix(f'{PLATFORM}:')}-{digest[:8]}",
        "from_name": from_name,
        "to_name": to_name,
        "type": "labels",
        "value": {"start": span.start, "end": span.end, "text": span.text, "labels": [label]},
    }
