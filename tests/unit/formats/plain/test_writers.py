"""What is written can be read again by our own readers."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contracts import LabelledSentence
from service.errors import InvalidInput
from service.formats import read_sentences, write_sentences

if TYPE_CHECKING:
    from collections.abc import Sequence


def write(sentences: Sequence[LabelledSentence], form: str) -> bytes:
    out = io.StringIO(newline="")
    write_sentences(out, form, sentences)
    return out.getvalue().encode()


def to_tuples(sentences: Sequence[LabelledSentence]) -> list[tuple[object, ...]]:
    return [(sentence.id, sentence.document, sentence.tokens, sentence.labels) for sentence in sentences]


plain = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=6)
anything = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
labels = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC"])
documents = st.sampled_from([None, "file.tsv:doc1", "page = 2"])


def sentences(words: st.SearchStrategy[str]) -> st.SearchStrategy[list[LabelledSentence]]:
    pairs = st.lists(st.tuples(words, labels), min_size=1, max_size=6)
    return st.lists(st.tuples(documents, pairs), min_size=1, max_size=4).map(
        lambda drawn: [
            LabelledSentence(
                id=f"file.tsv:{number}",
                document=document,
                tokens=tuple(w for w, _ in pair),
                labels=tuple(label for _, label in pair),
            )
            for number, (document, pair) in enumerate(drawn)
        ]
    )


@given(sentences(plain))
@settings(deadline=None)
def test_columns_come_back(sentences_written: list[LabelledSentence]) -> None:
    assert to_tuples(list(read_sentences(io.BytesIO(write(sentences_written, "conll")), format="conll"))) == to_tuples(
        sentences_written
    )


def test_columns_hold_first_words_that_only_look_like_comments() -> None:
    raw = b"# id = 1\n#\tPER\nx\tO\n\n# id = 2\n#metoo\tB-MISC\nnow\tO\n\n# id = 3\n#1\tO\n\n"
    assert write(list(read_sentences(io.BytesIO(raw), format="conll")), "conll") == raw


@given(sentences(anything))
@settings(deadline=None)
def test_json_lines_come_back_whatever_the_words(sentences_written: list[LabelledSentence]) -> None:
    assert to_tuples(list(read_sentences(io.BytesIO(write(sentences_written, "jsonl")), format="jsonl"))) == to_tuples(
        sentences_written
    )


@given(sentences(plain))
@settings(deadline=None)
def test_tables_come_back(sentences_written: list[LabelledSentence]) -> None:
    assert to_tuples(list(read_sentences(io.BytesIO(write(sentences_written, "csv")), format="csv"))) == to_tuples(
        sentences_written
    )


@given(sentences(plain))
@settings(deadline=None)
def test_tables_with_one_row_per_word_come_back(drawn: list[LabelledSentence]) -> None:
    sentences_written = [sentence.model_copy(update={"meta": {"rows": "word"}}) for sentence in drawn]
    assert to_tuples(list(read_sentences(io.BytesIO(write(sentences_written, "csv")), format="csv"))) == to_tuples(
        sentences_written
    )


@pytest.mark.parametrize("form", ["conll", "jsonl", "csv", "tsv", "prodigy", "huggingface"])
def test_the_sample_comes_back_and_its_format_is_known(form: str) -> None:
    sentences_written = list(read_sentences("models/sample/sample.tsv"))
    assert to_tuples(list(read_sentences(io.BytesIO(write(sentences_written, form))))) == to_tuples(sentences_written)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"tokens": ("New York",)}, "word 'New York'"),
        ({"tokens": ("a\tb",)}, "holds a space"),
        ({"tokens": ("",)}, "empty"),
        ({"tokens": ("-DOCSTART-",)}, "between documents"),
        ({"tokens": ("#id",), "labels": ("PER",)}, "comment"),
        ({"labels": ("B PER",)}, "label 'B PER'"),
        ({"id": "a\nb"}, "its id"),
        ({"id": " a"}, "its id"),
        ({"document": "a\nb"}, "its document"),
        ({"document": " a"}, "its document"),
    ],
)
def test_columns_refuse_what_they_would_change(fields: dict[str, object], says: str) -> None:
    sentence = LabelledSentence.model_validate({"id": "7", "tokens": ("Oslo",), "labels": ("O",), **fields})
    with pytest.raises(InvalidInput, match=says):
        write([sentence], "conll")


def test_other_fields_go_along() -> None:
    sentence = LabelledSentence(
        id="1",
        tokens=("a",),
        labels=("O",),
        revision=3,
        document="d",
        batch="7",
        annotator="zoe",
        source="http://x/1",
        meta={"k": [1]},
    )
    assert list(read_sentences(io.BytesIO(write([sentence], "jsonl")))) == [sentence]
    (back,) = read_sentences(io.BytesIO(write([sentence], "csv")), format="csv")
    assert (back.annotator, back.source, back.revision, back.document, back.batch) == ("zoe", "http://x/1", 3, "d", "7")
