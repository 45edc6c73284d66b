"""Converts one response of Argilla to the fields of a sentence, as webhooks and records hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.errors import InvalidInput
from service.formats.conversion import build_labelled_fields, build_revision_fields
from service.formats.io.json_values import MISSING, require_array, require_object, to_name
from service.formats.meta import pack_extra_fields
from service.formats.platforms.argilla.questions import unwrap_answer
from service.formats.platforms.ids import to_task_document
from service.formats.platforms.links import normalize_base_url, quote_for_url
from service.formats.records import find_batch, find_document
from service.formats.text.offsets import UTF16
from service.formats.text.span_values import read_span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.formats.records import ReadOptions

PLATFORM: Final = "argilla"
# Fields of a record that an export writes again.
EXTRA_RECORD_FIELDS: Final = ("_server_id", "external_id", "metadata", "status", "suggestions")


def build_response_fields(
    values: Mapping[str, Any],
    question: str,
    record: Mapping[str, Any],
    field: str,
    options: ReadOptions,
    *,
    text_field: str | None = None,
) -> dict[str, Any]:
    """`tokens`, `labels` and `meta` of one response. A question without answer has no spans."""
    spans = [
        read_span(value, f"{field}.{question}.{index}")
        for index, value in enumerate(require_array(values.get(question) or [], f"{field}.{question}"))
    ]
    texts = require_object(record.get("fields"), "fields")
    name = options.word or text_field or ("text" if "text" in texts else next(iter(texts), "text"))
    if options.word is None and text_field is None and "text" not in texts and len(texts) != 1:
        raise InvalidInput(f"which of {', '.join(list(texts)[:10])} is the text? Name its field", field="fields")
    # Argilla's editor stores UTF-16 offsets as the browser counts them; clients of the SDK often count characters.
    fields = build_labelled_fields(texts.get(name), spans, options, field=f"fields.{name}", unit=UTF16)
    fields["meta"] |= {"format": PLATFORM, "question": question, "field": name}
    record_id = to_name(record.get("id"))
    if record_id is not None:
        fields["meta"]["record"] = record_id
    fields["document"] = find_record_document(record)
    fields["batch"] = find_batch(record.get("metadata"))
    extra = {key: value for key, value in record.items() if key in EXTRA_RECORD_FIELDS and value}
    extra["fields"] = {key: value for key, value in texts.items() if key != name}
    extra["values"] = {key: value for key, value in values.items() if key != question}
    fields["meta"] |= pack_extra_fields({key: value for key, value in extra.items() if value})
    return fields


def extract_values(values: object) -> dict[str, Any]:
    """Question to answer, without the object that Argilla wraps around each answer."""
    answers = values.items() if isinstance(values, dict) else ()
    return {question: unwrap_answer(answer) for question, answer in answers}


def find_record_document(record: object) -> str | None:
    """The document that the record's metadata names, else the record itself: it may have several responses."""
    if not isinstance(record, dict):
        return None
    return find_document(record.get("metadata")) or to_task_document(PLATFORM, to_name(record.get("id")))


def build_discarded_fields(response: Mapping[str, Any], record: object, field: str) -> dict[str, Any]:
    """The deletion of a response that its annotator discarded."""
    fields = {
        "id": build_sentence_id(response, field),
        "deleted": True,
        "document": find_record_document(record),
        "meta": {"format": PLATFORM, "discarded": True},
    }
    return fields | build_revision_fields(response.get("updated_at"), f"{field}.updated_at")


def build_sentence_id(response: Mapping[str, Any], field: str) -> str:
    return f"{PLATFORM}:{require_response_id(response, field)}"


def require_response_id(response: Mapping[str, Any], field: str) -> str:
    name = to_name(response.get("id"))
    if name is None:
        raise InvalidInput(MISSING, field=f"{field}.id")
    return name


def add_link(fields: dict[str, Any], dataset_id: str | None, record_id: object, options: ReadOptions) -> None:
    name = to_name(record_id)
    if options.base_url is not None and dataset_id and name:
        base = normalize_base_url(options.base_url)
        fields["source"] = f"{base}/dataset/{quote_for_url(dataset_id)}/annotation-mode?_search={quote_for_url(name)}"
