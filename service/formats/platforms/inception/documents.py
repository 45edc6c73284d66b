"""Documents of INCEpTION: a CAS in XMI. Its own tokens and sentences count; offsets are characters of the text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from service.errors import DecodeError, InvalidInput, SettingsError
from service.formats.platforms.inception.xml_guard import MAX_TYPE_ELEMENTS, check_xml
from service.labels import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cassis import Cas
    from cassis.typesystem import Type

SENTENCE_TYPE: Final = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Sentence"
TOKEN_TYPE: Final = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Token"
PREDICTED_FEATURE: Final = "inception_internal_predicted"  # INCEpTION reads only annotations that set it
SCORE_SUFFIX: Final = "_score"
EXPLANATION_SUFFIX: Final = "_score_explanation"
MAX_LABEL_CHARS: Final = 512  # each word of an entity gets its label
MISSING_LIBRARY: Final = (
    "documents of INCEpTION need the library dkpro-cassis: install it with `pip install 'labelwatch[inception]'`, and "
    "start the service again"
)


class CasSentence(NamedTuple):
    """The words of a sentence, where they stand in the text, and the entities that annotators gave, by words."""

    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    given: tuple[Span, ...]


class TextRange(NamedTuple):
    begin: int
    end: int


class InceptionDocument:
    """A document for the suggestions of one feature of one layer."""

    def __init__(self, cas: Cas, layer: Type, feature: str) -> None:
        self._cas = cas
        self._layer = layer
        self._feature = feature

    @classmethod
    def read(cls, xmi: str, type_system: str, *, layer: str, feature: str) -> InceptionDocument:
        """Raises `InvalidInput` for input that is not a CAS of this type system, with this layer and feature."""
        try:
            import cassis
        except ImportError:
            raise SettingsError(MISSING_LIBRARY) from None
        check_xml(type_system, field="typeSystem", max_elements=MAX_TYPE_ELEMENTS)
        check_xml(xmi, field="document.xmi")
        try:
            types = cassis.load_typesystem(type_system)
        except Exception as error:  # noqa: BLE001 - the library raises errors of many kinds for what is not a CAS
            raise _to_decode_error(error, "typeSystem") from None
        if not types.contains_type(layer):
            raise InvalidInput(f"the type system has no layer {layer[:200]!r}", field="metadata.layer")
        annotated = types.get_type(layer)
        for name in (feature, PREDICTED_FEATURE):
            if annotated.get_feature(name) is None:
                raise InvalidInput(f"the layer {layer[:200]!r} has no feature {name[:200]!r}", field="metadata.feature")
        try:
            return cls(cassis.load_cas_from_xmi(xmi, types), annotated, feature)
        except Exception as error:  # noqa: BLE001 - as above
            raise _to_decode_error(error, "document.xmi") from None

    def list_sentences(self, within: TextRange | None = None) -> list[CasSentence]:
        """The sentences that touch the range, in the order of the text; all without one."""
        text = self._cas.sofa_string or ""
        tokens = [
            (begin, end)
            for begin, end in self._select_apart(TOKEN_TYPE, len(text))
            if text[begin:end].strip() and begin < end
        ]
        starts = [begin for begin, _ in tokens]
        given = [
            (begin, end, str(label)[:MAX_LABEL_CHARS])
            for begin, end, annotation in self._select(self._layer.name, len(text))
            if (label := annotation.get(self._feature)) and not annotation.get(PREDICTED_FEATURE)
        ]
        given_starts = [begin for begin, _, _ in given]
        sentences = []
        for begin, end in self._select_apart(SENTENCE_TYPE, len(text)):
            if within is not None and (end <= within.begin or begin >= within.end):
                continue
            words = [word for word in tokens[bisect_left(starts, begin) : bisect_left(starts, end)] if word[1] <= end]
            if not words:
                continue
            inside = given[bisect_left(given_starts, begin) : bisect_left(given_starts, end)]
            spans = _align_spans(words, inside)
            sentences.append(CasSentence(tuple(text[a:b] for a, b in words), tuple(words), spans))
        return sentences

    def _select_apart(self, name: str, text_length: int) -> list[tuple[int, int]]:
        """Without those that overlap one before them: a small document of them could have its text as often as it likes."""
        apart: list[tuple[int, int]] = []
        for begin, end, _ in self._select(name, text_length):
            if not apart or begin >= apart[-1][1]:
                apart.append((begin, end))
        return apart

    def _select(self, name: str, text_length: int) -> list[tuple[int, int, Any]]:
        """The annotations of a type that lie in the text, by their offsets."""
        if not self._cas.typesystem.contains_type(name):
            return []
        found = [
            (annotation.begin, annotation.end, annotation)
            for annotation in self._cas.select(name)
            if isinstance(annotation.begin, int) and isinstance(annotation.end, int)
        ]
        return sorted(
            (each for each in found if 0 <= each[0] <= each[1] <= text_length), key=lambda each: (each[0], -each[1])
        )

    def add_suggestion(self, sentence: CasSentence, span: Span, *, score: float | None, explanation: str) -> None:
        fields: dict[str, Any] = {
            "begin": sentence.offsets[span.start][0],
            "end": sentence.offsets[span.end - 1][1],
            self._feature: span.type,
            PREDICTED_FEATURE: True,
            f"{self._feature}{SCORE_SUFFIX}": score,
            f"{self._feature}{EXPLANATION_SUFFIX}": explanation,
        }
        # Score and explanation are optional: INCEpTION before 0.12 has no features for them.
        known = {name: value for name, value in fields.items() if value is not None and self._layer.get_feature(name)}
        self._cas.add(self._layer(**known))

    def to_xmi(self) -> str:
        xmi: str = self._cas.to_xmi()
        return xmi


def _align_spans(words: Sequence[tuple[int, int]], annotations: Sequence[tuple[int, int, str]]) -> tuple[Span, ...]:
    """The entities by words. Of several that share words the first counts."""
    starts, ends = [begin for begin, _ in words], [end for _, end in words]
    spans: list[Span] = []
    for begin, end, label in annotations:
        first, last = bisect_right(ends, begin), bisect_left(starts, end)
        if first < last and (not spans or spans[-1].end <= first):
            spans.append(Span(first, last, label))
    return tuple(spans)


def _to_decode_error(error: Exception, field: str) -> DecodeError:
    return DecodeError(f"it can't be read as a CAS: {type(error).__name__}: {str(error)[:300]}", field=field)
