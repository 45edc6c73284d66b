"""Explains the worst word of a sentence: what the memory of the stream says about it. Counts only, no text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.contracts import Because

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from service.contracts import EvidenceKind
    from service.statistics.memory.explain import EarlierWords, WordExplanation

MAX_TYPES: Final = 5
MIN_MENTIONS: Final = 0.05  # of a type, as a sum of probabilities: less is noise of the model


def build_because(
    index: int, explanation: WordExplanation, *, given_type: str, name_type: Callable[[str], str]
) -> tuple[Because, ...]:
    """The evidence about the word at `index`. Types are those of the model; `name_type` returns the dataset's name of one."""
    sources: tuple[tuple[EvidenceKind, EarlierWords | None], ...] = (
        ("mentions", explanation.recent),
        ("older_mentions", explanation.older),
        ("pattern", explanation.template),
    )
    seen = [(kind, earlier) for kind, earlier in sources if earlier is not None and earlier.words and earlier.by_type]
    if not seen:
        return ()
    # Each type once: with a label map, a name takes a look at every label of the sentence.
    model_types = {given_type}.union(*[earlier.by_type for _, earlier in seen])
    names = {model_type: name_type(model_type) for model_type in model_types}
    return tuple([_describe_words(index, kind, earlier, names[given_type], names) for kind, earlier in seen])


def _describe_words(
    index: int, kind: EvidenceKind, earlier: EarlierWords, given_name: str, names: Mapping[str, str]
) -> Because:
    """Several types of the model may have one name in the dataset: they are added up before they are compared."""
    by_name: dict[str, float] = {}
    for model_type, number in earlier.by_type.items():
        name = names[model_type]
        by_name[name] = by_name.get(name, 0) + number
    ranked = sorted(by_name.items(), key=lambda entry: (-entry[1], entry[0]))
    most = ranked[0][1]
    return Because(
        index=index,
        kind=kind,
        words=earlier.words,
        sentences=earlier.sentences,
        by_type={name: number for name, number in ranked[:MAX_TYPES] if number >= min(MIN_MENTIONS, most)},
        speaks="for" if by_name.get(given_name) == most else "against",
    )
