"""Explains one word: the counts in memory that spoke for or against its given label. Counts only, no text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.scoring.memory import TYPE_SCALE, MemoryCounts, TypeMerge
from service.statistics.memory.memory import FORM_GENERATION, TEMPLATE_GENERATION

if TYPE_CHECKING:
    from collections.abc import Sequence


class EarlierWords(NamedTuple):
    """Earlier words like this one."""

    words: int
    by_type: dict[str, float]
    """Types that occur. For mentions the sum of the model's probabilities, for a template the number of given labels."""
    sentences: int  # the number of last sentences that were counted


class WordExplanation(NamedTuple):
    """What memory knew about a word when its sentence was judged."""

    recent: EarlierWords | None  # of the same form, as the model saw them; None for a word without a form
    older: EarlierWords | None  # the same in sentences before those
    template: EarlierWords  # in the same template, as they were labelled


def explain_word(counts: MemoryCounts, word: int, merge: TypeMerge) -> WordExplanation:
    """The counts behind one scored word. `counts` is what `recall` returned before the sentence was learned."""
    template = counts.template[word].tolist()
    labelled = _select_types(template[1 + merge.n_types :], merge)
    pattern = EarlierWords(template[0], labelled, _count_read(counts.sentences, TEMPLATE_GENERATION))
    if word not in counts.with_form:
        return WordExplanation(None, None, pattern)
    row = list(counts.with_form).index(word)
    n_read = _count_read(counts.sentences, FORM_GENERATION)
    recent = _count_mentions(counts.recent[row].tolist(), merge, n_read)
    older = None
    if counts.older is not None:
        older = _count_mentions(counts.older[row].tolist(), merge, sum(counts.sentences) - n_read)
    return WordExplanation(recent, older, pattern)


def _count_mentions(numbers: list[int], merge: TypeMerge, sentences: int) -> EarlierWords:
    return EarlierWords(numbers[0], _select_types([part / TYPE_SCALE for part in numbers[1:]], merge), sentences)


def _select_types(values: Sequence[float], merge: TypeMerge) -> dict[str, float]:
    return {name: value for name, value in zip(merge.names, values, strict=True) if value}


def _count_read(sentences: Sequence[int], generation: int) -> int:
    """How many sentences the current and the previous generations hold."""
    return sum(min(each, generation + each % generation) for each in sentences)
