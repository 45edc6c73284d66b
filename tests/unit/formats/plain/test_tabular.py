from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import DecodeError, InvalidInput, TooLongError
from service.formats import FileRecord, ReadOptions, read_records

Sentence = tuple[tuple[str, ...], tuple[str, ...]]
TWO = [(("EU", "rejects"), ("B-ORG", "O")), (("Oslo",), ("B-LOC",))]


def read_all(text: str | bytes, form: str = "csv", **options: object) -> list[FileRecord]:
    raw = text.encode() if isinstance(text, str) else text
    return list(read_records(io.BytesIO(raw), format=form, options=ReadOptions(**options)))  # type: ignore[arg-type]


def read_valid(text: str | bytes, form: str = "csv", **options: object) -> list[Sentence]:
    records = read_all(text, form, **options)
    assert [str(r.error) for r in records if r.error] == []
    return [(r.sentence.tokens, r.sentence.labels) for r in records if r.sentence]


def read_ids(text: str, form: str = "csv", **options: object) -> list[str | None]:
    return [r.sentence.id for r in read_all(text, form, **options) if r.sentence]


WORD_ROWS = {
    "filled": "sentence_id,word,label\ns1,EU,B-ORG\ns1,rejects,O\ns2,Oslo,B-LOC\n",
    "kaggle": "Sentence #,Word,POS,Tag\nSentence: 1,EU,NNP,B-ORG\n,rejects,VBZ,O\nSentence: 2,Oslo,NNP,B-LOC\n",
    "blank rows": "token,ner_tag\nEU,B-ORG\nrejects,O\n\nOslo,B-LOC\n",
    "empty cells": "token,ner_tag\nEU,B-ORG\nrejects,O\n,\nOslo,B-LOC\n,\n",
    "semicolons": '"sentence";"word";"label"\n1;EU;B-ORG\n1;rejects;O\n2;Oslo;B-LOC\n',
    "crlf and bom": "\ufeffWord,Tag\r\nEU,B-ORG\r\nrejects,O\r\n\r\nOslo,B-LOC",
    "extra empty cells": "word,label\nEU,B-ORG,,\nrejects,O,,\n,,,\nOslo,B-LOC\n",
}


@pytest.mark.parametrize("text", WORD_ROWS.values(), ids=WORD_ROWS)
def test_one_row_a_word(text: str) -> None:
    assert read_valid(text) == TWO


SENTENCE_ROWS = {
    "json": 'id,tokens,labels\n7,"[""EU"", ""rejects""]","[""B-ORG"", ""O""]"\n8,"[""Oslo""]","[""B-LOC""]"\n',
    "pandas": "tokens,ner_tags\n\"['EU', 'rejects']\",\"['B-ORG', 'O']\"\n['Oslo'],['B-LOC']\n",
    "spaces": "text,labels\nEU rejects,B-ORG O\nOslo,B-LOC\n",
    "kaggle": "Sentence #,Sentence,POS,Tag\nSentence: 1,EU rejects,\"[]\",\"['B-ORG', 'O']\"\n2,Oslo,[],['B-LOC']\n",
}


@pytest.mark.parametrize("text", SENTENCE_ROWS.values(), ids=SENTENCE_ROWS)
def test_one_row_a_sentence(text: str) -> None:
    assert read_valid(text) == TWO


def test_ids() -> None:
    assert read_ids(WORD_ROWS["filled"]) == ["s1", "s2"]
    assert read_ids(WORD_ROWS["kaggle"]) == ["Sentence: 1", "Sentence: 2"]
    assert read_ids(WORD_ROWS["blank rows"]) == ["1", "2"]
    assert read_ids(SENTENCE_ROWS["json"]) == ["7", "8"]
    assert read_ids(SENTENCE_ROWS["spaces"], id_prefix="x:") == ["x:1", "x:2"]


def test_what_looks_like_a_list_may_be_words() -> None:
    assert read_valid("text,labels\n[ Reuters ],O B-ORG O\n[1],O\n") == [
        (("[", "Reuters", "]"), ("O", "B-ORG", "O")),
        (("[1]",), ("O",)),
    ]


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        ("['EU' 'rejects']", "['B-ORG' 'O']"),
        ("['EU'\n 'rejects']", "[1 0]"),
        ("[ 'EU','rejects', ]", "[ 1  0 ]"),
        ("[np.str_('EU'), np.str_('rejects')]", "[np.int64(1), np.int64(0)]"),
        ("[u'EU', u'rejects']", "[1\n0]"),
    ],
)
def test_lists_as_numpy_prints_them(words: str, labels: str) -> None:
    text = f'tokens,ner_tags\n"{words}","{labels}"\n'
    assert read_valid(text, label_names=("O", "B-ORG")) == TWO[:1]


def test_quotes_in_printed_lists() -> None:
    assert read_valid("""tokens\tlabels\n["it's" 'a\\'b"' '\\\\']\tO O O\n""", "tsv") == [
        (("it's", "a'b\"", "\\"), ("O", "O", "O"))
    ]


@pytest.mark.parametrize(
    ("words", "labels", "message"),
    [
        ("['a' 'b' ... 'y' 'z']", "O O O O O", "the list was cut short with ..."),
        ("['a', None]", "O O", "the list \"['a', None]\" can't be read: write a JSON array"),
        ("['a' b]", "O O", "the list \"['a' b]\" can't be read"),
        ("a b", "[O, O]", "the list '[O, O]' can't be read"),
        ("a b", "[0. 1.]", "the list '[0. 1.]' can't be read"),
        ("a b", "[0 0 ... 0]", "the list '[0 0 ... 0]' can't be read"),
    ],
)
def test_lists_that_cannot_be_read(words: str, labels: str, message: str) -> None:
    (record,) = read_all(f'tokens,labels\n"{words}","{labels}"\n', label_names=("O", "B-ORG"))
    assert str(record.error).startswith(f"<stream>:2: {message}")


def test_numbered_labels() -> None:
    names = ("O", "B-ORG")
    assert read_valid('tokens,ner_tags\n"[""EU""]",[1]\n', label_names=names) == [(("EU",), ("B-ORG",))]
    assert read_valid("text,labels\nEU wins,1 0\n", label_names=names) == [(("EU", "wins"), ("B-ORG", "O"))]
    (record,) = read_all('tokens,ner_tags\n"[""EU""]",[1]\n')
    assert "say what the numbers mean with --label-names" in str(record.error)


def test_columns_named_by_options() -> None:
    text = "nr,w,gold,silver\n1,EU,B-ORG,O\n1,wins,O,O\n2,Oslo,B-LOC,O\n"
    assert read_valid(text, word="w", label="gold", sentence="nr") == [
        (("EU", "wins"), ("B-ORG", "O")),
        (("Oslo",), ("B-LOC",)),
    ]
    with pytest.raises(InvalidInput, match="no column bronze; the first row must name the columns and has nr, w, gold"):
        read_all(text, word="w", label="bronze")
    with pytest.raises(InvalidInput, match="name one with --sentence-column"):
        read_all(text, word="w", label="gold", sentence="x")


def test_a_row_that_may_be_either_is_asked_about() -> None:
    text = "tokens,labels\nEU,B-ORG\nOslo,B-LOC\n"
    with pytest.raises(InvalidInput, match="say --rows word or --rows sentence"):
        read_all(text)
    assert read_valid(text, rows="word") == [(("EU", "Oslo"), ("B-ORG", "B-LOC"))]
    assert read_valid(text, rows="sentence") == [(("EU",), ("B-ORG",)), (("Oslo",), ("B-LOC",))]


def test_without_header() -> None:
    with pytest.raises(InvalidInput, match=r":1: no word column \(word, token, .* and has EU, B-ORG: name one with"):
        read_all("EU,B-ORG\nrejects,O\n")


def test_empty_tables() -> None:
    assert read_all("") == []
    assert read_all("word,label\n") == []
    assert read_all("\n\n") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("word,label\nEU,B-ORG\nrejects\n", ":3: 1 cells, and the header has 2"),
        ("word,label\nEU,B-ORG\na,b,c\n", ":3: 3 cells, and the header has 2"),
        ("word,label\nEU,\n", ":2: `label`: the label is empty"),
        ("Word,label\n,O\n", ":2: `Word`: the word is empty"),
        ('word,label\nEU,B-ORG\n"a"b,O\n', ":3: not CSV: ',' expected after '\"'; is a quote left open?"),
        (b"word,label\nMalm\xf6,B-LOC\n", ":2: byte 0xf6 is not UTF-8"),
        ('tokens,labels\n"[""a"", ""b""]","[""O""]"\n', ":2: `labels`: 1 label for 2 words"),
        ("word,label,revision\na,O,new\n", ":2: `revision`: 'new': give a whole number"),
    ],
)
def test_errors_name_file_and_line(text: str | bytes, message: str) -> None:
    (error,) = [str(r.error) for r in read_all(text) if r.error]
    assert error.startswith("<stream>" + message)


def test_a_bad_row_costs_its_sentence_only() -> None:
    records = read_all("sentence_id,word,label\n1,a,O\n2,b,\n2,c,O\n3,d,O\n")
    assert [r.sentence.tokens if r.sentence else r.location for r in records] == [("a",), "<stream>:3", ("d",)]


def outcome(text: str | bytes) -> list[object]:
    return [r.sentence.tokens if r.sentence else str(r.error).split(":")[1] for r in read_all(text)]


def test_a_quote_that_swallows_rows_is_an_error() -> None:
    text = 'sentence_id,word,tag\n1,Paris,B-LOC\n1,",O\n2,He,O\n3,She,O\n3,",O\n4,x,O\n'
    first, last = read_all(text)
    assert str(first.error).startswith("<stream>:3: `word`: the word goes over 4 lines: is a quote left open?")
    assert last.sentence is not None
    assert last.sentence.tokens == ("x",)
    # A sentence that lost its first words to the row isn't given as if it were whole.
    assert outcome(text.replace("4,x,O", "3,x,O\n4,y,O")) == ["3", "7", ("y",)]


def test_a_quote_that_swallows_labels_is_an_error() -> None:
    text = 'sentence_id,word,tag\n1,Paris,"\n1,x,O\n2,y,"\n4,x,O\n'
    assert outcome(text) == ["2", ("x",)]
    assert "`tag`: the label goes over 3 lines" in str(read_all(text)[0].error)


def test_a_bad_first_word_costs_its_sentence() -> None:
    assert outcome(b"sentence_id,word,tag\n1,a,O\n2,\xff,O\n2,b,O\n3,c,O\n") == ["3", "4", ("c",)]


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ('1,",O\n2,b,O\n3,c,O\n', "closed up to line 5 .unexpected end of data"),
        ('1,",O\n' + "2,b,O\n" * 30_000, "closed up to line .* .field larger than field limit"),
        ('1,",O\n2,"b",O\n3,c,O\n', "closed up to line 4 .*close it, or write a word that is a quote as"),
    ],
)
def test_a_quote_left_open_is_an_error_of_the_file(rest: str, message: str) -> None:
    with pytest.raises(DecodeError, match="^<stream>:3: a quote that opens in this row is not " + message):
        read_all("sentence_id,word,tag\n0,a,O\n" + rest)


def test_a_line_without_end_is_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.formats.io.source.MAX_LINE", 100)
    for form, tab in (("csv", ","), ("tsv", "\t")):
        with pytest.raises(DecodeError, match=":3: the line is longer than 100 characters"):
            read_all(f"word{tab}label\na{tab}O\n" + f"x{tab}" * 1000, form)


def test_other_fields_are_read_through() -> None:
    (record,) = read_all("word,label,annotator,dataset,revision\na,O,ann,news,3\nb,O,bob,news,3\n")
    assert record.sentence is not None
    assert (record.sentence.annotator, record.sentence.dataset, record.sentence.revision) == ("ann", "news", 3)


def test_cells_over_several_lines_keep_the_line_count() -> None:
    records = read_all('word,label,note\na,O,"one\ntwo"\n,,\nb,,\n')
    assert [r.location for r in records] == ["<stream>:2", "<stream>:5"]


def test_tabs_without_quoting() -> None:
    text = 'word\tlabel\nsaid\tO\n"\tO\nHi\tO\n"\tO\n""""\tO\n"Hi"\tO\n""\tO\n'
    assert read_valid(text, "tsv") == [(("said", '"', "Hi", '"', '"', '"Hi"', '""'), ("O",) * 7)]


def test_tabs_with_quoting() -> None:
    assert read_valid('"word"\t"label"\n""""\t"O"\n"a\tb"\t"O"\n', "tsv") == [(('"', "a\tb"), ("O", "O"))]


def test_json_in_tabs() -> None:
    for cell in ('["EU", "x"]', '"[""EU"", ""x""]"'):
        assert read_valid(f"tokens\tlabels\n{cell}\tB-ORG O\n", "tsv") == [(("EU", "x"), ("B-ORG", "O"))]


def test_a_table_without_sentences_is_too_long() -> None:
    (record,) = read_all("word,label\n" + "a,O\n" * 50, max_words=10)
    assert isinstance(record.error, TooLongError)


text_cell = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"), min_size=1, max_size=8)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.lists(st.tuples(text_cell, st.sampled_from(["O", "B-PER"])), min_size=1, max_size=5), min_size=1, max_size=5
    )
)
def test_what_a_csv_writer_writes_is_read(data: list[list[tuple[str, str]]]) -> None:
    stream = io.StringIO(newline="")
    rows = csv.writer(stream)
    rows.writerow(["sentence_id", "word", "label"])
    for number, sentence in enumerate(data):
        rows.writerows([f"s{number}", word, label] for word, label in sentence)
    assert read_valid(stream.getvalue()) == [tuple(map(tuple, zip(*rows, strict=True))) for rows in data]
