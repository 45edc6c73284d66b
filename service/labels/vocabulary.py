"""What each label that a dataset may use means in a model's types, worked out once; and help where it means nothing."""

from __future__ import annotations

import json
import shlex
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from service.errors import InvalidInput
from service.labels.detection import OUTSIDE_LOOKALIKES
from service.labels.schemes import OUTSIDE, PREFIX_SPELLINGS, Scheme, split_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_MAX_LISTED_NAMES = 40  # labels that an error message lists
_MAX_LABEL_CHARS = 100  # characters of a label: whoever sends a novel in its place need not read it again


class LabelMeaning(NamedTuple):
    """A dataset's label: its prefix, its own type (tells touching entities apart) and the model's type for it.

    `target` is None where the model has no such type, and "" outside.
    """

    prefix: str
    source: str
    target: str | None


OUTSIDE_MEANING = LabelMeaning(OUTSIDE, "", "")


def build_meanings(types: Sequence[str], scheme: Scheme, mapping: Mapping[str, str]) -> dict[str, LabelMeaning]:
    """Every spelling of every label that has a meaning. `types` are the model's, "O" among them if it has that class.

    A mapped full label wins over a mapped type, and that over a type that both sides call the same.
    """
    readings: dict[str, LabelMeaning] = {}
    targets = {key: _parse_target(key, value, types, scheme) for key, value in mapping.items()}
    for key, (prefix, target) in targets.items():
        if (reading := _parse_full_label(key, prefix, target, scheme)) is not None:
            readings[key] = reading
    for key, reading in list(readings.items()):
        own_prefix, source = split_prefix(key, scheme)
        for spelt in (spelt for spelt, canonical in PREFIX_SPELLINGS[scheme].items() if canonical == own_prefix):
            readings.setdefault(f"{spelt}-{source}", reading)
    sources = [(key, target) for key, (_, target) in targets.items() if key != OUTSIDE]
    sources += [(name, name) for name in types if name != OUTSIDE]
    for source, target in sources:
        for spelt, prefix in PREFIX_SPELLINGS[scheme].items():
            readings.setdefault(f"{spelt}-{source}", _build_meaning(prefix, source, target))
        if scheme is Scheme.IO:
            readings.setdefault(source, _build_meaning("I", source, target))
    if OUTSIDE in types:
        readings.setdefault(OUTSIDE, OUTSIDE_MEANING)
    if scheme is Scheme.IO:
        # The start of IOB1 data looks like IO until two entities touch. IO is judged by types: B-PER is a PER.
        for source, target in sources:
            for spelt in "Bb":
                readings.setdefault(f"{spelt}-{source}", _build_meaning("I", source, target))
    return readings


def _build_meaning(prefix: str, source: str, target: str) -> LabelMeaning:
    return LabelMeaning(prefix, source, target) if target else OUTSIDE_MEANING


def _parse_target(key: str, value: str, types: Sequence[str], scheme: Scheme) -> tuple[str | None, str]:
    """The prefix that a mapping's value brings along, if any, and the model's type ("" for outside)."""
    if value == OUTSIDE and OUTSIDE in types:
        return OUTSIDE, ""
    if value != OUTSIDE and value in types:
        return None, value
    prefix, entity = split_prefix(value, Scheme.BILUO if scheme is Scheme.IO else scheme)
    if prefix is not None and entity in types and entity != OUTSIDE:
        return ("I" if scheme is Scheme.IO else prefix), entity
    raise InvalidInput(
        f"{json.dumps(key)} is mapped to {json.dumps(value)}, but the model has no such type or label: "
        f"use one of {format_names(types)}",
        field="mapping",
    )


def _parse_full_label(key: str, prefix: str | None, target: str, scheme: Scheme) -> LabelMeaning | None:
    """A mapping's key taken as a full label, or None where it can only be a type."""
    own_prefix, source = split_prefix(key, scheme)
    if own_prefix is None and (scheme is Scheme.IO or key == OUTSIDE):
        own_prefix = "I"
    meant = prefix or own_prefix
    if meant is None:
        return None  # a type without a prefix, where labels have prefixes
    # The key's own type tells entities apart; a key that isn't a label of the scheme ("3", "PER_B") has none.
    return _build_meaning(meant, target if own_prefix is None else source, target)


def is_outside_lookalike(label: str) -> bool:
    """Whether somebody may have meant "O"."""
    return label.lower() in OUTSIDE_LOOKALIKES


class MappingAdvice(NamedTuple):
    """How to say what helps: in a dataset's settings, by options of a command, or to nobody in particular."""

    suggest_mapping: Callable[[str, str], str]
    unscored: str = ""
    bare_types: str = ""


def _mapping_to_json(source: str, target: str) -> str:
    return f"{{{json.dumps(source, ensure_ascii=False)}: {json.dumps(target, ensure_ascii=False)}}}"


GENERIC_ADVICE = MappingAdvice(_mapping_to_json)
CLI_ADVICE = MappingAdvice(
    lambda source, target: f"--map {shlex.quote(f'{source}={target}')}", " (--unmapped unscored)", " (--scheme io)"
)


def build_settings_advice(dataset: str) -> MappingAdvice:
    """For a dataset of the stream: by the command, and by the field for who writes the settings otherwise."""
    command = f"labelwatch datasets set {dataset}"
    return MappingAdvice(
        lambda source, target: (
            f"`{command} {shlex.quote(f'label_map.{source}={target}')}`, or "
            f'{{"label_map": {_mapping_to_json(source, target)}}} in its settings'
        ),
        f" (`{command} unmapped=unscored`)",
        f" (`{command} scheme=io`)",
    )


def explain_unknown(
    label: str, types: Sequence[str], classes: Sequence[str], scheme: Scheme, advice: MappingAdvice = GENERIC_ADVICE
) -> str:
    """Why a label has no class, and what to put into the mapping."""
    if len(label) > _MAX_LABEL_CHARS:
        return f"label {label[:_MAX_LABEL_CHARS]!r}… of {len(label)} characters has no class. Known labels: {format_names(classes)}"
    prefix, entity = split_prefix(label, scheme)
    entities = [name for name in types if name != OUTSIDE]
    known = f"Known labels: {format_names(classes)}"
    if is_outside_lookalike(label) or (prefix is None and label.lower() in {"other", "others"}):
        return (
            f"label {label!r} has no class; outside is spelt 'O' and nothing else. "
            f"If it means that, map it: {advice.suggest_mapping(label, OUTSIDE)}. {known}"
        )
    if prefix is None and scheme is not Scheme.IO:
        near = get_close_matches(label, classes, n=1, cutoff=0.75)
        hint = (
            f"map it: {advice.suggest_mapping(label, near[0])}"
            if near
            else f"map it, or say scheme io if the labels of this dataset are bare types{advice.bare_types}"
        )
        return f"label {label!r} has no prefix of scheme {scheme.value}; {hint}. {known}"
    if entity in entities:
        return (
            f"label {label!r}: the model has {json.dumps(entity)}, but no class for this prefix of it; "
            f"name the label among the dataset's, and types are judged without prefixes. {known}"
        )
    near = _find_similar_types(entity, entities)
    hint = (
        f"if {json.dumps(near[0])} is the same, map it: {advice.suggest_mapping(entity, near[0])}"
        if near
        else f'map {json.dumps(entity)} to one of them or to "O", such as {advice.suggest_mapping(entity, OUTSIDE)}, '
        f"or let unmapped labels be unscored{advice.unscored}"
    )
    return f"label {label!r} has no class in the model; {hint}. {known}"


def _find_similar_types(entity: str, entities: Sequence[str]) -> list[str]:
    """Types that may be the same under another name: by case, as an abbreviation, or nearly spelt so."""
    folded = entity.casefold()
    names = {name.casefold(): name for name in entities}
    if folded in names:
        return [names[folded]]
    long_enough = 2
    begins = [
        name
        for other, name in names.items()
        if min(len(folded), len(other)) >= long_enough and (folded.startswith(other) or other.startswith(folded))
    ]
    return begins or [names[other] for other in get_close_matches(folded, names, n=1, cutoff=0.75)]


def format_names(names: Sequence[str]) -> str:
    """Names for a message, cut where there are very many."""
    shown = ", ".join(names[:_MAX_LISTED_NAMES])
    return shown if len(names) <= _MAX_LISTED_NAMES else f"{shown} and {len(names) - _MAX_LISTED_NAMES} more"
