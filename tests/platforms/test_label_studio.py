"""There and back: annotations of a real Label Studio into the queue by its webhooks, doubts back as predictions."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import Assessment
from tests.platforms.studio import TOKEN, USER
from tests.support.docs_pages import read_code_blocks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.platforms.conftest import LabelwatchInstance
    from tests.platforms.studio import LabelStudioServer
    from tests.support.command_harness import CommandResult

# The ship is one character, and two UTF-16 units.
TEXT = "🚢 Mara Quill sailed from Tallinn to Riga on Monday."
RIGHT = {"Mara Quill": "PER", "Tallinn": "LOC", "Riga": "LOC"}
WRONG = {**RIGHT, "Riga": "PER"}
OTHER_TEXT = "Tomas Berg opened a bakery in Oslo."
OTHER_RIGHT = {"Tomas Berg": "PER", "Oslo": "LOC"}
OTHER_WRONG = {"Tomas Berg": "PER", "Oslo": "ORG"}


def page(part: str) -> str:
    """The command of docs/platforms.md with this in it."""
    (found,) = [line for _, block in read_code_blocks("platforms.md") for line in block.splitlines() if part in line]
    return found


def connected(studio: LabelStudioServer, watch: LabelwatchInstance, dataset: str) -> int:
    """A project whose webhook is made as the page says."""
    project = studio.create_project(dataset)
    command = page("/api/webhooks/")
    for told, here in (
        ("http://127.0.0.1:8080", studio.url),
        ("http://127.0.0.1:8765", watch.url),
        ("Bearer KEY", f"Bearer {watch.key}"),
        ('"project": 1,', f'"project": {project},'),
        ("dataset=trips", f"dataset={dataset}"),
        ("$LABEL_STUDIO_TOKEN", TOKEN),
    ):
        assert told in command, told
        command = command.replace(told, here)
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["project"] == project
    return project


def push(
    watch: LabelwatchInstance, studio: LabelStudioServer, project: int, dataset: str, *, token: str = TOKEN
) -> CommandResult:
    told = page("labelwatch push label-studio --url")
    command = told.replace("http://127.0.0.1:8080", studio.url).replace("--project 1 ", f"--project {project} ")
    _, *arguments = shlex.split(command.replace("trips", dataset))
    ran = watch.run(*arguments, LABEL_STUDIO_TOKEN=token)
    assert ran.code == 0, ran.err
    return ran


def flagged(item: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(flag["token"], flag["given"], flag["suggested"]) for flag in item["doubtful"]]


def spans(prediction: dict[str, Any]) -> dict[str, str]:
    found = {}
    for region in prediction["result"]:
        value = region["value"]
        assert (region["from_name"], region["to_name"], region["type"]) == ("entity", "sentence", "labels")
        found[value["text"]] = value["labels"][0]
    return found


def test_a_wrong_label_comes_to_the_queue_and_goes_back_until_it_is_corrected(
    studio: LabelStudioServer, watch: LabelwatchInstance
) -> None:
    project = connected(studio, watch, "trips")
    task, other = studio.create_task(project, TEXT), studio.create_task(project, OTHER_TEXT)
    annotation, right = studio.annotate(task, TEXT, WRONG), studio.annotate(other, OTHER_TEXT, OTHER_RIGHT)
    identity = f"label-studio:{annotation}"

    item = watch.wait_for_items("trips", lambda queue: identity in queue)[identity]
    assert item["state"] == "open"
    assert flagged(item) == [("Riga", "B-PER", "B-LOC")]
    assert item["tokens"][:3] == ["🚢", "Mara", "Quill"]
    assert item["source"] == f"{studio.url}/projects/{project}/data?task={task}"
    user = studio.call("GET", "/api/current-user/whoami")
    assert (item["annotator"], user["email"]) == (str(user["id"]), USER)

    theirs = {"task": task, "model_version": "theirs", "score": 0.5, "result": []}
    kept = studio.call("POST", "/api/predictions/", theirs)["id"]
    assert push(watch, studio, project, "trips").out.startswith("1 prediction pushed")
    ours = [one for one in studio.list_predictions(task) if one["id"] != kept]
    assert [spans(one) for one in ours] == [RIGHT]
    for region in ours[0]["result"]:
        value = region["value"]
        assert TEXT[value["start"] : value["end"]] == value["text"]
    assert ours[0]["score"] == pytest.approx(item["score"])
    assert ours[0]["model_version"].startswith("labelwatch ")
    shown = {one["id"]: one for one in studio.call("GET", "/api/predictions/", project=project)}
    assert shown[ours[0]["id"]]["mislabeling"] == pytest.approx(1 - item["priority"])
    assert studio.list_predictions(other) == []
    again = push(watch, studio, project, "trips").out
    assert "0 predictions pushed" in again
    assert "1 were there already; 0 no longer right were removed" in again

    studio.update_annotation(annotation, TEXT, RIGHT)
    item = watch.wait_for_items("trips", lambda queue: queue[identity]["state"] != "open")[identity]
    assert (item["state"], item["closed_by"]) == ("closed", "update")
    assert f"label-studio:{right}" not in watch.list_items("trips")
    assert "1 no longer right were removed" in push(watch, studio, project, "trips").out
    assert [one["id"] for one in studio.list_predictions(task)] == [kept]

    # Wrong again: the item opens again, in a newer revision.
    studio.update_annotation(annotation, TEXT, WRONG)
    again_open = watch.wait_for_items("trips", lambda queue: queue[identity]["state"] == "open")[identity]
    assert again_open["revision"] > item["revision"]


def test_what_reviewers_decide_is_pushed_in_place_of_the_models_word(
    studio: LabelStudioServer, watch: LabelwatchInstance
) -> None:
    dataset = "decided"
    project = connected(studio, watch, dataset)
    tasks = [studio.create_task(project, OTHER_TEXT) for _ in range(3)]
    names = [f"label-studio:{studio.annotate(task, OTHER_TEXT, OTHER_WRONG)}" for task in tasks]
    queue = watch.wait_for_items(dataset, lambda queue: set(names) <= set(queue))
    assert push(watch, studio, project, dataset).out.startswith("3 predictions pushed")
    assert [spans(one) for task in tasks for one in studio.list_predictions(task)] == [OTHER_RIGHT] * 3

    labels = [label.replace("-ORG", "-MISC") for label in queue[names[1]]["labels"]]
    right = {"dataset": dataset, "id": names[0], "reviewer": "kim", "verdict": "ok"}
    wrong = {"dataset": dataset, "id": names[1], "reviewer": "kim", "verdict": "error", "labels": labels}
    answer = watch.http.post("/v1/decisions", json={"decisions": [right, wrong]})
    assert answer.status_code == 202, answer.text
    assert push(watch, studio, project, dataset).out.startswith(
        f"1 prediction pushed to project {project}; 1 were there already; 2 no longer right were removed"
    )
    assert studio.list_predictions(tasks[0]) == []
    assert [spans(one) for one in studio.list_predictions(tasks[1])] == [{"Tomas Berg": "PER", "Oslo": "MISC"}]
    shown = {one["task"]: one["mislabeling"] for one in studio.call("GET", "/api/predictions/", project=project)}
    assert shown[tasks[1]] == 1.0
    assert [spans(one) for one in studio.list_predictions(tasks[2])] == [OTHER_RIGHT]


def test_a_task_that_is_deleted_at_once_leaves_nothing_open(
    studio: LabelStudioServer, watch: LabelwatchInstance
) -> None:
    """Its deletion may be in the log before the annotation has been judged."""
    dataset = "at-once"
    project = connected(studio, watch, dataset)
    task, other = studio.create_task(project, OTHER_TEXT), studio.create_task(project, OTHER_TEXT)
    gone, stays = (f"label-studio:{studio.annotate(one, OTHER_TEXT, OTHER_WRONG)}" for one in (task, other))
    studio.call("DELETE", f"/api/tasks/{task}/")

    def judged(queue: dict[str, dict[str, Any]]) -> bool:
        return {gone, stays} <= set(queue) and queue[gone]["state"] == "closed"

    queue = watch.wait_for_items(dataset, judged)
    assert (set(queue), queue[gone]["closed_by"], queue[stays]["state"]) == ({gone, stays}, "deleted", "open")


def test_what_is_deleted_or_skipped_is_closed_and_its_prediction_removed(
    studio: LabelStudioServer, watch: LabelwatchInstance
) -> None:
    dataset = "gone"
    project = connected(studio, watch, dataset)
    tasks = [studio.create_task(project, OTHER_TEXT) for _ in range(5)]
    made = [studio.annotate(task, OTHER_TEXT, OTHER_WRONG) for task in tasks]
    names = [f"label-studio:{one}" for one in made]
    watch.wait_for_items(dataset, lambda queue: set(names) <= set(queue))
    # With a personal token, as accounts have them where the old kind is switched off.
    pushed = push(watch, studio, project, dataset, token=studio.create_personal_token())
    assert pushed.out.startswith("5 predictions pushed")

    studio.call("DELETE", f"/api/annotations/{made[0]}/")
    studio.call("PATCH", f"/api/annotations/{made[1]}/", {"was_cancelled": True})
    chosen = {"selectedItems": {"all": False, "included": [tasks[2]]}, "project": project}
    studio.call("POST", "/api/dm/actions", chosen, id="delete_tasks_annotations", project=project)
    chosen["selectedItems"] = {"all": False, "included": [tasks[3]]}
    studio.call("POST", "/api/dm/actions", chosen, id="delete_tasks", project=project)

    def closed(queue: dict[str, dict[str, Any]]) -> bool:
        return [queue[name]["state"] for name in names] == ["closed"] * 4 + ["open"]

    queue = watch.wait_for_items(dataset, closed)
    assert {queue[name]["closed_by"] for name in names[:4]} == {"deleted"}
    push(watch, studio, project, dataset)
    left = studio.call("GET", "/api/predictions/", project=project)
    assert [one["task"] for one in left] == [tasks[4]]


def test_a_key_is_needed(studio: LabelStudioServer, watch: LabelwatchInstance) -> None:
    project = connected(studio, watch, "locked")
    (hook,) = studio.call("GET", "/api/webhooks/", project=project)
    studio.call("PATCH", f"/api/webhooks/{hook['id']}/", {**hook, "headers": {"Authorization": "Bearer wrong"}})
    unseen = studio.annotate(studio.create_task(project, OTHER_TEXT), OTHER_TEXT, OTHER_WRONG)
    studio.call("PATCH", f"/api/webhooks/{hook['id']}/", hook)
    seen = studio.annotate(studio.create_task(project, TEXT), TEXT, WRONG)
    queue = watch.wait_for_items("locked", lambda queue: f"label-studio:{seen}" in queue)
    assert f"label-studio:{unseen}" not in queue


@pytest.mark.parametrize("kind", ["JSON", "JSON_MIN"])
@pytest.mark.parametrize("named", [True, False])
def test_exports_are_audited_and_sent(
    studio: LabelStudioServer, watch: LabelwatchInstance, tmp_path: Path, kind: str, named: bool
) -> None:
    project = studio.create_project("export")
    made = [
        studio.annotate(studio.create_task(project, text), text, entities)
        for text, entities in ((TEXT, RIGHT), (OTHER_TEXT, OTHER_WRONG))
    ]
    studio.create_task(project, "Nobody has looked at this one.")
    file, ranked = tmp_path / "export.json", tmp_path / "ranked.jsonl"
    answer = studio.http.get(f"/api/projects/{project}/export", params={"exportType": kind})
    assert answer.is_success, answer.text
    file.write_bytes(answer.content)
    form = ["--format", "label-studio"] if named else []
    ran = watch.run("score", file, *form, "-o", ranked, "--model", watch.harness.model, "--stream")
    assert ran.code == 0, ran.err
    worst, good = [Assessment.model_validate_json(line) for line in ranked.read_text().splitlines()]
    assert (worst.id, good.id) == (f"label-studio:{made[1]}", f"label-studio:{made[0]}")
    assert [(flag.token, flag.suggested) for flag in worst.flags] == [("Oslo", "B-LOC")]
    assert good.flags == ()

    dataset = re.sub(r"[^a-z]", "-", f"sent-{kind.lower()}-{named}".lower())
    assert watch.run("send", file, *form, "--dataset", dataset).code == 0
    watch.wait_for_items(dataset, lambda queue: list(queue) == [f"label-studio:{made[1]}"])
