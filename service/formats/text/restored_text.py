"""A sentence as text with spans again: its own text and offsets where it came with them, else its words joined."""

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
    """The words first..last-1 with a label, and the characters start..end-1 that they are."""

    first_word: int
    end_word: int
    start: int
    end: int
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class RestoredText:
    """A sentence as text. Offsets are characters; `counted` gives them as the format counts."""

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
    """What the writers must know, and what they have to say: `scheme` is that of labels that don't tell their own."""

    scheme: Scheme = Scheme.IOB2
    n_joined: int = 0
    notes: Counter[str] = field(default_factory=Counter)

    def restore_text(self, sentence: LabelledSentence, form: str, *, unit: OffsetUnit = CHARACTERS) -> RestoredText:
        """`unit`: what the format counts in, unless the sentence came in it and counted otherwise."""
        meta = get_format_meta(sentence, form)
        words, text = find_word_offsets(sentence), (sentence.meta or {}).get("text")
        if words is None or not isinstance(text, str):
            words, text = _join_tokens(sentence.tokens)
            self.n_joined += 1
        if meta.get("given_offsets") in (CHARACTERS, UTF16):
            unit = UTF16 if meta["given_offsets"] == UTF16 else CHARACTERS
        entities, scheme = self.read_entities(sentence)
        loose = _read_loose_spans(sentence.meta or {})
        # Only IO can't tell one entity from two: elsewhere a reviewer has made one of them.
        return RestoredText(
            text, words, _locate_entities(text, words, entities, loose, allow_split=scheme is Scheme.IO), unit
        )

    def read_entities(self, sentence: LabelledSentence) -> tuple[list[Span], Scheme]:
        """And the scheme they were read in: corrected labels are in the dataset's, which may have changed since."""
        told = (get_given_scheme(sentence),) if "scheme" in (sentence.meta or {}) else ()
        wrong: UnknownLabelError | None = None
        for scheme in (*told, self.scheme):
            try:
                return parse_spans(sentence.labels, scheme), scheme
            except UnknownLabelError as error:
                wrong = error
        problem = wrong.problem if wrong is not None else ""
        raise InvalidInput(
            f"{problem}; as a span it can't be written: set the dataset's `scheme`, or use --format jsonl",
            field="labels",
            sentence=sentence.id,
            word=wrong.word if wrong is not None else None,
        )


def _join_tokens(tokens: Sequence[str]) -> tuple[list[CharacterRange], str]:
    ends = list(accumulate((len(token) + 1 for token in tokens), initial=0))
    return [CharacterRange(start, start + len(token)) for start, token in zip(ends, tokens, strict=False)], " ".join(
        tokens
    )


def _read_loose_spans(meta: Mapping[str, Any]) -> list[CharacterRange]:
    """The spans that came with other bounds than their words have."""
    found = meta.get("loose")
    pairs = found if isinstance(found, list) else []
    return [CharacterRange(*pair) for pair in pairs if isinstance(pair, list) and list(map(type, pair)) == [int, int]]


def _locate_entities(
    text: str,
    words: Sequence[CharacterRange],
    entities: Sequence[Span],
    loose: Sequence[CharacterRange],
    *,
    allow_split: bool,
) -> list[TextEntity]:
    """`parted`: an entity may be several that came."""
    found = []
    known = [(one, touched) for one in loose if (touched := _find_touched_words(one, words))]
    for span in entities:
        parts = [(one, part) for one, part in known if span.start <= part[0] and part[-1] < span.end]
        # Those that came count where they are the entity, or together make it up.
        made_up = [place for _, part in parts for place in part] == list(range(span.start, span.end))
        if not made_up or (len(parts) > 1 and not allow_split):
            whole = range(span.start, span.end)
            parts = [(CharacterRange(words[span.start].start, words[span.end - 1].end), whole)]
        found += [
            TextEntity(part[0], part[-1] + 1, one.start, one.end, span.type, one.extract(text)) for one, part in parts
        ]
    return found


def _find_touched_words(span: CharacterRange, words: Sequence[CharacterRange]) -> range:
    places = [place for place, word in enumerate(words) if word.start < span.end and span.start < word.end]
    return range(places[0], places[-1] + 1) if places else range(0)
