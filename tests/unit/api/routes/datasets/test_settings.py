"""Settings over REST: checked against the model, versioned, and in force for everybody."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient

from service.api.app import create_app
from service.api.ingest.log_appender import LogAppender
from service.contracts import DatasetSettings
from service.datasets.registry import DatasetRegistry
from service.errors import StreamError
from service.log.codec import get_header
from service.log.protocol import Output
from service.log.sqlite.log import SqliteLog
from service.stream.state.view import StateView
from tests.support.api_harness import TOPICS, wait_for
from tests.support.command_harness import make_sentences
from tests.support.tiny_models import make_model
from tests.support.waiting_datasets import LABEL_MAP, make_drug_sentences

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.api_harness import ApiHarness


def test_nothing_is_known_at_first(quiet: ApiHarness) -> None:
    assert quiet.client.get("/v1/datasets").json() == {"datasets": []}
    for path in ("/v1/datasets/default", "/v1/datasets/default/thresholds"):
        answer = quiet.client.get(path)
        assert answer.status_code == 404
        assert "there are no datasets yet" in answer.json()["detail"]


def test_settings_are_written_and_in_force(harness: ApiHarness) -> None:
    fields = {"method": "product", "label_map": {"PERSON": "PER"}, "control_share": 0.1}
    answer = harness.client.put("/v1/datasets/news", json=fields, headers={"X-Request-ID": "r-1"})
    assert answer.status_code == 201
    assert answer.headers["ETag"] == '"1"'
    stored = answer.json()
    assert [effect["kind"] for effect in stored.pop("effects")] == ["new_dataset"]
    assert stored | fields == stored
    assert (stored["name"], stored["version"]) == ("news", 1)
    assert harness.client.get("/v1/datasets/news").json() == stored
    assert harness.client.get("/v1/datasets").json()["datasets"][0]["name"] == "news"
    (record,) = harness.log.read(TOPICS.datasets, 0, 10)
    assert record.key == b"news"
    assert DatasetSettings.model_validate_json(record.value or b"").method == "product"
    assert get_header(record.headers, "x-request-id") == "r-1"
    assert get_header(record.headers, "ce_type") == "labelwatch.dataset.v1"
    harness.client.put("/v1/datasets/news", json={})
    (newer,) = harness.log.read(TOPICS.datasets, 0, 10)
    assert get_header(newer.headers, "ce_id") != get_header(record.headers, "ce_id")


def test_settings_can_be_sent_back_and_left_out_means_default(harness: ApiHarness) -> None:
    first = harness.client.put("/v1/datasets/news", json={"method": "product", "epoch": 3}).json()
    again = harness.client.put("/v1/datasets/news", json=first).json()
    assert again == {**first, "version": 2, "effects": []}
    bare = harness.client.put("/v1/datasets/news", json={}).json()
    assert (bare["method"], bare["version"]) == ("worst-token", 3)
    assert bare["epoch"] == 3  # or what was learned before the reset would come back


def test_a_change_on_an_old_version_is_refused(harness: ApiHarness) -> None:
    harness.client.put("/v1/datasets/news", json={})
    for body, headers in (
        ({"version": 0}, {}),
        ({}, {"If-Match": '"0"'}),
        ({"version": 1}, {"If-Match": '"7"'}),
    ):
        answer = harness.client.put("/v1/datasets/news", json=body, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (412, "urn:labelwatch:problem:changed")
    for version, tag in ((1, '"1"'), (2, 'W/"2"'), (3, "*"), (4, '"1", "4"')):
        answer = harness.client.put("/v1/datasets/news", json={"version": version}, headers={"If-Match": tag})
        assert answer.json()["version"] == version + 1


def test_some_settings_are_changed_and_the_others_stay(harness: ApiHarness) -> None:
    fields = {"label_map": {"PERSON": "PER", "PLACE": "LOC"}, "method": "product", "epoch": 3, "forget_after_days": 7}
    harness.client.put("/v1/datasets/news", json=fields)
    changed = harness.client.patch("/v1/datasets/news", json={"control_share": 0.05}, headers={"If-Match": '"1"'})
    assert (changed.status_code, changed.headers["ETag"]) == (200, '"2"')
    assert changed.json() | fields | {"control_share": 0.05} == changed.json()

    def after(**changes: Any) -> dict[str, Any]:
        answer: dict[str, Any] = harness.client.patch("/v1/datasets/news", json=changes).json()
        return answer

    assert after(label_map={"FIRM": "ORG", "PLACE": None})["label_map"] == {"PERSON": "PER", "FIRM": "ORG"}
    bare = after(method=None, forget_after_days=None, label_map=None, epoch=None)
    values = [bare[name] for name in ("method", "forget_after_days", "label_map", "epoch", "control_share")]
    assert values == ["worst-token", None, {}, 3, 0.05]
    after(flag_policy={"kind": "budget", "share": 0.5})
    assert after(flag_policy={"share": 0.1})["flag_policy"] == {"kind": "budget", "share": 0.1}
    assert after(flag_policy={"kind": "below", "cut": 0.2})["flag_policy"] == {"kind": "below", "cut": 0.2}
    assert after()["version"] == 8
    assert harness.client.get("/v1/datasets/news").json() == {
        **{name: value for name, value in bare.items() if name != "effects"},
        "flag_policy": {"kind": "below", "cut": 0.2},
        "version": 8,
    }


def test_a_change_of_some_settings_is_guarded_and_checked(harness: ApiHarness) -> None:
    assert harness.client.patch("/v1/datasets/new", json={"method": "product"}).json()["version"] == 1
    for body, headers, status, field in (
        ({}, {"If-Match": '"0"'}, 412, None),
        ({"version": 0}, {}, 412, None),
        ({"colour": None}, {}, 422, "colour"),
        ({"control_share": 2}, {}, 422, "control_share"),
        ({"label_map": {"PERSON": "NOBODY"}}, {}, 422, "label_map"),
        ({"label_map": {f"T{n}": "PER" for n in range(1_001)}}, {}, 422, "label_map"),
        ({"name": "other"}, {}, 422, "name"),
        ({"epoch": -1}, {}, 422, "epoch"),
    ):
        answer = harness.client.patch("/v1/datasets/new", json=body, headers=headers)
        assert (answer.status_code, answer.json().get("field")) == (status, field)
    assert len(harness.log.read(TOPICS.datasets, 0, 10)) == 1


def test_fields_of_a_newer_version_stay_and_settings_not_in_force_are_not_mixed_up(harness: ApiHarness) -> None:
    harness.log.append([Output(TOPICS.datasets, b"x", b'{"name": "x", "version": 4, "from_tomorrow": [1]}')])
    wait_for(lambda: harness.backend.state_view.get_settings("x").version == 4)
    assert harness.client.patch("/v1/datasets/x", json={"method": "product"}).json()["version"] == 5
    value = harness.log.read(TOPICS.datasets, 0, 10)[-1].value
    assert json.loads(value or b"")["from_tomorrow"] == [1]
    harness.log.append([Output(TOPICS.datasets, b"x", b'{"name": "x", "version": 6, "method": "no-such"}')])
    wait_for(lambda: bool(harness.backend.state_view.refused_settings))
    answer = harness.client.patch("/v1/datasets/x", json={"control_share": 0.1})
    assert (answer.status_code, "the newest settings of x are not in force" in answer.json()["detail"]) == (409, True)


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
def test_settings_that_do_not_fit_name_the_field(harness: ApiHarness, body: dict[str, Any], field: str) -> None:
    harness.client.put("/v1/datasets/x", json={"epoch": 1})
    answer = harness.client.put("/v1/datasets/x", json=body)
    assert (answer.status_code, answer.json().get("field")) == (422, field)
    assert len(harness.log.read(TOPICS.datasets, 0, 10)) == 1


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_number_too_large_for_json_is_refused(harness: ApiHarness, method: str) -> None:
    body = b'{"flag_policy": {"kind": "below", "cut": 1e999}}'
    answer = harness.client.request(
        method, "/v1/datasets/x", content=body, headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["field"]) == (422, "flag_policy")
    assert harness.log.read(TOPICS.datasets, 0, 10) == []


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(
    ("more", "headers", "status"),
    [({}, {}, 409), ({"version": 0}, {}, 412), ({}, {"If-Match": '"0"'}, 412), ({}, {"If-Match": "*"}, 412)],
)
def test_who_was_slower_hears_of_it_and_changes_nothing(
    harness: ApiHarness,
    monkeypatch: pytest.MonkeyPatch,
    *,
    method: str,
    more: dict[str, Any],
    headers: dict[str, str],
    status: int,
) -> None:
    """Another instance writes at the same moment: its record stands in the log when ours is to be written."""
    real = harness.log.append_if_unchanged
    theirs = DatasetSettings(name="x", version=1, method="good-fraction").model_dump_json().encode()

    def append_if_unchanged(output: Any, seen: Any, **more: Any) -> None:
        harness.log.append([Output(TOPICS.datasets, b"x", theirs)])
        real(output, seen, **more)

    monkeypatch.setattr(harness.log, "append_if_unchanged", append_if_unchanged)
    answer = harness.client.request(method, "/v1/datasets/x", json={"method": "product", **more}, headers=headers)
    assert answer.status_code == status
    assert "another writer changed the settings of x at the same time" in answer.json()["detail"]
    assert [record.value for record in harness.log.read(TOPICS.datasets, 0, 10)] == [theirs]
    wait_for(lambda: harness.backend.state_view.get_settings("x").method == "good-fraction")


def test_of_many_changes_at_once_none_is_lost_without_a_word(harness: ApiHarness, tmp_path: Path) -> None:
    """Two instances on one log: the versions that were accepted are all there are, one after the other."""
    with closing(SqliteLog(tmp_path / "log.sqlite", TOPICS)) as log:
        view = StateView(log, TOPICS, new_datasets(harness))
        stop = threading.Event()
        following = threading.Thread(target=view.run, args=(stop,))
        following.start()
        try:
            other = TestClient(
                create_app(replace(harness.backend, state_view=view, appender=LogAppender(log, request_timeout_s=30.0)))
            )

            def change(client: TestClient) -> list[tuple[int, Any]]:
                answers = [client.put("/v1/datasets/x", json={"control_share": n / 10}) for n in range(6)]
                return [(answer.status_code, answer.json()) for answer in answers]

            with ThreadPoolExecutor(2) as pool:
                answers = [answer for client in pool.map(change, (harness.client, other)) for answer in client]
        finally:
            stop.set()
            following.join()
    assert {status for status, _ in answers} <= {200, 201, 409}
    accepted = sorted((body["version"], body["control_share"]) for status, body in answers if status < 300)
    assert [version for version, _ in accepted] == list(range(1, len(accepted) + 1))
    (record,) = harness.log.read(TOPICS.datasets, 0, 10)
    now = DatasetSettings.model_validate_json(record.value or b"")
    assert (now.version, now.control_share) == accepted[-1]


def new_datasets(harness: ApiHarness) -> DatasetRegistry:
    return DatasetRegistry(harness.backend.models, min_words=20, prior_words=200)


def test_settings_that_are_not_in_force_here_are_followed_by_newer_ones(harness: ApiHarness) -> None:
    """A process with another model may use them: a lower version would leave it with them for ever."""
    unfit = DatasetSettings(name="x", version=7, method="no-such").model_dump_json().encode()
    harness.log.append([Output(TOPICS.datasets, b"x", unfit)])
    wait_for(lambda: bool(harness.backend.state_view.refused_settings))
    answer = harness.client.put("/v1/datasets/x", json={"version": 0})
    assert (answer.status_code, answer.json()["version"]) == (200, 8)
    assert harness.backend.state_view.refused_settings == {}


def test_a_log_that_does_not_answer_is_503(harness: ApiHarness) -> None:
    class Gone:
        def append(self, outputs: object, *, timeout: float = 30.0) -> None:
            raise StreamError("nobody there")

        def append_if_unchanged(self, output: object, expected: object, **more: object) -> None:
            raise StreamError("nobody there")

    answer = harness.serve_with(append_to=Gone()).put("/v1/datasets/x", json={})
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:labelwatch:problem:log-unavailable")
    assert answer.headers["Retry-After"] == "5"


def test_thresholds_are_the_workers(harness: ApiHarness) -> None:
    harness.client.put("/v1/datasets/news", json={"flag_policy": {"kind": "budget", "share": 0.2}})
    for seed in range(2):
        harness.send(*make_sentences(30, seed=seed, dataset="news"))
        learned(harness, "news", 30 * (seed + 1))
    body = harness.client.get("/v1/datasets/news/thresholds").json()
    judge = harness.backend.state_view.get_judge("news")
    assert [entry["name"] for entry in body["classes"]] == list(judge.classes)
    now = harness.backend.state_view.get_threshold_set("news")
    assert {entry["name"]: entry["threshold"] for entry in body["classes"]} == now.by_class
    assert body["cut"] == now.flag_cutoff is not None
    assert body["sentences"] == 60
    assert sum(entry["own_words"] for entry in body["classes"]) > 60
    assert body["model"]["fingerprint"] == harness.backend.models.default.fingerprint
    assert body["days"] == []
    wait_for(lambda: harness.backend.queue.count_items(["news"])["open"] > 0)
    (point,) = harness.client.get("/v1/datasets/news/thresholds").json()["history"]
    in_review = [json.loads(record.value or b"") for record in harness.log.read(TOPICS.review, 0, 1_000)]
    assert point["thresholds"] in [assessment["thresholds"] for assessment in in_review]
    assert harness.client.get("/v1/datasets").json()["datasets"][0]["sentences"] == 60


def learned(harness: ApiHarness, dataset: str, sentences: int) -> None:
    wait_for(lambda: harness.backend.state_view.get_stats(dataset).histogram.total == sentences)


def test_settings_of_another_writer_that_do_not_fit_are_shown_with_the_reason(harness: ApiHarness) -> None:
    harness.client.put("/v1/datasets/x", json={})
    unfit = DatasetSettings(name="x", version=7, method="no-such").model_dump_json().encode()
    harness.log.append([Output(TOPICS.datasets, b"x", unfit)])
    wait_for(lambda: bool(harness.backend.state_view.refused_settings))
    (summary,) = harness.client.get("/v1/datasets").json()["datasets"]
    assert summary["version"] == 1
    assert "no-such" in summary["problem"]
    assert "no-such" in harness.client.get("/v1/datasets/x/thresholds").json()["problem"]


def test_the_model_is_described(quiet: ApiHarness) -> None:
    model = quiet.client.get("/v1/model").json()
    folder = quiet.backend.models.default
    assert (model["name"], model["fingerprint"]) == (folder.name, folder.fingerprint)
    assert model["labels"] == list(folder.labels)
    assert model["batching"] == quiet.backend.models.get_classifier(folder).batching


# -- the label set of a platform -----------------------------------------------------------------------------------------

INTERFACE = (
    '<View><Labels name="label" toName="text"><Label value="PER"/><Label value="LOC"/></Labels>'
    '<Labels name="events" toName="text"><Label value="ORG"/></Labels><Text name="text" value="$text"/></View>'
)


def test_the_label_set_of_a_labelling_interface_is_taken(harness: ApiHarness) -> None:
    harness.client.patch("/v1/datasets/news", json={"control_share": 0.5})
    answer = harness.client.put(
        "/v1/datasets/news/label-set?name=label", content=INTERFACE, headers={"Content-Type": "application/xml"}
    )
    assert answer.status_code == 200, answer.text
    assert (answer.json()["label_set"], answer.json()["control_share"]) == (["PER", "LOC"], 0.5)
    assert {**harness.client.get("/v1/datasets/news").json(), "effects": []} == answer.json()
    question = {"name": "label", "settings": {"type": "span", "options": [{"value": "ORG"}]}}
    answer = harness.client.put("/v1/datasets/news/label-set", json={"questions": [question]})
    assert answer.json()["label_set"] == ["ORG"]
    assert answer.headers["ETag"] == '"3"'


@pytest.mark.parametrize(
    ("content", "status", "problem"),
    [
        (INTERFACE, 422, "several controls for spans: say which counts, of label, events"),
        ("<View", 400, "the labelling interface is not XML: unclosed token in line 1"),
        ("<View/>", 422, "no <Labels> control over a <Text>"),
        ("plain", 422, "it defines no label set: send the XML of a Label Studio labelling interface"),
    ],
)
def test_an_interface_that_cannot_be_used_says_why(
    harness: ApiHarness, content: str, status: int, problem: str
) -> None:
    headers = {"Content-Type": "application/xml"}
    answer = harness.client.put("/v1/datasets/news/label-set", content=content, headers=headers)
    assert answer.status_code == status
    assert problem in answer.json()["detail"]
    assert harness.log.read(TOPICS.datasets, 0, 10) == []


def test_other_routes_take_no_xml(harness: ApiHarness) -> None:
    headers = {"Content-Type": "application/xml"}
    assert harness.client.put("/v1/datasets/news", content="<View/>", headers=headers).status_code == 415
    headers = {"Content-Type": "text/plain"}  # a foreign page could send it
    answer = harness.client.put("/v1/datasets/news/label-set", content="<View/>", headers=headers)
    assert answer.status_code == 415
    assert "application/xml" in answer.json()["detail"]


def test_the_label_set_says_where_its_types_come_from(harness: ApiHarness) -> None:
    harness.client.put("/v1/datasets/news", json={"label_map": {"PERSON": "PER"}})
    answer = harness.client.get("/v1/datasets/news/label-set").json()
    assert sorted(answer["types"]) == ["LOC", "MISC", "ORG", "PERSON"]
    assert (answer["source"], answer["unused_types"]) == ("model", [])
    harness.client.patch("/v1/datasets/news", json={"label_set": ["PERSON", "DRUG"]})
    answer = harness.client.get("/v1/datasets/news/label-set").json()
    assert answer == {"types": ["PERSON", "DRUG"], "source": "given", "unused_types": []}
    assert harness.client.get("/v1/datasets/other/label-set").status_code == 404


def test_a_change_says_whether_the_dataset_is_new(harness: ApiHarness) -> None:
    for method, statuses in (("PATCH", (201, 200)), ("PUT", (201, 200))):
        for status in statuses:
            answer = harness.client.request(method, f"/v1/datasets/news-{method.lower()}", json={"control_share": 0.5})
            assert answer.status_code == status
    answer = harness.client.get("/v1/datasets/news-ptach")
    assert answer.status_code == 404
    assert "Did you mean 'news-patch'?" in answer.json()["detail"]


# -- datasets that wait for a model ------------------------------------------------------------------------------------


def test_a_dataset_that_no_model_fits_waits_until_its_labels_are_mapped(harness: ApiHarness) -> None:
    harness.send(*make_drug_sentences(10, start=1))
    client, view = harness.client, harness.backend.state_view
    wait_for(lambda: bool(view.list_waiting()))
    [summary] = client.get("/v1/datasets").json()["datasets"]
    assert (summary["name"], summary["state"], summary["sentences"]) == ("med", "waiting", 0)
    assert summary["waiting"]["sentences"] == 10
    waiting = client.get("/v1/datasets/med/waiting").json()
    assert waiting == summary["waiting"]
    assert set(waiting["unknown_labels"]) == {"B-DRUG", "I-DRUG", "B-DOSE"}
    assert "labelwatch train" in waiting["advice"]
    readiness = client.get("/readyz").json()
    assert readiness["degraded"]["waiting"].startswith("10 sentences of med wait for a model")

    answer = client.post("/v1/sentences", json=make_drug_sentences(1, start=11)[0])
    assert answer.status_code == 202
    assert answer.json()["waiting"]["med"].startswith("10 sentences of med wait for a model")
    assert "waiting" not in client.post("/v1/sentences", json=make_sentences(1)[0]).json()

    client.patch("/v1/datasets/med", json={"label_map": LABEL_MAP})
    harness.worker.datasets.apply_records(harness.log.read(TOPICS.datasets, 0, 10))
    harness.send()
    wait_for(lambda: not view.list_waiting())
    assert client.get("/v1/datasets/med/waiting").json() == {
        "sentences": 0,
        "unknown_labels": {},
        "fits": True,
        "advice": "",
    }
    [_, summary] = client.get("/v1/datasets").json()["datasets"]
    assert (summary["name"], summary["state"], summary["waiting"], summary["sentences"]) == ("med", "judged", None, 11)
    assert "waiting" not in client.get("/readyz").json()["degraded"]
    assert client.get("/v1/datasets/no-such/waiting").status_code == 404


def test_an_unset_flag_policy_stays_unset(harness: ApiHarness) -> None:
    harness.client.put("/v1/datasets/med", json={"control_share": 0.1})
    settings = harness.client.get("/v1/datasets/med").json()
    assert settings["flag_policy"] is None
    assert harness.client.put("/v1/datasets/med", json=settings).json()["flag_policy"] is None
    (record,) = harness.log.read(TOPICS.datasets, 0, 10)
    assert "flag_policy" not in json.loads(record.value or b"")  # releases before this one can't read null


def test_a_change_after_which_sentences_wait_is_a_warning(harness: ApiHarness, tmp_path: Path) -> None:
    make_model(tmp_path / "models" / "med-v1", "wordpiece", seed=1)
    settings = harness.client.put("/v1/datasets/med", json={"model": "med-v1", "label_map": LABEL_MAP}).json()
    harness.worker._datasets.put(DatasetSettings.model_validate(settings))
    harness.send(*make_drug_sentences(20))
    wait_for(lambda: bool(harness.backend.state_view.snapshot.get_arrivals("med").total.labels))
    change = {"model": None, "label_map": None}
    preview = harness.client.patch("/v1/datasets/med", params={"dry_run": True}, json=change)
    assert "ETag" not in preview.headers
    assert harness.client.get("/v1/datasets/med").json()["model"] == "med-v1"
    written = harness.client.patch("/v1/datasets/med", json=change).json()
    assert written["effects"] == preview.json()["effects"]
    (waiting,) = [effect for effect in written["effects"] if effect["kind"] == "waiting"]
    assert waiting["warning"]
    assert waiting["text"].startswith("new sentences of med will wait for a model: they are stored and not judged")
    assert "'B-DRUG' (" in waiting["text"]
    statistics = [effect["text"] for effect in written["effects"] if effect["kind"] == "statistics"]
    assert "the statistics of med start anew" in statistics[0]


def test_a_label_set_that_rejects_sentences_is_a_warning(harness: ApiHarness) -> None:
    harness.send({"tokens": ["Oslo"], "labels": ["B-LOC"], "dataset": "trips"})
    wait_for(lambda: bool(harness.backend.state_view.snapshot.get_arrivals("trips").total.labels))
    answer = harness.client.patch("/v1/datasets/trips", params={"dry_run": True}, json={"label_set": ["PER"]}).json()
    (effect,) = [effect for effect in answer["effects"] if effect["kind"] == "rejected"]
    assert effect == {
        "kind": "rejected",
        "text": "new sentences of trips with these labels are dead letters: 'B-LOC' (1)",
        "warning": True,
    }
