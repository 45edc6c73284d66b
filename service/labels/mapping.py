"""Dataset label -> model class: `LabelMap`. `rendering.py` goes from class to dataset label."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from service.errors import InvalidInput, UnknownLabelError
from service.labels.detection import NO_MAPPING, merge_by_type
from service.labels.label_set import DROPPED, LabelSet
from service.labels.rendering import DatasetLabelWriter
from service.labels.schemes import (
    OUTSIDE,
    PREFIXES,
    Scheme,
    Span,
    Tag,
    format_label,
    group_entities,
    labels_from_spans,
    parse_label,
    split_prefix,
)
from service.labels.unknown_labels import (
    CLI_ADVICE,
    GENERIC_ADVICE,
    build_settings_advice,
    explain_unknown,
    is_outside_lookalike,
)
from service.labels.vocabulary import OUTSIDE_MEANING, LabelMeaning, build_meanings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from service.labels.unknown_labels import MappingAdvice

UNSCORED = -1

UnmappedPolicy: TypeAlias = Literal["reject", "unscored"]


@dataclass(frozen=True, slots=True)
class LabelIds:
    """A sentence's labels as classes of the model.

    `ids` are judged classes, UNSCORED for a label without one. `labels` are their names in the judged scheme. There an
    unscored word keeps its own type, so that spans stay whole ("O" if its label can't be read).
    """

    ids: list[int]
    labels: list[str]


@dataclass(frozen=True, slots=True)
class LabelMap:
    """How the labels of one dataset are judged by one model.

    `classes` are the judged classes, in `scheme`: the model's own classes if the dataset makes the same distinctions,
    else types. `merge` has the index of the judged class for each model class (None: the columns stay as they are).
    With a label set it is DROPPED for the model's classes that no label of the set maps to. Types are judged if either
    side has no prefixes (IO), or if the model lacks a class for a label that the dataset may contain (a model trained on
    IOB1 often lacks some B-): no correct sentence is refused because of a prefix.

    If both sides have the same scheme, labels are judged as given, even if they break the scheme. Between schemes they
    are converted through their spans, which repairs broken sequences. So is IOB1 if several types become one: I-CITY
    after I-STATE starts a new entity, so it must become B-LOC.
    """

    classes: tuple[str, ...]
    scheme: Scheme
    merge: tuple[int, ...] | None
    dataset_scheme: Scheme
    unmapped: UnmappedPolicy
    _model_classes: tuple[str, ...] = field(repr=False)
    _types: tuple[str, ...] = field(repr=False)
    _meanings: dict[str, LabelMeaning] = field(repr=False, hash=False)
    _by_tag: dict[Tag, int] = field(repr=False, hash=False)
    _ids: dict[str, int] | None = field(repr=False, hash=False)  # label -> id; None: it depends on the sentence
    dataset: str | None = None  # of the stream: then error texts name its settings instead of options
    unscored_types: frozenset[str] = frozenset()  # the model knows them and can't judge them: their words are unscored
    label_set: LabelSet | None = None  # None: every type of the model

    @classmethod
    def build(
        cls,
        model_classes: Sequence[str],
        *,
        model_scheme: Scheme,
        dataset_labels: Sequence[str] | None,
        dataset_scheme: Scheme,
        mapping: Mapping[str, str] = NO_MAPPING,
        unmapped: UnmappedPolicy = "reject",
        dataset: str | None = None,
        unscored_types: Iterable[str] = (),
        label_set: Sequence[str] | None = None,
    ) -> LabelMap:
        """Maps a dataset onto a model, or raises an error that says what doesn't fit.

        `mapping` maps an entity type or a full label of the dataset to a type of the model, to a full label (such a
        type with a prefix of the dataset's scheme) or to "O". Several types may map to one. `dataset_labels`, if all
        labels of the dataset are known, are checked here. `label_set` are the types that its labels may have.
        """
        tags = _parse_classes(model_classes, model_scheme)
        types = tuple(dict.fromkeys(OUTSIDE if tag.prefix == OUTSIDE else tag.type for tag in tags))
        meanings = build_meanings(types, dataset_scheme, mapping)
        allowed = None if label_set is None else LabelSet.build(label_set, dataset_scheme)
        if allowed is not None:
            meanings = allowed.select_meanings(meanings)
        for label in dataset_labels or ():
            if label not in meanings and (unmapped == "reject" or is_outside_lookalike(label)):
                raise UnknownLabelError(
                    explain_unknown(label, types, model_classes, dataset_scheme), field="dataset_labels"
                )
        used = (
            list(meanings.values())
            if dataset_labels is None
            else [meanings[label] for label in dataset_labels if label in meanings]
        )
        label_by_label = dataset_scheme is model_scheme and not (model_scheme is Scheme.IOB1 and _merges_types(used))
        columns = _select_columns(tags, None if allowed is None else meanings.values())
        classes, scheme = tuple(model_classes[k] for k in columns), model_scheme
        merged = tuple(range(len(classes)))
        by_tag = {tags[column]: k for k, column in enumerate(columns)}
        if not _has_class_for_every_label(used, by_tag, model_scheme, dataset_scheme, label_by_label=label_by_label):
            label_by_label = True
            scheme = Scheme.IO
            if model_scheme is not Scheme.IO:
                classes, merged = merge_by_type(classes, model_scheme)
            by_tag = {parse_label(name, scheme): k for k, name in enumerate(classes)}
        ids = None
        if label_by_label:
            known = ((label, by_tag.get(_to_tag(meaning, scheme))) for label, meaning in meanings.items())
            ids = {label: k for label, k in known if k is not None}
        names = tuple(model_classes)
        judged = dict(zip(columns, merged, strict=True))
        merge = tuple(judged.get(column, DROPPED) for column in range(len(names)))
        return cls(
            classes,
            scheme,
            None if merge == tuple(range(len(names))) and scheme is model_scheme else merge,
            dataset_scheme,
            unmapped,
            names,
            types,
            meanings,
            by_tag,
            ids,
            dataset,
            frozenset(unscored_types),
            allowed,
        )

    def build_writer(self) -> DatasetLabelWriter:
        """The inverse: judged classes as labels of the dataset."""
        return DatasetLabelWriter.build(
            self.classes,
            self._meanings,
            judged_scheme=self.scheme,
            scheme=self.dataset_scheme,
            label_by_label=self._ids is not None,
        )

    def accepts(self, label: str) -> bool:
        """Whether a sentence of the dataset may have the label."""
        if label in self._meanings:
            return True
        if self._is_outside_label_set(label):
            return False
        if self._is_unscored_type(label):
            return True
        return self.unmapped == "unscored" and not is_outside_lookalike(label)

    def lacks_class(self, label: str) -> bool:
        """Whether the label may be right for the dataset, and the model has no class for it."""
        return not self.accepts(label) and not self._is_outside_label_set(label)

    def map(self, labels: Sequence[str], *, sentence: int | str | None = None) -> LabelIds:
        """The judged classes of a sentence's labels. `sentence` appears in errors only."""
        if self._ids is not None:
            try:
                ids = [self._ids[label] for label in labels]
            except KeyError:
                pass  # a label without a class: the code below finds its word
            else:
                return LabelIds(ids, [self.classes[k] for k in ids])
        meanings = [self._resolve_label(label, word, sentence) for word, label in enumerate(labels)]
        if self._ids is not None:
            tags = [_to_tag(meaning, self.scheme) for meaning in meanings]
        else:
            tags = self._convert_scheme(meanings)
        ids = []
        for word, (label, meaning, tag) in enumerate(zip(labels, meanings, tags, strict=True)):
            k = None if meaning.target is None else self._by_tag.get(tag)
            if k is None and meaning.target is not None:
                self._reject_unmapped(label, word, sentence)
            ids.append(UNSCORED if k is None else k)
        names = [self._render_label(k, tag) for k, tag in zip(ids, tags, strict=True)]
        return LabelIds(ids, names)

    def _resolve_label(self, label: str, word: int, sentence: int | str | None) -> LabelMeaning:
        meaning = self._meanings.get(label)
        if meaning is not None:
            return meaning
        self._reject_unmapped(label, word, sentence)
        prefix, entity = split_prefix(label, self.dataset_scheme)
        if prefix is None and self.dataset_scheme is Scheme.IO:
            prefix = "I"
        if prefix is None or entity == OUTSIDE:
            return OUTSIDE_MEANING._replace(target=None)
        return LabelMeaning(prefix, entity, None)

    def _reject_unmapped(self, label: str, word: int, sentence: int | str | None) -> None:
        """Refuses a label without a class, unless its word may stay unscored.

        A misspelt "O" is refused in any case: it would leave nearly every word unscored. So is a label outside the
        label set.
        """
        if self.label_set is not None and self._is_outside_label_set(label) and not is_outside_lookalike(label):
            problem = self.label_set.explain_outside(label, self.dataset)
            raise UnknownLabelError(problem, field="labels", sentence=sentence, word=word)
        if self._is_unscored_type(label):
            return
        if self.unmapped == "reject" or is_outside_lookalike(label):
            raise UnknownLabelError(
                self.explain_unknown(label),
                field="labels",
                sentence=sentence,
                word=word,
                cli_problem=self._explain_unknown(label, CLI_ADVICE),
            )

    def explain_unknown(self, label: str) -> str:
        """Why the label has no class, and what to do about it."""
        return self._explain_unknown(
            label, GENERIC_ADVICE if self.dataset is None else build_settings_advice(self.dataset)
        )

    def _explain_unknown(self, label: str, advice: MappingAdvice) -> str:
        return explain_unknown(label, self._types, self._model_classes, self.dataset_scheme, advice)

    def _is_outside_label_set(self, label: str) -> bool:
        return self.label_set is not None and label not in self._meanings and not self.label_set.contains(label)

    def _is_unscored_type(self, label: str) -> bool:
        return bool(self.unscored_types) and split_prefix(label, self.dataset_scheme)[1] in self.unscored_types

    def _convert_scheme(self, meanings: Sequence[LabelMeaning]) -> list[Tag]:
        """The same entities in the judged scheme, grouped by the dataset's types, so that adjacent ones stay separate."""
        entities = [
            Span(start, end, source if target is None else target)
            for start, end, (source, target) in group_entities(
                (meaning.prefix, (meaning.source, meaning.target)) for meaning in meanings
            )
        ]
        return [parse_label(label, self.scheme) for label in labels_from_spans(entities, len(meanings), self.scheme)]

    def _render_label(self, k: int, tag: Tag) -> str:
        if k != UNSCORED:
            return self.classes[k]
        return OUTSIDE if tag.prefix == OUTSIDE else format_label(tag.prefix, tag.type, self.scheme)


def _parse_classes(model_classes: Sequence[str], scheme: Scheme) -> list[Tag]:
    tags: list[Tag] = []
    for name in model_classes:
        try:
            tag = parse_label(name, scheme)
        except UnknownLabelError as error:
            raise InvalidInput(f"the model's {error.problem}", field="model_classes") from None
        if tag in tags:
            raise InvalidInput(
                f"classes {model_classes[tags.index(tag)]!r} and {name!r} are the same", field="model_classes"
            )
        tags.append(tag)
    if not tags:
        raise InvalidInput("the model has no classes", field="model_classes")
    return tags


def _select_columns(tags: Sequence[Tag], meanings: Iterable[LabelMeaning] | None) -> list[int]:
    """The model's classes that are judged: "O", and the types that the meanings name. None: all classes."""
    if meanings is None:
        return list(range(len(tags)))
    types = {meaning.target for meaning in meanings if meaning.target}
    columns = [k for k, tag in enumerate(tags) if tag.prefix == OUTSIDE or tag.type in types]
    if not columns:
        raise InvalidInput("the model has no class for any of these types", field="label_set")
    return columns


def _to_tag(meaning: LabelMeaning, judged_scheme: Scheme) -> Tag:
    """A label's tag in the judged scheme, without regard to its neighbours."""
    entity = meaning.source if meaning.target is None else meaning.target
    return Tag("I" if judged_scheme is Scheme.IO and meaning.prefix != OUTSIDE else meaning.prefix, entity)


def _merges_types(used: Sequence[LabelMeaning]) -> bool:
    pairs = {(meaning.source, meaning.target) for meaning in used}
    return len(pairs) > len({target for _, target in pairs})


def _has_class_for_every_label(
    used: Sequence[LabelMeaning],
    by_tag: Mapping[Tag, int],
    model_scheme: Scheme,
    dataset_scheme: Scheme,
    *,
    label_by_label: bool,
) -> bool:
    """Whether the model has a class for each label that the dataset may contain, with its prefix."""
    if Scheme.IO in {model_scheme, dataset_scheme}:
        return False
    if label_by_label:
        return all(Tag(meaning.prefix, meaning.target or "") in by_tag for meaning in used)
    targets = {meaning.target for meaning in used if meaning.target}
    return all(Tag(prefix, target) in by_tag for target in targets for prefix in PREFIXES[model_scheme])
