from __future__ import annotations

import io
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import DecodeError, InvalidInput, TooLongError
from service.formats import FileRecord, ReadOptions, read_records, read_sentences

Sentence = tuple[tuple[str, ...], tuple[str, ...]]


def read_all(text: str | bytes, **options: object) -> list[FileRecord]:
    raw = text.encode() if isinstance(text, str) else text
    return list(read_records(io.BytesIO(raw), format="conll", options=ReadOptions(**options)))  # type: ignore[arg-type]


def read_valid(text: str | bytes, **options: object) -> list[Sentence]:
    records = read_all(text, **options)
    assert [str(r.error) for r in records if r.error] == []
    return [(r.sentence.tokens, r.sentence.labels) for r in records if r.sentence]


def read_error(text: str | bytes, **options: object) -> str:
    (problem,) = [r.error for r in read_all(text, **options) if r.error]
    return str(problem)


TWO = [(("EU", "rejects"), ("B-ORG", "O")), (("Oslo",), ("B-LOC",))]


@pytest.mark.parametrize(
    "text",
    [
        "EU\tB-ORG\nrejects\tO\n\nOslo\tB-LOC\n",
        "EU B-ORG\nrejects O\n\nOslo B-LOC\n",
        "EU   B-ORG  \n  rejects O\n\nOslo\tB-LOC\n",
        "EU NNP I-NP B-ORG\nrejects VBZ I-VP O\n\nOslo NNP I-NP B-LOC\n",
        "EU\tNNP\tB-ORG\nrejects\tVBZ\tO\n\nOslo\tNNP\tB-LOC\n",
        "EU B-ORG\nrejects O\n\nOslo B-LOC",
        "\ufeffEU B-ORG\r\nrejects O\r\n\r\nOslo B-LOC\r\n",
        "EU B-ORG\rrejects O\r\rOslo B-LOC\r",
        "\n\n \t\nEU B-ORG\nrejects O\n\t\n  \n\nOslo B-LOC\n\n\n",
        "-DOCSTART- -X- O O\n\nEU x x B-ORG\nrejects x x O\n-DOCSTART- -X- O O\nOslo x x B-LOC\n",
        "-DOCSTART-\tO\n\nEU\tB-ORG\nrejects\tO\n\n-DOCSTART-\tO\n\nOslo\tB-LOC\n",
        "# comment about the file\n# newdoc = 1\nEU B-ORG\nrejects O\n\n# text = Oslo\nOslo B-LOC\n",
    ],
    ids=lambda text: repr(text[:24]),
)
def test_reads_the_same_two_sentences(text: str) -> None:
    assert read_valid(text) == TWO


def test_words_keep_their_inner_spaces_in_tab_files() -> None:
    assert read_valid("New York\tB-LOC\nis\u00a0big\tO\n") == [(("New York", "is\u00a0big"), ("B-LOC", "O"))]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("# O\none O\n", ("#", "one")),
        ("#\tO\none\tO\n", ("#", "one")),
        ("one O\n# O\n", ("one", "#")),
        ("#metoo B-MISC\nmoves O\n", ("#metoo", "moves")),
        ("ranked O\n# O\n1 O\n", ("ranked", "#", "1")),
        ("# x I-LOC\nb x O\n", ("#", "b")),
        # A label of no scheme is known once it has been seen, or when a tab says that it is a column.
        ("a NOUN\nb SYM\n# SYM\n", ("a", "b", "#")),
        ("#\tSYM\na\tNOUN\n", ("#", "a")),
    ],
)
def test_a_hash_with_a_label_is_a_word(text: str, tokens: tuple[str, ...]) -> None:
    assert [tokens_read for tokens_read, _ in read_valid(text)] == [tokens]


def test_a_hash_word_that_starts_a_later_sentence() -> None:
    assert [tokens for tokens, _ in read_valid("a SYM\n\n# SYM\nb NOUN\n")] == [("a",), ("#", "b")]


def test_what_may_be_comment_or_word_is_an_error_and_an_option() -> None:
    text = "a O\n\n# hello\nb O\n"
    assert read_error(text) == (
        "<stream>:3: '# hello' may be a comment or a word: say --comments yes, or --comments no if the file has none"
    )
    assert read_valid(text, comments="yes") == [(("a",), ("O",)), (("b",), ("O",))]
    assert read_valid(text, comments="no") == [(("a",), ("O",)), (("#", "b"), ("hello", "O"))]


def test_a_hash_without_label_inside_a_sentence_is_not_lost() -> None:
    assert "<stream>:2: one column ('#')" in read_error("a O\n#\nb O\n")


@pytest.mark.parametrize(
    ("comment", "identity"),
    [
        ("# id = s-7", "s-7"),
        ("# sent_id = news-12", "news-12"),
        ("# id 4ad4\tdomain=en", "4ad4"),
        ("# text = id of it", "1"),
        ("# id =", "1"),
    ],
)
def test_ids_from_comments(comment: str, identity: str) -> None:
    (record,) = read_all(f"{comment}\na _ _ O\n")
    assert record.sentence is not None
    assert record.sentence.id == identity


def test_an_id_belongs_to_one_sentence_only() -> None:
    records = read_all("# id = x\na O\n\nb O\n\n# id = y\n\nc O\n")
    assert [r.sentence.id for r in records if r.sentence] == ["x", "2", "y"]


def test_places_and_numbers() -> None:
    records = read_all("\na O\n\n\nb O\nc O\n", id_prefix="train:")
    assert [r.location for r in records] == ["<stream>:2", "<stream>:5"]
    assert [(r.sentence.id, r.sentence.source) for r in records if r.sentence] == [
        ("train:1", "<stream>:2"),
        ("train:2", "<stream>:5"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("EU B-ORG\nrejects\n", "<stream>:2: one column ('rejects'): each line needs a word and its label with spaces"),
        (
            "EU\tB-ORG\nrejects O\n",
            "<stream>:2: one column ('rejects O'): each line needs a word and its label with tabs",
        ),
        ("EU x B-ORG\nrejects O\n", "<stream>:2: 2 columns, and the sentence's first line has 3"),
        ("EU\tB-ORG\n\tO\n", "<stream>:2: `word`: the word is empty"),
        ("EU\tB-ORG\nx\t\n", "<stream>:2: `label`: the label is empty"),
        (b"EU B-ORG\nMalm\xf6 B-LOC\n", "<stream>:2: byte 0xf6 is not UTF-8: name the file's encoding with --encoding"),
    ],
)
def test_errors_name_file_line_and_what_to_change(text: str | bytes, message: str) -> None:
    assert message in read_error(text)


def test_a_bad_sentence_leaves_the_others_and_their_numbers() -> None:
    records = read_all("a O\n\nb\nc O\nd\n\ne O\n")
    assert [(r.sentence.id if r.sentence else str(r.error).split(":")[1]) for r in records] == ["1", "3", "3"]
    assert isinstance(records[1].error, DecodeError)
    with pytest.raises(DecodeError, match=":3: one column"):
        list(read_sentences(io.BytesIO(b"a O\n\nb\n"), format="conll"))


def test_other_columns_by_number() -> None:
    text = "1 EU NNP B-ORG x\n2 wins VBZ O x y\n"
    assert read_valid(text, word="2", label="4") == [(("EU", "wins"), ("B-ORG", "O"))]
    assert "`label`: 3 columns, too few" in read_error("a b c\n", label="4")


@pytest.mark.parametrize("column", ["word", "0", "1.5"])
def test_columns_have_numbers(column: str) -> None:
    with pytest.raises(InvalidInput, match=f"--label-column {column}: columns of a CoNLL file have numbers"):
        read_all("a O\n", label=column)


def test_encoding() -> None:
    assert read_valid("Malmö B-LOC\n".encode("cp1252"), encoding="cp1252") == [(("Malmö",), ("B-LOC",))]
    assert read_valid("Malmö B-LOC\n".encode("utf-16")) == [(("Malmö",), ("B-LOC",))]
    with pytest.raises(InvalidInput, match="there is no such encoding"):
        read_all("a O\n", encoding="klingon")


def test_numbered_labels_get_their_names() -> None:
    assert read_valid("EU 1\nwins 0\n", label_names=("O", "B-ORG")) == [(("EU", "wins"), ("B-ORG", "O"))]
    assert "the label is the number 7, and 2 label names are known" in read_error("EU 7\n", label_names=("O", "B-ORG"))


def test_a_file_without_blank_lines_is_too_long() -> None:
    (record,) = read_all("a O\n" * 50, max_words=10)
    assert isinstance(record.error, TooLongError)


word = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=8).filter(
    lambda text: text != "-DOCSTART-"
)
label: st.SearchStrategy[str] = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC"])


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.lists(st.tuples(word, label), min_size=1, max_size=6), max_size=6),
    st.sampled_from(["\t", " ", "\tNN\t"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_written_files_can_be_read(data: list[list[tuple[str, str]]], between: str, end: Literal["\n", "\r\n"]) -> None:
    text = end.join(end.join(f"{w}{between}{y}" for w, y in rows) + end for rows in data)
    assert read_valid("\ufeff" + text) == [tuple(map(tuple, zip(*rows, strict=True))) for rows in data]
