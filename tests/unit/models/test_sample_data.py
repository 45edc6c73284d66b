"""The samples are used by the docs, the tests and `make run`: what their README says of them must stay true."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

SAMPLE = Path(__file__).parents[3] / "models" / "sample"
TYPES = ("PER", "ORG", "LOC", "MISC")
OWN_LABELS = {"german": ("PER", "ORT", "ORG"), "biomedical": ("DRUG", "DISEASE", "SYMPTOM")}
SAMPLES = {"sample": TYPES, **OWN_LABELS}
FILES = [f"{name}{suffix}.tsv" for name in SAMPLES for suffix in ("", ".truth")]


class Sentence(NamedTuple):
    words: tuple[str, ...]
    labels: tuple[str, ...]


class Entity(NamedTuple):
    start: int
    end: int
    type: str

    def overlaps(self, other: Entity) -> bool:
        return self.start < other.end and other.start < self.end


class Planted(NamedTuple):
    kind: str
    truth: str
    given: str


def read(name: str) -> list[Sentence]:
    sentences = []
    for block in (SAMPLE / name).read_text("utf-8").removesuffix("\n").split("\n\n"):
        words, labels = zip(*(line.split("\t") for line in block.split("\n")), strict=True)
        sentences.append(Sentence(words, labels))
    return sentences


def entities(labels: tuple[str, ...]) -> list[Entity]:
    """Strict IOB2; test_labels_are_valid_iob2 holds the files to it."""
    found: list[Entity] = []
    for place, label in enumerate(labels):
        if label.startswith("B-"):
            found.append(Entity(place, place + 1, label[2:]))
        elif label.startswith("I-"):
            found[-1] = found[-1]._replace(end=place + 1)
    return found


def planted(truth: tuple[str, ...], given: tuple[str, ...]) -> list[Planted]:
    """One error per entity of the truth that the given labels don't have, one per given entity that lies on none."""
    true, labelled = entities(truth), entities(given)
    errors = []
    for entity in true:
        if entity in labelled:
            continue
        others = [other for other in labelled if entity.overlaps(other)]
        if not others:
            errors.append(Planted("missed", entity.type, "O"))
        elif others[0][:2] == entity[:2]:
            errors.append(Planted("type", entity.type, others[0].type))
        else:
            errors.append(Planted("boundary", entity.type, " + ".join(other.type for other in others)))
    spurious = [other for other in labelled if not any(other.overlaps(entity) for entity in true)]
    return errors + [Planted("spurious", "O", other.type) for other in spurious]


def readme_rows(columns: int) -> list[tuple[str, ...]]:
    """The body rows of the README's tables that have so many columns."""
    rows = []
    for line in (SAMPLE / "README.md").read_text("utf-8").splitlines():
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        if line.startswith("|") and len(cells) == columns and cells[-1].replace(",", "").isdigit():
            rows.append(cells)
    return rows


@pytest.fixture(scope="module")
def given() -> list[Sentence]:
    return read("sample.tsv")


@pytest.fixture(scope="module")
def truth() -> list[Sentence]:
    return read("sample.truth.tsv")


@pytest.mark.parametrize("name", FILES)
def test_file_is_clean_two_column_text(name: str) -> None:
    text = (SAMPLE / name).read_bytes().decode("utf-8")
    assert unicodedata.is_normalized("NFC", text)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "\n\n\n" not in text
    bad = [line for line in text.removesuffix("\n").split("\n") if line and not re.fullmatch(r"\S+\t\S+", line)]
    assert bad == []
    assert {char for char in text if not char.isprintable()} == {"\n", "\t"}


@pytest.mark.parametrize("name", SAMPLES)
def test_both_files_hold_the_same_words(name: str) -> None:
    given, truth = read(f"{name}.tsv"), read(f"{name}.truth.tsv")
    assert [sentence.words for sentence in given] == [sentence.words for sentence in truth]


@pytest.mark.parametrize("name", SAMPLES)
def test_no_sentence_is_there_twice(name: str) -> None:
    truth = read(f"{name}.truth.tsv")
    assert [words for words, n in Counter(sentence.words for sentence in truth).items() if n > 1] == []


@pytest.mark.parametrize("name", FILES)
def test_labels_are_valid_iob2(name: str) -> None:
    # The given labels too: a slip is a wrong entity, and an orphaned I- would let the file pass for IOB1.
    types = SAMPLES[name.partition(".")[0]]
    labels = {"O", *(f"{prefix}-{kind}" for prefix in "BI" for kind in types)}
    for sentence in read(name):
        assert set(sentence.labels) <= labels
        for before, label in zip(("O", *sentence.labels), sentence.labels, strict=False):
            assert not label.startswith("I-") or before in {f"B-{label[2:]}", label}, sentence.words


def test_about_nine_percent_of_the_sentences_are_wrong(given: list[Sentence], truth: list[Sentence]) -> None:
    assert len(truth) >= 420
    wrong = sum(one.labels != other.labels for one, other in zip(given, truth, strict=True))
    assert 0.08 <= wrong / len(truth) <= 0.10


@pytest.mark.parametrize(
    ("name", "ambiguous"),
    [
        # Brescia is a soccer club in one story and a town with a theatre in another.
        ("sample", {"brescia"}),
        ("german", set()),
        ("biomedical", set()),
    ],
)
def test_one_name_has_one_type(name: str, ambiguous: set[str]) -> None:
    types: dict[str, set[str]] = {}
    for sentence in read(f"{name}.truth.tsv"):
        for entity in entities(sentence.labels):
            text = " ".join(sentence.words[entity.start : entity.end]).casefold()
            types.setdefault(text, set()).add(entity.type)
    assert {text for text, kinds in types.items() if len(kinds) > 1} == ambiguous


def test_readme_counts_are_those_of_the_data(given: list[Sentence], truth: list[Sentence]) -> None:
    types = Counter(entity.type for sentence in truth for entity in entities(sentence.labels))
    pairs = [(one.labels, other.labels) for one, other in zip(given, truth, strict=True)]
    counts = {
        "sentences": len(truth),
        "words": sum(len(sentence.words) for sentence in truth),
        "entities": types.total(),
        **{f"entities, {kind}": types[kind] for kind in TYPES},
        "sentences with a planted error": sum(labels != true for labels, true in pairs),
        "words with a wrong label": sum(a != b for labels, true in pairs for a, b in zip(labels, true, strict=True)),
        "planted errors": sum(len(planted(true, labels)) for labels, true in pairs),
    }
    assert {what: int(count.replace(",", "")) for what, count in readme_rows(2)} == counts


def test_readme_kinds_are_those_of_the_data(given: list[Sentence], truth: list[Sentence]) -> None:
    errors = Counter(
        error for one, other in zip(given, truth, strict=True) for error in planted(other.labels, one.labels)
    )
    rows = readme_rows(4)
    assert {Planted(*row[:3]): int(row[3]) for row in rows} == dict(errors)
    assert len(rows) == len(errors)
    kinds = Counter[str]()
    for error, count in errors.items():
        kinds[error.kind] += count
    summary = (
        "In sum {missed} missed, {type} of a wrong type, {boundary} with a wrong boundary and {spurious} spurious."
    )
    assert summary.format_map(kinds) in (SAMPLE / "README.md").read_text("utf-8")


@pytest.mark.parametrize("name", OWN_LABELS)
def test_readme_row_is_that_of_the_data(name: str) -> None:
    given, truth = read(f"{name}.tsv"), read(f"{name}.truth.tsv")
    pairs = [(one.labels, other.labels) for one, other in zip(given, truth, strict=True)]
    types = Counter(entity.type for sentence in truth for entity in entities(sentence.labels))
    counts = (
        len(truth),
        sum(len(sentence.words) for sentence in truth),
        *(types[kind] for kind in OWN_LABELS[name]),
        sum(len(planted(true, labels)) for labels, true in pairs),
    )
    (row,) = (row for row in readme_rows(7) if row[0] == f"`{name}.tsv`")
    assert tuple(int(cell.split()[-1].replace(",", "")) for cell in row[1:]) == counts
    assert [cell.split()[0] for cell in row[3:6]] == list(OWN_LABELS[name])
    assert len(truth) >= 100
    assert counts[-1] == sum(labels != true for labels, true in pairs) == 10


@pytest.mark.parametrize("name", OWN_LABELS)
def test_each_kind_of_error_is_planted(name: str) -> None:
    given, truth = read(f"{name}.tsv"), read(f"{name}.truth.tsv")
    errors = [error for one, other in zip(given, truth, strict=True) for error in planted(other.labels, one.labels)]
    assert {error.kind for error in errors} == {"missed", "type", "boundary", "spurious"}
    assert {error.truth for error in errors} == {*OWN_LABELS[name], "O"}
