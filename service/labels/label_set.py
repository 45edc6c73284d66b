"""The label set of a dataset: the entity types that its labels may have. "O" is always in it."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from service.errors import InvalidInput
from service.labels.schemes import OUTSIDE, Scheme, split_prefix
from service.labels.unknown_labels import format_names, truncate_label

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.labels.vocabulary import LabelMeaning

DROPPED = -1  # in place of a judged class: the model's class is outside the label set
_MIN_SIMILARITY = 0.6


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Entity types in the names of the dataset, and the scheme of its labels."""

    types: tuple[str, ...]
    scheme: Scheme

    @classmethod
    def build(cls, types: Sequence[str], scheme: Scheme) -> LabelSet:
        """Raises InvalidInput for a type that has a prefix of the scheme, or that is "O"."""
        for name in types:
            prefix, entity_type = split_prefix(name, scheme)
            if prefix is not None:
                raise InvalidInput(
                    f"{name!r} has a prefix of scheme {scheme.value}: name the type, {entity_type!r}", field="label_set"
                )
            if name == OUTSIDE:
                raise InvalidInput(f"{OUTSIDE!r} is always in the label set: leave it out", field="label_set")
        return cls(tuple(types), scheme)

    def contains(self, label: str) -> bool:
        """Whether the label is "O", or its type is in the set. A type without a prefix counts in any scheme."""
        return label == OUTSIDE or label in self.types or split_prefix(label, self.scheme)[1] in self.types

    def select_meanings(self, meanings: Mapping[str, LabelMeaning]) -> dict[str, LabelMeaning]:
        """The meanings of the labels in the set. A label without a type of its own ("PER_B") has that of its meaning."""
        return {
            label: meaning
            for label, meaning in meanings.items()
            if self.contains(label) or (not self._has_own_type(label) and meaning.source in self.types)
        }

    def _has_own_type(self, label: str) -> bool:
        return self.scheme is Scheme.IO or split_prefix(label, self.scheme)[0] is not None

    def explain_outside(self, label: str, dataset: str | None = None) -> str:
        """Why a label is refused, the label that may be meant, and the list."""
        prefix, entity_type = split_prefix(label, self.scheme)
        folded = {name.casefold(): name for name in self.types}
        similar = get_close_matches(entity_type.casefold(), folded, n=1, cutoff=_MIN_SIMILARITY)
        hint = ""
        if similar:
            name = folded[similar[0]]
            hint = f" Did you mean {(name if prefix is None else label[:2] + name)!r}?"
        owner = "" if dataset is None else f" of {dataset}"
        return (
            f"label {truncate_label(label)} is not in the label set{owner}.{hint} Correct the label, or add its type to "
            f"`label_set`. The label set: {format_names((OUTSIDE, *self.types))}"
        )
