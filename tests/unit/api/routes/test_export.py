"""Exports over REST: the same sentences as those of the command."""

from __future__ import annotations

import io
import json
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import pytest

from service.access.key_text import generate_key, hash_key
from service.formats import FORMATS, read_sentences, write_sentences
from tests.support.api_harness import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.api_harness import ApiHarness

SENTENCES = [
    {"id": "=1+1", "tokens": ["=SUM(A1)", "Riga"], "labels": ["O", "B-LOC"], "dataset": "news", "update": True},
    {"id": "two", "tokens": ["@home", "Oslo"], "labels": ["O", "B-PER"], "dataset": "news", "update": True},
]


@pytest.fixture
def news(harness: ApiHarness) -> ApiHarness:
    harness.send(*SENTENCES)
    wait_for(lambda: "news" in harness.backend.state_view.list_names())
    with harness.run_projector():
        decision = {"dataset": "news", "id": "two", "reviewer": "ana", "verdict": "error", "labels": ["O", "B-LOC"]}
        assert harness.client.post("/v1/decisions", json=decision).status_code == 202
    return harness


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_can_be_read_again(news: ApiHarness, form: str) -> None:
    answer = news.client.get("/v1/export", params={"dataset": "news", "format": form})
    assert answer.status_code == 200, answer.text
    assert f'filename="news{FORMATS[form].export_ending}"' in answer.headers["Content-Disposition"]
    found = list(read_sentences(io.BytesIO(answer.content), format=form))
    if form == "argilla":  # labels that nobody gave in Argilla are suggestions there, which are not read
        assert answer.json()[0]["suggestions"]["entities"]["agent"] == "labelwatch"
        return
    # Formats of texts without words are cut into words again.
    assert sorted("".join(sentence.tokens) for sentence in found) == ["=SUM(A1)Riga", "@homeOslo"]


def test_decisions_and_who_has_them(news: ApiHarness) -> None:
    def export(**query: str | bool) -> dict[str, list[str]]:
        answer = news.client.get("/v1/export", params={"dataset": "news", **query})
        assert answer.status_code == 200, answer.text
        return {each["id"]: each["labels"] for each in map(json.loads, answer.text.splitlines())}

    assert export() == {"=1+1": ["O", "B-LOC"], "two": ["O", "B-PER"]}
    assert export(decisions=True)["two"] == ["O", "B-LOC"]
    assert export(decisions=True, decided_only=True) == {"two": ["O", "B-LOC"]}
    assert export(decisions=True, decided_only=True, reviewer="bo") == {}


def test_a_reviewer_does_not_get_the_hidden_decisions_of_another(news: ApiHarness) -> None:
    assert news.client.patch("/v1/datasets/news", json={"overlap": 2}).status_code == 200
    keys = {name: generate_key() for name in ("ana", "bo", "lead")}
    roles = {"ana": "reviewer", "bo": "reviewer", "lead": "admin"}
    client = news.serve_with_limits(keys=",".join(f"{name}:{roles[name]}:{hash_key(keys[name])}" for name in keys))
    query = {"dataset": "news", "decisions": "true", "decided_only": "true", "reviewer": "ana"}

    def export(who: str) -> list[str]:
        answer = client.get("/v1/export", params=query, headers={"X-API-Key": keys[who]})
        assert answer.status_code == 200, answer.text
        return [each["id"] for each in map(json.loads, answer.text.splitlines())]

    assert {who: export(who) for who in keys} == {"ana": ["two"], "bo": [], "lead": ["two"]}
    with news.run_projector():
        decision = {"dataset": "news", "id": "two", "verdict": "ok"}
        wait_for(lambda: client.post("/v1/decisions", json=decision, headers={"X-API-Key": keys["bo"]}).is_success)
    assert export("bo") == ["two"]


def test_an_export_that_times_out_leaves_no_file(
    news: ApiHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    go_on = threading.Event()

    def write_late(*arguments: Any) -> None:
        go_on.wait(30)
        write_sentences(*arguments)

    monkeypatch.setattr("service.api.routes.export.write_sentences", write_late)
    client = news.serve_with_limits(timeout_s=1)
    assert client.get("/v1/export", params={"dataset": "news"}).status_code == 504
    go_on.set()
    wait_for(lambda: client.get("/v1/export", params={"dataset": "news"}).status_code == 200)
    assert [path for path in tmp_path.iterdir() if path.name.startswith("labelwatch-export-")] == []


def test_wrong_requests_name_the_field(news: ApiHarness) -> None:
    for query, field in (
        ({"format": "xlsx"}, "format"),
        ({"decided_only": True}, "decided_only"),
        ({"reviewer": "ana"}, "reviewer"),
        ({"decision": True}, "decision"),
    ):
        answer = news.client.get("/v1/export", params={"dataset": "news", **query})
        assert (answer.status_code, answer.json()["field"]) == (422, field)
    for path in ("/v1/export", "/v1/model"):
        answer = news.client.get(path, params={"dataset": "nothing"})
        assert (answer.status_code, answer.json()["field"]) == (404, "dataset")
    assert news.client.get("/v1/datasets/nothing").json()["field"] == "name"


def test_one_export_at_a_time_and_no_file_is_left(
    news: ApiHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert news.backend.export_slot.acquire(blocking=False)
    assert news.client.get("/v1/export", params={"dataset": "news"}).status_code == 503
    news.backend.export_slot.release()
    assert news.client.get("/v1/export", params={"dataset": "news"}).status_code == 200
    broken = {"id": "tab", "tokens": ["a\tb"], "labels": ["O"], "dataset": "news"}
    news.send(broken)
    assert news.client.get("/v1/export", params={"dataset": "news", "format": "conll"}).status_code in (200, 422)
    assert news.client.get("/v1/export", params={"dataset": "news"}).status_code == 200
    assert [path for path in tmp_path.iterdir() if path.name.startswith("labelwatch-export-")] == []
