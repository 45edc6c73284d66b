"""labelwatch as a model of a project in a real Label Studio, by one address."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.harness import find_chromium, take_screenshot
from tests.platforms.conftest import MODEL_DATASET, WAIT_TIMEOUT_S
from tests.platforms.studio import LABELS, PASSWORD, TOKEN, USER
from tests.platforms.test_label_studio import (
    OTHER_RIGHT,
    OTHER_TEXT,
    OTHER_WRONG,
    RIGHT,
    TEXT,
    WRONG,
    flagged,
    page,
    spans,
)

if TYPE_CHECKING:
    from tests.platforms.conftest import LabelwatchInstance
    from tests.platforms.studio import LabelStudioServer


def connect(
    studio: LabelStudioServer, watch: LabelwatchInstance, project: int, key: str
) -> subprocess.CompletedProcess[str]:
    """The command of docs/platforms.md."""
    command = page("/api/ml ")
    for told, here in (
        ("http://127.0.0.1:8080", studio.url),
        ("http://127.0.0.1:8765", watch.url),
        ("trips/KEY", f"{MODEL_DATASET}/{key}"),
        ('"project": 1,', f'"project": {project},'),
        ("$LABEL_STUDIO_TOKEN", TOKEN),
    ):
        assert told in command, told
        command = command.replace(told, here)
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)


def retrieve_predictions(studio: LabelStudioServer, project: int, *tasks: int) -> None:
    """The action of the Data Manager."""
    chosen = {"selectedItems": {"all": False, "included": list(tasks)}, "project": project}
    studio.call("POST", "/api/dm/actions", chosen, id="retrieve_tasks_predictions", project=project)


def get_prediction(studio: LabelStudioServer, task: int) -> dict[str, Any]:
    (prediction,) = studio.list_predictions(task)
    assert prediction["model_version"].startswith("labelwatch-backend ")
    return prediction


def log_in(studio: LabelStudioServer, browser_page: Page) -> None:
    browser_page.goto(f"{studio.url}/user/login/", wait_until="domcontentloaded")
    browser_page.fill("input[name=email]", USER)
    browser_page.fill("input[name=password]", PASSWORD)
    browser_page.click("button[type=submit]")
    browser_page.wait_for_url(lambda url: "/login" not in url, wait_until="commit")


def test_one_address_connects_a_project(studio: LabelStudioServer, watch: LabelwatchInstance) -> None:
    project = studio.create_project("one address")
    tasks = [studio.create_task(project, text) for text in (TEXT, OTHER_TEXT, TEXT)]
    connected = connect(studio, watch, project, watch.model_key)
    assert connected.returncode == 0, connected.stdout + connected.stderr
    (model,) = studio.call("GET", "/api/ml", project=project)
    assert (model["readable_state"], model["error_message"]) == ("Connected", None)
    settings = watch.http.get(f"/v1/datasets/{MODEL_DATASET}").json()
    assert settings["label_set"] == list(LABELS)

    # What the model finds, before anybody labels.
    retrieve_predictions(studio, project, *tasks[:2])
    assert spans(get_prediction(studio, tasks[0])) == RIGHT
    assert spans(get_prediction(studio, tasks[1])) == OTHER_RIGHT
    assert model["model_version"] == get_prediction(studio, tasks[0])["model_version"]
    _look_at_task(studio, project, tasks[1])

    # Label Studio has registered the webhook itself.
    annotation = studio.annotate(tasks[0], TEXT, WRONG)
    identity = f"label-studio:{annotation}"
    item = watch.wait_for_items(MODEL_DATASET, lambda queue: identity in queue)[identity]
    assert flagged(item) == [("Riga", "B-PER", "B-LOC")]

    # The doubts about an annotation that has no prediction yet.
    studio.annotate(tasks[2], TEXT, WRONG)
    retrieve_predictions(studio, project, tasks[2])
    doubt = get_prediction(studio, tasks[2])
    assert spans(doubt) == RIGHT
    (doubtful,) = [region["value"]["text"] for region in doubt["result"] if "score" in region]
    assert doubtful == "Riga"
    assert doubt["score"] < get_prediction(studio, tasks[0])["score"]

    # A draft, before it is submitted.
    studio.call("PATCH", f"/api/ml/{model['id']}", {"is_interactive": True, "project": project, "url": model["url"]})
    drafted = studio.create_task(project, OTHER_TEXT)
    studio.draft(drafted, OTHER_TEXT, OTHER_WRONG)
    answer = studio.call("POST", f"/api/ml/{model['id']}/interactive-annotating", {"task": drafted})
    assert [region["value"]["text"] for region in answer["data"]["result"] if "score" in region] == ["Oslo"]

    studio.call("DELETE", f"/api/annotations/{annotation}/")
    queue = watch.wait_for_items(MODEL_DATASET, lambda queue: queue[identity]["state"] == "closed")
    assert queue[identity]["closed_by"] == "deleted"
    studio.call("POST", f"/api/ml/{model['id']}/train", {})
    _wait_for_training(watch)


def _wait_for_training(watch: LabelwatchInstance) -> None:
    """Waits until the service shows the request, which it reads from its topic, or what has come of it."""
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while time.monotonic() < deadline:
        models = watch.http.get(f"/v1/datasets/{MODEL_DATASET}/models").json()
        if models["requested_at"] is not None or models["trainings"]:
            return
        time.sleep(0.2)
    raise AssertionError("Label Studio's request for a training did not arrive")


def _look_at_task(studio: LabelStudioServer, project: int, task: int) -> None:
    """The labelling view shows the prediction."""
    with sync_playwright() as tool:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = tool.chromium.launch(executable_path=find_chromium(), args=arguments)
        browser_page = browser.new_page(viewport={"width": 1400, "height": 900})
        browser_page.set_default_timeout(1000 * WAIT_TIMEOUT_S)
        log_in(studio, browser_page)
        browser_page.goto(f"{studio.url}/projects/{project}/data?task={task}", wait_until="domcontentloaded")
        expect(browser_page.get_by_text("labelwat...")).to_be_visible(
            timeout=1000 * WAIT_TIMEOUT_S
        )  # tab of the prediction
        for text, label in OTHER_RIGHT.items():
            expect(browser_page.get_by_role("treeitem", name=f"{label} {text}")).to_be_visible()
        take_screenshot(browser_page, "label-studio-prediction")
        browser.close()


def test_a_wrong_key_and_a_wrong_interface_are_refused(studio: LabelStudioServer, watch: LabelwatchInstance) -> None:
    project = studio.create_project("wrong")
    refused = connect(studio, watch, project, "lw_wrong")
    assert refused.returncode != 0
    assert "authentication parameters were either not provided or are incorrect" in refused.stdout
    choices = '<View><Text name="t" value="$text"/><Choices name="c" toName="t"><Choice value="a"/></Choices></View>'
    other = int(studio.call("POST", "/api/projects/", {"title": "choices", "label_config": choices})["id"])
    refused = connect(studio, watch, other, watch.model_key)
    assert "422 Client Error" in refused.stdout
    assert studio.call("GET", "/api/ml", project=other) == []
