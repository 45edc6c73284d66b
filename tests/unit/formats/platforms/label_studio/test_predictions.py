from __future__ import annotations

from typing import Any

import pytest

from service.contracts import Assessment
from service.formats.platforms.label_studio.predictions import (
    SuggestedEntity,
    build_label_studio_prediction,
    build_suggested_entities,
)
from service.formats.text.alignment import align_spans
from service.formats.text.offsets import TextSpan
from service.labels import Span
from tests.support.platform_bodies import TEXT


def assessment(*suspects: dict[str, Any], **more: Any) -> Assessment:
    aligned = align_spans(TEXT, [TextSpan(0, 10, "PERSON"), TextSpan(21, 28, "ORG"), TextSpan(32, 36, "LOC")])
    fields: dict[str, Any] = {
        "tokens": aligned.tokens,
        "labels": aligned.labels,
        "meta": aligned.meta,
        "id": "label-studio:41",
        "reason": "flagged",
        "method": "worst-token",
        "token_score": "self-confidence",
        "score": 0.125,
        "priority": 0.25,
        "suspects": suspects,
        "model": {"name": "tiny", "fingerprint": "abcdef0123456789"},
    }
    return Assessment.model_validate(fields | more)


def suspect(given: tuple[int, int, str] | None, suggested: tuple[int, int, str] | None, **more: Any) -> dict[str, Any]:
    def span(one: tuple[int, int, str] | None) -> dict[str, Any] | None:
        return None if one is None else dict(zip(("start", "end", "type"), one, strict=True))

    return {"kind": "type", "given_span": span(given), "suggested_span": span(suggested), "confidence": 0.75} | more


@pytest.mark.parametrize(
    ("suspects", "entities"),
    [
        ([], [(0, 2, "PERSON", None), (4, 5, "ORG", None), (6, 7, "LOC", None)]),
        ([suspect((4, 5, "ORG"), (4, 5, "LOC"))], [(0, 2, "PERSON", None), (4, 5, "LOC", 0.75), (6, 7, "LOC", None)]),
        ([suspect((4, 5, "ORG"), None)], [(0, 2, "PERSON", None), (6, 7, "LOC", None)]),
        ([suspect(None, (2, 3, "MISC"))], [(0, 2, "PERSON", None), (2, 3, "MISC", 0.75), (4, 5, "ORG", None), (6, 7, "LOC", None)]),
        ([suspect((4, 5, "ORG"), (4, 7, "LOC"))], [(0, 2, "PERSON", None), (4, 7, "LOC", 0.75)]),
        ([suspect((0, 2, "PER"), (0, 1, "PER")), suspect((0, 2, "PER"), (1, 2, "LOC"))],
         [(0, 1, "PER", 0.75), (1, 2, "LOC", 0.75), (4, 5, "ORG", None), (6, 7, "LOC", None)]),
    ],
)  # fmt: skip
def test_doubtful_entities_are_replaced(
    suspects: list[dict[str, Any]], entities: list[tuple[int, int, str, float | None]]
) -> None:
    expected = [SuggestedEntity(Span(start, end, kind), confidence) for start, end, kind, confidence in entities]
    assert build_suggested_entities(assessment(*suspects)) == expected


def test_a_prediction_for_label_studio() -> None:
    said = assessment(suspect((4, 5, "ORG"), (4, 5, "PER")))
    prediction = build_label_studio_prediction(
        said, task=7, from_name="label", to_name="text", rename={"PER": "PERSON", "LOC": "X"}
    )
    assert prediction is not None
    result = prediction.pop("result")
    assert prediction == {
        "task": 7,
        "model_version": "labelwatch tiny abcdef012345",
        "score": 0.125,
        "mislabeling": 0.75,
    }
    assert [region["value"] for region in result] == [
        {"start": 0, "end": 10, "text": "Mara Quill", "labels": ["PERSON"]},
        {"start": 21, "end": 28, "text": "Tallinn", "labels": ["PERSON"]},
        {"start": 32, "end": 36, "text": "Riga", "labels": ["LOC"]},  # given so, and so in the project's names
    ]
    assert {(one["from_name"], one["to_name"], one["type"]) for one in result} == {("label", "text", "labels")}
    assert [one.get("score") for one in result] == [None, 0.75, None]
    assert len({one["id"] for one in result}) == 3
    assert build_label_studio_prediction(said, task=7, from_name="label", to_name="text", rename={"PER": "PERSON"}) == {
        **prediction, "result": result,
    }  # fmt: skip


def test_numbers_that_are_missing_and_texts_that_are() -> None:
    prediction = build_label_studio_prediction(
        assessment(priority=None, score=None), task=1, from_name="a", to_name="b"
    )
    assert prediction is not None
    assert (prediction["score"], prediction["mislabeling"]) == (None, 0.0)
    prediction = build_label_studio_prediction(assessment(priority=None), task=1, from_name="a", to_name="b")
    assert prediction is not None
    assert prediction["mislabeling"] == 0.875
    assert build_label_studio_prediction(assessment(meta=None), task=1, from_name="a", to_name="b") is None


def test_offsets_are_counted_as_those_of_the_annotation() -> None:
    """Behind the plane a browser's offsets are one more than characters."""
    text = f"🛫 {TEXT}"
    aligned = align_spans(text, [TextSpan(3, 13, "PER", text="Mara Quill"), TextSpan(35, 39, "LOC", text="Riga")])
    said = assessment(tokens=aligned.tokens, labels=aligned.labels, meta=aligned.meta)
    prediction = build_label_studio_prediction(said, task=7, from_name="label", to_name="text")
    assert prediction is not None
    values = [region["value"] for region in prediction["result"]]
    assert [(one["start"], one["end"], one["text"]) for one in values] == [(3, 13, "Mara Quill"), (35, 39, "Riga")]
