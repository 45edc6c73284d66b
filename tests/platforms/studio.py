"""A real Label Studio: started on SQLite in a folder of its own, called over its API, stopped."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.ports import find_free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

COMMAND_VARIABLE = "LABEL_STUDIO"
DATABASE = "label_studio.sqlite3"
START_TIMEOUT_S = 900.0
TOKEN = "0123456789abcdef0123456789abcdef01234567"
USER = "lead@example.org"
PASSWORD = "only-for-this-test"
LABELS = ("PER", "ORG", "LOC", "MISC")
CONFIG = f"""
<View>
  <Labels name="entity" toName="sentence">{"".join(f'<Label value="{label}"/>' for label in LABELS)}</Labels>
  <Text name="sentence" value="$text"/>
</View>
"""


@dataclass
class LabelStudioServer:
    url: str
    http: httpx.Client = field(repr=False)

    def call(self, method: str, path: str, body: object = None, **parameters: object) -> Any:
        answer = self.http.request(method, path, json=body, params={key: str(each) for key, each in parameters.items()})
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:2000]}"
        return answer.json() if answer.content else None

    def create_project(self, title: str) -> int:
        return int(self.call("POST", "/api/projects/", {"title": title, "label_config": CONFIG})["id"])

    def create_task(self, project: int, text: str) -> int:
        return int(self.call("POST", "/api/tasks/", {"project": project, "data": {"text": text}})["id"])

    def annotate(self, task: int, text: str, entities: Mapping[str, str]) -> int:
        made = self.call("POST", f"/api/tasks/{task}/annotations/", {"result": make_regions(text, entities)})
        return int(made["id"])

    def draft(self, task: int, text: str, entities: Mapping[str, str]) -> None:
        self.call("POST", f"/api/tasks/{task}/drafts", {"result": make_regions(text, entities), "lead_time": 1.0})

    def update_annotation(self, annotation: int, text: str, entities: Mapping[str, str]) -> None:
        self.call("PATCH", f"/api/annotations/{annotation}/", {"result": make_regions(text, entities)})

    def list_predictions(self, task: int) -> list[dict[str, Any]]:
        """As the task shows them."""
        found = self.call("GET", f"/api/tasks/{task}/")["predictions"]
        return [dict(one) for one in found]

    def create_personal_token(self) -> str:
        return str(self.call("POST", "/api/token/")["token"])


def make_regions(text: str, entities: Mapping[str, str]) -> list[dict[str, Any]]:
    """Spans as Label Studio's editor writes them."""
    found = []
    for number, (part, label) in enumerate(entities.items()):
        start = text.index(part)
        value = {"start": start, "end": start + len(part), "text": part, "labels": [label]}
        found.append(
            {"id": f"r{number}", "from_name": "entity", "to_name": "sentence", "type": "labels", "value": value}
        )
    return found


@contextmanager
def run_label_studio(folder: Path) -> Iterator[LabelStudioServer]:
    named = os.environ.get(COMMAND_VARIABLE)
    if not named:
        raise pytest.UsageError(f"{COMMAND_VARIABLE} does not name the command: run `make test-platforms`")
    command = Path(named).absolute()
    shutil.copyfile(prepare_empty_database(command, folder), folder / DATABASE)
    port = find_free_port()
    url = f"http://127.0.0.1:{port}"
    log = folder / "label-studio.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [command, "start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(port)],
            cwd=folder,
            env=make_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        with httpx.Client(
            base_url=url, headers={"Authorization": f"Token {TOKEN}"}, timeout=START_TIMEOUT_S, trust_env=False
        ) as http:
            _wait_until_healthy(process, http, log)
            yield LabelStudioServer(url, http)
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def prepare_empty_database(command: Path, folder: Path) -> Path:
    """With one user. It is kept with the environment: making it takes a minute of one core, more than all the rest."""
    kept = command.parent.parent / "empty.sqlite3"
    if not kept.exists():
        made = folder / "empty"
        made.mkdir()
        user = ["--username", USER, "--password", PASSWORD, "--user-token", TOKEN]
        done = subprocess.run(
            [command, "init", "--quiet", "--enable-legacy-api-token", *user],
            cwd=made,
            env=make_environment(made),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        half = shutil.copyfile(made / DATABASE, kept.with_suffix(".half"))
        half.rename(kept)
    return kept


def make_environment(folder: Path) -> dict[str, str]:
    """Its folder, webhooks to this machine, and nothing told to anybody outside."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LABEL_STUDIO_BASE_DATA_DIR": str(folder),
        "SSRF_PROTECTION_ENABLED": "false",
        "ML_BLOCK_LOCAL_IP": "false",
        # Of one to three seconds by default: a busy machine is no error here.
        **dict.fromkeys(("WEBHOOK_TIMEOUT", "ML_TIMEOUT_HEALTH", "ML_TIMEOUT_SETUP"), "120"),
        "SENTRY_DSN": "",
        "FRONTEND_SENTRY_DSN": "",
        "COLLECT_ANALYTICS": "false",
        "LATEST_VERSION_CHECK": "false",
    }


def _wait_until_healthy(process: subprocess.Popen[bytes], http: httpx.Client, log: Path) -> None:
    end = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end and process.poll() is None:
        try:
            if http.get("/health").is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"Label Studio does not answer:\n{log.read_text(errors='replace')[-3000:]}")
