"""A sentence as text with spans again: its own text and offsets where it came with them, else its words joined."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from service.errors import InvalidInput, UnknownLabelError
from service.formats.text.alignment import given_scheme, word_offsets
from service.formats.text.offsets import CHARACTERS, UTF16, in_utf16
from service.formats.text.word_splitter import Word
from service.labels import Scheme, Span, spans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from service.contracts import LabelledSentence
    from service.formats.text.offsets import Unit

PLAIN: Final = "jsonl"


class Entity(NamedTuple):
    """The words first..last-1 with a label, and the characters start..end-1 that they are."""

    first: int
    last: int
    start: int
    end: int
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Retold:
    """A sentence as text. Offsets are characters; `counted` gives them as the format counts."""

    text: str
    words: list[Word]
    entities: list[Entity]
    unit: Unit

    def counted(self, entity: Entity) -> tuple[int, int]:
        if self.unit == CHARACTERS:
            return entity.start, entity.end
        return in_utf16(self.text, entity.start, entity.end)

    def on_words(self, entity: Entity) -> bool:
        return (entity.start, entity.end) == (self.words[entity.first].start, self.words[entity.last - 1].end)


@dataclass(slots=True)
class Telling:
    """What the writers must know, and what they have to say: `scheme` is that of labels that don't tell their own."""

    scheme: Scheme = Scheme.IOB2
    joined: int = 0
    notes: Counter[str] = field(default_factory=Counter)

    def retold(self, sentence: LabelledSentence, form: str, *, unit: Unit = CHARACTERS) -> Retold:
        """`unit`: what the format counts in, unless the sentence came in it and counted otherwise."""
        meta = meta_of(sentence, form)
        words, text = word_offsets(sentence), (sentence.meta or {}).get("text")
        if words is None or not isinstance(text, str):
            words, text = _joined(sentence.tokens)
            self.joined += 1
        if meta.get("given_offsets") in (CHARACTERS, UTF16):
            unit = UTF16 if meta["given_offsets"] == UTF16 else CHARACTERS
        entities, scheme = self.entities(sentence)
        loose = _loose(sentence.meta or {})
        # Only IO can't tell one entity from two: elsewhere a reviewer has made one of them.
        return Retold(text, words, _placed(text, words, entities, loose, parted=scheme is Scheme.IO), unit)

    def entities(self, sentence: LabelledSentence) -> tuple[list[Span], Scheme]:
        """And the scheme they were read in: corrected labels are in the dataset's, which may have changed since."""
        told = (given_scheme(sentence),) if "scheme" in (sentence.meta or {}) else ()
        wrong: UnknownLabelError | None = None
        for scheme in (*told, self.scheme):
            try:
                return spans(sentence.labels, scheme), scheme
            except UnknownLabelError as error:
                wrong = error
        problem = wrong.problem if wrong is not None else ""
        raise InvalidInput(
            f"{problem}; as a span it can't be written: set the dataset's `scheme`, or use --format jsonl",
            field="labels",
            sentence=sentence.id,
            word=wrong.word if wrong is not None else None,
        )


def came_as(sentence: LabelledSentence) -> str:
    """The format that a sentence came in; what came as a message of ours, or from elsewhere, is a line of JSON."""
    named = (sentence.meta or {}).get("format")
    return named if isinstance(named, str) else PLAIN


def meta_of(sentence: LabelledSentence, form: str) -> Mapping[str, Any]:
    """What its converter noted, where a sentence came in the format."""
    return sentence.meta or {} if came_as(sentence) == form else {}


def kept_of(meta: Mapping[str, Any]) -> dict[str, Any]:
    found = meta.get("kept")
    return found if isinstance(found, dict) else {}


def name_in(meta: Mapping[str, Any], part: str, usual: str) -> str:
    found = meta.get(part)
    return found if isinstance(found, str) else usual


def number(name: str) -> int | str:
    """Ids are text here; what was a number becomes one again."""
    short = name.isascii() and len(name) < 20
    return int(name) if short and name.removeprefix("-").isdigit() and str(int(name)) == name else name


def written_at(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat().replace("+00:00", "Z")


def _joined(tokens: Sequence[str]) -> tuple[list[Word], str]:
    ends = list(accumulate((len(token) + 1 for token in tokens), initial=0))
    return [Word(start, start + len(token)) for start, token in zip(ends, tokens, strict=False)], " ".join(tokens)


def _loose(meta: Mapping[str, Any]) -> list[Word]:
    """The spans that came with other bounds than their words have."""
    found = meta.get("loose")
    pairs = found if isinstance(found, list) else []
    return [Word(*pair) for pair in pairs if isinstance(pair, list) and list(map(type, pair)) == [int, int]]


def _placed(
    text: str, words: Sequence[Word], entities: Sequence[Span], loose: Sequence[Word], *, parted: bool
) -> list[Entity]:
    """`parted`: an entity may be several that came."""
    found = []
    known = [(one, touched) for one in loose if (touched := _touched(one, words))]
    for span in entities:
        parts = [(one, part) for one, part in known if span.start <= part[0] and part[-1] < span.end]
        # Those that came count where they are the entity, or together make it up.
        made_up = [place for _, part in parts for place in part] == list(range(span.start, span.end))
        if not made_up or (len(parts) > 1 and not parted):
            whole = range(span.start, span.end)
            parts = [(Word(words[span.start].start, words[span.end - 1].end), whole)]
        found += [Entity(part[0], part[-1] + 1, one.start, one.end, span.type, one.of(text)) for one, part in parts]
    return found


def _touched(one: Word, words: Sequence[Word]) -> range:
    places = [place for place, word in enumerate(words) if word.start < one.end and one.start < word.end]
    return range(places[0], places[-1] + 1) if places else range(0)
