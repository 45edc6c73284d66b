from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.cli.files import audit_run as command
from service.contracts import Assessment
from service.errors import InferenceError
from service.formats import read_sentences
from service.formats.plain.assessments import ASSESSMENT_COLUMNS
from service.inference.classifier import WordProbs
from service.inference.providers import CPU_ONLY
from tests.support.tiny_models import LABELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.unit.cli.conftest import RunCommand

SAMPLE = Path(__file__).parents[4] / "models" / "sample"
POISON = "poison"


class FakeClassifier:
    """Predicts B-PER for a word with a capital and O for the rest."""

    batching = "planned"

    def __init__(self, folder: object, *, threads: int, providers: Sequence[str]) -> None:
        assert threads >= 1
        assert tuple(providers) == CPU_ONLY

    def infer_stream(self, sentences: Iterable[Sequence[str]], *, pooling: None = None) -> Iterator[object]:
        for number, words in enumerate(sentences):
            if POISON in words:
                yield InferenceError("the model fails on this sentence alone")
                continue
            probs = np.full((len(words), len(LABELS)), 0.001)
            for row, word in enumerate(words):
                sure = 20 if word.startswith("Eve") else 10 + number % 7
                probs[row, LABELS.index("B-PER" if word[:1].isupper() else "O")] = sure
            probs /= probs.sum(axis=1, keepdims=True)
            scored = np.array([word != "\u200b" for word in words])
            yield WordProbs(probs, scored, 1, dict.fromkeys(np.flatnonzero(~scored).tolist(), "no subword"))


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch, tiny_model: Path) -> Path:
    monkeypatch.setattr(command, "Classifier", FakeClassifier)
    return tiny_model


GOOD = "Ann B-PER\nsaw O\nBob B-PER\n\n" * 30
BAD = "one O\nEve O\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.txt"
    path.write_text(GOOD + BAD)
    return path


def parse_assessments(text: str) -> list[Assessment]:
    return [Assessment.model_validate_json(line) for line in text.splitlines()]


def test_the_worst_are_printed_without_an_output(run: RunCommand, reader: Path, data: Path) -> None:
    ran = run("score", data, "--model", reader)
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert len(lines) == 40
    assert lines[0].split() == ["1", lines[0].split()[1], "data.txt:31", f"{data}:121"]
    assert lines[1].strip() == "one Eve[O→B-PER]"
    assert "31 sentences, 92 words in " in ran.err
    assert "1 sentence flagged (3.2%) with 1 doubtful label\n" in ran.err


def test_output_is_ranked_and_complete(run: RunCommand, reader: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out.jsonl"
    out.parent.mkdir()
    assert run("score", data, "--model", reader, "-o", out).code == 0
    assessments = parse_assessments(out.read_text())
    assert len(assessments) == 31
    assert [a.priority for a in assessments] == sorted(a.priority or 0 for a in assessments)
    worst = assessments[0]
    assert (worst.id, worst.source, worst.flags[0].suggested) == ("data.txt:31", f"{data}:121", "B-PER")
    assert [p.name for p in out.parent.iterdir()] == ["out.jsonl"]
    assert out.stat().st_mode & 0o444 == 0o444


def test_standard_output_holds_nothing_but_results(run: RunCommand, reader: Path, data: Path) -> None:
    ran = run("score", data, "--model", reader, "--output", "-", "--progress")
    assert len(parse_assessments(ran.out)) == 31
    assert "31 sentences" in ran.err
    ran = run("score", data, "--model", reader, "--output", "-", "--output-format", "csv", "--top", "2")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [(row["rank"], row["flagged"]) for row in rows] == [("1", "true"), ("2", "false")]
    assert tuple(rows[0]) == ASSESSMENT_COLUMNS


def test_csv_by_the_outputs_name_and_flagged_only(run: RunCommand, reader: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    assert run("score", data, "--model", reader, "-o", out, "--flagged-only").code == 0
    (row,) = csv.DictReader(out.read_text().splitlines())
    assert (row["id"], row["flags"]) == ("data.txt:31", "1:Eve:O>B-PER")


def test_the_same_input_gives_the_same_bytes(run: RunCommand, tiny_model: Path, data: Path, tmp_path: Path) -> None:
    outs = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for out in outs:
        assert run("score", data, "--model", tiny_model, "-o", out, "--threads", 1).code == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()


def test_fail_on_flagged_sets_the_exit_code(run: RunCommand, reader: Path, data: Path, tmp_path: Path) -> None:
    assert run("score", data, "--model", reader, "--fail-on-flagged").code == 3
    clean = tmp_path / "clean.txt"
    clean.write_text(GOOD)
    assert run("score", clean, "--model", reader, "--fail-on-flagged").code == 0


def test_one_pass_judges_by_the_sentences_before(run: RunCommand, reader: Path, tmp_path: Path) -> None:
    """The doubtful sentence comes first: nothing is known then, with the whole file it is flagged."""
    path = tmp_path / "data.txt"
    path.write_text(BAD + "\n" + GOOD)
    whole = parse_assessments(run("score", path, "--model", reader, "-o", "-").out)
    stream = parse_assessments(run("score", path, "--model", reader, "-o", "-", "--stream").out)
    assert [a.id for a in whole if a.flags] == ["data.txt:1"]
    assert [a.id for a in stream if a.flags] == []
    assert {a.id: a for a in stream}["data.txt:1"].warming_up == LABELS
    assert len({json.dumps(a.thresholds) for a in whole}) == 1
    assert len({json.dumps(a.thresholds) for a in stream}) > 1


def test_standard_input_is_read_once(
    run: RunCommand, reader: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for extra in ([], ["--stream"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress((GOOD + BAD).encode()))))
        ran = run("score", "-", "--model", reader, "-o", "-", *extra)
        assert ran.code == 0, ran.err
        assert parse_assessments(ran.out)[0].source == "<stdin>:121"
    assert run("score", "-", "-", "--model", reader).code == 2


def test_a_pipe_longer_than_the_sample_is_read_whole(
    run: RunCommand, reader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.cli.files.audit_input.SCHEME_SAMPLE_SENTENCES", 5)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((GOOD + BAD).encode())))
    ids = [a.id for a in parse_assessments(run("score", "-", "--model", reader, "-o", "-").out)]
    assert sorted(map(str, ids)) == sorted(f"stdin:{n}" for n in range(1, 32))


def test_several_files_have_ids_of_their_own(run: RunCommand, reader: Path, data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"tokens": ["x"], "labels": ["O"]}\n{"tokens": ["y"], "labels": ["O"], "id": "mine"}\n')
    assessments = parse_assessments(run("score", data, other, "--model", reader, "-o", "-").out)
    assert {"data.txt:1", "data.txt:31", "other.jsonl:1", "mine"} <= {str(a.id) for a in assessments}
    same = tmp_path / "more" / "data.txt"
    same.parent.mkdir()
    same.write_text(GOOD)
    assessments = parse_assessments(run("score", data, same, "--model", reader, "-o", "-").out)
    assert {f"{data}:31", f"{same}:1"} <= {str(a.id) for a in assessments}


@pytest.mark.parametrize(
    "bad",
    [
        ("Ann B-PER\nsaw\n", 122, "one column ('saw')"),
        ("Ann B-GOD\n", 121, "B-GOD"),
        (f"{POISON} O\n", 121, "the model fails on this sentence alone"),
    ],
)
def test_a_bad_sentence_stops_or_is_skipped_and_listed(
    run: RunCommand, reader: Path, tmp_path: Path, bad: tuple[str, int, str]
) -> None:
    lines, line_number, message = bad
    path, out = tmp_path / "data.txt", tmp_path / "out.jsonl"
    rejected = tmp_path / "out.rejected.jsonl"
    path.write_text(GOOD + lines + "\n" + GOOD)
    out.write_text("as it was")
    ran = run("score", path, "--model", reader, "-o", out)
    assert ran.code == 1
    assert ran.err.startswith(f"labelwatch: {path}:{line_number}: ")
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert (out.read_text(), rejected.exists()) == ("as it was", False)

    ran = run("score", path, "--model", reader, "-o", out, "--on-error", "skip")
    assert ran.code == 0
    assert len(parse_assessments(out.read_text())) == 60
    (listed,) = [json.loads(line) for line in rejected.read_text().splitlines()]
    assert listed["place"] == f"{path}:{line_number}"
    assert message in listed["reason"]
    assert not listed["reason"].startswith(str(path))
    assert f"1 sentence skipped, listed in {rejected}" in ran.err

    ran = run("score", path, "--model", reader, "--on-error", "skip", "--stream")
    assert ran.code == 0
    assert f"labelwatch: skipped {path}:{line_number}: " in ran.err


def test_a_list_of_rejects_is_never_an_old_one(run: RunCommand, reader: Path, data: Path, tmp_path: Path) -> None:
    old = tmp_path / "out.rejected.jsonl"
    old.write_text("from before")
    assert run("score", data, "--model", reader, "-o", tmp_path / "out.jsonl", "--on-error", "skip").code == 0
    assert not old.exists()


def test_a_run_that_fails_keeps_the_old_list(run: RunCommand, reader: Path, data: Path, tmp_path: Path) -> None:
    old = tmp_path / "out.rejected.jsonl"
    old.write_text("from before")
    for arguments in ([data, "--model", tmp_path / "none"], [tmp_path / "no.txt", "--model", reader]):
        assert run("score", *arguments, "-o", tmp_path / "out.jsonl", "--on-error", "skip").code == 1
        assert old.read_text() == "from before"


def test_no_input_is_overwritten_and_no_output_written_twice(
    run: RunCommand, reader: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.txt").symlink_to(data)
    os.link(data, tmp_path / "hard.txt")
    listed = tmp_path / "d.rejected.jsonl"
    listed.write_text('{"tokens": ["x"], "labels": ["O"]}\n')
    before = {path: path.read_bytes() for path in (data, listed)}
    monkeypatch.chdir(tmp_path)
    for arguments, message in (
        ([data, "-o", "data.txt"], "is the input"),
        ([data, "-o", "sub/../data.txt"], "is the input"),
        ([data, "-o", "hard.txt"], "is the input"),
        (["link.txt", "--report", data], "is the input"),
        ([listed, "-o", "d.jsonl", "--on-error", "skip"], "is the input"),
        ([data, "-o", "new", "--report", tmp_path / "new"], "is the file of --output"),
        ([data, "-o", "x.csv", "--report", "x.rejected.jsonl", "--on-error", "skip"], "is the file of --report"),
    ):
        ran = run("score", *arguments, "--model", reader)
        assert ran.code == 2, arguments
        assert message in " ".join(ran.err.replace("│", " ").split())
    assert {path: path.read_bytes() for path in before} == before
    assert not (tmp_path / "new").exists()
    assert run("score", data, "-o", os.devnull, "--report", os.devnull, "--model", reader).code == 0


def test_input_without_a_judgeable_sentence(run: RunCommand, reader: Path, tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("\n\n")
    ran = run("score", path, "--model", reader)
    assert (ran.code, ran.err) == (1, f"labelwatch: no sentence in {path}\n")
    path.write_text("Ann B-GOD\n")
    ran = run("score", path, "--model", reader, "--on-error", "skip")
    assert ran.code == 1
    assert "none of the 1 sentence could be judged; the first: " in ran.err


def test_words_without_a_score_are_counted(run: RunCommand, reader: Path, tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("\u200b\tO\nAnn\tB-GOD\nsaw\tO\n")
    ran = run("score", path, "--model", reader, "-o", "-", "--unmapped", "unscored", "--scheme", "iob2")
    (assessment,) = parse_assessments(ran.out)
    assert [word.unscored is None for word in assessment.words] == [False, False, True]
    assert ran.err.count("1 word not scored: ") == 2


def test_sentences_marked_deleted_are_counted(run: RunCommand, reader: Path, tmp_path: Path) -> None:
    path, report = tmp_path / "data.jsonl", tmp_path / "report.html"
    deleted = '{"id": "a", "deleted": true}\n{"id": "b", "deleted": true}\n'
    path.write_text('{"tokens": ["x"], "labels": ["O"]}\n' + deleted)
    for extra in ([], ["--stream"]):
        ran = run("score", path, "--model", reader, "-o", "-", "--report", report, *extra)
        assert len(parse_assessments(ran.out)) == 1
        assert "2 sentences left out: marked deleted\n" in ran.err
        assert "<dt>sentences marked deleted</dt><dd>2</dd>" in report.read_text()
    path.write_text(deleted)
    ran = run("score", path, "--model", reader, "--scheme", "iob2")
    assert (ran.code, ran.err) == (1, f"labelwatch: {path}: only 2 sentences marked deleted\n")


def test_a_model_that_runs_sentences_alone_is_reported(
    run: RunCommand, reader: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "run alone" not in run("score", data, "--model", reader).err
    monkeypatch.setattr(FakeClassifier, "batching", "single")
    assert "each sentence was run alone" in run("score", data, "--model", reader).err


def test_labels_are_mapped_and_named(run: RunCommand, reader: Path, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"tokens": ["Ann", "saw"], "ner_tags": [1, 0]}\n' * 30)
    ran = run("score", path, "--model", reader, "-o", "-", "--label-names", "O, B-PERSON", "--map", "PERSON=PER")
    assert ran.code == 0, ran.err
    assert {a.labels for a in parse_assessments(ran.out)} == {("B-PERSON", "O")}
    assert not any(a.flags for a in parse_assessments(ran.out))


def test_a_map_onto_nothing_names_the_option(run: RunCommand, reader: Path, data: Path) -> None:
    ran = run("score", data, "--model", reader, "--map", "FOO=BAR")
    assert ran.code == 1
    assert ran.err.startswith('labelwatch: `--map`: "FOO" is mapped to "BAR", but the model has no such type or label')


@pytest.mark.parametrize("name", ["ranked.pdf", "ranked.XLSX", "ranked.jsonl.gz"])
def test_an_ending_of_no_known_format_is_refused_before_any_work(run: RunCommand, tmp_path: Path, name: str) -> None:
    missing = tmp_path / "no.conll"  # the error must not be about this file
    ran = run("score", missing, "--output", tmp_path / name)
    assert ran.code == 2
    text = " ".join(ran.err.replace("│", " ").split())
    assert "use .csv, .jsonl, .ndjson or .json, or name the format with --output-format" in text
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("output", "is_csv"),
    [
        ("ranked", False),
        ("ranked.CSV", True),
        ("ranked.json", False),
        ("ranked.pdf --output-format jsonl", False),
        ("ranked.pdf --output-format csv", True),
    ],
)
def test_the_format_of_the_output(run: RunCommand, reader: Path, data: Path, output: str, is_csv: bool) -> None:
    name, *options = output.split()
    path = data.parent / name
    assert run("score", data, "--model", reader, "-o", path, *options).code == 0
    assert path.read_text().startswith("rank,") is is_csv


def test_input_options_reach_the_reader(run: RunCommand, reader: Path, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes("nr;w;gold\n1;Zoë;B-PER\n;sah;O\n".encode("cp1252"))
    ran = run(
        "score", path, "--model", reader, "-o", "-", "--encoding", "cp1252", "--word-column", "w",
        "--label-column", "gold", "--sentence-column", "nr", "--rows", "word", "--format", "csv",
    )  # fmt: skip
    (assessment,) = parse_assessments(ran.out)
    assert (assessment.tokens, assessment.labels, assessment.id) == (("Zoë", "sah"), ("B-PER", "O"), "1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "best"], "'best' is not one of predicted-difference"),
        (["--token-score", "x"], "'x' is not one of self-confidence"),
        (["--format", "xml"], "'xml' is not one of conll"),
        (["--map", "PERSON"], "'PERSON' is not OLD=NEW"),
        (["--map", "A=B", "--map", "A=C"], "A is mapped to B and to C"),
        (["--top", "0"], "greater than or equal to 1"),
        (["--on-error", "cry"], "cry"),
        (["-o", "-", "--report", "-"], "--output already writes to standard output: give a file"),
    ],
)
def test_wrong_usage(run: RunCommand, data: Path, arguments: list[str], message: str) -> None:
    ran = run("score", data, *arguments)
    assert ran.code == 2
    assert message in " ".join(ran.err.replace("│", " ").split())


def test_an_unusable_input_is_one_line(run: RunCommand, tiny_model: Path, data: Path, tmp_path: Path) -> None:
    for arguments, message in (
        ([tmp_path / "no.txt", "--model", tiny_model], "no.txt: can't be read: No such file or directory"),
        ([data, "--model", tmp_path / "none"], "none is not a folder"),
        ([data, "--model", tiny_model, "-o", tmp_path], "it is a folder"),
        ([data, "--model", tiny_model, "--report", data / "x"], "can't write"),
        ([data, "--model", tiny_model, "--encoding", "x"], "there is no such encoding"),
    ):
        ran = run("score", *arguments)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.startswith("labelwatch: ")
        assert ran.err.count("\n") == 1
        assert message in ran.err


@pytest.mark.parametrize("command", [["score"], ["train", "--name", "trips"]], ids=lambda words: words[0])
@pytest.mark.parametrize("option", ["--output", "--report"])
def test_an_output_in_a_missing_folder_is_an_error_before_any_work(
    run: RunCommand, tmp_path: Path, command: list[str], option: str
) -> None:
    missing = tmp_path / "no.conll"  # the error must not be about this file
    ran = run(*command, missing, option, tmp_path / "reports" / "out")
    folder = tmp_path / "reports"
    message = f"labelwatch: can't write {folder}/out: there is no folder {folder}: create it first\n"
    assert (ran.code, ran.err) == (1, message)
    assert not folder.exists()


def test_mixed_labels_ask_for_a_scheme(run: RunCommand, reader: Path, tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("Ann B-PER\nBob PER\n")
    ran = run("score", path, "--model", reader)
    assert ran.code == 1
    assert "can't detect the scheme of the labels" in ran.err
    assert "(options --scheme and --map, such as --map PERSON=PER)" in ran.err


def test_labels_that_do_not_fit_the_words_do_not_blame_the_scheme(
    run: RunCommand, reader: Path, tmp_path: Path
) -> None:
    path = tmp_path / "b.jsonl"
    path.write_text('{"tokens": ["a", "b"], "labels": ["O"]}\n')
    ran = run("score", path, "--model", reader)
    assert ran.code == 1
    assert "b.jsonl:1: `labels`: 1 label for 2 words: give each word one label" in ran.err
    assert "scheme" not in ran.err


def test_an_unknown_label_asks_for_the_option_that_maps_it(run: RunCommand, reader: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "data.txt", tmp_path / "out.jsonl"
    path.write_text(GOOD + "Eve B-PERSON\n")
    ran = run("score", path, "--model", reader)
    assert ran.code == 1
    assert (
        f"{path}:121: word 0 ('Eve'), `labels`: label 'B-PERSON' has no class in the model; if \"PER\" is the same"
        in ran.err
    )
    assert "map it: --map PERSON=PER. Known labels" in ran.err
    assert run("score", path, "--model", reader, "-o", out, "--on-error", "skip").code == 0
    assert "--map PERSON=PER" in json.loads((tmp_path / "out.rejected.jsonl").read_text())["reason"]
    assert run("score", path, "--model", reader, "--map", "PERSON=PER").code == 0
    path.write_text(GOOD + "Eve B-GHOST\n")
    error = run("score", path, "--model", reader).err
    assert "train a model for these labels (`labelwatch train FILE --name NAME`, then --model NAME), bring one" in error
    assert "the same: --map GHOST=TYPE. Or let unmapped labels be unscored (--unmapped unscored)" in error


def test_all_unknown_labels_are_listed_once_with_counts(run: RunCommand, reader: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "data.txt", tmp_path / "out.jsonl"
    path.write_text(GOOD + "Eve B-DRUG\nIda I-DRUG\n\n" * 2 + "Ann B-PER\n\nKai B-GENE\n\nUlf B-DRUG\n")
    listed = "labels without a class: 'B-DRUG' (3 words), 'I-DRUG' (2 words), 'B-GENE' (1 word)"
    ran = run("score", path, "--model", reader)
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert f". In all, {listed}\n" in ran.err
    ran = run("score", path, "--model", reader, "-o", out, "--on-error", "skip")
    assert ran.code == 0
    assert ran.err.count(listed) == 1
    assert "labels without a class" not in run("score", path, "--model", reader, "--unmapped", "unscored").err


def test_a_model_that_flags_too_much_does_not_fit(run: RunCommand, reader: Path, tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    for good, bad, fits in ((40, 20, False), (30, 15, True), (100, 20, True)):
        path.write_text("Ann B-PER\nsaw O\nBob B-PER\n\n" * good + "one O\nEve O\n\n" * bad)
        ran = run("score", path, "--model", reader)
        assert ran.code == 0
        assert f"{bad} sentences flagged" in ran.err
        assert ("the model does not fit this data: it flags 33% of 60 sentences" in ran.err) is not fits
        assert ("Train a model for these labels (`labelwatch train FILE --name NAME`" in ran.err) is not fits


def test_words_hold_no_control_characters(run: RunCommand, reader: Path, tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text(GOOD + "x\x1b[2J\tO\nEve\x9b31m\tO\n")
    ran = run("score", path, "--model", reader, "--comments", "no")
    assert ran.code == 0
    assert "\x1b" not in ran.out
    assert "\x9b" not in ran.out
    assert "x\ufffd[2J Eve\ufffd31m[O→B-PER]" in ran.out


def test_special_files_are_written_to_and_not_replaced(run: RunCommand, reader: Path, data: Path) -> None:
    assert run("score", data, "--model", reader, "-o", os.devnull, "--on-error", "skip").code == 0
    assert not Path(os.devnull).is_file()


def test_an_interrupted_write_leaves_the_old_output(
    run: RunCommand, reader: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("as it was")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(command, "build_assessment_writer", lambda *_: fail)
    ran = run("score", data, "--model", reader, "-o", out)
    assert (ran.code, ran.err) == (1, f"labelwatch: can't write {out}: No space left on device\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.txt", "out.jsonl"]
    assert out.read_text() == "as it was"


def test_a_report_beside_the_output(run: RunCommand, reader: Path, data: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    ran = run("score", data, "--model", reader, "--report", report, "--on-error", "skip")
    assert ran.code == 0
    assert f"report: {report}\n" in ran.err
    text = report.read_text()
    assert "One label in 92 is doubtful" in text
    assert str(data) in text


@pytest.mark.parametrize("extra", [[], ["--stream"]])
def test_the_sample_with_a_real_session(run: RunCommand, tiny_model: Path, tmp_path: Path, extra: list[str]) -> None:
    out, report = tmp_path / "out.jsonl", tmp_path / "report.html"
    sample = SAMPLE / "sample.tsv"
    ran = run("score", sample, "--model", tiny_model, "-o", out, "--report", report, "--threads", 1, *extra)
    assert ran.code == 0, ran.err
    assessments = parse_assessments(out.read_text())
    given = read_sentences(sample)
    assert {a.id: (a.tokens, a.labels) for a in assessments} == {
        f"sample.tsv:{s.id}": (s.tokens, s.labels) for s in given
    }
    assert report.stat().st_size > 10_000
