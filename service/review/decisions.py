"""Decisions and claims on their way to the topic: checked against the item, completed, keyed.

Keys are `dataset/id/reviewer` and `dataset/id/reviewer/claim`; a slash (or %) inside an id or a name is written as
%2F (%25), so that no two of them share a key.

All claims go to one partition, whatever their key: who was first must be the same to all who read.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import unquote

from service.contracts import Claim, Decision, describe_label_mismatch
from service.errors import InvalidInput
from service.log.codec import build_event_headers
from service.log.protocol import Output

if TYPE_CHECKING:
    from service.labels import LabelMap
    from service.log.topics import Topics
    from service.review.items import ReviewItem

DECISION_EVENT_TYPE = "labelwatch.decision.v1"
CLAIM_EVENT_TYPE = "labelwatch.claim.v1"
CLAIM_KEY_SUFFIX = "claim"
CLAIM_PARTITION = 0


def check_decision(
    item: ReviewItem, decision: Decision, *, now: datetime | None = None, labels: LabelMap | None = None
) -> Decision:
    """The decision as it is to be written: with its time and with what the reviewer was shown.

    Raises InvalidInput, which names the field, where it does not fit the item, or where it corrects a label to one
    that the dataset can't have by its `labels`.
    """
    if (decision.dataset, decision.id) != (item.dataset, item.id):
        raise InvalidInput(f"it is about {decision.dataset}/{decision.id}, not {item.dataset}/{item.id}", field="id")
    if decision.revision != item.revision:
        raise InvalidInput(
            f"it is about revision {decision.revision}, the queue holds {item.revision}: look at the item again",
            field="revision",
        )
    if item.state == "closed" and not decision.withdrawn:
        raise InvalidInput("the item is closed: the sentence was annotated again or deleted", field="id")
    _check_words(item, decision)
    _check_labels(item, decision, labels)
    moment = decision.decided_at or now or datetime.now(UTC)
    return decision.model_copy(update={"decided_at": _ensure_timezone(moment), "shown": item.shown})


def _check_words(item: ReviewItem, decision: Decision) -> None:
    if decision.words is None:
        return
    if decision.verdict != "error" and decision.words:
        raise InvalidInput(f"wrong words need the verdict error, not {decision.verdict}", field="words")
    if len(set(decision.words)) != len(decision.words):
        raise InvalidInput("a word is named twice", field="words")
    for place in decision.words:
        if not 0 <= place < len(item.tokens):
            raise InvalidInput(
                f"there is no word {place}: the sentence has {len(item.tokens)}, counted from 0", field="words"
            )


def _check_labels(item: ReviewItem, decision: Decision, label_map: LabelMap | None) -> None:
    labels = decision.labels
    if labels is None:
        return
    if len(labels) != len(item.tokens):
        raise InvalidInput(describe_label_mismatch(len(labels), len(item.tokens)), field="labels")
    changed = {place for place, (a, b) in enumerate(zip(labels, item.labels, strict=True)) if a != b}
    if decision.verdict == "error" and not changed:
        raise InvalidInput("they are the given ones: correct one, or leave them out", field="labels")
    if decision.verdict != "error" and changed:
        raise InvalidInput(f"corrected labels need the verdict error, not {decision.verdict}", field="labels")
    for place, label in enumerate(labels):
        if not label.strip():
            raise InvalidInput("it is empty", field="labels", word=place, token=item.tokens[place])
        # What was given may stay: the sentence was judged with it, though perhaps by other settings.
        if label_map is not None and place in changed and label not in item.labels and not label_map.accepts(label):
            raise InvalidInput(
                f"{label!r} is no label of {item.dataset}: use its own, of the types {', '.join(label_map.build_writer().types)}",
                field="labels",
                word=place,
                token=item.tokens[place],
            )
    if decision.words and changed != set(decision.words):
        raise InvalidInput("the words named are not those whose label was corrected: leave one out", field="words")


def _ensure_timezone(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def build_decision_message(topics: Topics, decision: Decision, request_id: str | None = None) -> Output:
    """The message that puts a decision into the topic; the reviewer's last one replaces the one before."""
    if decision.decided_at is None:
        decision = decision.model_copy(update={"decided_at": datetime.now(UTC)})
    return _build_output(
        topics, encode_decision_key(decision.dataset, decision.id, decision.reviewer), decision, request_id
    )


def build_claim_message(topics: Topics, claim: Claim, request_id: str | None = None) -> Output:
    made = _build_output(topics, encode_claim_key(claim.dataset, claim.id, claim.reviewer), claim, request_id)
    return replace(made, partition=CLAIM_PARTITION)


def _build_output(topics: Topics, key: bytes, message: Decision | Claim, request_id: str | None) -> Output:
    kind = DECISION_EVENT_TYPE if isinstance(message, Decision) else CLAIM_EVENT_TYPE
    now = datetime.now(UTC)
    headers = build_event_headers(kind, event_id=str(uuid.uuid4()), at=now, request_id=request_id)
    return Output(topics.decisions, key, message.model_dump_json(exclude_none=True).encode(), headers)


def encode_decision_key(dataset: str, id: str, reviewer: str) -> bytes:  # noqa: A002 - as the messages call it
    return f"{dataset}/{_escape_key_part(id)}/{_escape_key_part(reviewer)}".encode()


def encode_claim_key(dataset: str, id: str, reviewer: str) -> bytes:  # noqa: A002 - as the messages call it
    return encode_decision_key(dataset, id, reviewer) + f"/{CLAIM_KEY_SUFFIX}".encode()


def _escape_key_part(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F")


def parse_decision_key(key: bytes) -> tuple[str, str, str, bool] | None:
    """(dataset, id, reviewer, whether of a claim), or none where it is no key of ours."""
    try:
        dataset, *parts = key.decode().split("/")
    except UnicodeDecodeError:
        return None
    claim = len(parts) == 3 and parts[2] == CLAIM_KEY_SUFFIX
    if len(parts) != 2 and not claim:
        return None
    return dataset, unquote(parts[0]), unquote(parts[1]), claim
