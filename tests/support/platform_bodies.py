"""Bodies as the platforms send them, in words of our own. The shapes are those of Label Studio 1.23 and Argilla 2.4."""

from __future__ import annotations

import copy
from typing import Any

TEXT = "Mara Quill flew from Tallinn to Riga."
CONFIG = {
    "label": {
        "type": "Labels",
        "to_name": ["text"],
        "inputs": [{"type": "Text", "valueType": None, "value": "text"}],
        "labels": ["PER", "ORG", "LOC"],
        "labels_attrs": {},
    }
}


def make_region(part: str, *labels: str, text: str = TEXT, **more: object) -> dict[str, Any]:
    start = text.index(part)
    value = {"start": start, "end": start + len(part), "text": part, "labels": list(labels)}
    return {
        "id": part,
        "from_name": "label",
        "to_name": "text",
        "type": "labels",
        "origin": "manual",
        "value": value,
    } | more


def make_annotation(*regions: dict[str, Any], **more: object) -> dict[str, Any]:
    return {
        "id": 41,
        "result": list(regions),
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": "2026-03-01T10:00:00.000001Z",
        "updated_at": "2026-03-01T10:00:00.000002Z",
        "lead_time": 2.5,
        "unique_id": "00000000-0000-4000-8000-000000000001",
        "task": 7,
        "project": 3,
        "completed_by": 5,
        "updated_by": 5,
    } | more


def make_task(**more: object) -> dict[str, Any]:
    return {"id": 7, "data": {"text": TEXT, "doc": "d"}, "meta": {}, "project": 3, "is_labeled": True} | more


def make_event(action: str = "ANNOTATION_CREATED", **more: object) -> dict[str, Any]:
    body: dict[str, Any] = {"action": action, "project": {"id": 3, "title": "t", "parsed_label_config": CONFIG}}
    if action == "ANNOTATIONS_DELETED":
        body["annotations"] = [{"id": 41}, {"id": 42}]
    else:
        body |= {
            "annotation": make_annotation(make_region("Mara Quill", "PER"), make_region("Riga", "LOC")),
            "task": make_task(),
        }
    return copy.deepcopy(body | more)


def make_span(part: str, label: str, text: str = TEXT) -> dict[str, Any]:
    start = text.index(part)
    return {"label": label, "start": start, "end": start + len(part)}


def make_argilla_dataset() -> dict[str, Any]:
    return {
        "id": "d-1",
        "name": "trips",
        "questions": [
            {"name": "mood", "settings": {"type": "label_selection"}},
            {"name": "entities", "settings": {"type": "span", "field": "sentence", "allow_overlapping": False}},
        ],
        "fields": [{"name": "sentence"}],
    }


def make_argilla_event(kind: str = "response.created", **more: object) -> dict[str, Any]:
    data: dict[str, Any] = {"id": "r-1"}
    if kind != "response.deleted":
        data |= {
            "values": {
                "entities": {"value": [make_span("Mara Quill", "PER"), make_span("Riga", "LOC")]},
                "mood": {"value": "ok"},
            },
            "status": "submitted",
            "record": {"id": "rec-1", "fields": {"sentence": TEXT}, "dataset": make_argilla_dataset()},
            "user": {"id": "u-1", "username": "nadia", "role": "annotator"},
            "inserted_at": "2026-03-01T10:00:00",
            "updated_at": "2026-03-01T10:00:00.000002",
        }
    return copy.deepcopy({"type": kind, "version": 1, "timestamp": "2026-03-01T10:00:01.500000Z", "data": data | more})
