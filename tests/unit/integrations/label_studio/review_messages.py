"""Messages of the review and decision topics about annotations of Label Studio's project 3."""

from __future__ import annotations

from typing import Any

from service.contracts import Decision
from service.log.protocol import Output
from service.log.topics import Topics
from service.review.messages import build_decision_message
from tests.unit.formats.platforms.label_studio.test_predictions import assessment, suspect

TOPICS = Topics()


def make_flagged(
    number: int | str = 41, *, task: int = 7, suggested: str = "LOC", revision: int = 1, **more: Any
) -> Output:
    """A review message about an annotation whose ORG is flagged."""
    flag = {
        "index": 4,
        "token": "Tallinn",
        "given": "B-ORG",
        "suggested": f"B-{suggested}",
        "p_given": 0.1,
        "p_suggested": 0.8,
    }
    about = {"format": "label-studio", "project": "3", "task": str(task), "from_name": "label", "to_name": "text"}
    flagged = assessment(suspect((4, 5, "ORG"), (4, 5, suggested)), flags=[flag], dataset="trips", revision=revision)
    labels = ["B-PER" if label == "B-PERSON" else "I-PER" if label == "I-PERSON" else label for label in flagged.labels]
    flagged = flagged.model_copy(
        update={
            "id": f"label-studio:{number}",
            "labels": tuple(labels),
            "meta": {**(flagged.meta or {}), **about},
            **more,
        }
    )
    return Output(TOPICS.review, f"trips/{flagged.id}".encode(), flagged.model_dump_json().encode())


def make_decision(verdict: str, *, number: int = 41, revision: int = 1, reviewer: str = "kim", **more: Any) -> Output:
    about = {"dataset": "trips", "id": f"label-studio:{number}", "revision": revision, "reviewer": reviewer}
    return build_decision_message(TOPICS, Decision.model_validate({**about, "verdict": verdict, **more}))


def make_task_deletion(task: int, *, revision: int = 2, **meta: str) -> Output:
    about = {"format": "label-studio", "task": str(task), "project": "3", **meta}
    bare: dict[str, Any] = {
        "flags": (),
        "suspects": (),
        "tokens": (),
        "labels": (),
        "deleted": True,
        "reason": "deleted",
    }
    return make_flagged(f"task:{task}", revision=revision, meta=about, **bare)
