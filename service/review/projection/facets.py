"""Facets: the short texts that the queue's filters look items up by, such as `["given", "PER"]`.

An item has one facet per label, label pair, suspect kind, annotator, batch, model and platform task.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from service.contracts import PlatformTask
from service.labels import get_entity_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.contracts import Flag, SuspectSpan

TASK_FACET_GLOB: Final = '[[]"task",*'


@lru_cache(maxsize=4096)
def encode_facet(name: str, *values: str) -> str:
    return json.dumps([name, *values], ensure_ascii=False)


def encode_task_facet(task: PlatformTask) -> str:
    return encode_facet("task", *task)


def decode_task_facet(facet: str) -> PlatformTask:
    _, platform, number = json.loads(facet)
    return PlatformTask(platform, number)


def build_facets(
    flags: Iterable[Flag],
    suspects: Iterable[SuspectSpan],
    *,
    annotator: str | None,
    model: str,
    batch: str | None = None,
) -> set[str]:
    """The facets of an item, except that of its task. Labels are facets in full and by their type."""
    facets = {encode_facet("kind", suspect.kind) for suspect in suspects} | {encode_facet("model", model)}
    if annotator is not None:
        facets.add(encode_facet("annotator", annotator))
    if batch is not None:
        facets.add(encode_facet("batch", batch))
    for flag in flags:
        given_labels, suggested_labels = ({label, get_entity_type(label)} for label in (flag.given, flag.suggested))
        facets |= {encode_facet("given", label) for label in given_labels}
        facets |= {encode_facet("suggested", label) for label in suggested_labels}
        facets |= {encode_facet("pair", given, suggested) for given in given_labels for suggested in suggested_labels}
        facets.add(encode_facet("types", get_entity_type(flag.given), get_entity_type(flag.suggested)))
    return facets
