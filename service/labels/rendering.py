"""What a model says, in the dataset's own names and scheme: the way back through a `LabelMap`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.labels.schemes import (
    OUTSIDE,
    Scheme,
    Span,
    Tag,
    format_label,
    labels_from_spans,
    parse_label,
    parse_spans,
    split_prefix,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.labels.vocabulary import LabelMeaning

# BILUO in its other spellings, known by the letters that a sentence uses.
_BIOES_LETTERS, _BILUO_LETTERS = frozenset("ES"), frozenset("LU")


@dataclass(frozen=True, slots=True)
class DatasetLabelWriter:
    """Judged classes and entities as the dataset writes them.

    `label_by_class` is the label of each judged class, where one class is one label of the dataset; None where the sentence
    around decides, since the scheme is another one or several of the dataset's types are one of the model's.
    """

    is_identity: bool  # whether the judged classes are the dataset's own labels
    label_by_class: tuple[str, ...] | None
    scheme: Scheme
    judged_scheme: Scheme
    _meanings: Mapping[str, LabelMeaning]
    _types_by_target: Mapping[str, tuple[str, ...]]  # the model's type -> the dataset's, in the order of the map
    _irregular_labels: Mapping[Tag, str]  # labels that no scheme spells ("3", "PER_B")
    _ambiguous_labels: frozenset[str]  # labels that keep the model's name of a type which the map knows by another one

    @classmethod
    def build(
        cls,
        classes: Sequence[str],
        meanings: Mapping[str, LabelMeaning],
        *,
        judged_scheme: Scheme,
        scheme: Scheme,
        label_by_label: bool,
    ) -> DatasetLabelWriter:
        names: dict[str, dict[str, None]] = {}
        odd: dict[Tag, str] = {}
        for label, (prefix, source, target) in meanings.items():
            if not target:
                continue
            if scheme is not Scheme.IO and split_prefix(label, scheme)[0] is None:
                odd.setdefault(Tag(prefix, target), label)
            # The key of a mapped full label is no type, though it may be read as one.
            elif scheme is Scheme.IO or (source not in meanings and split_prefix(source, scheme)[0] is None):
                names.setdefault(target, {})[source] = None
        mapped = {target: tuple(own for own in found if own != target) for target, found in names.items()}
        own = {target: found for target, found in mapped.items() if found}
        both = frozenset(label for label, (_, source, target) in meanings.items() if target in own and source == target)
        by_class = None
        if judged_scheme is scheme and label_by_label and all(len(found) == 1 for found in own.values()):
            by_class = tuple(_rename_class(name, own, odd, scheme) for name in classes)
        everything = {target: (*found, target) for target, found in own.items()}
        return cls(by_class == tuple(classes), by_class, scheme, judged_scheme, meanings, everything, odd, both)

    def is_direct(self, labels: Sequence[str]) -> bool:
        """Whether `label_by_class` holds for a sentence with these labels."""
        return self.label_by_class is not None and (self.is_identity or self._ambiguous_labels.isdisjoint(labels))

    def render_class(self, k: int, labels: Sequence[str]) -> str:
        """The label of a class, where it is simple."""
        if self.label_by_class is None:
            raise ValueError("the sentence around decides: use `rewritten`")
        name = self.label_by_class[k]
        if self.scheme is Scheme.IO:
            return _match_io_prefix(name, labels)
        return name

    def render(self, judged_labels: Sequence[str], labels: Sequence[str]) -> list[str]:
        """A sentence of judged classes as the dataset would write it; `labels` are the given ones."""
        entities = [
            Span(start, end, self.resolve_type(Span(start, end, name), labels))
            for start, end, name in parse_spans(judged_labels, self.judged_scheme)
        ]
        found = labels_from_spans(entities, len(judged_labels), self.scheme)
        if self._irregular_labels:
            found = [self._irregular_labels.get(parse_label(label, self.scheme), label) for label in found]
        if self.scheme is Scheme.BILUO:
            letters = {label[0] for label in labels if label[1:2] == "-"}
            return [_match_biluo_spelling(label, letters) for label in found]
        return [_match_io_prefix(label, labels) for label in found] if self.scheme is Scheme.IO else found

    def resolve_type(self, span: Span, labels: Sequence[str]) -> str:
        """The dataset's name of an entity's type: of several the one given nearest by, else the first of the map."""
        names = self._types_by_target.get(span.type)
        if names is None:
            return span.type
        near: list[tuple[int, str]] = []
        for place, label in enumerate(labels):
            reading = self._meanings.get(label)
            if reading is not None and reading.target == span.type and reading.source in names:
                near.append((self._distance(place, span), reading.source))
        return min(near, key=lambda one: one[0])[1] if near else names[0]

    @staticmethod
    def _distance(place: int, span: Span) -> int:
        return max(span.start - place, place - span.end + 1, 0)

    def parse_type(self, label: str) -> str:
        """The type of a given label in the dataset's own name."""
        reading = self._meanings.get(label)
        return reading.source if reading is not None else split_prefix(label, self.scheme)[1]

    @property
    def types(self) -> tuple[str, ...]:
        """The dataset's names of all that can be suggested, without "O"."""
        targets = dict.fromkeys(reading.target for reading in self._meanings.values() if reading.target)
        found = (name for target in targets for name in self._types_by_target.get(target, (target, target))[:-1])
        return tuple(dict.fromkeys(found))


def _rename_class(name: str, own: Mapping[str, tuple[str, ...]], odd: Mapping[Tag, str], scheme: Scheme) -> str:
    tag = parse_label(name, scheme)
    if tag.prefix == OUTSIDE:
        return name
    if tag in odd:
        return odd[tag]
    if tag.type not in own:
        return name
    renamed = own[tag.type][0]
    return format_label(tag.prefix, renamed, scheme) if scheme is Scheme.IO else f"{name[:2]}{renamed}"


def _match_io_prefix(label: str, labels: Sequence[str]) -> str:
    """IO with its "I-", where the sentence writes it so."""
    if label == OUTSIDE or split_prefix(label, Scheme.IO)[0] or not any(one.startswith("I-") for one in labels):
        return label
    return f"I-{label}"


def _match_biluo_spelling(label: str, letters: set[str]) -> str:
    if label[1:2] != "-" or letters & _BILUO_LETTERS:
        return label
    spelt = {"I": "M"} if "M" in letters else {}
    if letters & _BIOES_LETTERS or "W" in letters:
        spelt |= {"L": "E", "U": "W" if "W" in letters else "S"}
    return f"{spelt.get(label[0], label[0])}{label[1:]}"
