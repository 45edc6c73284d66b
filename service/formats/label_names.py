"""Names of numbered labels: finds them in a dataset's description, and replaces numbers by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Names that files use for the labels of a sentence. The first name that is present counts.
LABEL_FIELDS: Final = ("labels", "ner_tags", "tags")
# Python converts no number of more than 4,300 digits to text or from it.
MAX_LABEL_NUMBER: Final = 10**18
MAX_NUMBER_DIGITS: Final = 20


def resolve_label_names(values: Iterable[Any], names: Sequence[str]) -> list[Any]:
    """Replaces numbered labels by their names. Validation rejects values that are neither numbers nor text."""
    labels: list[Any] = []
    for word, value in enumerate(values):
        number = _parse_label_number(value, names)
        if number is None:
            labels.append(value)
        elif abs(number) >= MAX_LABEL_NUMBER:
            raise InvalidInput("the label is a number of more than 18 digits: give its name", field="labels", word=word)
        elif not names:
            raise InvalidInput(
                f"the label is the number {number}: say what the numbers mean with --label-names O,B-PER,…",
                field="labels",
                word=word,
            )
        elif not 0 <= number < len(names):
            raise InvalidInput(
                f"the label is the number {number}, and {len(names)} label names are known (0 to {len(names) - 1})",
                field="labels",
                word=word,
            )
        else:
            labels.append(names[number])
    return labels


def _parse_label_number(value: Any, names: Sequence[str]) -> int | None:  # noqa: ANN401 - any JSON
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    # Text files write numbers as text; without names "1" may be the name of a label.
    if names and isinstance(value, str) and value.isascii() and value.isdigit() and value not in names:
        return int(value[:MAX_NUMBER_DIGITS])
    return None


def find_label_names(record: Mapping[str, Any], label_field: str | None = None) -> tuple[str, ...]:
    """The names of numbered labels, from a `features` or `names` field."""
    features = record.get("features")
    if isinstance(features, list):  # the form of the dataset viewer
        features = {str(feature.get("name")): feature.get("type") for feature in features if isinstance(feature, dict)}
    if isinstance(features, dict):
        for name in (label_field,) if label_field is not None else LABEL_FIELDS:
            names = _find_nested_names(features.get(name))
            if names:
                return names
    return _parse_names(record.get("names"))


def _find_nested_names(feature: Any, depth: int = 0) -> tuple[str, ...]:  # noqa: ANN401 - any JSON
    """The names in a feature. Datasets nest the class label in a sequence, under keys that changed over the years."""
    if not isinstance(feature, dict) or depth > 4:
        return ()
    names = _parse_names(feature.get("names"))
    if names:
        return names
    nested = (_find_nested_names(value, depth + 1) for value in feature.values())
    return next((names for names in nested if names), ())


def _parse_names(names: Any) -> tuple[str, ...]:  # noqa: ANN401 - any JSON
    if isinstance(names, dict):
        try:
            names = [names[key] for key in sorted(names, key=int)]
        except ValueError:
            return ()
    if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
        return tuple(names)
    return ()
