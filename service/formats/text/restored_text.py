"""Restores the text and spans of a sentence: the original ones if `meta` holds them, else its words with spaces."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from service.errors import InvalidInput, UnknownLabelError
from service.formats.meta import get_format_meta
from service.formats.text.alignment import find_word_offsets, get_given_scheme
from service.formats.text.offsets import CHARACTERS, UTF16, to_utf16_offsets
from service.formats.text.word_splitter import CharacterRange
from service.labels import Scheme, Span, parse_spans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.contracts import LabelledSentence
    from service.formats.text.offsets import OffsetUnit


class TextEntity(NamedTuple):
    """The words first_word..end_word-1 with a label, and their characters start..end-1."""

    first_word: int
    end_word: int
    start: int
    end: int
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class RestoredText:
    """A sentence as text. Offsets are characters; `to_format_offsets` converts them to the unit of the format."""

    text: str
    words: list[CharacterRange]
    entities: list[TextEntity]
    unit: OffsetUnit

    def to_format_offsets(self, entity: TextEntity) -> tuple[int, int]:
        if self.unit == CHARACTERS:
            return entity.start, entity.end
        return to_utf16_offsets(self.text, entity.start, entity.end)

    def is_word_aligned(self, entity: TextEntity) -> bool:
        return (entity.start, entity.end) == (self.words[entity.first_word].start, self.words[entity.end_word - 1].end)


@dataclass(slots=True)
class WriteContext:
    """Settings and results of an export. `scheme` is that of sentences whose `meta` names none.

    `n_joined` counts sentences without their original text, `notes` what else the user must know.
    """

    scheme: Scheme = Scheme.IOB2
    n_joined: int = 0
    notes: Counter[str] = field(default_factory=Counter)

    def restore_text(self, sentence: LabelledSentence, form: str, *, unit: OffsetUnit = CHARACTERS) -> RestoredText:
        """`unit` is the format's unit of offsets, unless the sentence was read from it with another unit."""
        meta = get_format_meta(sentence, form)
        words, text = find_word_offsets(sentence), (sentence.meta or {}).get("text")
        if words is None or not isinstance(text, str):
            words, text = _join_tokens(sentence.tokens)
            self.n_joined += 1
        if meta.get("given_offsets") in (CHARACTERS, UTF16):
            unit = UTF16 if meta["given_offsets"] == UTF16 else CHARACTERS
        entities, scheme = self.read_entities(sentence)
        loose = _read_loose_spans(sentence.meta or {})
        # Only IO labels can stand for two adjacent spans; in other schemes a reviewer has joined them.
        return RestoredText(
            text, words, _locate_entities(text, words, entities, loose, allow_split=scheme is Scheme.IO), unit
        )

    def read_entities(self, sentence: LabelledSentence) -> tuple[list[Span], Scheme]:
        """The entities and their scheme. Corrected labels are in the dataset's scheme, which may have changed since."""
        given = (get_given_scheme(sentence),) if "scheme" in (sentence.meta or {}) else ()
        unknown: UnknownLabelError | None = None
        for scheme in (*given, self.scheme):
            try:
                return parse_spans(sentence.labels, scheme), scheme
            except UnknownLabelError as error:
                unknown = error
        problem = unknown.problem if unknown is not None else ""
        raise InvalidInput(
            f"{problem}; it can't be written as a span: set the dataset's `scheme`, or use --format jsonl",
            field="labels",
            sentence=sentence.id,
            word=unknown.word if unknown is not None else None,
        )


def _join_tokens(tokens: Sequence[str]) -> tuple[list[CharacterRange], str]:
    ends = list(accumulate((len(token) + 1 for token in tokens), initial=0))
    return [CharacterRange(start, start + len(token)) for start, token in zip(ends, tokens, strict=False)], " ".join(
        tokens
    )


def _read_loose_spans(meta: Mapping[str, Any]) -> list[CharacterRange]:
    """The original spans whose bounds differ from those of their words."""
    loose = meta.get("loose")
    pairs = loose if isinstance(loose, list) else []
    return [CharacterRange(*pair) for pair in pairs if isinstance(pair, list) and list(map(type, pair)) == [int, int]]


def _locate_entities(
    text: str,
    words: Sequence[CharacterRange],
    entities: Sequence[Span],
    loose: Sequence[CharacterRange],
    *,
    allow_split: bool,
) -> list[TextEntity]:
    """The characters of each entity. With `allow_split` several original spans may make up one entity."""
    located = []
    originals = [(span, covered) for span in loose if (covered := _find_covered_words(span, words))]
    for entity in entities:
        whole = range(entity.start, entity.end)
        parts = [
            (span, covered) for span, covered in originals if whole.start <= covered[0] and covered[-1] < whole.stop
        ]
        # Original spans are used if they cover exactly the words of the entity.
        is_covered = [index for _, covered in parts for index in covered] == list(whole)
        if not is_covered or (len(parts) > 1 and not allow_split):
            parts = [(CharacterRange(words[entity.start].start, words[entity.end - 1].end), whole)]
        located += [
            TextEntity(covered[0], covered[-1] + 1, span.start, span.end, entity.type, span.extract(text))
            for span, covered in parts
        ]
    return located


def _find_covered_words(span: CharacterRange, words: Sequence[CharacterRange]) -> range:
    """The indices of the words that share a character with the span."""
    indices = [index for index, word in enumerate(words) if word.start < span.end and span.start < word.end]
    return range(indices[0], indices[-1] + 1) if indices else range(0)
