"""`labelwatch score` with probabilities from elsewhere: an .npz archive, or the sentences themselves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pytest

from service.cli.files import audit_run, score
from service.inference.classifier import Classifier, WordProbs
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import RunCommand

TEXTS = (
    ("Anna Berg flew from Oslo to Paris .", "B-PER I-PER O O B-LOC O B-LOC O"),
    ("Siemens opened an office in Berlin .", "B-ORG O O O O B-LOC O"),
    ("The European Union met in Brussels .", "O B-ORG I-ORG O O B-LOC O"),
    ("John Smith works for Reuters .", "B-PER I-PER O O B-ORG O"),
)
WRONG = ("Mary Jones met Peter Brown in London .", "B-PER I-PER O B-LOC I-PER O O O")


class Data:
    """A column file, and its sentences with their words."""

    def __init__(self, folder: Path, *, repeats: int = 25) -> None:
        self.path = folder / "data.conll"
        self.sentences = [(tuple(words.split()), tuple(labels.split())) for words, labels in (*TEXTS * repeats, WRONG)]
        blocks = ("\n".join(map(" ".join, zip(*sentence, strict=True))) for sentence in self.sentences)
        self.path.write_text("\n\n".join(blocks) + "\n")
        self.lengths = [len(words) for words, _ in self.sentences]


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return Data(tmp_path)


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier(ModelFolder.load(find_default_model()))


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails the test if a model is loaded or run, or if the settings of models are used."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(audit_run, "Classifier", fail)
    monkeypatch.setattr(score, "load_model_folder", fail)
    monkeypatch.setenv("LABELWATCH_MODEL_PROVIDERS", "nothing")


def infer_rows(classifier: Classifier, data: Data) -> list[np.ndarray[Any, Any]]:
    return [w.probs for w in classifier.infer([words for words, _ in data.sentences]) if isinstance(w, WordProbs)]


def save(path: Path, rows: list[np.ndarray[Any, Any]], classes: tuple[str, ...], **changes: object) -> Path:
    arrays: dict[str, Any] = {
        "probs": np.concatenate(rows),
        "lengths": np.array([len(each) for each in rows]),
        "labels": np.array(classes),
        "given": np.zeros(3),  # ignored
    }
    arrays |= changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def read_flags(path: Path) -> dict[str, list[tuple[int, str]]]:
    assessments = map(json.loads, path.read_text().splitlines())
    return {each["id"]: [(flag["index"], flag["suggested"]) for flag in each["flags"]] for each in assessments}


def test_the_models_own_probabilities_give_the_same_flags(
    run: RunCommand, tmp_path: Path, data: Data, classifier: Classifier
) -> None:
    expected, output = tmp_path / "model.jsonl", tmp_path / "probs.jsonl"
    assert run("score", data.path, "-o", expected).code == 0
    archive = save(tmp_path / "probs.npz", infer_rows(classifier, data), classifier.folder.labels)
    assert run("score", data.path, "--probs", archive, "-o", output, "--report", tmp_path / "report.html").code == 0
    assert read_flags(output) == read_flags(expected)
    assert any(read_flags(output).values())
    assert "external" in (tmp_path / "report.html").read_text()


def test_no_model_is_loaded(
    run: RunCommand, tmp_path: Path, data: Data, classifier: Classifier, no_model: None
) -> None:
    rows, labels = infer_rows(classifier, data), classifier.folder.labels
    for options in ((), ("--stream",), ("--scheme", "iob2")):
        output = tmp_path / "output.jsonl"
        result = run("score", data.path, "--probs", save(tmp_path / "probs.npz", rows, labels), "-o", output, *options)
        assert result.code == 0, result.err
        assert len(read_flags(output)) == len(data.sentences)
        assert json.loads(output.read_text().splitlines()[0])["model"]["name"] == "external"


@pytest.mark.usefixtures("no_model")
def test_own_labels_need_no_model(run: RunCommand, tmp_path: Path) -> None:
    path = tmp_path / "clinic.conll"
    path.write_text("Aspirin B-DRUG\nhelps O\n\n" * 30 + "Ibuprofen O\nhelps O\n")
    rows = [
        np.array([[0.05, 0.93, 0.02], [0.98, 0.01, 0.01]]) + np.array([[number * 1e-5, -number * 1e-5, 0]])
        for number in range(30)
    ]
    rows.append(np.array([[0.01, 0.98, 0.01], [0.99, 0.005, 0.005]]))
    archive = save(tmp_path / "probs.npz", rows, ("O", "B-DRUG", "I-DRUG"))
    result = run("score", path, "--probs", archive, "-o", tmp_path / "output.jsonl")
    assert result.code == 0, result.err
    flags = read_flags(tmp_path / "output.jsonl")
    assert {name: found for name, found in flags.items() if found} == {"clinic.conll:31": [(0, "B-DRUG")]}


@pytest.mark.usefixtures("no_model")
def test_a_type_without_a_class_for_the_words_inside_is_warned_about(run: RunCommand, tmp_path: Path) -> None:
    path = tmp_path / "clinic.conll"
    path.write_text("Aspirin B-DRUG\nhelps O\n\n" * 30)
    row = np.array([[0.05, 0.94, 0.01], [0.97, 0.02, 0.01]])
    archive = save(tmp_path / "probs.npz", [row] * 30, ("O", "B-DRUG", "B-CITY"))
    result = run("score", path, "--probs", archive, "-o", tmp_path / "output.jsonl")
    assert "warning: --probs has B-DRUG and no I-DRUG (and 1 more types like it): every word" in result.err
    complete = save(tmp_path / "complete.npz", [row] * 30, ("O", "B-DRUG", "I-DRUG"))
    assert "warning" not in run("score", path, "--probs", complete, "-o", tmp_path / "output.jsonl").err


@pytest.mark.usefixtures("no_model")
def test_a_type_that_no_label_of_the_file_has_is_not_suggested(run: RunCommand, tmp_path: Path) -> None:
    path, output, report = tmp_path / "clinic.conll", tmp_path / "output.jsonl", tmp_path / "report.html"
    path.write_text("Aspirin B-DRUG\nhelps O\n\n" * 300 + "Oslo O\nhelps O\n")
    drug, other = [0.03, 0.94, 0.01, 0.01, 0.01], [0.96, 0.01, 0.01, 0.01, 0.01]
    rows = [np.array([drug, other])] * 300 + [np.array([[0.04, 0.01, 0.01, 0.93, 0.01], other])]
    archive = save(tmp_path / "probs.npz", rows, ("O", "B-DRUG", "I-DRUG", "B-CITY", "I-CITY"))
    result = run("score", path, "--probs", archive, "-o", output, "--report", report)
    assert result.code == 0, result.err
    assert "not suggested, because no label has the type: CITY (--all-types suggests them)" in result.err
    assert "Not suggested, because no label has the type: CITY." in report.read_text()
    worst = {each["id"]: each["worst"] for each in map(json.loads, output.read_text().splitlines())}
    assert worst["clinic.conll:301"]["suggested"] == "B-DRUG"
    assert worst["clinic.conll:301"]["p_given"] == pytest.approx(0.04 / 0.06)
    result = run("score", path, "--probs", archive, "-o", output, "--all-types")
    assert "not suggested" not in result.err
    worst = {each["id"]: each["worst"] for each in map(json.loads, output.read_text().splitlines())}
    assert worst["clinic.conll:301"]["suggested"] == "B-CITY"


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize("options", [(), ("--scheme", "iob2"), ("--stream",)])
def test_json_lines_with_probabilities_need_no_model(
    run: RunCommand, tmp_path: Path, data: Data, classifier: Classifier, options: tuple[str, ...]
) -> None:
    path, output = tmp_path / "data.jsonl", tmp_path / "output.jsonl"
    classes = classifier.folder.labels
    lines = [
        {"tokens": words, "labels": labels, "probabilities": {"classes": classes, "words": rows.tolist()}}
        for (words, labels), rows in zip(data.sentences, infer_rows(classifier, data), strict=True)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    result = run("score", path, "-o", output, *options)
    assert result.code == 0, result.err
    archive = save(tmp_path / "probs.npz", infer_rows(classifier, data), classes)
    assert run("score", data.path, "--probs", archive, "-o", tmp_path / "same.jsonl", *options).code == 0
    same = {name.replace("conll", "jsonl"): flags for name, flags in read_flags(tmp_path / "same.jsonl").items()}
    assert read_flags(output) == same
    # Both sources in one audit can't be compared.
    for first, second, says in (
        (lines[0], {**lines[1], "probabilities": None}, "it has no probabilities, but the first sentence has"),
        (
            lines[0],
            {**lines[1], "probabilities": {"classes": classes[::-1], "words": np.eye(9)[[8] * 7].tolist()}},
            "its classes are not those of the first sentence",
        ),
    ):
        path.write_text(f"{json.dumps(first)}\n{json.dumps(second)}")
        result = run("score", path, *options)
        assert result.code == 1
        assert says in result.err


def test_probabilities_after_a_sentence_without_any_are_refused(run: RunCommand, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    plain = {"tokens": ["Oslo"], "labels": ["B-LOC"]}
    sent = {**plain, "probabilities": {"classes": ["O", "B-LOC"], "words": [[0, 1]]}}
    path.write_text(f"{json.dumps(plain)}\n{json.dumps(sent)}")
    result = run("score", path)
    assert result.code == 1
    assert "it has probabilities, but the first sentence has none" in result.err
    assert run("score", path, "--model", find_default_model()).code == 0  # then no probabilities are read


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lengths": None}, "has no array 'lengths': it needs probs, lengths, labels"),
        ({"labels": np.array(["O", "B-LOC"])}, "2 names for 3 classes"),
        ({"labels": np.array(["O", "B-LOC", "O"])}, "each class needs a unique name"),
        ({"labels": np.array(["O", "B-LOC", "LOC"])}, "'B-LOC' has a prefix and 'LOC' has none"),
        ({"lengths": np.array([2, 2])}, "the lengths sum to 4, but probs has 3 rows: give one row per word"),
        ({"lengths": np.array([1, 2])}, "data.conll:1: sentence 1 has 2 words, but 1 in probs.npz"),
        ({"lengths": np.array([2, 0, 1])}, "sentence 2 has the length 0: give at least 1"),
        ({"lengths": np.array([3])}, "sentence 1 has 2 words, but 3 in probs.npz"),
        ({"probs": np.array([[1, 0, 0], [0, 1, 0], [0.5, 0.6, 0]])}, "row 2 sums to 1.1"),
        (
            {"probs": np.array([[1, 0, 0], [0, 1.5, -0.5], [1, 0, 0]])},
            "row 1 sums to 1 and its smallest probability is -0.5",
        ),
        ({"probs": np.array([[1, 0, 0], [np.nan, 0.5, 0.5], [1, 0, 0]])}, "row 1 sums to nan"),
        ({"probs": np.zeros(3)}, "needs one row of probabilities per word"),
        ({"lengths": np.array([2]), "probs": np.eye(3)[:2]}, "data.conll:4: probs.npz has probabilities of 1 sentence"),
        (
            {"lengths": np.array([2, 1, 1]), "probs": np.eye(3)[[0, 0, 0, 0]]},
            "probs.npz has probabilities of 3 sentences, but the input has 2",
        ),
    ],
)
def test_an_archive_that_does_not_fit_is_refused(
    run: RunCommand, tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    path = tmp_path / "data.conll"
    path.write_text("in O\nOslo B-LOC\n\nhere O\n")
    archive = save(tmp_path / "probs.npz", [np.eye(3)[:2], np.eye(3)[:1]], ("O", "B-LOC", "I-LOC"), **changes)
    result = run("score", path, "--probs", archive)
    assert result.code == 1
    assert says in result.err


def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(
    run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.inference.npz_arrays.MIN_CHECKED_BYTES", 100_000)
    path, archive = tmp_path / "data.conll", tmp_path / "probs.npz"
    path.write_text("in O\n")
    np.savez_compressed(archive, probs=np.zeros((1_000_000, 3)), lengths=np.ones(1), labels=np.array(["O"]))
    result = run("score", path, "--probs", archive)
    assert result.code == 1
    assert "probs.npz unpacks to more than 200 times its size" in result.err


def test_probs_replaces_the_model(run: RunCommand, data: Data, tmp_path: Path) -> None:
    result = run("score", data.path, "--probs", tmp_path / "probs.npz", "--model", "med")
    assert result.code == 2
    assert "leave --model out" in result.err
    missing = run("score", data.path, "--probs", tmp_path / "probs.npz")
    assert missing.code == 1
    assert "there is no file" in missing.err
