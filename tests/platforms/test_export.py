"""What reviewers corrected, back into a real Label Studio."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from tests.platforms.test_label_studio import RIGHT, TEXT, WRONG, connected, page, spans

if TYPE_CHECKING:
    from pathlib import Path

    from tests.platforms.conftest import LabelwatchInstance
    from tests.platforms.studio import LabelStudioServer


def test_what_reviewers_corrected_is_imported_again(
    studio: LabelStudioServer, watch: LabelwatchInstance, tmp_path: Path
) -> None:
    project = connected(studio, watch, "corrected")
    annotation = studio.annotate(studio.create_task(project, TEXT), TEXT, WRONG)
    identity = f"label-studio:{annotation}"
    item = watch.wait_for_items("corrected", lambda queue: identity in queue)[identity]
    right = [flag["suggested"] for flag in item["doubtful"]]
    labels = list(item["labels"])
    for flag, label in zip(item["doubtful"], right, strict=True):
        labels[flag["index"]] = label
    decided = {"dataset": "corrected", "id": identity, "revision": item["revision"], "reviewer": "rev"}
    answer = watch.http.post("/v1/decisions", json={**decided, "verdict": "error", "labels": labels})
    assert answer.is_success, answer.text

    file = tmp_path / "corrected.json"
    _, *arguments = shlex.split(page("labelwatch export --decisions --dataset trips").replace("trips", "corrected"))
    ran = watch.run(*arguments[:-1], file)
    assert ran.code == 0, ran.err
    other = studio.create_project("imported")
    told = studio.call("POST", f"/api/projects/{other}/import", json.loads(file.read_text()))
    assert (told["task_count"], told["annotation_count"]) == (1, 1)
    (found,) = studio.call("GET", f"/api/projects/{other}/export", exportType="JSON")
    (made,) = found["annotations"]
    assert spans(made) == RIGHT
    assert found["data"]["text"] == TEXT
    user = studio.call("GET", "/api/current-user/whoami")["id"]
    assert (made["import_id"], made["completed_by"], made["ground_truth"]) == (annotation, user, False)
