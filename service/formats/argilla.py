"""Argilla 2: webhooks and records in.

One submitted response to a span question is one sentence. A discarded one says nothing of the words: it becomes
`deleted`. Drafts, and events about anything but responses, are answered and ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.errors import InvalidInput
from service.formats.platforms import (
    Converted,
    Delivery,
    dated,
    delivered,
    labelled,
    link_base,
    listing,
    mapping,
    microseconds,
    moment,
    name_of,
    quoted,
    reader,
)
from service.formats.records import Options
from service.formats.spans import read_span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

PLATFORM: Final = "argilla"
CREATED: Final = "response.created"
UPDATED: Final = "response.updated"
DELETED: Final = "response.deleted"


# -- webhooks ----------------------------------------------------------------------------------------------------------


def from_event(
    event: Mapping[str, Any],
    *,
    received_at: datetime,
    dataset: str = "default",
    options: Options | None = None,
    only: str | None = None,
) -> Delivery:
    """The messages of a webhook's body; `only` names the dataset of Argilla that counts, where the event tells it."""
    options = options or Options()
    kind = event.get("type")
    if not isinstance(kind, str):
        raise InvalidInput("it is missing: is this a webhook of Argilla?", field="type")
    if kind not in (CREATED, UPDATED, DELETED):
        return Delivery(kind, ignored="only responses that are created, updated or deleted count")
    data = mapping(event.get("data"), "data")
    about = _dataset_of(data)
    if only is not None and about not in (None, only):
        return Delivery(kind, ignored=f"it is about the dataset {str(about)[:100]}")
    status = data.get("status")
    if kind == DELETED:
        at = moment(event["timestamp"], "timestamp") if "timestamp" in event else received_at
        fields = {"id": _identity(data, "data"), "deleted": True, "meta": {"format": PLATFORM}}
        fields["revision"] = microseconds(at)
    elif status == "submitted":
        fields = _response(data, options)
    elif status == "discarded" and kind == UPDATED:
        fields = _gone(data, "data")
    else:
        return Delivery(kind, ignored=f"the response is {str(status)[:40]}, not submitted")
    if kind == UPDATED:
        fields["update"] = True
    return delivered(kind, [fields], dataset=dataset, max_words=options.max_words)


def _response(data: Mapping[str, Any], options: Options) -> dict[str, Any]:
    record = mapping(data.get("record"), "data.record")
    about = record.get("dataset") if isinstance(record.get("dataset"), dict) else {}
    question, field = _question(about, options)
    values = {name: one.get("value") if isinstance(one, dict) else one for name, one in _items(data.get("values"))}
    fields = _labelled(values, record, "data.values", options, question=question, text_field=field)
    fields["id"] = _identity(data, "data")
    fields |= dated(data.get("updated_at"), "data.updated_at")
    user = data.get("user")
    annotator = name_of(user.get("username") or user.get("id")) if isinstance(user, dict) else name_of(user)
    if annotator is not None:
        fields["annotator"] = annotator[:256]
    _add_link(fields, name_of((about or {}).get("id")), record.get("id"), options)
    return fields


def _dataset_of(data: Mapping[str, Any]) -> str | None:
    record = data.get("record")
    dataset = record.get("dataset") if isinstance(record, dict) else None
    return name_of(dataset.get("name")) if isinstance(dataset, dict) else None


def _question(dataset: object, options: Options) -> tuple[str | None, str | None]:
    """The span question and the field it is about, as the dataset describes them."""
    questions = dataset.get("questions") if isinstance(dataset, dict) else None
    for one in questions if isinstance(questions, list) else []:
        settings = one.get("settings") if isinstance(one, dict) else None
        if not isinstance(settings, dict) or settings.get("type") != "span":
            continue
        if options.label in (None, one.get("name")):
            return name_of(one.get("name")), name_of(settings.get("field"))
    return None, None


# -- records -----------------------------------------------------------------------------------------------------------


def from_record(record: Mapping[str, Any], options: Options) -> Iterator[Converted]:
    """The sentences of a record, as `records.to_json` or the REST API writes it: one a response."""
    if "type" in record and "data" in record:  # a webhook's body as somebody kept it
        yield from _kept_event(record, options)
        return
    if "responses" not in record or "fields" not in record:
        missing = "responses" if "fields" in record else "fields"
        raise InvalidInput("it is missing: export the records with their responses", field=missing)
    responses = record["responses"]
    if isinstance(responses, dict):
        yield from _by_question(responses, record, options)
        return
    for place, given in enumerate(listing(responses, "responses")):
        field = f"responses[{place}]"
        try:
            response = mapping(given, field)
            status = response.get("status", "submitted")
            if status == "discarded":
                yield _gone(response, field)
            if status != "submitted":
                continue
            values = {n: v.get("value") if isinstance(v, dict) else v for n, v in _items(response.get("values"))}
            fields = _labelled(values, record, f"{field}.values", options)
            fields["id"] = _identity(response, field)
            fields |= dated(response.get("updated_at"), f"{field}.updated_at")
            yield _with_user(fields, response, record, options)
        except InvalidInput as error:
            yield error


def _by_question(responses: Mapping[str, Any], record: Mapping[str, Any], options: Options) -> Iterator[Converted]:
    """Question to a list with one answer a user, as the SDK writes it; it has neither times nor ids."""
    for question, answers in responses.items():
        if options.label not in (None, question):
            continue
        for place, given in enumerate(listing(answers, f"responses.{question}")):
            field = f"responses.{question}[{place}]"
            try:
                answer = mapping(given, field)
                if not _is_spans(answer.get("value")) and options.label is None:
                    continue
                if answer.get("status", "submitted") != "submitted":
                    continue
                fields = _labelled({question: answer.get("value")}, record, field, options)
                user = name_of(answer.get("user_id"))
                record_id = name_of(record.get("id")) or name_of(record.get("_server_id"))
                if record_id is not None:
                    fields["id"] = ":".join(part for part in (PLATFORM, record_id, user) if part)
                yield _with_user(fields, answer, record, options)
            except InvalidInput as error:
                yield error


def _kept_event(event: Mapping[str, Any], options: Options) -> Iterator[Converted]:
    at = moment(event.get("timestamp"), "timestamp")
    for sentence in from_event(event, received_at=at, options=options).sentences:
        yield sentence.model_dump(exclude_defaults=True, mode="json")


# -- both --------------------------------------------------------------------------------------------------------------


def _labelled(
    values: Mapping[str, Any],
    record: Mapping[str, Any],
    field: str,
    options: Options,
    *,
    question: str | None = None,
    text_field: str | None = None,
) -> dict[str, Any]:
    chosen = options.label or question
    if chosen is None:
        named = [name for name, value in values.items() if _is_spans(value)]
        if len(named) != 1:
            told = f"{', '.join(named)} all hold spans: say which counts" if named else "no answer in it holds spans"
            raise InvalidInput(told, field=field)
        chosen = named[0]
    # A question that may be left open has no answer: no entity was found.
    spans = [
        read_span(value, f"{field}.{chosen}[{place}]")
        for place, value in enumerate(listing(values.get(chosen) or [], f"{field}.{chosen}"))
    ]
    texts = mapping(record.get("fields"), "fields")
    name = options.word or text_field or ("text" if "text" in texts else next(iter(texts), "text"))
    if options.word is None and text_field is None and "text" not in texts and len(texts) != 1:
        raise InvalidInput(f"which of {', '.join(list(texts)[:10])} is the text? Name its field", field="fields")
    fields = labelled(texts.get(name), spans, options, field=f"fields.{name}")
    fields["meta"] |= {"format": PLATFORM, "question": chosen, "field": name}
    record_id = name_of(record.get("id"))
    if record_id is not None:
        fields["meta"]["record"] = record_id
    return fields


def _is_spans(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(v, dict) and {"start", "end"} <= v.keys() for v in value)


def _items(values: object) -> list[tuple[str, Any]]:
    return list(values.items()) if isinstance(values, dict) else []


def _with_user(
    fields: dict[str, Any], response: Mapping[str, Any], record: Mapping[str, Any], options: Options
) -> dict[str, Any]:
    user = name_of(response.get("user_id"))
    if user is not None:
        fields["annotator"] = user[:256]
    _add_link(fields, name_of(record.get("dataset_id")), record.get("_server_id") or record.get("id"), options)
    return fields


def _gone(response: Mapping[str, Any], field: str) -> dict[str, Any]:
    fields = {"id": _identity(response, field), "deleted": True, "meta": {"format": PLATFORM, "discarded": True}}
    return fields | dated(response.get("updated_at"), f"{field}.updated_at")


def _identity(response: Mapping[str, Any], field: str) -> str:
    name = name_of(response.get("id"))
    if name is None:
        raise InvalidInput("it is missing", field=f"{field}.id")
    return f"{PLATFORM}:{name}"


def _add_link(fields: dict[str, Any], dataset: str | None, record: object, options: Options) -> None:
    name = name_of(record)
    if options.base_url is not None and dataset and name:
        base = link_base(options.base_url)
        fields["source"] = f"{base}/dataset/{quoted(dataset)}/annotation-mode?_search={quoted(name)}"


read = reader(from_record)
