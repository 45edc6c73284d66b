"""Settings over REST: checked against the model, versioned, and in force for everybody."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import DatasetSettings
from service.errors import StreamError
from service.stream.base import Output
from service.stream.codec import header
from tests.api_desk import TOPICS, wait_for
from tests.stream_desk import sentences

if TYPE_CHECKING:
    from tests.api_desk import ApiDesk


def test_nothing_is_known_at_first(quiet: ApiDesk) -> None:
    assert quiet.client.get("/v1/datasets").json() == {"datasets": []}
    for path in ("/v1/datasets/default", "/v1/datasets/default/thresholds"):
        answer = quiet.client.get(path)
        assert answer.status_code == 404
        assert "none yet" in answer.json()["detail"]


def test_settings_are_written_and_in_force(desk: ApiDesk) -> None:
    asked = {"method": "product", "label_map": {"PERSON": "PER"}, "control_share": 0.1}
    answer = desk.client.put("/v1/datasets/news", json=asked, headers={"X-Request-ID": "r-1"})
    assert answer.status_code == 200
    assert answer.headers["ETag"] == '"1"'
    stored = answer.json()
    assert stored | asked == stored
    assert (stored["name"], stored["version"]) == ("news", 1)
    assert desk.client.get("/v1/datasets/news").json() == stored
    assert desk.client.get("/v1/datasets").json()["datasets"][0]["name"] == "news"
    (record,) = desk.log.read(TOPICS.datasets, 0, 10)
    assert record.key == b"news"
    assert DatasetSettings.model_validate_json(record.value or b"").method == "product"
    assert header(record.headers, "x-request-id") == "r-1"
    assert header(record.headers, "ce_type") == "labelwatch.dataset.v1"


def test_what_is_read_can_be_sent_back_and_left_out_means_default(desk: ApiDesk) -> None:
    first = desk.client.put("/v1/datasets/news", json={"method": "product", "epoch": 3}).json()
    again = desk.client.put("/v1/datasets/news", json=first).json()
    assert again == {**first, "version": 2}
    bare = desk.client.put("/v1/datasets/news", json={}).json()
    assert (bare["method"], bare["version"]) == ("worst-token", 3)
    assert bare["epoch"] == 3  # or what was learned before the reset would come back


def test_a_change_on_an_old_version_is_refused(desk: ApiDesk) -> None:
    desk.client.put("/v1/datasets/news", json={})
    for body, headers in (
        ({"version": 0}, {}),
        ({}, {"If-Match": '"0"'}),
        ({"version": 1}, {"If-Match": '"7"'}),
    ):
        answer = desk.client.put("/v1/datasets/news", json=body, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (412, "urn:labelwatch:problem:changed")
    for version, tag in ((1, '"1"'), (2, 'W/"2"'), (3, "*"), (4, '"1", "4"')):
        answer = desk.client.put("/v1/datasets/news", json={"version": version}, headers={"If-Match": tag})
        assert answer.json()["version"] == version + 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"colour": "red"}, "colour"),
        ({"method": "no-such"}, "method"),
        ({"token_score": "no-such"}, "token_score"),
        ({"label_map": {"PERSON": "NOBODY"}}, "label_map"),
        ({"scheme": "bio"}, "scheme"),
        ({"control_share": 2}, "control_share"),
        ({"flag_policy": {"kind": "budget", "share": 0}}, "flag_policy.share"),
        ({"flag_policy": {"kind": "odd"}}, "flag_policy"),
        ({"name": "other"}, "name"),
        ({"epoch": 0}, "epoch"),
        ({"epoch": -1}, "epoch"),
        ({"ranker_epoch": "x"}, "ranker_epoch"),
        ({"version": "1"}, "version"),
        ({"epoch": "2"}, "epoch"),
        ({"control_share": True}, "control_share"),
    ],
)
def test_settings_that_do_not_fit_name_the_field(desk: ApiDesk, body: dict[str, Any], field: str) -> None:
    desk.client.put("/v1/datasets/x", json={"epoch": 1})
    answer = desk.client.put("/v1/datasets/x", json=body)
    assert (answer.status_code, answer.json().get("field")) == (422, field)
    assert len(desk.log.read(TOPICS.datasets, 0, 10)) == 1


@pytest.mark.parametrize("told_apart", [True, False])
def test_who_was_quicker_wins(desk: ApiDesk, monkeypatch: pytest.MonkeyPatch, told_apart: bool) -> None:
    """Another instance writes the same version at the same moment: whose came last counts, and the other hears of it."""
    real = desk.log.append

    def append(outputs: Any, **more: Any) -> None:
        theirs = {**json.loads(outputs[0].value), "method": "good-fraction"}
        headers = () if told_apart else outputs[0].headers
        other = type(outputs[0])(outputs[0].topic, outputs[0].key, json.dumps(theirs).encode(), headers)
        real([*outputs, other], **more)  # which leaves only the last of them
        wait_for(lambda: desk.backend.mirror.settings("x").method == "good-fraction")

    monkeypatch.setattr("service.api.routes.datasets.SEEN_WITHIN", 0.1)
    monkeypatch.setattr(desk.log, "append", append)
    answer = desk.client.put("/v1/datasets/x", json={"method": "product"})
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:labelwatch:problem:conflict")


def test_another_ones_settings_before_ones_own_decide_nothing(desk: ApiDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    real, mirror = desk.log.append, desk.backend.mirror
    looked = threading.Event()
    late: list[threading.Thread] = []

    def append(outputs: Any, **more: Any) -> None:
        theirs = {**json.loads(outputs[0].value), "method": "good-fraction"}
        real([Output(TOPICS.datasets, b"x", json.dumps(theirs).encode())], **more)
        wait_for(lambda: mirror.settings("x").method == "good-fraction")

        def ours() -> None:
            looked.wait(30)
            real(outputs)

        late.append(threading.Thread(target=ours))
        late[0].start()

    asked = mirror.settings_if_read

    def looking(dataset: str, event: str) -> DatasetSettings | None:
        found = asked(dataset, event)
        looked.set()
        return found

    monkeypatch.setattr(desk.log, "append", append)
    monkeypatch.setattr(mirror, "settings_if_read", looking)
    answer = desk.client.put("/v1/datasets/x", json={"method": "product"})
    late[0].join()
    assert (answer.status_code, answer.json()["method"]) == (200, "product")
    assert mirror.settings("x").method == "product"
    assert mirror.settings("x").version == 1


def test_a_log_that_does_not_answer_is_told(desk: ApiDesk) -> None:
    class Gone:
        def append(self, outputs: object, *, timeout: float = 30.0) -> None:
            raise StreamError("nobody there")

    answer = desk.use(stream=Gone()).put("/v1/datasets/x", json={})
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:labelwatch:problem:log-unavailable")
    assert answer.headers["Retry-After"] == "5"


def test_thresholds_are_the_workers(desk: ApiDesk) -> None:
    desk.client.put("/v1/datasets/news", json={"flag_policy": {"kind": "budget", "share": 0.2}})
    for seed in range(2):
        desk.send(*sentences(30, seed=seed, dataset="news"))
        learned(desk, "news", 30 * (seed + 1))
    found = desk.client.get("/v1/datasets/news/thresholds").json()
    judge = desk.backend.mirror.judge("news")
    assert [one["name"] for one in found["classes"]] == list(judge.classes)
    now = desk.backend.mirror.yardstick("news")
    assert {one["name"]: one["threshold"] for one in found["classes"]} == now.named
    assert found["cut"] == now.cut is not None
    assert found["sentences"] == 60
    assert sum(one["own_words"] for one in found["classes"]) > 60
    assert found["model"]["fingerprint"] == desk.backend.classifier.folder.fingerprint
    assert len(found["history"]) >= 2
    assert found["history"][-1]["thresholds"] == now.named
    assert desk.client.get("/v1/datasets").json()["datasets"][0]["sentences"] == 60


def learned(desk: ApiDesk, dataset: str, sentences: int) -> None:
    wait_for(lambda: desk.backend.mirror.stats(dataset).histogram.total == sentences)


def test_settings_that_came_another_way_and_do_not_fit_are_told(desk: ApiDesk) -> None:
    desk.client.put("/v1/datasets/x", json={})
    odd = DatasetSettings(name="x", version=7, method="no-such").model_dump_json().encode()
    desk.log.append([Output(TOPICS.datasets, b"x", odd)])
    wait_for(lambda: bool(desk.backend.mirror.refused))
    (summary,) = desk.client.get("/v1/datasets").json()["datasets"]
    assert summary["version"] == 1
    assert "no-such" in summary["problem"]
    assert "no-such" in desk.client.get("/v1/datasets/x/thresholds").json()["problem"]


def test_the_model_is_told(quiet: ApiDesk) -> None:
    found = quiet.client.get("/v1/model").json()
    folder = quiet.backend.classifier.folder
    assert (found["name"], found["fingerprint"]) == (folder.name, folder.fingerprint)
    assert found["labels"] == list(folder.labels)
    assert found["batching"] == quiet.backend.classifier.batching
