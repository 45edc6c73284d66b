"""Annotators over REST: figures, what hides them, and the items of one annotator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from service.access.key_text import generate_key, hash_key
from service.contracts import BelowPolicy, DatasetSettings
from service.inference.classifier import Classifier
from service.review.annotator_figures import MEANING
from tests.support.api_harness import ApiHarness, api_harness, wait_for
from tests.support.command_harness import make_sentences

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BELOW = BelowPolicy(kind="below", cut=2.0)  # flags every sentence
ANNOTATORS = "/v1/datasets/news/annotators"


@pytest.fixture
def good_model(tmp_path: Path, tiny_classifier: Classifier) -> Iterator[ApiHarness]:
    """A service whose model says that it is good. Anna has 12 sentences in review, Ben 3."""
    classifier = Classifier(replace(tiny_classifier.folder, held_out_f1=0.9))
    with api_harness(tmp_path, classifier) as made:
        made.worker._datasets.put(DatasetSettings(name="news", flag_policy=BELOW))
        made.send(*make_sentences(12, dataset="news", annotator="anna", annotated_at="2024-05-31T12:00:00Z"))
        made.send(*make_sentences(3, seed=1, dataset="news", annotator="b/en"))
        wait_for(lambda: len(made.client.get(ANNOTATORS).json().get("annotators", ())) == 2)
        yield made


def decide(harness: ApiHarness, sentence_id: str, verdict: str, **fields: Any) -> None:
    body = {"dataset": "news", "id": sentence_id, "reviewer": "rita", "verdict": verdict, **fields}
    assert harness.client.post("/v1/decisions", json=body).status_code == 202
    harness.project()


def test_figures_of_all_and_of_one(good_model: ApiHarness) -> None:
    decide(good_model, "0-1", "error", note="a street")
    decide(good_model, "0-2", "ok")
    answer = good_model.client.get(ANNOTATORS).json()
    assert (answer["not_shown"], answer["model_f1"], answer["meaning"]) == (None, 0.9, MEANING)
    anna, ben = answer["annotators"]
    assert (anna["annotator"], anna["sentences"], anna["compared_sentences"]) == ("anna", 12, 12)
    assert (anna["items"], anna["decided"], anna["confirmed_errors"]) == (12, 2, 1)
    assert anna["errors_per_100"] == pytest.approx(100 / 12)
    assert 0 <= anna["low"] < anna["f1"] < anna["high"] <= 1
    assert [week["week"] for week in anna["weeks"]] == ["2024-05-27"]
    assert sum(week["sentences"] for week in anna["weeks"]) == 12
    matched, total = (sum(each[name] for each in anna["types"]) for name in ("matched", "given"))
    assert anna["observed_f1"] == pytest.approx(2 * matched / (total + sum(each["found"] for each in anna["types"])))
    differing = [each["spans"] for each in anna["confusions"]]
    assert differing == sorted(differing, reverse=True)
    assert (ben["annotator"], ben["decided"], ben["errors_per_100"]) == ("b/en", 0, None)
    assert ben["high"] - ben["low"] > anna["high"] - anna["low"]
    one = good_model.client.get(f"{ANNOTATORS}/b%2Fen").json()
    assert one["annotators"] == [ben]
    missing = good_model.client.get(f"{ANNOTATORS}/nobody")
    assert (missing.status_code, missing.json()["field"]) == (404, "annotator")
    assert good_model.client.get("/v1/datasets/nothing/annotators").status_code == 404


@pytest.mark.parametrize(
    ("held_out_f1", "reason"),
    [(None, "not known how good the model is"), (0.55, "is 0.55, and 0.70 is needed")],
)
def test_agreement_with_a_model_that_is_not_good_is_not_shown(
    tmp_path: Path, tiny_classifier: Classifier, held_out_f1: float | None, reason: str
) -> None:
    classifier = Classifier(replace(tiny_classifier.folder, held_out_f1=held_out_f1))
    with api_harness(tmp_path, classifier) as harness:
        harness.send(*make_sentences(5, dataset="news", annotator="anna"))
        wait_for(lambda: harness.client.get(ANNOTATORS).status_code == 200)
        answer = harness.client.get(ANNOTATORS).json()
    assert reason in answer["not_shown"]
    [anna] = answer["annotators"]
    assert (anna["sentences"], anna["f1"], anna["confusions"], anna["weeks"]) == (5, None, [], [])


def test_a_misfit_hides_agreement(tmp_path: Path, tiny_classifier: Classifier) -> None:
    classifier = Classifier(replace(tiny_classifier.folder, held_out_f1=0.9))
    with api_harness(tmp_path, classifier) as harness:
        harness.send(*make_sentences(80, dataset="news", annotator="anna"))
        wait_for(lambda: harness.client.get(ANNOTATORS).status_code == 200)
        assert "the model does not fit this data" in harness.client.get(ANNOTATORS).json()["not_shown"]


def test_items_of_an_annotator(good_model: ApiHarness) -> None:
    words = next(each for each in make_sentences(12) if each["id"] == "0-1")["labels"]
    assert isinstance(words, list)
    decide(good_model, "0-1", "error", labels=["O"] * len(words), note="a street")
    decide(good_model, "0-2", "ok")
    page = good_model.client.get(f"{ANNOTATORS}/anna/items", params={"limit": 4}).json()
    assert {item["result"] for item in page["items"]} == {"doubted"}
    rest = good_model.client.get(f"{ANNOTATORS}/anna/items", params={"after": page["next"]}).json()
    assert (len(page["items"]), len(rest["items"]), rest["next"]) == (4, 6, None)
    for hidden in ("reason", "annotator", "decisions", "rank", "priority", "inclusion_probability"):
        assert hidden not in page["items"][0]
    decided = good_model.client.get(f"{ANNOTATORS}/anna/items", params={"state": "decided"}).json()["items"]
    wrong, right = sorted(decided, key=lambda item: str(item["id"]))
    assert (wrong["result"], wrong["notes"], wrong["corrected_labels"]) == ("wrong", ["a street"], ["O"] * len(words))
    assert (right["result"], right["notes"], right["corrected_labels"]) == ("right", [], None)
    assert "rita" not in str(decided)
    ben = good_model.client.get(f"{ANNOTATORS}/b%2Fen/items").json()["items"]
    assert {item["id"] for item in ben} == {"1-0", "1-1", "1-2"}
    assert good_model.client.get(f"{ANNOTATORS}/anna/items", params={"stat": "open"}).status_code == 422


def test_open_control_sentences_look_like_flagged_ones(tmp_path: Path, tiny_classifier: Classifier) -> None:
    with api_harness(tmp_path, tiny_classifier) as harness:
        policy = BelowPolicy(kind="below", cut=0.0)  # flags nothing: every sentence in review is a control sentence
        harness.worker._datasets.put(DatasetSettings(name="news", flag_policy=policy, control_share=1.0))
        harness.send(*make_sentences(4, dataset="news", annotator="anna"))
        wait_for(lambda: harness.client.get(ANNOTATORS).status_code == 200)
        items = harness.client.get(f"{ANNOTATORS}/anna/items").json()["items"]
        assert len(items) == 4
        assert all(item["result"] == "doubted" and item["doubtful"] for item in items)
        [anna] = harness.client.get(ANNOTATORS).json()["annotators"]
        assert (anna["items"], anna["decided"]) == (4, 0)


def test_an_annotator_sees_itself_only(good_model: ApiHarness) -> None:
    key = generate_key()
    client = good_model.serve_with_limits(keys=f"anna:annotator:{hash_key(key)}")
    headers = {"Authorization": f"Bearer {key}"}
    for path in (f"{ANNOTATORS}/anna", f"{ANNOTATORS}/anna/items"):
        assert client.get(path, headers=headers).status_code == 200
    listed = client.get(ANNOTATORS, headers=headers).json()["annotators"]
    assert listed == client.get(f"{ANNOTATORS}/anna", headers=headers).json()["annotators"]
    assert [each["annotator"] for each in listed] == ["anna"]
    for path in (f"{ANNOTATORS}/b%2Fen", f"{ANNOTATORS}/b%2Fen/items"):
        refused = client.get(path, headers=headers)
        assert refused.status_code == 403
        assert "'anna'" in refused.json()["detail"]


def test_the_list_is_bounded_and_counts_everybody(good_model: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names come from producers, who may send any number of them."""
    harness = good_model
    for number in range(6):
        harness.send(*make_sentences(1, seed=10 + number, dataset="news", annotator=f"crowd-{number}"))

    def list_all() -> Any:
        return harness.client.get(ANNOTATORS).json()["annotators"]

    wait_for(lambda: sum(each["sentences"] for each in list_all()) == 12 + 3 + 6)  # the queue may be ahead of the sums
    everybody = list_all()
    assert len(everybody) == 8
    for module in ("service.review.annotator_figures", "service.review.queue.figures.breakdowns"):
        monkeypatch.setattr(f"{module}.MAX_ANNOTATORS", 3)
    harness.backend.queue._cache.clear()
    listed = list_all()
    assert [each["annotator"] for each in listed] == ["anna", "b/en", "crowd-0", "(other)"]
    assert listed[:3] == everybody[:3]
    for name in ("sentences", "items", "decided"):
        assert sum(each[name] for each in listed) == sum(each[name] for each in everybody)
    assert listed[3]["f1"] is None
    harness.backend.queue._cache.clear()
    [last] = harness.client.get(f"{ANNOTATORS}/crowd-5").json()["annotators"]
    assert last == everybody[-1]
