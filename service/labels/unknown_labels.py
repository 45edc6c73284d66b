"""Error texts for a label without a class in the model: the reason, and the setting or option that helps."""

from __future__ import annotations

import json
import shlex
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from service.labels.detection import OUTSIDE_LOOKALIKES
from service.labels.schemes import OUTSIDE, Scheme, split_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MAX_LISTED_NAMES = 40
_MAX_LABEL_CHARS = 100
_MIN_ABBREVIATION_CHARS = 2
_MIN_SIMILARITY = 0.75


class MappingAdvice(NamedTuple):
    """How a text describes the remedy: by a dataset's settings, by options of a command, or by neither.

    `use_model`: how to judge with a trained model.
    """

    suggest_mapping: Callable[[str, str], str]
    unscored: str = ""
    bare_types: str = ""
    use_model: str = ""


def _encode_mapping(source: str, target: str) -> str:
    return f"{{{json.dumps(source, ensure_ascii=False)}: {json.dumps(target, ensure_ascii=False)}}}"


GENERIC_ADVICE = MappingAdvice(_encode_mapping)
CLI_ADVICE = MappingAdvice(
    lambda source, target: f"--map {shlex.quote(f'{source}={target}')}",
    " (--unmapped unscored)",
    " (--scheme io)",
    ", then --model NAME",
)


def build_settings_advice(dataset: str) -> MappingAdvice:
    """Advice for a dataset of the stream: the command, and the field of the settings for REST."""
    command = f"labelwatch datasets set {dataset}"
    return MappingAdvice(
        lambda source, target: (
            f"`{command} {shlex.quote(f'label_map.{source}={target}')}`, or "
            f'{{"label_map": {_encode_mapping(source, target)}}} in its settings'
        ),
        f" (`{command} unmapped=unscored`)",
        f" (`{command} scheme=io`)",
        f", then `{command} model=NAME`",
    )


def is_outside_lookalike(label: str) -> bool:
    """Whether the label may be a misspelt "O"."""
    return label.lower() in OUTSIDE_LOOKALIKES


def explain_unknown(
    label: str, types: Sequence[str], classes: Sequence[str], scheme: Scheme, advice: MappingAdvice = GENERIC_ADVICE
) -> str:
    """Why a label has no class, and what to add to the label map."""
    known = f"Known labels: {format_names(classes)}"
    if len(label) > _MAX_LABEL_CHARS:
        return f"label {truncate_label(label)} has no class. {known}"
    prefix, entity_type = split_prefix(label, scheme)
    model_types = [name for name in types if name != OUTSIDE]
    if is_outside_lookalike(label) or (prefix is None and label.lower() in {"other", "others"}):
        return (
            f"label {label!r} has no class; outside is spelt 'O' and nothing else. "
            f"If it means that, map it: {advice.suggest_mapping(label, OUTSIDE)}. {known}"
        )
    if prefix is None and scheme is not Scheme.IO:
        similar = get_close_matches(label, classes, n=1, cutoff=_MIN_SIMILARITY)
        hint = (
            f"map it: {advice.suggest_mapping(label, similar[0])}"
            if similar
            else f"map it, or set the scheme to io if the labels of this dataset are bare types{advice.bare_types}"
        )
        return f"label {label!r} has no prefix of scheme {scheme.value}; {hint}. {known}"
    if entity_type in model_types:
        return (
            f"label {label!r}: the model has {json.dumps(entity_type)}, but no class for this prefix of it; "
            f"name the label among the dataset's, and types are judged without prefixes. {known}"
        )
    similar = _find_similar_types(entity_type, model_types)
    hint = (
        f"if {json.dumps(similar[0])} is the same, map it: {advice.suggest_mapping(entity_type, similar[0])}"
        if similar
        else f"{advise_other_model(advice)}, or map {json.dumps(entity_type)} where a type of the model means the same: "
        f"{advice.suggest_mapping(entity_type, 'TYPE')}. Or let unmapped labels be unscored{advice.unscored}"
    )
    return f"label {label!r} has no class in the model; {hint}. {known}"


def advise_other_model(advice: MappingAdvice = CLI_ADVICE) -> str:
    """How to get a model that fits: train one, or bring one."""
    return (
        f"train a model for these labels (`labelwatch train FILE --name NAME`{advice.use_model}), "
        "bring one (`labelwatch model add DIR`)"
    )


def _find_similar_types(entity_type: str, model_types: Sequence[str]) -> list[str]:
    """Types that may be the same under another name: in another case, abbreviated, or spelt similarly."""
    folded = entity_type.casefold()
    names = {name.casefold(): name for name in model_types}
    if folded in names:
        return [names[folded]]
    abbreviations = [
        name
        for other, name in names.items()
        if min(len(folded), len(other)) >= _MIN_ABBREVIATION_CHARS
        and (folded.startswith(other) or other.startswith(folded))
    ]
    return abbreviations or [names[other] for other in get_close_matches(folded, names, n=1, cutoff=_MIN_SIMILARITY)]


def truncate_label(label: str) -> str:
    """The label in quotes; of a very long one the beginning and the length."""
    if len(label) <= _MAX_LABEL_CHARS:
        return repr(label)
    return f"{label[:_MAX_LABEL_CHARS]!r}… of {len(label)} characters"


def format_names(names: Sequence[str]) -> str:
    """Names for an error text, truncated if there are very many."""
    listed = ", ".join(names[:_MAX_LISTED_NAMES])
    return listed if len(names) <= _MAX_LISTED_NAMES else f"{listed} and {len(names) - _MAX_LISTED_NAMES} more"
