from __future__ import annotations

import csv
import io

from service.contracts import Assessment, Flag, ModelName, SuspectSpan, WordScore
from service.formats import read_sentences
from service.formats.plain.assessments import ASSESSMENT_COLUMNS, build_assessment_writer, find_worst_word, to_csv_row


def assessment(**changes: object) -> Assessment:
    fields: dict[str, object] = {
        "id": "s1",
        "tokens": ("Oslo", 'said\n"no"', ",", "Bo"),
        "labels": ("B-PER", "O", "O", "O"),
        "source": "a.tsv:3",
        "reason": "flagged",
        "score": 0.1 + 0.2,
        "priority": 1e-17,
        "method": "worst-token",
        "token_score": "self-confidence",
        "words": (
            WordScore(p_given=0.01, score=0.01),
            WordScore(p_given=0.9, score=0.9),
            WordScore(unscored="no subword"),
            WordScore(p_given=0.01, score=0.01),
        ),
        "flags": (
            Flag(index=0, token="Oslo", given="B-PER", suggested="B-LOC", p_given=0.01, p_suggested=0.9, threshold=0.8),
            Flag(index=3, token="Bo", given="O", suggested="B-PER", p_given=0.01, p_suggested=0.9, threshold=0.8),
        ),
        "suspects": (SuspectSpan(kind="type", confidence=0.9), SuspectSpan(kind="missed", confidence=0.9)),
        "thresholds": {"O": 0.9, "B-LOC": None},
        "model": ModelName(name="m", fingerprint="f"),
    }
    return Assessment.model_validate(fields | changes)


def test_jsonl_is_the_message_and_can_be_read_again() -> None:
    stream = io.StringIO()
    write = build_assessment_writer(stream, "jsonl")
    write(assessment().model_dump_json(), 1)
    write(assessment(id="s2").model_dump_json(), 2)
    assert [Assessment.model_validate_json(line) for line in stream.getvalue().splitlines()] == [
        assessment(),
        assessment(id="s2"),
    ]
    again = list(read_sentences(io.BytesIO(stream.getvalue().encode()), format="jsonl"))
    assert [(s.id, s.tokens, s.labels) for s in again] == [
        (name, assessment().tokens, assessment().labels) for name in ("s1", "s2")
    ]


def test_csv_has_one_row_a_sentence() -> None:
    stream = io.StringIO(newline="")
    build_assessment_writer(stream, "csv")(assessment().model_dump_json(), 7)
    (row,) = csv.DictReader(io.StringIO(stream.getvalue(), newline=""))
    assert tuple(row) == ASSESSMENT_COLUMNS
    assert row == {
        "rank": "7",
        "id": "s1",
        "priority": "1e-17",
        "score": "0.30000000000000004",
        "flagged": "true",
        "n_flags": "2",
        "worst_index": "0",
        "worst_token": "Oslo",
        "worst_given": "B-PER",
        "worst_p_given": "0.01",
        "flags": "0:Oslo:B-PER>B-LOC; 3:Bo:O>B-PER",
        "suspects": "type; missed",
        "n_unscored": "1",
        "source": "a.tsv:3",
        "text": 'Oslo said\n"no" , Bo',
    }


def test_no_cell_of_the_csv_is_a_formula() -> None:
    word = "=1+1"
    flag = Flag(index=0, token=word, given="B-PER", suggested="B-LOC", p_given=0.01, p_suggested=0.9, threshold=0.8)
    hostile = assessment(id="+id", tokens=(word, "a", "b", "c"), source="@source", flags=(flag,))
    stream = io.StringIO(newline="")
    build_assessment_writer(stream, "csv")(hostile.model_dump_json(), 1)
    (row,) = csv.DictReader(io.StringIO(stream.getvalue(), newline=""))
    assert [row[name] for name in ("id", "worst_token", "source", "text")] == [
        "'+id", "'=1+1", "'@source", "'=1+1 a b c",
    ]  # fmt: skip


def test_a_sentence_without_any_score() -> None:
    nothing = assessment(
        words=(WordScore(unscored="x"),) * 4, flags=(), suspects=(), score=None, priority=None, source=None
    )
    row = dict(zip(ASSESSMENT_COLUMNS, to_csv_row(nothing, 1), strict=True))
    assert find_worst_word(nothing) is None
    assert (row["priority"], row["score"], row["worst_index"], row["flagged"], row["n_unscored"]) == (
        "", "", "", "false", "4",
    )  # fmt: skip
