"""POST /v1/score and /v1/sentences with probabilities: no model runs, and errors name the field and the word."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from service.contracts import LabelledSentence
from service.inference.classifier import Classifier, WordProbs
from service.inference.model.folder import ModelFolder
from service.judging.class_source import ExternalClasses
from tests.support.external_probabilities import attach_probabilities
from tests.support.scoring_harness import ScoringHarness, scoring_harness
from tests.support.tiny_models import get_runner, make_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLASSES = ["O", "B-DRUG", "I-DRUG"]
SENT: dict[str, Any] = {
    "tokens": ["Aspirin", "helps"],
    "labels": ["O", "O"],
    "dataset": "clinic",
    "id": "1",
    "probabilities": {"classes": CLASSES, "words": [[0.01, 0.98, 0.01], [0.999, 0.0005, 0.0005]]},
}
PLAIN: dict[str, Any] = {"tokens": ["the", "wolves", "of", "Paris"], "labels": ["O", "O", "O", "B-LOC"]}


@pytest.fixture
def classifier(tmp_path: Path) -> Classifier:
    return Classifier(ModelFolder.load(make_model(tmp_path / "model", "wordpiece")))


@pytest.fixture
def harness(tmp_path: Path, classifier: Classifier) -> Iterator[ScoringHarness]:
    with scoring_harness(tmp_path / "log", classifier, max_sentences=50) as harness:
        yield harness


def change(**changes: object) -> dict[str, Any]:
    return {**SENT, "probabilities": {**SENT["probabilities"], **changes}}


def test_sent_probabilities_are_scored_without_the_model(
    harness: ScoringHarness, classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise AssertionError("onnxruntime ran")

    monkeypatch.setattr(get_runner(classifier).session, "run", fail)
    body = harness.post("/v1/score", SENT).json()
    (assessment,) = body["assessments"]
    assert assessment["words"][0]["p_given"] == pytest.approx(0.01)
    assert assessment["model"] == {
        "name": "external",
        "fingerprint": ExternalClasses.from_labels(tuple(CLASSES)).fingerprint,
    }
    assert list(assessment["thresholds"]) == list(body["thresholds"]["clinic"]) == CLASSES
    assert assessment["warming_up"] == CLASSES
    assert assessment["worst"]["suggested"] == "B-DRUG"
    assert "probabilities" not in assessment
    lines = harness.post_lines("/v1/score", SENT, SENT).text.splitlines()
    assert [json.loads(line)["words"] for line in lines] == [assessment["words"]] * 2


def test_a_request_may_mix_sentences_with_and_without_probabilities(
    harness: ScoringHarness, classifier: Classifier
) -> None:
    (words,) = classifier.infer([PLAIN["tokens"]])
    assert isinstance(words, WordProbs)
    sentence = LabelledSentence.model_validate(PLAIN)
    same = attach_probabilities(sentence, words, classifier.folder.labels).model_dump(exclude_defaults=True)
    body = harness.post("/v1/score", {"sentences": [SENT, PLAIN, same, PLAIN, SENT]}).json()
    assessments = body["assessments"]
    assert [a["model"]["name"] == "external" for a in assessments] == [True, False, True, False, True]
    for ours, theirs in zip(assessments[1]["words"], assessments[2]["words"], strict=True):
        assert theirs["p_given"] == pytest.approx(ours["p_given"], rel=1e-12)
    assert assessments[1]["words"] == assessments[3]["words"]
    assert list(body["thresholds"]) == ["clinic", "default"]


@pytest.mark.parametrize(
    ("sentence", "field", "says"),
    [
        (change(words=[[0.5, 0.5, 0]]), "probabilities.words", "1 row for 2 words"),
        (change(words=[[0.5, 0.5, 0], [1, 0]]), "probabilities.words", "word 1 ('helps')"),
        (change(classes=["O", "B-DRUG", "DRUG"]), "probabilities.classes", "'B-DRUG' has a prefix"),
        ({**SENT, "labels": ["B-DRUGS", "O"]}, "labels", "word 0 ('Aspirin')"),
    ],
)
def test_wrong_probabilities_are_422(harness: ScoringHarness, sentence: dict[str, Any], field: str, says: str) -> None:
    response = harness.post("/v1/score", sentence)
    assert response.status_code == 422
    assert response.json()["field"] == field
    assert says in response.json()["detail"]
    in_list = harness.post("/v1/score", {"sentences": [PLAIN, sentence]})
    assert (in_list.status_code, in_list.json()["field"]) == (422, f"sentences.1.{field}")
    good, bad = (json.loads(line) for line in harness.post_lines("/v1/score", SENT, sentence).text.splitlines())
    assert "score" in good
    assert (bad["status"], bad["field"]) == (422, field)


def test_an_unknown_method_is_an_error_of_the_request(harness: ScoringHarness) -> None:
    response = harness.post("/v1/score?method=best", {"sentences": [SENT]})
    assert (response.status_code, response.json()["field"]) == (422, "method")


def test_a_request_has_a_limited_number_of_class_lists(harness: ScoringHarness) -> None:
    sentences = [change(classes=["O", f"B-{number}", f"I-{number}"]) for number in range(21)]
    response = harness.post("/v1/score", {"sentences": sentences})
    assert (response.status_code, response.json()["field"]) == (422, "sentences.20.probabilities.classes")


def test_sentences_are_appended_with_their_probabilities(harness: ScoringHarness) -> None:
    assert harness.post("/v1/sentences", SENT).status_code == 202
    assert harness.post_lines("/v1/sentences", SENT).status_code == 202
    records = harness.stream.read(harness.topics.sentences, 0, 10)
    assert [json.loads(record.value or b"")["probabilities"] for record in records] == [SENT["probabilities"]] * 2
    response = harness.post("/v1/sentences", change(words=[[0.5, 0.5, 0.5], [1, 0, 0]]))
    assert (response.status_code, response.json()["field"]) == (422, "probabilities.words")
