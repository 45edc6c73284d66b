"""Explains the worst word of a sentence: what the memory of the stream says about it. Counts only, no text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.contracts import Because

if TYPE_CHECKING:
    from collections.abc import Callable

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
    return tuple(
        Because(
            index=index,
            kind=kind,
            words=earlier.words,
            sentences=earlier.sentences,
            by_type=_name_types(earlier, name_type),
            speaks="for" if earlier.by_type.get(given_type) == max(earlier.by_type.values()) else "against",
        )
        for kind, earlier in sources
        if earlier is not None and earlier.words and earlier.by_type
    )


def _name_types(earlier: EarlierWords, name_type: Callable[[str], str]) -> dict[str, float]:
    """The most frequent types, most first."""
    ranked = sorted(earlier.by_type.items(), key=lambda entry: (-entry[1], entry[0]))
    by_type: dict[str, float] = {}
    for model_type, number in ranked[:MAX_TYPES]:
        if number >= MIN_MENTIONS:
            name = name_type(model_type)
            by_type[name] = by_type.get(name, 0) + number
    return by_type
