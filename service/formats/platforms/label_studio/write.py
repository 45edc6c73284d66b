"""Writes tasks with annotations, as Label Studio exports and imports them.

Annotations of one task are written in one task again. The import assigns new ids and keeps the old one as `import_id`.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, TextIO

from service.formats.io.json_values import format_timestamp
from service.formats.meta import get_extra_fields, get_format_meta, get_meta_text
from service.formats.platforms.ids import to_numeric_id
from service.formats.platforms.label_studio.annotations import PLATFORM

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.contracts import LabelledSentence
    from service.formats.text.restored_text import RestoredText, WriteContext

DEFAULT_CONTROL: Final = "label"
DEFAULT_TEXT_NAME: Final = "text"


def write(stream: TextIO, sentences: Iterable[LabelledSentence], context: WriteContext) -> None:
    tasks: dict[tuple[object, ...], dict[str, Any]] = {}
    for number, sentence in enumerate(sentences, 1):
        meta = get_format_meta(sentence, PLATFORM)
        restored = context.restore_text(sentence, PLATFORM)
        # A task whose text changed between two annotations becomes two: offsets belong to one text.
        has_task = isinstance(meta.get("task"), str)
        key = (str(meta.get("project")), meta["task"], restored.text) if has_task else (None, number, None)
        task = tasks.setdefault(key, {})
        if not task:
            task |= _build_task(sentence, restored)
        task["annotations"].append(_build_annotation(sentence, restored, number))
    lines = ",\n".join(json.dumps(task, ensure_ascii=False) for task in tasks.values())
    stream.write(f"[\n{lines}\n]\n" if lines else "[]\n")


def _build_task(sentence: LabelledSentence, restored: RestoredText) -> dict[str, Any]:
    meta = get_format_meta(sentence, PLATFORM)
    extra = get_extra_fields(meta)
    data = extra.get("data")
    task: dict[str, Any] = {
        field: to_numeric_id(str(meta[key])) for field, key in _TASK_ID_FIELDS if meta.get(key) is not None
    }
    task["data"] = {
        get_meta_text(meta, "field", DEFAULT_TEXT_NAME): restored.text,
        **(data if isinstance(data, dict) else {}),
    }
    task["annotations"] = []
    if meta:
        return task | ({"meta": extra["meta"]} if "meta" in extra else {})
    about = {"id": sentence.id, "document": sentence.document, "source": sentence.source}
    return task | {"meta": {name: value for name, value in about.items() if value or name == "id"}}


_TASK_ID_FIELDS: Final = (("id", "task"), ("project", "project"))


def _build_annotation(sentence: LabelledSentence, restored: RestoredText, number: int) -> dict[str, Any]:
    meta = get_format_meta(sentence, PLATFORM)
    extra = get_extra_fields(meta)
    platform_id = to_numeric_id((sentence.id or "").removeprefix(f"{PLATFORM}:"))
    other_results = extra.get("result")
    annotation: dict[str, Any] = {
        "id": platform_id if isinstance(platform_id, int) and meta else number,
        "result": [*_build_regions(sentence, restored), *(other_results if isinstance(other_results, list) else ())],
        "was_cancelled": False,
        "ground_truth": extra.get("ground_truth") is True,  # the import assumes true if it is missing
    }
    annotator = sentence.annotator or ""
    if meta and isinstance(to_numeric_id(annotator), int):
        annotation["completed_by"] = to_numeric_id(annotator)
    elif meta and "@" in annotator:
        annotation["completed_by"] = {"email": annotator}
    updated_at = format_timestamp(sentence.annotated_at)
    return annotation if updated_at is None else annotation | {"updated_at": updated_at}


def _build_regions(sentence: LabelledSentence, restored: RestoredText) -> list[dict[str, Any]]:
    meta = get_format_meta(sentence, PLATFORM)
    regions = []
    for entity in restored.entities:
        start, end = restored.to_format_offsets(entity)
        identity = f"{sentence.id}/{start}/{end}/{entity.label}".encode()
        region = {
            "id": hashlib.sha256(identity).hexdigest()[:10],
            "from_name": get_meta_text(meta, "from_name", DEFAULT_CONTROL),
            "to_name": get_meta_text(meta, "to_name", DEFAULT_TEXT_NAME),
            "type": "labels",
            "origin": "manual",
            "value": {"start": start, "end": end, "text": entity.text, "labels": [entity.label]},
        }
        regions.append(region)
    return regions
