"""Label Studio: tasks with annotations, as its own export has them and its import takes them.

Annotations of one task stand in one task again. Its import gives new ids and keeps the annotation's as `import_id`.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, TextIO

from service.formats.platforms.label_studio.read import PLATFORM
from service.formats.text.restored_text import kept_of, meta_of, name_in, number, written_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.contracts import LabelledSentence
    from service.formats.text.restored_text import Retold, Telling

CONTROL: Final = "label"
TEXT: Final = "text"


def write(stream: TextIO, sentences: Iterable[LabelledSentence], telling: Telling) -> None:
    tasks: dict[tuple[object, ...], dict[str, Any]] = {}
    for place, sentence in enumerate(sentences, 1):
        meta = meta_of(sentence, PLATFORM)
        told = telling.retold(sentence, PLATFORM)
        # A task whose text was changed between two annotations is two: offsets are those of their own text.
        known = isinstance(meta.get("task"), str)
        key = (str(meta.get("project")), meta["task"], told.text) if known else (None, place, None)
        task = tasks.setdefault(key, {})
        if not task:
            task |= _task(sentence, told)
        task["annotations"].append(_annotation(sentence, told, place))
    lines = ",\n".join(json.dumps(task, ensure_ascii=False) for task in tasks.values())
    stream.write(f"[\n{lines}\n]\n" if lines else "[]\n")


def _task(sentence: LabelledSentence, told: Retold) -> dict[str, Any]:
    meta = meta_of(sentence, PLATFORM)
    kept = kept_of(meta)
    data = kept.get("data")
    task: dict[str, Any] = {part: number(str(meta[name])) for part, name in _NAMES if meta.get(name) is not None}
    task["data"] = {name_in(meta, "field", TEXT): told.text, **(data if isinstance(data, dict) else {})}
    task["annotations"] = []
    if meta:
        return task | ({"meta": kept["meta"]} if "meta" in kept else {})
    return task | {"meta": {"id": sentence.id} | ({"source": sentence.source} if sentence.source else {})}


_NAMES: Final = (("id", "task"), ("project", "project"))


def _annotation(sentence: LabelledSentence, told: Retold, place: int) -> dict[str, Any]:
    meta = meta_of(sentence, PLATFORM)
    kept = kept_of(meta)
    own = number((sentence.id or "").removeprefix(f"{PLATFORM}:"))
    beside = kept.get("result")
    annotation: dict[str, Any] = {
        "id": own if isinstance(own, int) and meta else place,
        "result": [*_regions(sentence, told), *(beside if isinstance(beside, list) else ())],
        "was_cancelled": False,
        "ground_truth": kept.get("ground_truth") is True,  # its import takes one that says nothing for true
    }
    who = sentence.annotator or ""
    if meta and isinstance(number(who), int):
        annotation["completed_by"] = number(who)
    elif meta and "@" in who:
        annotation["completed_by"] = {"email": who}
    at = written_at(sentence.annotated_at)
    return annotation if at is None else annotation | {"updated_at": at}


def _regions(sentence: LabelledSentence, told: Retold) -> list[dict[str, Any]]:
    meta = meta_of(sentence, PLATFORM)
    found = []
    for entity in told.entities:
        start, end = told.counted(entity)
        name = f"{sentence.id}/{start}/{end}/{entity.label}".encode()
        region = {
            "id": hashlib.sha256(name).hexdigest()[:10],
            "from_name": name_in(meta, "from_name", CONTROL),
            "to_name": name_in(meta, "to_name", TEXT),
            "type": "labels",
            "origin": "manual",
            "value": {"start": start, "end": end, "text": entity.text, "labels": [entity.label]},
        }
        found.append(region)
    return found
