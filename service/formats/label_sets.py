"""Reads a label set from where it is defined: a labelling interface, a question for spans, or labelled sentences.

| source | form |
|---|---|
| Label Studio | the XML of the labelling interface; JSON of a project (`label_config` or `parsed_label_config`) |
| Argilla | JSON of a dataset (`questions`), of its questions (`items`), or of one question |
| a labelled file | any format that can be read: the types of its labels |
"""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from service.errors import DecodeError, InvalidInput
from service.formats.files import read_sentences
from service.formats.platforms.argilla.questions import read_question_labels
from service.formats.platforms.label_studio.labeling_config import parse_span_controls
from service.formats.platforms.label_studio.labeling_xml import parse_labeling_xml
from service.formats.records import ReadOptions
from service.labels import OUTSIDE, detect_scheme
from service.labels.schemes import get_entity_type
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.formats.io.source import SourceLike

STDIN: Final = "-"
MAX_CONFIG_BYTES: Final = 4 * 1024 * 1024  # a larger file holds sentences
LABEL_CONFIG_FIELD: Final = "label_config"
PARSED_CONFIG_FIELD: Final = "parsed_label_config"
_KNOWN_SOURCES: Final = (
    "the XML of a Label Studio labelling interface, or JSON of a Label Studio project or of an Argilla dataset"
)


@dataclass(frozen=True, slots=True)
class LabelSetSource:
    """Entity types, and a description of where they come from."""

    types: tuple[str, ...]
    description: str


def parse_label_set(content: bytes, *, name: str | None = None) -> LabelSetSource:
    """The label set of a labelling interface or of a question. `name`: the control or question, if there are several."""
    source = find_label_set(content, name=name)
    if source is None:
        raise InvalidInput(f"it defines no label set: send {_KNOWN_SOURCES}")
    return source


def read_label_set(file: str, *, name: str | None = None) -> LabelSetSource:
    """The label set of a file or of `-` (standard input): a configuration, or labelled sentences of any format."""
    if file == STDIN:
        content = sys.stdin.buffer.read()
        return find_label_set(content, name=name) or _count_types(io.BytesIO(content), name)
    with suppress(OSError), Path(file).open("rb") as stream:  # the reader of sentences reports it
        content = stream.read(MAX_CONFIG_BYTES + 1)
        if len(content) <= MAX_CONFIG_BYTES and (source := find_label_set(content, name=name)) is not None:
            return source
    return _count_types(file, name)


def find_label_set(content: bytes, *, name: str | None = None) -> LabelSetSource | None:
    """The label set of a labelling interface or of a question; None if the content is neither."""
    text = content.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] == b"<":
        try:
            return _choose_control(parse_labeling_xml(text.decode()), name, None)
        except UnicodeDecodeError:
            raise DecodeError("the labelling interface is not UTF-8") from None
    if text[:1] != b"{":
        return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):  # JSON Lines, or not JSON: the reader of sentences says what is wrong
        return None
    return _find_in_project(fields, name) or _find_in_questions(fields, name)


def _find_in_project(fields: Mapping[str, Any], name: str | None) -> LabelSetSource | None:
    config, xml = fields.get(PARSED_CONFIG_FIELD), fields.get(LABEL_CONFIG_FIELD)
    if isinstance(config, dict) and config:
        return _choose_control(config, name, PARSED_CONFIG_FIELD)
    if isinstance(xml, str):
        return _choose_control(parse_labeling_xml(xml, field=LABEL_CONFIG_FIELD), name, LABEL_CONFIG_FIELD)
    return None


def _choose_control(config: Mapping[str, Any], name: str | None, field: str | None) -> LabelSetSource:
    controls = {control.name: control.labels for control in parse_span_controls(config)}
    return _choose(controls, name, kind="control", missing="<Labels> control over a <Text>", field=field)


def _find_in_questions(fields: Mapping[str, Any], name: str | None) -> LabelSetSource | None:
    labels = read_question_labels(fields)
    if labels is None:
        return None
    return _choose(labels, name, kind="question", missing="question for spans", field="questions")


def _choose(
    labels_by_name: Mapping[str, tuple[str, ...]], name: str | None, *, kind: str, missing: str, field: str | None
) -> LabelSetSource:
    names = ", ".join(labels_by_name)
    if not labels_by_name:
        raise InvalidInput(f"it has no {missing}, so it defines no label set", field=field)
    if name is not None and name not in labels_by_name:
        raise InvalidInput(f"there is no {kind} {name!r} for spans of a text, only {names}", field=field)
    if name is None and len(labels_by_name) > 1:
        raise InvalidInput(f"it has several {kind}s for spans: say which counts, of {names}", field=field)
    chosen = name or names
    types = tuple(dict.fromkeys(labels_by_name[chosen]))
    if not types:
        raise InvalidInput(f"the {kind} {chosen} names no labels: name them, or set `label_set` itself", field=field)
    return LabelSetSource(types, f"the {kind} {chosen}")


def _count_types(source: SourceLike, name: str | None) -> LabelSetSource:
    """The types of labelled sentences, the most frequent first."""
    words: Counter[str] = Counter()
    sentences = 0

    def iterate_labels() -> Iterator[tuple[str, ...]]:
        nonlocal sentences
        for sentence in read_sentences(source, options=ReadOptions(label=name)):
            if not sentence.deleted:
                sentences += 1
                words.update(sentence.labels)
                yield sentence.labels

    scheme = detect_scheme(iterate_labels())
    words_by_type: Counter[str] = Counter()
    for label, count in words.items():
        words_by_type[get_entity_type(label, scheme)] += count
    del words_by_type[OUTSIDE]
    if not words_by_type:
        raise InvalidInput("no sentence in it has a labelled entity, so it shows no label set")
    counts = ", ".join(f"{entity_type} {count:,}" for entity_type, count in words_by_type.most_common())
    return LabelSetSource(
        tuple(entity_type for entity_type, _ in words_by_type.most_common()),
        f"{pluralize(sentences, 'labelled sentence')} (words by type: {counts})",
    )
