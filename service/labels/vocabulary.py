"""The meaning of each label that a dataset may use, in the types of a model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from service.errors import InvalidInput
from service.labels.schemes import OUTSIDE, PREFIX_SPELLINGS, Scheme, split_prefix
from service.labels.unknown_labels import format_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class LabelMeaning(NamedTuple):
    """A label of the dataset: its prefix, the dataset's type (it separates adjacent entities) and the model's type.

    `target` is None if the model has no such type, and "" outside.
    """

    prefix: str
    source: str
    target: str | None


OUTSIDE_MEANING = LabelMeaning(OUTSIDE, "", "")


def build_meanings(types: Sequence[str], scheme: Scheme, mapping: Mapping[str, str]) -> dict[str, LabelMeaning]:
    """The meaning of every spelling of every label. `types` are the model's, with "O" if the model has that class.

    A mapped full label takes precedence over a mapped type, and a mapped type over a type that both sides name alike.
    """
    meanings: dict[str, LabelMeaning] = {}
    targets = {key: _parse_target(key, value, types, scheme) for key, value in mapping.items()}
    for key, (prefix, target) in targets.items():
        if (meaning := _parse_full_label(key, prefix, target, scheme)) is not None:
            meanings[key] = meaning
    for key, meaning in list(meanings.items()):
        own_prefix, source = split_prefix(key, scheme)
        for spelling, canonical in PREFIX_SPELLINGS[scheme].items():
            if canonical == own_prefix:
                meanings.setdefault(f"{spelling}-{source}", meaning)
    sources = [(key, target) for key, (_, target) in targets.items() if key != OUTSIDE]
    sources += [(name, name) for name in types if name != OUTSIDE]
    for source, target in sources:
        for spelling, prefix in PREFIX_SPELLINGS[scheme].items():
            meanings.setdefault(f"{spelling}-{source}", _build_meaning(prefix, source, target))
        if scheme is Scheme.IO:
            meanings.setdefault(source, _build_meaning("I", source, target))
    if OUTSIDE in types:
        meanings.setdefault(OUTSIDE, OUTSIDE_MEANING)
    if scheme is Scheme.IO:
        # IOB1 data looks like IO until two entities of one type touch. IO is judged by types, so B-PER is a PER.
        for source, target in sources:
            for spelling in "Bb":
                meanings.setdefault(f"{spelling}-{source}", _build_meaning("I", source, target))
    return meanings


def _build_meaning(prefix: str, source: str, target: str) -> LabelMeaning:
    return LabelMeaning(prefix, source, target) if target else OUTSIDE_MEANING


def _parse_target(key: str, value: str, types: Sequence[str], scheme: Scheme) -> tuple[str | None, str]:
    """The prefix in a mapping's value, if it has one, and the model's type ("" for outside)."""
    if value == OUTSIDE and OUTSIDE in types:
        return OUTSIDE, ""
    if value != OUTSIDE and value in types:
        return None, value
    prefix, entity_type = split_prefix(value, Scheme.BILUO if scheme is Scheme.IO else scheme)
    if prefix is not None and entity_type in types and entity_type != OUTSIDE:
        return ("I" if scheme is Scheme.IO else prefix), entity_type
    raise InvalidInput(
        f"{json.dumps(key)} is mapped to {json.dumps(value)}, but the model has no such type or label: "
        f"use one of {format_names(types)}",
        field="label_map",
    )


def _parse_full_label(key: str, prefix: str | None, target: str, scheme: Scheme) -> LabelMeaning | None:
    """A mapping's key as a full label, or None if it can only be a type."""
    own_prefix, source = split_prefix(key, scheme)
    if own_prefix is None and (scheme is Scheme.IO or key == OUTSIDE):
        own_prefix = "I"
    target_prefix = prefix or own_prefix
    if target_prefix is None:
        return None  # a type without a prefix, in a scheme with prefixes
    # The key's own type separates entities. A key that is not a label of the scheme ("3", "PER_B") has no type.
    return _build_meaning(target_prefix, target if own_prefix is None else source, target)
