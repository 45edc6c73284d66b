"""Detects the scheme of labels from the labels themselves, and merges classes to types."""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from service.errors import InvalidInput, UnknownLabelError
from service.labels.schemes import (
    OUTSIDE,
    PREFIX_SPELLINGS,
    Scheme,
    Tag,
    can_follow,
    format_label,
    parse_label,
    split_prefix,
    starts_entity,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

# Common spellings of "outside". They are never read as "O": a wrong guess would misjudge every word.
OUTSIDE_LOOKALIKES = frozenset({"", "o", "0", "-", "_", "out", "outside", "none", "null", "nil"})

NO_MAPPING: Mapping[str, str] = MappingProxyType({})


def detect_scheme(sequences: Iterable[Sequence[str]], mapping: Mapping[str, str] = NO_MAPPING) -> Scheme:
    """The scheme of these sentences' labels; `mapping` renames full labels first.

    Labels contain errors, so the decision weighs the evidence:
    - no prefixes: IO; nothing but I- and O: IO too (IOB1 data without adjacent entities looks and reads the same);
    - a prefix that only BILUO has (L, U, E, S, M, W): BILUO, if at least half of the entities are valid in it;
    - B- and I-: IOB1 if more entities start with I- than have a B- that IOB1 doesn't need, else IOB2;
    - no entity at all: IOB2.

    If only some labels have a prefix, they fit no scheme: InvalidInput names them.
    """
    # In every scheme the evidence is in pairs of neighbours. Their counts stay small, however long the data is.
    pairs: Counter[tuple[str | None, str | None]] = Counter()
    for labels in sequences:
        renamed = [mapping.get(label, label) for label in labels]
        pairs.update(zip([None, *renamed], [*renamed, None], strict=True))
    vocabulary = list(dict.fromkeys(label for _, label in pairs if label is not None))
    family = _detect_family(vocabulary, field="labels")
    if family is Scheme.IO:
        return family
    needless_b = orphan_i = broken = entities = 0
    for (before, here), n in pairs.items():
        previous = None if before is None else parse_label(before, family)
        tag = None if here is None else parse_label(here, family)
        broken += n * (not can_follow(previous, tag, family))
        if tag is None or tag.prefix == OUTSIDE:
            continue
        same = previous is not None and previous.type == tag.type
        needless_b += n * (tag.prefix == "B" and not same)
        orphan_i += n * (tag.prefix == "I" and not same)
        entities += n * starts_entity(previous, tag)
    if family is Scheme.BILUO:
        if broken > entities / 2:
            raise InvalidInput(
                f"labels such as {_format_examples(_select_non_iob(vocabulary))} look like BILUO, but {broken} labels in "
                f"{entities} entities break that scheme; name the scheme, or map the labels whose type starts like a prefix",
                field="labels",
            )
        return family
    return Scheme.IOB1 if orphan_i > needless_b else Scheme.IOB2


def detect_class_scheme(class_names: Sequence[str]) -> Scheme:
    """The scheme of a model's classes, from their names alone.

    A type with I- but no B- can't occur in IOB2, so the scheme is IOB1. A model trained on IOB1 that has all classes
    looks like IOB2: its manifest must name the scheme.
    """
    family = _detect_family(class_names, field="classes")
    if family is not Scheme.IOB2:
        return family
    tags = {parse_label(name, family) for name in class_names}
    return Scheme.IOB1 if any(t.prefix == "I" and Tag("B", t.type) not in tags for t in tags) else Scheme.IOB2


def merge_by_type(class_names: Sequence[str], scheme: Scheme | None = None) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The types of the classes ("O" first if there is one, then by first appearance), and class -> type index.

    The types are IO labels (as `get_entity_type` returns them, except for a type that itself starts with "I-").
    """
    scheme = detect_class_scheme(class_names) if scheme is None else scheme
    names: list[str] = []
    for name in class_names:
        tag = parse_label(name, scheme)
        names.append(OUTSIDE if tag.prefix == OUTSIDE else format_label("I", tag.type, Scheme.IO))
    types = sorted(dict.fromkeys(names), key=lambda name: name != OUTSIDE)  # a stable sort: the others keep their order
    index = {name: i for i, name in enumerate(types)}
    return tuple(types), tuple(index[name] for name in names)


def _detect_family(vocabulary: Collection[str], *, field: str) -> Scheme:
    """IO, BILUO, or IOB2 for both IOB1 and IOB2."""
    entities = [label for label in vocabulary if label != OUTSIDE]
    bare = [label for label in entities if split_prefix(label, Scheme.BILUO)[0] is None]
    prefixed = [label for label in entities if split_prefix(label, Scheme.BILUO)[0] is not None]
    iob = [label for label in prefixed if label[0] in PREFIX_SPELLINGS[Scheme.IOB2]]
    if bare and iob:
        if all(label.lower() in OUTSIDE_LOOKALIKES for label in bare):
            raise UnknownLabelError(
                f"{_format_examples(bare)} is not a label: outside is spelt {OUTSIDE!r} and nothing else. "
                f'If that is what it means, map it ({{"{bare[0]}": "O"}})',
                field=field,
            )
        raise InvalidInput(
            f"{_format_examples(iob)} {_have(iob)} a prefix and {_format_examples(bare)} {_have(bare)} none; map the odd ones "
            f'(for instance {{"{bare[0]}": "O"}}) or name the scheme (io, if these are all bare types)',
            field=field,
        )
    if bare:
        if "" in bare:
            raise UnknownLabelError("a label is empty", field=field)
        return Scheme.IO
    if _select_non_iob(prefixed):
        return Scheme.BILUO
    only_i = bool(prefixed) and all(label[0] in "Ii" for label in prefixed)
    return Scheme.IO if only_i else Scheme.IOB2


def _select_non_iob(labels: Iterable[str]) -> list[str]:
    return [label for label in labels if label != OUTSIDE and label[0] not in PREFIX_SPELLINGS[Scheme.IOB2]]


def _have(labels: Sequence[str]) -> str:
    return "has" if len(labels) == 1 else "have"


def _format_examples(labels: Sequence[str], max_shown: int = 5) -> str:
    shown = ", ".join(repr(label) for label in labels[:max_shown])
    return shown if len(labels) <= max_shown else f"{shown} and {len(labels) - max_shown} more"
