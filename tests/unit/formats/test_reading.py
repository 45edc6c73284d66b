from __future__ import annotations

import gzip
import io
import os
import sys
import threading
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from service.errors import DecodeError, InvalidInput
from service.formats import FORMATS, ReadOptions, read_records, read_sentences
from service.formats.detection import detect_format

CONLL = b"EU B-ORG\nwins O\n"


@pytest.mark.parametrize(
    ("name", "head", "form"),
    [
        ("a.jsonl", "", "jsonl"),
        ("a.json", "[", "jsonl"),
        ("a.NDJSON", "", "jsonl"),
        ("a.csv", "", "csv"),
        ("a.conll", "word\tlabel\n", "conll"),
        ("a.csv.gz", "", "csv"),
        ("a.tsv", "EU\tB-ORG\n", "conll"),
        ("a.tsv", "word\tlabel\nEU\tB-ORG\n", "tsv"),
        ("a.tsv", "Sentence #\tWord\tPOS\tTag\n", "tsv"),
        ("a.txt", "EU B-ORG\n", "conll"),
        ("a.txt", "\n\nEU B-ORG\n", "conll"),
        ("a.txt", "sentence,word,tag\n", "csv"),
        ("<stdin>", '{"tokens": ["a"], "labels": ["O"]}\n', "jsonl"),
        ("<stdin>", '{ "tokens"', "jsonl"),
        ("<stdin>", '[{"tokens": ["a"]}]', "jsonl"),
        ("<stdin>", '[\n  {\n    "tokens": ["a"],\n', "jsonl"),
        ("a.json", '[\n {"id": 1, "annotations": [], "data": {"text": "a"}}', "label-studio"),
        ("a.json", '[{"id": 1, "annotations": [{"id": 2, "was_cancelled": false, "res', "label-studio"),
        ("a.json", '[{"id": 1, "text": "a", "annotation_id": 3}]', "label-studio"),
        ("a.jsonl", '{"action": "ANNOTATION_CREATED", "project": {}}', "label-studio"),
        ("a.jsonl", '{"id": "x", "fields": {"text": "a"}, "responses": {}}', "argilla"),
        ("a.jsonl", '{"type": "response.created", "version": 1, "timestamp": "t", "data": {}}', "argilla"),
        ("a.jsonl", '{"text": "a", "tokens": [{"text": "a", "start": 0, "end": 1, "id": 0}], "spans": []}', "prodigy"),
        ("a.jsonl", '{"text": "a", "spans": [], "answer": "accept"}', "prodigy"),
        ("a.jsonl", '{"text": "a", "spans": []}', "spans"),
        ("a.jsonl", '{"id": 1, "text": "a", "label": [[0, 1, "PER"]]}', "doccano"),
        ("<stdin>", '{"text": "a", "entities": [], "relations": []}', "doccano"),
        ("a.jsonl", '{"tokens": ["a"], "ner_tags": [0]}', "jsonl"),
        ("a.json", '{"tokens": [["a"], ["b"]], "ner_tags": [[0], [0]]}', "huggingface"),
        ("a.json", '{"features": [], "rows": []}', "huggingface"),
        ("<stdin>", "{\tO\n", "conll"),
        ("<stdin>", "[ O\n", "conll"),
        ("<stdin>", ", O\n", "conll"),
        ("<stdin>", "", "conll"),
        ("v1.2", "EU B-ORG\n", "conll"),
    ],
)
def test_detection(name: str, head: str, form: str) -> None:
    assert detect_format(name, head) == form


def test_every_format_is_known_by_its_name() -> None:
    platforms = ["label-studio", "argilla", "prodigy", "huggingface", "spans", "doccano"]
    assert [form.name for form in FORMATS.values()] == list(FORMATS) == ["conll", "jsonl", "csv", "tsv", *platforms]
    with pytest.raises(InvalidInput, match="format 'xml' is not known: choose one of conll, jsonl, csv, tsv, label-"):
        list(read_sentences(io.BytesIO(CONLL), format="xml"))


@pytest.mark.parametrize("kind", [Path, str])
def test_paths_name_themselves(tmp_path: Path, kind: type) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(CONLL)
    (record,) = read_records(kind(path))
    assert record.location == f"{path}:1"


def test_a_file_name_that_is_no_text_is_shown(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.csv")
    path.write_bytes(b"word,label\nOslo,B-LOC\n")
    (sentence,) = read_sentences(path, options=ReadOptions(id_prefix=f"{path.name}:"))
    assert (sentence.id, sentence.source) == ("caf\\xe9.csv:1", f"{tmp_path}/caf\\xe9.csv:2")
    with pytest.raises(InvalidInput, match=r"caf\\xe9\.gone: can't be read"):
        list(read_sentences(tmp_path / os.fsdecode(b"caf\xe9.gone")))


def test_gzip(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(CONLL))
    assert [s.tokens for s in read_sentences(path)] == [("EU", "wins")]
    path.write_bytes(gzip.compress(os.urandom(300_000).hex().encode())[:-50_000])
    with pytest.raises(DecodeError, match="the gzip file is damaged or cut short"):
        list(read_sentences(path))


@pytest.mark.parametrize("unit", [b"\n", b"a O\n", b"# x\n", b"-DOCSTART- O\n\n", b"[],\n", b"{}\n", b" "])
def test_a_gzip_file_that_unpacks_to_far_more_than_its_size_is_refused(
    tmp_path: Path, unit: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.formats.io.source.MIN_CHECKED_BYTES", 100_000)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"[\n" + unit * 1_000_000))
    with pytest.raises(DecodeError, match=r"bomb\.gz: the gzip file unpacks to more than 100 times its size"):
        list(read_records(path))


def test_what_a_gzip_file_unpacks_to_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.formats.io.source.MAX_UNPACKED_BYTES", 200_000)
    path = tmp_path / "large.tsv.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d O\n" % n for n in range(100_000))))
    with pytest.raises(DecodeError, match=r"large\.tsv\.gz: the gzip file unpacks to more than 200,000 bytes"):
        list(read_records(path))


def test_a_short_gzip_file_may_repeat_itself(tmp_path: Path) -> None:
    path = tmp_path / "same.tsv.gz"
    path.write_bytes(gzip.compress((CONLL + b"\n") * 20_000))
    assert path.stat().st_size * 100 < len(CONLL) * 20_000  # above the ratio
    assert sum(1 for _ in read_sentences(path)) == 20_000


def test_what_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="looks like a binary file"):
        list(read_sentences(io.BytesIO(b"PK\x03\x04\0\0")))
    with pytest.raises(InvalidInput, match=r"no\.txt: can't be read: No such file"):
        list(read_sentences(tmp_path / "no.txt"))
    with pytest.raises(InvalidInput, match="can't be read: Is a directory"):
        list(read_sentences(tmp_path))


def test_a_line_without_end_is_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.formats.io.source.MAX_LINE", 100)
    with pytest.raises(DecodeError, match=":2: the line is longer than 100 characters"):
        list(read_sentences(io.BytesIO(b"a O\n" + b"x" * 1000)))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CONLL)))
    (record,) = read_records("-")
    assert record.location == "<stdin>:1"
    assert not sys.stdin.buffer.closed


def test_a_pipe_gives_sentences_before_it_ends() -> None:
    reading, writing = os.pipe()
    source = os.fdopen(reading, "rb")
    sink = os.fdopen(writing, "wb", buffering=0)
    taken = threading.Event()

    def produce() -> None:
        sink.write(b"a O\n\n")
        taken.wait(60)
        sink.write(b"b O\n\n")
        sink.close()

    producer = threading.Thread(target=produce)
    producer.start()
    with source:
        sentences = read_sentences(source, format="conll")
        assert next(sentences).tokens == ("a",)
        taken.set()
        assert [s.tokens for s in sentences] == [("b",)]
    producer.join()


class Endless(io.RawIOBase):
    """Sentences without end, which nobody may try to read whole."""

    given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        piece = b"word O\nother O\n\n" * (len(buffer) // 16)
        buffer[: len(piece)] = piece
        self.given += len(piece)
        return len(piece)


def test_reading_is_lazy() -> None:
    stream = Endless()
    reading = read_records(cast("BinaryIO", io.BufferedReader(stream, 1024)))
    for _ in range(1000):
        assert next(reading).sentence is not None
    assert 16_000 <= stream.given < 200_000


def test_the_callers_stream_stays_open() -> None:
    stream = io.BytesIO(CONLL)
    assert len(list(read_sentences(stream, options=ReadOptions(encoding="utf-8")))) == 1
    assert not stream.closed
