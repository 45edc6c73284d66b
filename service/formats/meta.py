"""What converters store in a sentence's `meta`, so that an export can write the sentence in its original format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from service.formats.records import DOCUMENT_FIELDS, ID_FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.contracts import LabelledSentence

DEFAULT_FORMAT: Final = "jsonl"
MAX_EXTRA_FIELDS_LENGTH: Final = 2_000  # characters of JSON per sentence
# Keys that converters write. All other keys of `meta` belong to the user.
CONVERTER_META_KEYS: Final = frozenset(
    {"alignment", "field", "format", "given_offsets", "kept", "label_names", "loose", "offsets", "offsets_told_by"}
    | {"rows", "scheme", "splitter", "text", "text_field"}
)


def get_original_format(sentence: LabelledSentence) -> str:
    """The format that a sentence was read from; JSON Lines if it arrived as a message."""
    name = (sentence.meta or {}).get("format")
    return name if isinstance(name, str) else DEFAULT_FORMAT


def get_format_meta(sentence: LabelledSentence, form: str) -> Mapping[str, Any]:
    """The sentence's `meta` if it was read from this format, else nothing."""
    return sentence.meta or {} if get_original_format(sentence) == form else {}


def get_meta_text(meta: Mapping[str, Any], key: str, default: str) -> str:
    value = meta.get(key)
    return value if isinstance(value, str) else default


def build_id_field(sentence: LabelledSentence, meta: Mapping[str, Any]) -> dict[str, Any]:
    """The sentence's id, unless the extra fields hold it under its original name."""
    return {} if any(name in get_extra_fields(meta) for name in ID_FIELDS) else {"id": sentence.id}


def build_document_field(sentence: LabelledSentence, meta: Mapping[str, Any]) -> dict[str, Any]:
    """The sentence's document if it has one, unless the extra fields hold it under its original name."""
    if sentence.document is None or any(name in get_extra_fields(meta) for name in DOCUMENT_FIELDS):
        return {}
    return {"document": sentence.document}


# -- fields that a sentence has no place for ---------------------------------------------------------------------------


def pack_extra_fields(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The small fields among `extra`, under the key that `get_extra_fields` reads."""
    fields = select_small_fields(extra)
    return {"kept": fields} if fields else {}


def get_extra_fields(meta: Mapping[str, Any]) -> dict[str, Any]:
    fields = meta.get("kept")
    return fields if isinstance(fields, dict) else {}


def select_small_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that fit into `MAX_EXTRA_FIELDS_LENGTH` together, smallest first; the others are dropped."""
    encoded: dict[str, str] = {}
    for name, value in fields.items():
        try:
            text = json.dumps({name: value}, allow_nan=False, ensure_ascii=False)
            text.encode()
        except ValueError:  # no message can hold NaN or half of a surrogate pair
            continue
        encoded[name] = text
    room, selected = MAX_EXTRA_FIELDS_LENGTH, set()
    for name in sorted(encoded, key=lambda name: len(encoded[name])):
        room -= len(encoded[name])
        if room < 0:
            break
        selected.add(name)
    return {name: value for name, value in fields.items() if name in selected}
