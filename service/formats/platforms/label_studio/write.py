"""Label Studio: tasks with annotations, as its own export has them and its import takes them.

Annotations of one task stand in one task again. Its import gives new ids and keeps the annotation's as `import_id`.
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
    for place, sentence in enumerate(sentences, 1):
        meta = get_format_meta(sentence, PLATFORM)
        told = context.restore_text(sentence, PLATFORM)
        # A task whose text was changed between two annotations is two: offsets are those of their own text.
        known = isinstance(meta.get("task"), str)
        key = (str(meta.get("project")), meta["task"], told.text) if known else (None, place, None)
        task = tasks.setdefault(key, {})
        if not task:
            task |= _build_task(sentence, told)
        task["annotations"].append(_build_annotation(sentence, told, place))
    lines = ",\n".join(json.dumps(task, ensure_ascii=False) for task in tasks.values())
    stream.write(f"[\n{lines}\n]\n" if lines else "[]\n")


def _build_task(sentence: LabelledSentence, restored: RestoredText) -> dict[str, Any]:
    meta = get_format_meta(sentence, PLATFORM)
    kept = get_extra_fields(meta)
    data = kept.get("data")
    task: dict[str, Any] = {
        part: to_numeric_id(str(meta[name])) for part, name in _TASK_ID_FIELDS if meta.get(name) is not None
    }
    task["data"] = {
        get_meta_text(meta, "field", DEFAULT_TEXT_NAME): restored.text,
        **(data if isinstance(data, dict) else {}),
    }
    task["annotations"] = []
    if meta:
        return task | ({"meta": kept["meta"]} if "meta" in kept else {})
    return task | {"meta": {"id": sentence.id} | ({"source": sentence.source} if sentence.source else {})}


_TASK_ID_FIELDS: Final = (("id", "task"), ("project", "project"))


def _build_annotation(sentence: LabelledSentence, restored: RestoredText, position: int) -> dict[str, Any]:
    meta = get_format_meta(sentence, PLATFORM)
    kept = get_extra_fields(meta)
    own = to_numeric_id((sentence.id or "").removeprefix(f"{PLATFORM}:"))
    beside = kept.get("result")
    annotation: dict[str, Any] = {
        "id": own if isinstance(own, int) and meta else position,
        "result": [*_build_regions(sentence, restored), *(beside if isinstance(beside, list) else ())],
        "was_cancelled": False,
        "ground_truth": kept.get("ground_truth") is True,  # its import takes one that says nothing for true
    }
    who = sentence.annotator or ""
    if meta and isinstance(to_numeric_id(who), int):
        annotation["completed_by"] = to_numeric_id(who)
    elif meta and "@" in who:
        annotation["completed_by"] = {"email": who}
    at = format_timestamp(sentence.annotated_at)
    return annotation if at is None else annotation | {"updated_at": at}


def _build_regions(sentence: LabelledSentence, restored: RestoredText) -> list[dict[str, Any]]:
    meta = get_format_meta(sentence, PLATFORM)
    found = []
    for entity in restored.entities:
        start, end = restored.to_format_offsets(entity)
        name = f"{sentence.id}/{start}/{end}/{entity.label}".encode()
        region = {
            "id": hashlib.sha256(name).hexdigest()[:10],
            "from_name": get_meta_text(meta, "from_name", DEFAULT_CONTROL),
            "to_name": get_meta_text(meta, "to_name", DEFAULT_TEXT_NAME),
            "type": "labels",
            "origin": "manual",
            "value": {"start": start, "end": end, "text": entity.text, "labels": [entity.label]},
        }
        found.append(region)
    return found
