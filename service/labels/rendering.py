"""Model class -> dataset label: the inverse of `LabelMap`, in the dataset's own names and scheme."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
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
    from collections.abc import Collection, Mapping, Sequence

    from service.labels.vocabulary import LabelMeaning

# Spellings of BILUO, recognised by the letters that a sentence uses.
_BIOES_LETTERS, _BILUO_LETTERS = frozenset("ES"), frozenset("LU")


@dataclass(frozen=True, slots=True)
class DatasetLabelWriter:
    """Judged classes and entities as the dataset writes them.

    `label_by_class` has the label of each judged class, if each class is one label of the dataset. It is None if the
    label depends on the sentence: the schemes differ, or several types of the dataset are one type of the model.
    """

    is_identity: bool  # whether the judged classes are the dataset's own labels
    label_by_class: tuple[str, ...] | None
    scheme: Scheme
    judged_scheme: Scheme
    _meanings: Mapping[str, LabelMeaning]
    _types_by_target: Mapping[str, tuple[str, ...]]  # the model's type -> the dataset's types, in the order of the map
    _irregular_labels: Mapping[Tag, str]  # labels outside any scheme ("3", "PER_B")
    _ambiguous_labels: frozenset[str]  # labels with the model's name of a type that the map renames

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
        sources_by_target: dict[str, dict[str, None]] = {}
        irregular: dict[Tag, str] = {}
        for label, (prefix, source, target) in meanings.items():
            if not target:
                continue
            if scheme is not Scheme.IO and split_prefix(label, scheme)[0] is None:
                irregular.setdefault(Tag(prefix, target), label)
            # The key of a mapped full label is no type, though it may look like one.
            elif scheme is Scheme.IO or (source not in meanings and split_prefix(source, scheme)[0] is None):
                sources_by_target.setdefault(target, {})[source] = None
        renamed = {
            target: names
            for target, sources in sources_by_target.items()
            if (names := tuple(source for source in sources if source != target))
        }
        ambiguous = frozenset(
            label for label, (_, source, target) in meanings.items() if target in renamed and source == target
        )
        by_class = None
        if judged_scheme is scheme and label_by_label and all(len(names) == 1 for names in renamed.values()):
            by_class = tuple(_rename_class(name, renamed, irregular, scheme) for name in classes)
        types_by_target = {target: (*names, target) for target, names in renamed.items()}
        return cls(
            by_class == tuple(classes),
            by_class,
            scheme,
            judged_scheme,
            meanings,
            types_by_target,
            irregular,
            ambiguous,
        )

    def is_direct(self, labels: Sequence[str]) -> bool:
        """Whether `label_by_class` applies to a sentence with these labels."""
        return self.label_by_class is not None and (self.is_identity or self._ambiguous_labels.isdisjoint(labels))

    def render_class(self, k: int, labels: Sequence[str]) -> str:
        """The label of a class in a sentence for which `is_direct`."""
        if self.label_by_class is None:
            raise ValueError("the label depends on the sentence: use `render`")
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
        rendered = labels_from_spans(entities, len(judged_labels), self.scheme)
        if self._irregular_labels:
            rendered = [self._irregular_labels.get(parse_label(label, self.scheme), label) for label in rendered]
        return match_spelling(rendered, labels, self.scheme)

    def resolve_type(self, span: Span, labels: Sequence[str]) -> str:
        """The dataset's name of an entity's type: of several the one given nearest to it, else the first of the map."""
        names = self._types_by_target.get(span.type)
        if names is None:
            return span.type
        candidates: list[tuple[int, str]] = []
        for word, label in enumerate(labels):
            meaning = self._meanings.get(label)
            if meaning is not None and meaning.target == span.type and meaning.source in names:
                candidates.append((_compute_distance(word, span), meaning.source))
        return min(candidates, key=itemgetter(0))[1] if candidates else names[0]

    def parse_type(self, label: str) -> str:
        """The type of a given label in the dataset's own name."""
        meaning = self._meanings.get(label)
        return meaning.source if meaning is not None else split_prefix(label, self.scheme)[1]

    @property
    def types(self) -> tuple[str, ...]:
        """The dataset's names of all types that can be suggested, without "O"."""
        return self.list_types()

    def list_types(self, without: Collection[str] = ()) -> tuple[str, ...]:
        """The dataset's names of the types that can be suggested, without those of these types of the model."""
        targets = dict.fromkeys(
            meaning.target for meaning in self._meanings.values() if meaning.target and meaning.target not in without
        )
        names = (name for target in targets for name in self._types_by_target.get(target, (target, target))[:-1])
        return tuple(dict.fromkeys(names))


def match_spelling(rendered: list[str], labels: Sequence[str], scheme: Scheme) -> list[str]:
    """Labels of a scheme in the spelling that a sentence with these labels uses, such as E- for L- in BILUO."""
    if scheme is Scheme.BILUO:
        letters = {label[0] for label in labels if label[1:2] == "-"}
        return [_match_biluo_spelling(label, letters) for label in rendered]
    return [_match_io_prefix(label, labels) for label in rendered] if scheme is Scheme.IO else rendered


def _compute_distance(word: int, span: Span) -> int:
    """Words between a word and a span; 0 inside of it."""
    return max(span.start - word, word - span.end + 1, 0)


def _rename_class(
    name: str, renamed: Mapping[str, tuple[str, ...]], irregular: Mapping[Tag, str], scheme: Scheme
) -> str:
    tag = parse_label(name, scheme)
    if tag.prefix == OUTSIDE:
        return name
    if tag in irregular:
        return irregular[tag]
    if tag.type not in renamed:
        return name
    dataset_type = renamed[tag.type][0]
    return format_label(tag.prefix, dataset_type, scheme) if scheme is Scheme.IO else f"{name[:2]}{dataset_type}"


def _match_io_prefix(label: str, labels: Sequence[str]) -> str:
    """With "I-" in front, if the labels of the sentence have it."""
    if label == OUTSIDE or split_prefix(label, Scheme.IO)[0] or not any(given.startswith("I-") for given in labels):
        return label
    return f"I-{label}"


def _match_biluo_spelling(label: str, letters: set[str]) -> str:
    if label[1:2] != "-" or letters & _BILUO_LETTERS:
        return label
    spellings = {"I": "M"} if "M" in letters else {}
    if letters & _BIOES_LETTERS or "W" in letters:
        spellings |= {"L": "E", "U": "W" if "W" in letters else "S"}
    return f"{spellings.get(label[0], label[0])}{label[1:]}"
